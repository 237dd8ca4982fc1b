package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/headwaterdb/headwater/internal/bench"
)

// benchReport is what bench tells: all that is needed to repeat the measurement, and what was seen. Unlike records of the
// API its numbers are numbers, for programs that plot.
type benchReport struct {
	Settings benchSettings     `json:"settings"`
	Versions map[string]string `json:"versions"`
	Machine  bench.Machine     `json:"machine"` // as it was before the measurement
	Log      *benchLog         `json:"log,omitempty"`
	Nodes    []benchNode       `json:"nodes,omitempty"`
	// Snapshots are those that the first node made meanwhile, with --snapshots.
	Snapshots *benchSnapshots `json:"snapshots,omitempty"`
	Result    *bench.Result   `json:"result"`

	before      benchLog
	known       bool      // before is
	begin       time.Time // of what is measured
	stopMaking  func()    // of snapshots
	makingEnded chan struct{}
}

// benchSettings are the flags, with defaults in place of zeros.
type benchSettings struct {
	Work        string  `json:"work"`
	Through     string  `json:"through"` // "library" or "api"
	Callers     int     `json:"callers"`
	Nodes       int     `json:"nodes"`       // in this process; 0: servers
	Connections int     `json:"connections"` // to all servers together; 0: none
	Gather      int     `json:"gather"`      // requests under way at once on each connection, shared by calls; 0: each call is one
	Duration    float64 `json:"durationSeconds"`
	Warmup      float64 `json:"warmupSeconds"`
	Grace       float64 `json:"graceSeconds"`
	Count       int64   `json:"count"` // the bound; 0: none
	Rate        float64 `json:"rate"`  // 0: a closed loop
	ValueBytes  int     `json:"valueBytes"`
	Keys        int     `json:"keys"`
	Streams     int     `json:"streams"`
	Slices      int     `json:"slices"`
	Objects     int     `json:"objects"`
	Reads       string  `json:"reads"`
	Seed        uint64  `json:"seed"`
	Snapshots   int     `json:"snapshotInterval"`
}

// benchLog is what was added to the log in what is measured. Of servers only the rows are known.
type benchLog struct {
	Rows      int64   `json:"rows"`
	Commands  int64   `json:"commands"`
	Bytes     int64   `json:"bytes"`
	Conflicts int64   `json:"conflicts"` // appends that lost a race
	Seconds   float64 `json:"seconds"`
}

// benchSnapshots are snapshots that were made one after another during the measurement.
type benchSnapshots struct {
	Stored  int       `json:"stored"`  // whole, and in what is measured
	Seconds []float64 `json:"seconds"` // that each of these took
	Failed  int       `json:"failed"`
	Example string    `json:"example,omitempty"` // of an error
}

// benchNode is what the callers of one node, or of one connection, got done.
type benchNode struct {
	Node  int     `json:"node"` // from 1
	Count int64   `json:"count"`
	Rate  float64 `json:"rate"`
}

func (a *app) newBenchReport(o *benchOptions, b *benchTargets, embedded bool) *benchReport {
	w := o.work.WithDefaults(o.callers)
	r := &benchReport{
		Settings: benchSettings{Work: w.Kind, Through: "api", Callers: o.callers, Connections: len(b.targets), Gather: o.gather,
			Duration: o.load.Duration.Seconds(), Warmup: o.load.Warmup.Seconds(), Grace: o.load.Grace.Seconds(), Count: o.load.Count, Rate: o.load.Rate,
			ValueBytes: w.ValueBytes, Keys: w.Keys, Streams: w.Streams, Slices: w.Slices, Objects: w.Objects, Reads: w.Reads, Seed: w.Seed},
		Versions: map[string]string{"headwater": version(), "database": b.backend},
		Machine:  bench.ThisMachine(),
	}
	if embedded {
		r.Settings.Through, r.Settings.Nodes, r.Settings.Connections, r.Settings.Snapshots = "library", len(b.targets), 0, o.snapshots
		return r
	}
	r.Versions["server"] = b.server
	return r
}

func (c *logCounts) now() (benchLog, bool) {
	return benchLog{Rows: c.rows.Load(), Commands: c.commands.Load(), Bytes: c.bytes.Load(), Conflicts: c.conflicts.Load()}, true
}

// began notes where the log is when what is measured begins, and begins to make snapshots.
func (r *benchReport) began(b *benchTargets, snapshots bool) {
	r.before, r.known = b.logNow()
	r.begin = time.Now()
	if !snapshots {
		return
	}
	r.Snapshots, r.makingEnded = &benchSnapshots{Seconds: []float64{}}, make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	r.stopMaking = cancel
	go func() {
		defer close(r.makingEnded)
		r.Snapshots.make(ctx, b.snapshot)
	}()
}

// make makes one snapshot after another until ctx ends.
func (s *benchSnapshots) make(ctx context.Context, snapshot func(context.Context) (uint64, error)) {
	for ctx.Err() == nil {
		begin := time.Now()
		_, err := snapshot(ctx)
		switch {
		case ctx.Err() != nil: // broken off
		case err != nil:
			s.Failed, s.Example = s.Failed+1, err.Error()
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		default:
			s.Stored++
			s.Seconds = append(s.Seconds, time.Since(begin).Seconds())
		}
	}
}

// ended notes what has become of the log when what is measured ends.
func (r *benchReport) ended(b *benchTargets) {
	if r.stopMaking != nil {
		r.stopMaking()
		<-r.makingEnded
	}
	l, ok := b.logNow()
	if !ok || !r.known {
		return
	}
	r.Log = &benchLog{l.Rows - r.before.Rows, l.Commands - r.before.Commands, l.Bytes - r.before.Bytes, l.Conflicts - r.before.Conflicts,
		time.Since(r.begin).Seconds()}
}

// finish adds what is known when the measurement is over.
func (r *benchReport) finish(b *benchTargets) {
	if len(b.targets) == 1 {
		return
	}
	for i := range b.targets {
		r.Nodes = append(r.Nodes, benchNode{Node: i + 1})
	}
	for i, n := range r.Result.PerCaller {
		r.Nodes[i%len(r.Nodes)].Count += n
	}
	for i := range r.Nodes {
		r.Nodes[i].Rate = float64(r.Nodes[i].Count) / r.Result.Seconds
	}
}

func (a *app) printBench(r *benchReport) error {
	if a.output == "json" {
		return json.NewEncoder(a.out).Encode(r)
	}
	r.heading(a.out)
	fmt.Fprintln(a.out)
	tab := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tab, "OPERATION\tCOUNT\tERRORS\tPER SECOND\tMEAN\tP50\tP90\tP99\tP99.9\tMAX")
	rows := r.Result.Operations
	if len(rows) != 1 || r.Result.Missed > 0 { // what was never begun is in the latencies of all
		rows = append(rows[:len(rows):len(rows)], r.Result.All)
	}
	for _, s := range rows {
		fmt.Fprintf(tab, "%s\t%d\t%d\t%.0f", s.Op, s.Count, s.Errors, s.Rate)
		for _, ms := range []float64{s.Mean, s.P50, s.P90, s.P99, s.P999, s.Max} {
			fmt.Fprintf(tab, "\t%s", latency(ms))
		}
		fmt.Fprintln(tab)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, e := range r.Result.Errors {
		fmt.Fprintf(a.out, "%s: %d times %s, for example: %s\n", e.Op, e.Count, e.Code, printable(e.Example))
	}
	return nil
}

// heading says what was measured, where and how.
func (r *benchReport) heading(out io.Writer) {
	s := r.Settings
	tab := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	where := "in this process, " + counted(s.Nodes, "node")
	if s.Through == "api" {
		where = "through the API, " + counted(s.Connections, "connection")
		if s.Gather > 0 {
			where += fmt.Sprintf(", %d shared requests at once on each", s.Gather)
		}
	}
	loop := "closed loop"
	if s.Rate > 0 {
		loop = fmt.Sprintf("open loop, %.0f due a second, %d of them never begun", s.Rate, r.Result.Missed)
	}
	fmt.Fprintf(tab, "work\t%s, reads %s\n", s.Work, s.Reads)
	fmt.Fprintf(tab, "callers\t%d, %s, %s\n", s.Callers, where, loop)
	fmt.Fprintf(tab, "database\t%s\n", orDash(r.Versions["database"]))
	early := ""
	if r.Result.Interrupted {
		early = ", interrupted"
	}
	fmt.Fprintf(tab, "measured\t%.1f s%s\n", r.Result.Seconds, early)
	m := r.Machine
	fmt.Fprintf(tab, "machine\t%s, %s/%s, %s, %s, load %.1f before\n", orDash(m.CPU), m.OS, m.Arch, counted(m.Cores, "core"), m.GoVersion, m.Load)
	if l := r.Log; l != nil && l.Rows > 0 && l.Seconds > 0 {
		fmt.Fprintf(tab, "log\t%.0f rows a second", float64(l.Rows)/l.Seconds)
		if l.Commands > 0 {
			fmt.Fprintf(tab, ", %.1f commands and %s each, %d lost races", float64(l.Commands)/float64(l.Rows), size(uint64(l.Bytes/l.Rows)), l.Conflicts)
		}
		fmt.Fprintln(tab)
	}
	if p, n := r.Result.Processor, r.Result.All.Rate*r.Result.Seconds; p != nil && n > 0 {
		fmt.Fprintf(tab, "processor\t%s an operation in this process", latency(p.Own/n*1e3))
		if rest := p.Busy - p.Own; rest > 0 {
			fmt.Fprintf(tab, ", %s elsewhere on this machine", latency(rest/n*1e3))
		}
		fmt.Fprintf(tab, ", %.0f%% idle", 100*p.Idle/(p.Busy+p.Idle+p.Stolen))
		if share := p.Stolen / (p.Busy + p.Idle + p.Stolen); share >= 0.01 {
			fmt.Fprintf(tab, ", %.0f%% taken by other machines on its host", 100*share)
		}
		fmt.Fprintln(tab)
	}
	if s := r.Snapshots; s != nil {
		fmt.Fprintf(tab, "snapshots\t%d stored", s.Stored)
		if s.Stored > 0 {
			fmt.Fprintf(tab, ", in %.1f to %.1f s each", slices.Min(s.Seconds), slices.Max(s.Seconds))
		}
		if s.Failed > 0 {
			fmt.Fprintf(tab, "; %d failed, for example: %s", s.Failed, printable(s.Example))
		}
		fmt.Fprintln(tab)
	}
	if len(r.Nodes) > 1 {
		least, most := r.Nodes[0].Rate, r.Nodes[0].Rate
		for _, n := range r.Nodes {
			least, most = min(least, n.Rate), max(most, n.Rate)
		}
		fmt.Fprintf(tab, "per node\t%.0f to %.0f a second\n", least, most)
	}
	_ = tab.Flush() // out remembers what went wrong
}

// latency shows milliseconds with three digits, in the unit that fits.
func latency(ms float64) string {
	switch {
	case ms == 0:
		return "-"
	case ms < 0.001:
		return fmt.Sprintf("%.0f ns", ms*1e6)
	case ms < 1:
		return fmt.Sprintf("%.3g µs", ms*1e3)
	case ms < 1000:
		return fmt.Sprintf("%.3g ms", ms)
	}
	return fmt.Sprintf("%.3g s", ms/1e3)
}

// live shows each second of a measurement on one line of a terminal.
type live struct {
	out   io.Writer
	on    bool
	shown bool
}

func newLive(out io.Writer, on bool) *live { return &live{out: out, on: on} }

// tell is bench.Options' Progress.
func (l *live) tell(s bench.Second) {
	if !l.on {
		return
	}
	l.shown = true
	fmt.Fprintf(l.out, "\r\x1b[K%4d s  %.0f a second  p50 %s  p99 %s  max %s  errors %d", s.Second, s.Rate, latency(s.P50),
		latency(s.P99), latency(s.Max), s.Errors)
}

// end takes the line away.
func (l *live) end() {
	if l.shown {
		fmt.Fprint(l.out, "\r\x1b[K")
	}
}
