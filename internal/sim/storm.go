package sim

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// plan draws what becomes of a call.
func (w *world) plan(n *node, o op, at oplog.Index) plan {
	if w.script != nil {
		return w.script.plan(n, o, at)
	}
	l := w.cfg.Latency + w.db.slow
	p := plan{send: w.between(0, l), reply: w.between(0, l)}
	for range w.s.dice.IntN(4) {
		p.pauses = append(p.pauses, w.between(0, l))
	}
	if w.calm {
		return p
	}
	draw := func(kind string) bool {
		rate := w.cfg.Rates[kind]
		hit := rate > 0 && w.s.dice.IntN(10_000) < rate
		if hit {
			w.count(kind)
		}
		return hit
	}
	switch {
	case draw(faultRefuse):
		p.refuse = oplog.ErrUnavailable
	case draw(faultLose):
		p.lose = true
	case draw(faultDrop):
		p.drop = w.between(1, 2*l)
	case draw(faultLate):
		p.drop = w.between(1, l)
		p.send = w.between(l, 8*time.Second)
	case draw(faultSlow):
		p.send, p.reply = w.between(0, 50*l), w.between(0, 50*l)
		if w.chance(30) && len(p.pauses) > 0 {
			p.pauses[0] = w.between(0, 3*time.Second) // with the locks held
		}
	}
	switch o {
	case opAppend:
		if p.hollow = draw(faultHollow); p.hollow { // it is there for all to read while its standby is waited for
			p.reply += w.between(0, 200*time.Millisecond)
		}
	case opRead:
		p.partial = draw(faultPartial)
		fallthrough
	case opBounds, opOpenSnapshot:
		if draw(faultLag) {
			p.lag = w.between(1, 2*time.Second)
		}
	}
	return p
}

// pollDelay is how much later than a commit a waiter notices it.
func (w *world) pollDelay() time.Duration {
	if w.script != nil {
		return time.Millisecond
	}
	return w.between(0, w.cfg.Poll)
}

// flip is a damage to what is stored, and how to repair it.
type flip struct {
	repair func(*state)
}

func flipped(w *world, b []byte) []byte {
	b = bytes.Clone(b)
	b[w.s.dice.IntN(len(b))] ^= 1 << w.s.dice.IntN(8)
	return b
}

// rot returns the part as it is going to be stored.
func (w *world) rot(p part) part {
	if rate := w.cfg.Rates[faultRot]; rate > 0 && !w.calm && w.s.dice.IntN(10_000) < rate {
		w.count(faultRot)
		w.note("a bit of part %d of the snapshot at %d flips on its way to the disk", p.number, p.index)
		return w.flipPart(p)
	}
	return p
}

// flipPart returns p with a bit flipped, and remembers how it was.
func (w *world) flipPart(p part) part {
	whole := p.data
	w.h.broken[p.token] = true
	w.flips = append(w.flips, flip{func(s *state) {
		for i, q := range s.parts {
			if q.token == p.token && q.number == p.number {
				s.parts[i].data = whole
			}
		}
	}})
	p.data = flipped(w, p.data)
	return p
}

// edit changes what is committed behind everybody's back.
func (w *world) edit(f func(*state)) {
	st := &state{rows: slices.Clone(w.db.state.rows), snap: w.db.state.snap, parts: slices.Clone(w.db.state.parts)}
	f(st)
	w.db.become(st)
}

// storms lets something strike from time to time until calm comes.
func (w *world) storms() {
	if len(w.cfg.Storms) == 0 {
		return
	}
	w.s.start("storms", &group{drift: 1}, func() {
		for {
			w.s.sleep(w.between(0, 2*w.cfg.Every))
			if w.calm {
				return
			}
			w.storm(w.cfg.Storms[w.s.dice.IntN(len(w.cfg.Storms))])
		}
	})
}

// storm lets one thing strike.
func (w *world) storm(kind string) {
	n := w.nodes[w.s.dice.IntN(len(w.nodes))]
	w.count(kind)
	switch kind {
	case stormCrash, stormStop:
		if n.down || n.ending {
			return
		}
		if kind == stormStop {
			w.stop(n)
		} else {
			w.crash(n)
		}
		w.bootLater(n)
	case stormPause:
		if n.down {
			return
		}
		d := w.between(10*time.Millisecond, 6*time.Second)
		w.note("%s stands still for %v", n.name(), d)
		n.g.frozen = w.s.now + d
	case stormDeaf:
		n.deaf = true
		w.lift(3*time.Second, "", func() { n.deaf = false })
	case stormDrop:
		w.note("every connection is dropped")
		w.db.kill()
	case stormKill:
		w.note("the server dies")
		w.db.kill()
		w.db.down = true
		w.lift(3*time.Second, "the server is back", func() { w.db.down = false })
	case stormFull:
		w.note("the disk is full")
		w.db.full = true
		w.lift(3*time.Second, "there is room again", func() { w.db.full = false })
	case stormReadOnly:
		w.note("the server is read-only")
		w.db.readOnly = true
		w.lift(3*time.Second, "the server takes writes", func() { w.db.readOnly = false })
	case stormSlow:
		w.db.slow = w.between(10*time.Millisecond, time.Second)
		w.note("the server is slow: up to %v", w.db.slow)
		w.lift(3*time.Second, "the server is fast again", func() { w.db.slow = 0 })
	case stormFailover:
		w.note("fail-over")
		w.db.kill()
		w.db.down = true
		w.lift(time.Second, "the standby has taken over", func() { w.db.down = false })
	case stormLoss:
		w.failover(1 + w.s.dice.IntN(5))
	case stormFlipRow:
		w.flipRow(w.db.state.rows[w.s.dice.IntN(len(w.db.state.rows))].Index)
	case stormFlipPart:
		w.edit(func(s *state) {
			if len(s.parts) > 0 {
				i := w.s.dice.IntN(len(s.parts))
				w.note("a bit of the snapshot at %d flips", s.parts[i].index)
				s.parts[i] = w.flipPart(s.parts[i])
			}
		})
	case stormSnapshot:
		w.snapshot(n)
	}
}

// snapshot asks n for a snapshot.
func (w *world) snapshot(n *node) {
	if !n.usable() {
		return
	}
	store, life := n.store, n.life
	w.s.start(n.name()+" caller", n.g, func() {
		ctx, cancel := w.s.timeout(ctxRoot, n.g, 5*time.Second)
		defer cancel()
		at, err := store.Snapshot(ctx)
		if n.life == life && !n.down {
			w.note("%s was asked for a snapshot: %d, %s", n.name(), at, outcome(err))
		}
	})
}

// lift ends a storm after at most that long.
func (w *world) lift(most time.Duration, note string, f func()) {
	w.s.after(w.between(0, most), func() {
		if note != "" {
			w.note("%s", note)
		}
		f()
	})
}

// thaw lets a process go on that stood still.
func (w *world) thaw(n *node) {
	n.g.frozen = 0
	w.s.thaw(n.g)
}

// bootLater starts a process on n once it is down.
func (w *world) bootLater(n *node) {
	life := n.life
	w.s.after(w.between(0, 3*time.Second), func() {
		switch {
		case n.life != life:
		case n.down:
			w.boot(n)
		default:
			w.bootLater(n)
		}
	})
}

// flipRow flips a bit of a row.
func (w *world) flipRow(index oplog.Index) {
	w.edit(func(s *state) {
		i, _ := s.find(index)
		r := s.rows[i]
		w.note("a bit of row %d flips", r.Index)
		w.flips = append(w.flips, flip{func(s *state) {
			if i, found := s.find(r.Index); found && !w.gone(r) {
				s.rows[i].Payload = r.Payload
			}
		}})
		s.rows[i].Payload = flipped(w, r.Payload)
	})
}

// gone reports whether r was lost, so that another row may have its index.
func (w *world) gone(r oplog.Row) bool {
	e := w.h.tip.back(r.Index)
	return e == nil || !bytes.Equal(e.payload, r.Payload)
}

// failover promotes a standby that lacks the last commits.
func (w *world) failover(commits int) {
	commits = min(commits, len(w.db.versions)-1, keptVersions)
	st := w.db.versions[len(w.db.versions)-1-commits].state
	w.db.kill()
	newest, ok := st.newest()
	if !ok || st.rows[0].Index > w.h.tip.index {
		return
	}
	w.lossy++
	rows, acked := w.h.lose(newest)
	w.note("fail-over to a standby that ends at row %d: %d rows are lost, of %d somebody was told", newest, rows, acked)
	w.counts["rows lost"] += rows
	w.acked = min(w.acked, newest)
	for _, n := range w.nodes {
		if n.astray = n.here != nil && n.here.lost; n.astray {
			w.note("%s shows row %d, which is lost", n.name(), n.here.index)
		}
	}
	w.db.versions = w.db.versions[:len(w.db.versions)-1-commits]
	w.db.become(st)
	w.db.down = true
	w.lift(time.Second, "the standby has taken over", func() { w.db.down = false })
}

// hollow notes that a row was committed without its standby.
func (w *world) hollow(at oplog.Index) {
	w.h.tip.hollow = true
	w.note("row %d is not durable", at)
}

// attempted checks what a node is about to append: it must have seen the row before.
func (w *world) attempted(n *node, at oplog.Index, payload []byte) {
	w.counts["appends"]++
	if n.here == nil || n.astray {
		return
	}
	if n.here.index+1 >= at {
		return
	}
	// Rows that it wrote itself, and that were acknowledged to it, are as good as seen.
	for i := n.here.index + 1; i < at; i++ {
		own := slices.ContainsFunc(w.h.at[i], func(e *entry) bool { return e.node == n.id })
		if !own {
			w.check(fmt.Errorf("dense: %s appends row %d and has seen row %d", n.name(), at, n.here.index))
			return
		}
	}
}
