package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headwaterdb/headwater/internal/bench"
	"github.com/headwaterdb/headwater/internal/heap"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	work        bench.Work
	load        bench.Load
	callers     int
	nodes       int
	connections int
	gather      int
	create      bool
	snapshots   int  // the interval
	snapshot    bool // one after another
	cpuProfile  string
}

func (a *app) benchCommand() *cobra.Command {
	o := &benchOptions{}
	names, what := bench.Kinds()
	var list strings.Builder
	for i, name := range names {
		fmt.Fprintf(&list, "  %-10s %s\n", name, what[i])
	}
	c := &cobra.Command{
		Use: "bench", Short: "Put load on a database or a server, and measure it", Args: cobra.NoArgs,
		Long: `Put load on a cluster and measure how many operations it takes, and how long each one takes.

With --db the load is put on nodes in this process, straight on the database, as an embedding program does; --nodes opens
several, each with connections of its own. Otherwise it goes through clients to servers: --server names one or several,
among which callers are spread.

The kinds of --work:
` + list.String() + `
Without --rate every caller begins its next operation when its last one has ended, and latencies count from that begin
(a closed loop): a slow moment then hides the operations that would have come in it. With --rate so many operations a
second are due, whether a caller is free or not, and latencies count from when they were due (an open loop).

What bench makes stays in the cluster, and a cluster that holds anything is refused without --force: give it a database,
or a prefix, of its own. Ctrl-C ends it early and prints what was measured. Errors are counted by their codes.

docs/benchmarks tells how to measure so that figures can be compared.`,
		Example: `  headwater bench --db sqlite:bench.db --work puts --callers 1024
  headwater bench --server http://127.0.0.1:4640 --work store --callers 64 --duration 30s
  headwater bench --db 'postgres://headwater@127.0.0.1/bench?headwater_prefix=b1' --init --nodes 8 --callers 1024 -o json
  headwater bench --db sqlite:bench.db --work finds --reads linearizable --rate 5000`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("snapshot-interval") && a.db == "" {
				return usagef("--snapshot-interval is for --db; headwater serve --snapshot-interval sets a server's")
			}
			return a.bench(cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&a.server, "server", nil, "`URL` of a server; several, separated by commas, share the load")
	f.StringVar(&a.db, "db", "", "`database` to open in this process: sqlite:PATH, postgres://… or mysql://…")
	exclusive(c, "server", "db")
	f.StringVar(&o.work.Kind, "work", "store", "what callers do, as listed above")
	complete(c, "work", names...)
	f.IntVar(&o.callers, "callers", 64, "how many `callers` work at once")
	f.IntVar(&o.nodes, "nodes", 1, "`nodes` that this process opens on the database")
	f.IntVar(&o.connections, "connections", 1, "`connections` to each server")
	f.IntVar(&o.gather, "gather", 0, "`requests` under way at once on each connection, which calls that wait share; 0: each call is one of its own")
	f.DurationVar(&o.load.Duration, "duration", 10*time.Second, "how long to measure; 0: until --count or Ctrl-C")
	f.DurationVar(&o.load.Warmup, "warmup", time.Second, "how long to work before that")
	f.Int64Var(&o.load.Count, "count", 0, "end after so many `operations`; 0: by time alone")
	f.Float64Var(&o.load.Rate, "rate", 0, "`operations` due in a second, of all callers together; 0: as many as go")
	f.DurationVar(&o.load.Grace, "grace", 10*time.Second, "at the end, wait this long for operations under way; 0: not at all")
	f.IntVar(&o.work.ValueBytes, "value", 100, "`bytes` of a key's value")
	f.IntVar(&o.work.Keys, "keys", 10_000, "how many `keys` are written and read")
	f.IntVar(&o.work.Streams, "streams", 0, "how many `streams` there are; 0: 1000, or one for each caller if that is more")
	f.IntVar(&o.work.Slices, "slices", 0, "`slices` in an object; 0: 10, for the work store 30")
	f.IntVar(&o.work.Objects, "objects", 0, "`objects` committed before the measurement; 0: none, for finds one for each stream")
	f.StringVar(&o.work.Reads, "reads", "local", "how `fresh` reads are: local, at-least (what the reader was answered, on another node) or linearizable")
	complete(c, "reads", bench.Freshnesses...)
	f.Uint64Var(&o.work.Seed, "seed", 1, "of what is random, the names apart")
	f.BoolVar(&o.work.Force, "force", false, "also on a cluster that holds something already")
	f.BoolVar(&o.create, "init", false, "make the database a new cluster if there is none")
	f.IntVar(&o.snapshots, "snapshot-interval", 1024, "`rows` between snapshots of nodes in this process; negative: never")
	f.BoolVar(&o.snapshot, "snapshots", false, "beside the load, make one snapshot after another on the first node in this process")
	f.StringVar(&o.cpuProfile, "cpuprofile", "", "write a profile of the measurement to `FILE`, for go tool pprof")
	_ = c.MarkFlagFilename("cpuprofile")
	a.formats(c)
	return c
}

// validate refuses flags that make no sense.
func (o *benchOptions) validate(embedded bool) error {
	targets := o.nodes
	switch {
	case o.nodes < 1 || o.nodes > 256:
		return fmt.Errorf("--nodes is %d, allowed are 1 to 256", o.nodes)
	case o.connections < 1 || o.connections > 1024:
		return fmt.Errorf("--connections is %d, allowed are 1 to 1024", o.connections)
	case o.gather < 0 || o.gather > 1024:
		return fmt.Errorf("--gather is %d, allowed are 0 to 1024", o.gather)
	case embedded && o.gather > 0:
		return errors.New("--gather is for --server; in this process there are no requests")
	case !embedded && o.nodes > 1:
		return errors.New("--nodes is for --db; servers have their own nodes")
	case !embedded && o.create:
		return errors.New("--init is for --db; headwater serve --init makes a server's database a cluster")
	case !embedded && o.snapshot:
		return errors.New("--snapshots is for --db; headwater snapshot --server makes one on a server")
	case !embedded:
		targets = 2 // as far as can be said before they were asked
	}
	return errors.Join(o.load.Validate(), o.work.WithDefaults(o.callers).Validate(o.callers, targets))
}

// bench opens what the load goes to, prepares the work, measures and reports.
func (a *app) bench(ctx context.Context, o *benchOptions) (err error) {
	defer heap.Hold()()
	embedded := len(a.server) == 0 && a.db != ""
	if err := o.validate(embedded); err != nil {
		return asUsage(err)
	}
	if err := checkProfile(o.cpuProfile, a.db); err != nil { // the preparation may take long
		return err
	}
	b, err := a.openBench(ctx, o, embedded)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, b.close()) }()
	bar := a.newCountBar("prepare")
	plan, err := bench.Prepare(ctx, b.targets, o.work, o.callers, func(done, total int) { bar.set(uint64(done), uint64(total)) })
	bar.done()
	if err != nil {
		return benchError(ctx, err)
	}
	r := a.newBenchReport(o, b, embedded)
	stop, err := profile(o.cpuProfile)
	if err != nil {
		return err
	}
	live := newLive(a.err, isTerminal(a.err))
	r.Result, err = bench.Run(ctx, o.load, bench.Operations, plan.Callers,
		bench.Options{Progress: live.tell, Began: func() { r.began(b, o.snapshot) }, Ended: func() { r.ended(b) }})
	live.end()
	if err := firstError(err, stop()); err != nil {
		return err
	}
	r.finish(b)
	if err := a.printBench(r); err != nil {
		return err
	}
	if r.Result.All.Count == 0 && !r.Result.Interrupted {
		return unavailable(errors.New("no operation succeeded"), "")
	}
	return nil
}

func (a *app) openBench(ctx context.Context, o *benchOptions, embedded bool) (*benchTargets, error) {
	if !embedded {
		return a.openClients(ctx, o.connections, o.gather)
	}
	why := toCreate
	if o.create {
		why = toInit
	}
	return a.openNodes(ctx, o.nodes, why, o.snapshots)
}

// benchError says what to do about a preparation that failed.
func benchError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, bench.ErrNotEmpty):
		return refused(err, "bench leaves much behind: give it a database of its own, or --force")
	case ctx.Err() != nil:
		return unavailable(errors.New("interrupted before anything was measured"), "")
	}
	return unavailable(err, "")
}

// checkProfile makes sure that a profile can be written to file, and that it is not the database's own.
func checkProfile(file, db string) error {
	if file == "" {
		return nil
	}
	if st, err := os.Stat(file); err == nil && !st.Mode().IsRegular() {
		return nil // a pipe, say
	}
	if kind, path, err := backendOf(db); err == nil && kind.scheme == "sqlite" && filepath.Clean(path) == filepath.Clean(file) {
		return usagef("--cpuprofile names the file of the database")
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return f.Close()
}

// profile writes a profile until stop is called.
func profile(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, firstError(fmt.Errorf("profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
