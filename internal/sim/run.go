package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// Report is what a run did and found.
type Report struct {
	Seed   uint64
	Config Config
	Err    error          // the first invariant that was broken; nil: none was
	Time   time.Duration  // simulated
	Counts map[string]int // of what happened, by kind
	Trace  string         // everything that happened, a line each
}

// Bounds of a run.
const (
	calmTime = 120 * time.Second // within which everything must be well again
	maxTurns = 1_000_000         // of tasks; more than any run needs
)

// Run simulates one seed.
func Run(seed uint64) *Report {
	return RunConfig(seed, Draw(rand.New(rand.NewPCG(seed, 0xc0f1))))
}

// RunConfig simulates one seed with a configuration of the caller's.
func RunConfig(seed uint64, cfg Config) *Report {
	w := newWorld(seed, cfg)
	w.note("%s", cfg.String())
	for _, n := range w.nodes {
		w.boot(n)
	}
	for i := range cfg.Clients {
		w.startClient(i)
	}
	w.storms()
	w.until(cfg.Time, func() bool { return false })
	if w.failed == nil {
		w.settle()
	}
	w.counts["turns"] = w.s.turns
	r := &Report{Seed: seed, Config: cfg, Err: w.failed, Time: w.s.now, Counts: maps.Clone(w.counts), Trace: w.trace.String()}
	w.end()
	return r
}

// until runs until done holds, an invariant is broken, or the time limit (of the clock of the world) has come. It reports whether done holds.
func (w *world) until(limit time.Duration, done func() bool) bool {
	for w.failed == nil {
		if done() {
			return true
		}
		if w.s.turns > maxTurns {
			w.check(fmt.Errorf("liveness: %d turns, and it is only %v", w.s.turns, w.s.now))
		}
		if !w.s.step(limit) {
			return done()
		}
	}
	return false
}

// settle lets the faults end. Then everybody must reach the head, be done with what was asked of it, and accept a write.
func (w *world) settle() {
	w.note("calm")
	w.calm = true
	w.db.down, w.db.full, w.db.readOnly, w.db.slow = false, false, false, 0
	w.db.kill() // or what was damaged on its way to the disk would come after the repair
	w.edit(func(s *state) {
		for _, f := range slices.Backward(w.flips) { // the last one first: it may be of what was damaged before
			f.repair(s)
		}
	})
	w.h.repaired(w.db.state)
	for _, n := range w.nodes {
		n.deaf = false
		if n.g != nil {
			w.thaw(n)
		}
	}
	if w.cfg.Raise {
		if w.raise(); w.h.outdated() {
			w.outdated()
			return
		}
	}
	if !w.until(w.s.now+calmTime, w.healthy) {
		w.check(fmt.Errorf("liveness: %v after the last fault: %s", calmTime, w.ailing()))
		return
	}
	left := len(w.nodes)
	for _, n := range w.nodes {
		w.lastWrite(n, &left)
	}
	if !w.until(w.s.now+calmTime, func() bool { return w.healthy() && left == 0 }) {
		w.check(fmt.Errorf("liveness: %v after a write through each node: %s", calmTime, w.ailing()))
		return
	}
	if w.failed != nil {
		return
	}
	for _, n := range w.nodes {
		if st := n.store.Status(); st.Queued != 0 || st.InFlight != 0 {
			w.check(fmt.Errorf("liveness: %s has %d commands queued and %d in flight, and nobody waits for any", n.name(), st.Queued, st.InFlight))
		}
		if err := n.store.View().State.Verify(); err != nil {
			w.check(fmt.Errorf("%s: %w", n.name(), err))
		}
		if n.here != w.h.tip {
			w.check(fmt.Errorf("same index, same state: %s ended on another branch of history", n.name()))
		}
	}
	w.note("well: everybody at row %d with digest %s", w.h.tip.index, w.h.tip.digest())
}

// raise has a program of the next version raise the format level, which the rules refuse while a node is registered that
// does not know it.
func (w *world) raise() {
	w.db.kill()
	tip, level := w.h.tip, uint64(meta.MaxFormat+1)
	command, err := meta.AppendProposal(nil, meta.Proposal{Stamp: int64(w.s.now), Command: meta.SetFormat{Level: level}})
	if err != nil {
		panic(err)
	}
	row := replica.AppendRow(nil, &replica.RowInfo{Index: tip.index + 1, Incarnation: 1, Previous: replica.Checksum(tip.payload),
		Writer: replica.Token{0xff}, Batch: 1, Seen: tip.index, SeenDigest: tip.digest(), Commands: [][]byte{command}})
	w.edit(func(s *state) { s.rows = append(s.rows, oplog.Row{Index: tip.index + 1, Payload: row}) })
	w.check(w.h.append(tip.index+1, row, 0))
	w.note("a newer program asks for format level %d in row %d: it is %d", level, tip.index+1, w.h.tip.state.FormatLevel())
	if w.h.outdated() {
		w.count("level raised")
	}
}

// outdated waits until every node has found out that it must be upgraded: those that run halt at the row, with the view of
// before, and those that start do not open or halt. That none writes any more is checked at each row.
func (w *world) outdated() {
	const want = "must be upgraded"
	raised := w.h.tip.index
	if !w.until(w.s.now+calmTime, func() bool {
		ok := true
		for _, n := range w.nodes {
			switch {
			case n.down:
				w.boot(n)
				ok = false
			case n.store == nil:
				ok = ok && n.unopened != nil && strings.Contains(n.unopened.Error(), want)
			case n.final() && !strings.Contains(n.store.Status().Reason, want): // by what was lost or damaged before
				w.crash(n)
				ok = false
			default:
				ok = ok && n.final()
			}
		}
		return ok
	}) {
		w.check(fmt.Errorf("liveness: %v after the format level was raised: %s", calmTime, w.ailing()))
		return
	}
	for _, n := range w.nodes {
		if n.store == nil {
			continue
		}
		if st := n.store.Status(); st.Condition != headwater.Halted {
			w.check(fmt.Errorf("levels: %s is %s after the format level was raised in row %d: %s", n.name(), st.Condition, raised, st.Reason))
		}
		if v := n.store.View(); v.Index >= raised {
			w.check(fmt.Errorf("levels: %s shows row %d, and row %d has raised the format level", n.name(), v.Index, raised))
		}
	}
	w.note("well: everybody has halted below row %d, which needs a newer program", raised)
}

// healthy reports whether nothing is left to be done. On its way it restarts what a person would restart.
func (w *world) healthy() bool {
	ok := w.clients == 0 && w.pending == 0
	for _, n := range w.nodes {
		switch {
		case n.down:
			w.boot(n)
			ok = false
		case n.final(): // halted checked that it had a reason to
			w.crash(n)
			ok = false
		case n.store == nil || n.ending || n.here != w.h.tip || n.store.Status().Condition != headwater.Ready:
			ok = false
		}
	}
	return ok
}

// ailing tells who is not well.
func (w *world) ailing() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the head is row %d; %d clients and %d calls are not done", w.h.tip.index, w.clients, w.pending)
	for _, n := range w.nodes {
		if n.down || n.store == nil {
			fmt.Fprintf(&b, "; %s is not open", n.name())
			continue
		}
		st := n.store.Status()
		fmt.Fprintf(&b, "; %s is %s at row %d, %d queued, %d in flight (%s %s)", n.name(), st.Condition, st.AppliedIndex, st.Queued, st.InFlight,
			st.Reason, st.DatabaseError)
	}
	return b.String()
}

// lastWrite writes through n until that is applied.
func (w *world) lastWrite(n *node, left *int) {
	c := &client{w: w, number: 100 + n.id, id: w.s.random(), home: n, g: &group{drift: 1}}
	w.s.start(fmt.Sprintf("last client of %s", n.name()), c.g, func() {
		c.sequence++
		todo := []meta.Proposal{{Request: &meta.Request{Client: c.id, Sequence: c.sequence, Oldest: 1},
			Command: meta.PutKey{Key: fmt.Sprintf("last %d", n.id), Value: []byte(fmt.Sprint(w.seed))}}}
		for len(todo) > 0 {
			if n.usable() { // it may have halted on what was lost, and be on its way up again
				todo = c.propose(n, todo)
			}
			w.s.sleep(100 * time.Millisecond)
		}
		*left--
	})
}

// end leads every task out.
func (w *world) end() {
	w.calm = true
	for _, n := range w.nodes {
		if !n.down {
			w.leave(n)
		}
	}
	for w.s.zombies > 0 && w.s.step(w.s.now+time.Minute) {
	}
	w.s.stop()
}
