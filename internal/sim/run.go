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
	if !w.until(w.s.now+calmTime, func() bool { return w.healthy() }) {
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
