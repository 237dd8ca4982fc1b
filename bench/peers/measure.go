package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headwaterdb/headwater/internal/bench"
	"github.com/headwaterdb/headwater/internal/dbtest"
)

// series is one line of an experiment: a system, or a probe, measured at each x.
type series struct {
	name    string
	measure func(ctx context.Context, e *env, x int) (Figure, error)
}

// experiment is what is measured side by side.
type experiment struct {
	name   string // in files and in Results
	title  string
	x      string // what x counts
	xs     []int
	series []series
}

// inRound are the series in their order in a round: each round begins with another one, so that none is always the first
// or always follows the same one. A probe that repeats what a series did then repeats what it did the round before.
func (ex experiment) inRound(round int) []series {
	at := (round - 1) * (len(ex.series) + 1) / 3 % len(ex.series)
	return append(slices.Clone(ex.series[at:]), ex.series[:at]...)
}

// env is what measurements use. Everything they write is below dir.
type env struct {
	bin      binaries
	postgres *dbtest.Postgres
	dir      string
	time     time.Duration
	warmup   time.Duration
	results  *Results
	counter  int // of folders and databases
}

// run measures all experiments in rounds: within a round every series at one x comes before the next x, so that what is
// compared was measured within the same minute. after is called with what there is so far.
func (e *env) run(ctx context.Context, experiments []experiment, rounds int, after func() error) error {
	for round := 1; round <= rounds; round++ {
		for _, ex := range experiments {
			for _, x := range ex.xs {
				for _, s := range ex.inRound(round) {
					f := e.one(ctx, s, x)
					if ctx.Err() != nil {
						return ctx.Err()
					}
					f.Experiment, f.Series, f.X, f.Round = ex.name, s.name, x, round
					e.results.Figures = append(e.results.Figures, f)
					say("round %d  %-10s %-34s %8d %s", round, ex.name, s.name, x, f.short())
				}
			}
			if err := after(); err != nil {
				return err
			}
		}
	}
	return nil
}

// one measures one series at one x, in a folder of its own, when what was written before has reached the disk.
func (e *env) one(ctx context.Context, s series, x int) (f Figure) {
	syscall.Sync()
	load := bench.LoadAverage()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute+10*e.time)
	defer cancel()
	f, err := s.measure(ctx, e, x)
	if err != nil {
		f.Failed = err.Error()
	}
	f.Load = load
	return f
}

func (f Figure) short() string {
	if f.Failed != "" {
		return "FAILED: " + f.Failed
	}
	s := fmt.Sprintf("%9.0f/s  p50 %.3g ms  p99 %.3g ms", f.Rate, f.P50, f.P99)
	if f.Errors > 0 {
		s += fmt.Sprintf("  %d errors: %s", f.Errors, f.Example)
	}
	return s
}

// folder makes a folder for one measurement; done removes it.
func (e *env) folder() (dir string, done func(), err error) {
	e.counter++
	dir = filepath.Join(e.dir, fmt.Sprintf("m%d", e.counter))
	return dir, func() { _ = os.RemoveAll(dir) }, os.Mkdir(dir, 0o755)
}

// database makes a database for one measurement on the PostgreSQL server, which has written everything before to disk.
func (e *env) database(ctx context.Context) (dsn string, done func(), err error) {
	e.counter++
	name := fmt.Sprintf("m%d", e.counter)
	do := func(ctx context.Context, statements ...string) error {
		c, err := pgx.Connect(ctx, e.postgres.DSN("postgres", "postgres"))
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		for _, s := range statements {
			if _, err := c.Exec(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	}
	err = do(ctx, "CREATE DATABASE "+name, "CHECKPOINT")
	return e.postgres.DSN("postgres", name), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = do(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") // or it stays until the server's folder goes
	}, err
}

// child runs a program and decodes what it prints.
func child(ctx context.Context, into any, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("%s %v: %w: %s", filepath.Base(path), args, err, said.Bytes()), ctx.Err())
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("%s: %w: %.200q", filepath.Base(path), err, out.Bytes())
	}
	return nil
}

// load runs a job in a process of its own.
func (e *env) load(ctx context.Context, j job) (Figure, error) {
	j.Time, j.Warmup = e.time, e.warmup
	if j.ValueBytes == 0 {
		j.ValueBytes = valueBytes
	}
	if j.Keys == 0 {
		j.Keys = keys
	}
	text, err := json.Marshal(j)
	if err != nil {
		return Figure{}, err
	}
	var r bench.Result
	if err := child(ctx, &r, e.bin.self, "-job", string(text)); err != nil {
		return Figure{}, err
	}
	return figureOf(&r), nil
}

// benchReport is what is needed of the output of headwater bench.
type benchReport struct {
	Log *struct {
		Rows, Commands, Bytes, Conflicts, Seconds float64
	}
	Nodes     []struct{ Rate float64 }
	Snapshots *struct {
		Stored, Failed int
		Seconds        []float64
		Example        string
	}
	Result *bench.Result
}

// bench runs headwater bench.
func (e *env) bench(ctx context.Context, args ...string) (Figure, error) {
	var r benchReport
	args = append([]string{"bench", "-o", "json", "--duration", e.time.String(), "--warmup", e.warmup.String(),
		"--value", fmt.Sprint(valueBytes), "--keys", fmt.Sprint(keys)}, args...)
	if err := child(ctx, &r, e.bin.headwater, args...); err != nil {
		return Figure{}, err
	}
	f := figureOf(r.Result)
	if l := r.Log; l != nil && l.Rows > 0 {
		f.Extra["rows a second"] = l.Rows / l.Seconds
		if l.Commands > 0 { // a server tells only of rows
			f.Extra["bytes of a row"] = l.Bytes / l.Rows
			f.Extra["commands in a row"] = l.Commands / l.Rows
			f.Extra["lost races"] = l.Conflicts / (l.Rows + l.Conflicts)
		}
	}
	if s := r.Snapshots; s != nil {
		f.Extra["snapshots stored meanwhile"] = float64(s.Stored)
		if s.Stored > 0 {
			f.Extra["seconds of the first one"] = s.Seconds[0]
		}
		if s.Failed > 0 {
			return f, fmt.Errorf("%d snapshots failed: %s", s.Failed, s.Example)
		}
	}
	if len(r.Nodes) > 1 && r.Nodes[len(r.Nodes)-1].Rate > 0 { // or there were fewer callers than nodes
		least, most := r.Nodes[0].Rate, r.Nodes[0].Rate
		for _, n := range r.Nodes {
			least, most = min(least, n.Rate), max(most, n.Rate)
		}
		f.Extra["slowest by fastest node"] = least / max(most, 1)
	}
	for _, op := range r.Result.Operations {
		f.Extra["op "+op.Op+" a second"] = op.Rate
		f.Extra["op "+op.Op+" p99 ms"] = op.P99
	}
	return f, nil
}

// last is a value of the newest figure of a series at x, for probes that repeat what it did.
func (e *env) last(experiment, series string, x int, v value) float64 {
	figures := e.results.at(experiment, series, x)
	if len(figures) == 0 {
		return 0
	}
	return v(figures[len(figures)-1])
}
