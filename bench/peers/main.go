// Command peers measures Headwater beside etcd and kine: the same work, on the same disk, with durable settings, each
// system through the client that its makers recommend, in interleaved rounds. With them run probes of what limits
// everybody: a bare INSERT, a bare gRPC echo, a bare look-up in the map.
//
// It builds the peers from the Go module proxy, needs an installed PostgreSQL, and writes Markdown, SVG plots and the raw
// figures:
//
//	go run . -out ../../docs/benchmarks             # make bench-peers; an hour, on a machine that does nothing else
//	go run . -out /tmp/trial -quick                 # a trial of the instrument itself, some minutes
//	go run . -out ../../docs/benchmarks -keep -only ^nodes$   # one experiment again
//	go run . -out ../../docs/benchmarks -render     # the pages again, from the raw figures
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/headwaterdb/headwater/internal/bench"
	"github.com/headwaterdb/headwater/internal/dbtest"
)

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().UTC().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// options are the flags.
type options struct {
	out, dir, only          string
	job                     string
	rounds                  int
	time, warmup            time.Duration
	callers, nodes, streams string
	peers, quick            bool
	render, keep            bool
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "folder for the pages, plots and raw figures")
	flag.StringVar(&o.dir, "dir", "", "folder on the disk to measure; default: the system's temporary one")
	flag.StringVar(&o.only, "only", "", "only experiments whose name matches this expression")
	flag.IntVar(&o.rounds, "rounds", 3, "interleaved rounds; medians are shown")
	flag.DurationVar(&o.time, "time", 5*time.Second, "time of one measurement")
	flag.DurationVar(&o.warmup, "warmup", time.Second, "time of load before each measurement")
	flag.StringVar(&o.callers, "callers", "1,16,64,256,1024", "numbers of callers")
	flag.StringVar(&o.nodes, "nodes", "1,2,4,8,16", "numbers of nodes")
	flag.StringVar(&o.streams, "streams", "1000,100000,1000000", "numbers of streams in the state")
	flag.BoolVar(&o.peers, "peers", true, "build and measure etcd and kine")
	flag.BoolVar(&o.quick, "quick", false, "a trial: one round, half a second each, small states")
	flag.BoolVar(&o.keep, "keep", false, "keep the figures of other experiments that are in the folder, of a run before")
	flag.BoolVar(&o.render, "render", false, "measure nothing; write the pages again from the raw figures")
	flag.StringVar(&o.job, "job", "", "internal: put this load on something")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// rawFile holds the raw figures in the folder of the pages.
const rawFile = "peers.json"

func run(ctx context.Context, o options) error {
	switch {
	case o.job != "":
		return runJob(ctx, o.job, os.Stdout)
	case o.out == "":
		return errors.New("-out FOLDER is needed")
	case o.render:
		r, err := readResults(filepath.Join(o.out, rawFile))
		if err != nil {
			return err
		}
		return writePages(o.out, r)
	}
	if o.rounds < 1 || o.time <= 0 || o.warmup < 0 {
		return fmt.Errorf("-rounds %d and -time %v must be above 0, and -warmup %v not below", o.rounds, o.time, o.warmup)
	}
	if o.quick {
		o.rounds, o.time, o.warmup, o.callers, o.nodes, o.streams = 1, 500*time.Millisecond, 200*time.Millisecond, "1,64", "1,2", "1000"
	}
	all, err := o.experiments()
	if err != nil {
		return err
	}
	return measureAll(ctx, o, all)
}

// experiments are those that the flags choose.
func (o options) experiments() (chosen []experiment, err error) {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	var lists [3][]int
	for i, text := range []string{o.callers, o.nodes, o.streams} {
		if lists[i], err = numbers(text); err != nil {
			return nil, err
		}
	}
	for _, ex := range experiments(lists[0], lists[1], lists[2], o.peers) {
		if only.MatchString(ex.name) {
			chosen = append(chosen, ex)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-only %q matches no experiment", o.only)
	}
	return chosen, nil
}

// numbers reads a list of numbers from 1.
func numbers(text string) (list []int, err error) {
	for s := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q in %q is not a number from 1", s, text)
		}
		list = append(list, n)
	}
	return list, nil
}

// measureAll builds, starts PostgreSQL, measures and writes.
func measureAll(ctx context.Context, o options, all []experiment) (err error) {
	machine := bench.ThisMachine() // how busy it is, before we make it so
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	// What must fail fails before anything is built.
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	if old, err := readResults(filepath.Join(o.out, rawFile)); err == nil && o.quick && !old.Quick {
		return fmt.Errorf("-quick: %s holds the figures of a measurement, which a trial would replace; give another folder as -out", o.out)
	}
	r := &Results{Begin: time.Now().UTC().Format(time.RFC3339), Quick: o.quick, Rounds: o.rounds, Seconds: o.time.Seconds(),
		Machine: machine, Flags: o.flags()}
	raw := filepath.Join(o.out, rawFile)
	part := raw + ".part" // takes the place of the figures of an earlier run when all is measured
	if o.keep {
		if err := r.keep(raw, all); err != nil {
			return err
		}
	}
	if err := r.write(part); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "headwater-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the database server is another user
		return err
	}
	// Everything is on one disk: the server's folder is below this one too.
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return err
	}
	r.Disk = fileSystem(dir)
	if r.Sync, err = syncTime(dir); err != nil {
		return err
	}
	server, stop, err := dbtest.StartPostgres("shared_buffers = 256MB", "max_wal_size = 4GB",
		"max_connections = 1200") // kine takes a connection for each call that waits
	if err != nil {
		return err
	}
	defer stop()
	bin, versions, err := build(ctx, root, dir, o.peers)
	if err != nil {
		return err
	}
	r.Versions = versions
	e := &env{bin: bin, postgres: server, dir: dir, time: o.time, warmup: o.warmup, results: r}
	if r.Versions["postgresql"], err = serverVersion(ctx, server); err != nil {
		return err
	}
	if err := e.run(ctx, all, o.rounds, func() error { return r.write(part) }); err != nil {
		return fmt.Errorf("%w; what was measured is in %s", err, part)
	}
	if n := r.failed(); n > 0 {
		return fmt.Errorf("%d of %d measurements failed; what was measured is in %s", n, len(r.Figures), part)
	}
	if err := os.Rename(part, raw); err != nil {
		return err
	}
	return writePages(o.out, r)
}

// flags are those that say what is measured, as they are given.
func (o options) flags() string {
	var given []string
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "out" && f.Name != "dir" {
			given = append(given, quoted(fmt.Sprintf("-%s=%s", f.Name, f.Value)))
		}
	})
	return strings.Join(given, " ")
}

// quoted makes one word of a shell of s.
func quoted(s string) string {
	if strings.ContainsFunc(s, func(c rune) bool {
		return !strings.ContainsRune("-=.,_/", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c)
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// moduleRoot is the folder of this module: with go run, the one that it runs in.
func moduleRoot() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if ok && filepath.IsAbs(file) {
		return filepath.Dir(file), nil
	}
	return os.Getwd()
}
