// Package sim runs many nodes on a simulated database in virtual time: the engine, the state machine and the front door
// as they are in production, and everything around them as bad as it gets. One seed makes one history, byte for byte.
//
// What is real: package headwater with replica and meta, Open to Close, their goroutines, rows and snapshots in their
// stored form. What is simulated: the clocks and the scheduler (sched.go, through replica.World), the database at the grain of
// statements (database.go, statement.go) and the way to it (conn.go, snapshots.go), clients (client.go) and whatever strikes
// them (storm.go, config.go). An observer (history.go) replays every row that was ever committed, alone, and holds all that
// nodes show and say against it after every step; run.go ends with calm, in which everybody has to reach the head and to
// accept a write. script.go lets a text drive the same cluster instead of the dice.
//
// Start reading at Run. The SQL texts are not simulated: see Dialect. A failing seed is repeated by
//
//	go test ./internal/sim -run 'TestSeed$' -seed=N
//
// which prints its whole history; HEADWATER_ROUNDS=N runs more seeds, HEADWATER_SOAK=1h (with -run TestSoak -timeout 0 -v)
// runs others for as long.
package sim

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// world is one simulated cluster and everything that ever happened in it.
type world struct {
	seed    uint64
	cfg     Config
	s       *sched
	db      *database
	h       *history
	nodes   []*node
	trace   bytes.Buffer
	failed  error // the first invariant that was broken
	calm    bool  // nothing goes wrong any more
	counts  map[string]int
	pending int         // calls of clients that were not answered yet
	acked   oplog.Index // the newest row of which anybody was told
	lossy   int         // fail-overs that lost rows
	script  *Script     // nil: the dice decide
	clients int         // that have not ended
	flips   []flip
	stamp   int64 // of the last proposal; each has its own
}

// node is a place where a process runs, dies and runs again.
type node struct {
	w        *world
	id       int
	life     int
	down     bool // no process runs
	g        *group
	conn     *conn
	store    *headwater.Store // nil while it opens
	view     *headwater.View  // the last one that was looked at
	here     *entry           // where that is in the history
	cancel   context.CancelFunc
	deaf     bool  // it is not told of new rows
	unopened error // why its process could not open the store, the last time
	astray   bool  // it has applied rows that a fail-over lost since, and has yet to find out
	ending   bool  // it is being closed
	instance [16]byte
	epoch    uint64 // at which this life is registered; 0: not known
}

func (n *node) name() string { return fmt.Sprintf("node %d", n.id) }

func newWorld(seed uint64, cfg Config) *world {
	dice := rand.New(rand.NewPCG(seed, 0x5ead))
	w := &world{seed: seed, cfg: cfg, s: newSched(dice), counts: map[string]int{}}
	genesis := replica.AppendGenesis(nil, replica.Genesis{ClusterID: replica.ID{1}, Incarnation: 1, Format: replica.Format})
	w.s.observe = w.observe
	w.h = newHistory(cfg.Model, genesis)
	w.db = &database{s: w.s, g: &group{drift: 1}, d: cfg.Dialect, locks: map[int64]*lock{}}
	w.db.become(&state{rows: []oplog.Row{{Index: 0, Payload: genesis}}})
	w.db.commits = func(x *tx, before, after *state) {
		w.tell(x, before, after)
		w.check(w.h.committed(x, before, after))
	}
	for i := range cfg.Nodes {
		w.nodes = append(w.nodes, &node{w: w, id: i + 1, down: true})
	}
	return w
}

// span tells which rows are there.
func (s *state) span() string {
	if len(s.rows) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d to %d", s.rows[0].Index, s.rows[len(s.rows)-1].Index)
}

// tell notes what a commit changed, but for parts of snapshots.
func (w *world) tell(x *tx, before, after *state) {
	for _, r := range after.rows {
		if !before.has(r.Index) {
			w.note("row %d of node %d is there", r.Index, x.node)
		}
	}
	if after.snap != before.snap {
		w.note("the snapshot of node %d at %d is the current one", x.node, after.snap.info.Index)
	}
	if n := len(before.rows) - len(after.rows); n > 0 {
		w.note("%d rows were deleted by node %d: rows %s are left", n, x.node, after.span())
	}
}

// note adds a line to the trace.
func (w *world) note(format string, args ...any) {
	if w.s.closing {
		return
	}
	if w.script == nil {
		fmt.Fprintf(&w.trace, "%12.6f ", w.s.now.Seconds())
	}
	fmt.Fprintf(&w.trace, format, args...)
	w.trace.WriteByte('\n')
}

func (w *world) count(what string) { w.counts[what]++ }

// check remembers the first broken invariant.
func (w *world) check(err error) {
	if err != nil && w.failed == nil && !w.s.closing {
		w.failed = err
		w.note("VIOLATION %v", err)
	}
}

func (w *world) chance(percent int) bool { return w.s.dice.IntN(100) < percent }

func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.s.dice.Int64N(int64(b-a)+1))
}

// boot starts a process on n. The supervisor of an operating system does it again for as long as opening fails.
func (w *world) boot(n *node) {
	n.life++
	life := n.life
	n.astray = false
	n.down, n.ending, n.deaf, n.store, n.view, n.here, n.epoch, n.unopened = false, false, false, nil, nil, nil, 0, nil
	n.g = &group{node: n, drift: 1, preempt: w.cfg.Preempt}
	if w.cfg.Skew {
		n.g.drift = 0.9 + 0.2*w.s.dice.Float64()
		n.g.offset = w.between(0, time.Hour)
	}
	n.instance = w.s.random()
	n.conn = &conn{w: w, n: n, life: life}
	var log oplog.Log = n.conn
	if w.cfg.Dialect.Turns {
		log = turnConn{n.conn}
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	g := n.g
	w.note("%s starts", n.name())
	w.s.start(n.name()+" main", g, func() {
		o := headwater.Options{Engine: w.cfg.Engine, Now: func() time.Time { return w.s.clock(g) }}
		o.Engine.World = w.s.world(g, n.name())
		o.Engine.Events = w.events(n, life)
		for ctx.Err() == nil {
			store, err := headwater.Open(ctx, log, o)
			if ctx.Err() != nil {
				if err == nil {
					store.Close()
				}
				return
			}
			if err == nil {
				n.store = store
				w.note("%s is open at %d", n.name(), store.View().Index)
				return
			}
			n.unopened = err
			w.note("%s does not open: %v", n.name(), err)
			w.s.sleep(w.between(50*time.Millisecond, 500*time.Millisecond))
		}
	})
}

// events notes what a node's engine tells.
func (w *world) events(n *node, life int) replica.Events {
	alive := func() bool { return n.life == life && !n.down }
	note := func(format string, args ...any) {
		if alive() {
			w.note("%s "+format, append([]any{n.name()}, args...)...)
		}
	}
	return replica.Events{
		Applied:  func(index oplog.Index, commands int) { w.counts["rows applied"]++ },
		Conflict: func(index oplog.Index) { w.count("conflict") },
		Snapshot: func(index oplog.Index, bytes int64, _ time.Duration, err error) {
			note("snapshot at %d: %s", index, outcome(err))
		},
		Truncated: func(below oplog.Index, rows int) { note("truncated %d rows below %d", rows, below) },
		Installed: func(index oplog.Index) { note("installed the snapshot at %d", index); w.count("install") },
		StateOf: func(st replica.Status) {
			if note("is %v", st.Condition); st.Reason != "" {
				note("… %s", st.Reason)
			}
			if alive() && (st.Condition == replica.Halted || st.Condition == replica.Diverged || st.Condition == replica.Rewound) {
				w.halted(n, st)
			}
		},
		Diverged: func(index oplog.Index, writer string, healed bool) { note("diverged at %d, healed %v", index, healed) },
	}
}

// halted checks that a node had a reason to halt.
func (w *world) halted(n *node, st replica.Status) {
	w.count("halt")
	switch st.Condition {
	case replica.Rewound:
		if w.lossy == 0 && w.counts[stormFlipRow] == 0 {
			w.check(fmt.Errorf("%s is rewound and nothing was lost: %s", n.name(), st.Reason))
		}
	case replica.Halted:
		if w.counts[stormFlipRow] == 0 && w.lossy == 0 && !w.h.outdated() {
			w.check(fmt.Errorf("%s halted without a reason: %s", n.name(), st.Reason))
		}
	default:
		if !w.h.liars && w.lossy == 0 {
			w.check(fmt.Errorf("%s diverged without a reason: %s", n.name(), st.Reason))
		}
	}
}

// final reports whether the node has halted for good.
func (n *node) final() bool {
	if n.store == nil || n.down {
		return false
	}
	switch n.store.Status().Condition {
	case headwater.Halted, headwater.Diverged, headwater.Rewound:
		return true
	}
	return false
}

// crash ends the process on n where it stands.
func (w *world) crash(n *node) {
	w.note("%s crashes", n.name())
	w.leave(n)
}

// leave makes zombies of the tasks of n: they are led out through Close, and nothing that they do has an effect.
func (w *world) leave(n *node) {
	store, g := n.store, n.g
	n.down, n.store, n.view, n.here = true, nil, nil, nil
	w.s.bury(g)
	if n.conn.turn != nil {
		turnConn{n.conn}.PassTurn(ctxRoot)
	}
	n.cancel()
	w.s.look(g) // whatever was opening finds its context ended; the other calls do when Close ends theirs
	if store != nil {
		w.s.start(n.name()+" grave", g, func() { store.Close() })
	}
}

// stop closes the process on n in order.
func (w *world) stop(n *node) {
	store, life := n.store, n.life
	if store == nil {
		w.crash(n)
		return
	}
	w.note("%s is closed", n.name())
	n.ending = true
	w.s.start(n.name()+" closing", n.g, func() {
		store.Close()
		if n.life == life && !n.down {
			w.note("%s has ended", n.name())
			w.leave(n)
		}
	})
}

// usable reports whether a client would turn to n.
func (n *node) usable() bool { return !n.down && !n.ending && n.store != nil }

// observe looks at what the nodes show after a step of one of their tasks.
func (w *world) observe(g *group) {
	n := g.node
	if n == nil || n.g != g || n.down || n.store == nil {
		return
	}
	v := n.store.View()
	if v == n.view {
		return
	}
	if n.view = v; n.astray {
		// Where the rows that were lost made the same state as those in their place, there is nothing to find out.
		if here, err := w.h.viewed(nil, v.Index, v.State); err == nil && !here.lost {
			n.astray, n.here = false, here
		}
		return
	}
	here, err := w.h.viewed(n.here, v.Index, v.State)
	if err != nil {
		w.check(fmt.Errorf("%s: %w", n.name(), err))
		return
	}
	n.here, n.astray = here, here.lost // what was read before a fail-over may be applied after it
}
