package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// client proposes, and does not rest before it knows what became of it: it sends a command again, with the same request,
// through whichever node it finds, until there is an answer.
type client struct {
	w        *world
	number   int
	id       [16]byte
	sequence uint64
	home     *node // where it goes first
	g        *group
	waits    time.Duration // how long a call may take; 0: the dice decide
}

func (w *world) startClient(i int) {
	c := &client{w: w, number: i, id: w.s.random(), home: w.nodes[i%len(w.nodes)], g: &group{drift: 1}}
	w.clients++
	w.s.start(fmt.Sprintf("client %d", i), c.g, func() {
		for !w.calm {
			w.s.sleep(w.between(0, 200*time.Millisecond))
			if w.calm {
				break
			}
			switch dice := w.s.dice.IntN(100); {
			case dice < 8:
				c.linearize()
			case dice < 10:
				c.await()
			default:
				c.work()
			}
		}
		w.clients--
	})
}

// find returns a node to turn to; nil: there is none.
func (c *client) find() *node {
	if c.home.usable() && !c.w.chance(10) {
		return c.home
	}
	n := c.w.nodes[c.w.s.dice.IntN(len(c.w.nodes))]
	if n.usable() {
		return n
	}
	return nil
}

// on runs f as a thread of n's process, and reports whether that process was still the same at its end.
func (c *client) on(n *node, f func(*headwater.Store)) bool {
	life, t := n.life, c.w.s.current
	t.owner = n.g
	f(n.store)
	t.owner = c.g
	return n.life == life && !n.down
}

// patience is how long one call may take.
func (c *client) patience() time.Duration {
	if c.waits > 0 {
		return c.waits
	}
	switch dice := c.w.s.dice.IntN(100); {
	case dice < 10:
		return c.w.between(time.Millisecond, 50*time.Millisecond)
	case dice < 30: // for ever: whoever forgets such a call is found out
		return time.Hour
	}
	return c.w.between(time.Second, 15*time.Second)
}

// work proposes some commands until each has its answer.
func (c *client) work() {
	n := c.find()
	if n == nil {
		return
	}
	var todo []meta.Proposal
	count := 1
	if c.w.chance(20) {
		count += c.w.s.dice.IntN(5)
	}
	oldest := c.sequence + 1
	for range count {
		p := meta.Proposal{Command: c.command(n)}
		if _, renew := p.Command.(meta.RenewNode); !renew && (needsRequest(p.Command) || !c.w.chance(15)) {
			p.Request = &meta.Request{Client: c.id, Sequence: c.sequence + 1, Oldest: oldest}
		}
		if meta.Validate(p) != nil {
			continue
		}
		if p.Request != nil {
			c.sequence++
		}
		todo = append(todo, p)
	}
	for tries := 0; len(todo) > 0; tries++ {
		if tries > 0 {
			c.w.s.sleep(c.w.between(0, 300*time.Millisecond))
			if n = c.find(); n == nil {
				continue
			}
		}
		todo = c.propose(n, todo)
	}
}

func needsRequest(c meta.Command) bool {
	switch c.(type) {
	case meta.PrepareObjects, meta.Atomic:
		return true
	}
	return false
}

// propose sends the proposals once through n and returns those to be sent again.
func (c *client) propose(n *node, todo []meta.Proposal) (again []meta.Proposal) {
	w := c.w
	commands := make([][]byte, len(todo))
	for i := range todo {
		w.stamp++
		todo[i].Stamp = w.stamp // so that no two sendings are the same bytes
		commands[i], _ = meta.AppendProposal(nil, todo[i])
		w.h.calls[string(commands[i])] = place{int(w.stamp) - i, i}
	}
	patience := c.patience()
	w.pending++
	var answers []meta.Answer
	alive := c.on(n, func(store *headwater.Store) {
		ctx, cancel := w.s.timeout(ctxRoot, n.g, patience)
		defer cancel()
		answers = store.Propose(ctx, todo...)
	})
	w.pending--
	w.counts["commands"] += len(todo)
	for i, p := range todo {
		if !alive { // nobody heard what it said
			if p.Request != nil {
				again = append(again, p)
			}
			continue
		}
		w.note("client %d on %s: %s: %s", c.number, n.name(), named(p.Command), told(answers[i]))
		if c.unsettled(n, p, commands[i], answers[i]) && p.Request != nil {
			again = append(again, p)
		}
	}
	return again
}

// told is an answer in a few words.
func told(a meta.Answer) string {
	word := [...]string{"", "applied", "redundant", "rejected"}[a.Status]
	switch {
	case a.Status == 0:
		return fmt.Sprint(a.Err)
	case a.Status == meta.Rejected:
		return fmt.Sprintf("rejected %v in row %d", meta.CodeOf(a.Err), a.Index)
	case a.FirstIndex != a.Index:
		return fmt.Sprintf("%s in row %d, first in row %d %+v", word, a.Index, a.FirstIndex, a.Result)
	}
	return fmt.Sprintf("%s in row %d %+v", word, a.Index, a.Result)
}

// unsettled checks an answer, and reports whether the command has to be sent again.
func (c *client) unsettled(n *node, p meta.Proposal, command []byte, a meta.Answer) bool {
	w := c.w
	switch {
	case n.astray: // it may say anything until it has found out; and then it must halt
		return a.Status == 0
	case a.Status != 0 && a.Index > 0:
		if v := n.store.View(); v.Index < oplog.Index(a.Index) {
			w.check(fmt.Errorf("own writes: %s answered of row %d and shows row %d", n.name(), a.Index, v.Index))
		}
		w.check(w.h.answered(n.here, command, a))
		w.acked = max(w.acked, oplog.Index(a.Index))
		w.counts["answered"]++
		c.learn(n, p.Command, a)
		return false
	case a.Status != 0: // refused by its limits, before it was appended
		w.check(w.h.never(command, a.Err))
		return false
	case a.Err == nil:
		w.check(fmt.Errorf("%s answered a proposal with nothing", n.name()))
		return false
	case errors.Is(a.Err, meta.ErrOutcomeUnknown):
		w.count("unknown outcome")
		return true
	}
	w.check(w.h.never(command, a.Err))
	return true
}

// learn notes at which epoch a process has registered.
func (c *client) learn(n *node, cmd meta.Command, a meta.Answer) {
	r, ok := cmd.(meta.RegisterNode)
	if ok && a.Status != meta.Rejected && r.NodeID == uint64(n.id) && r.Instance == n.instance {
		n.epoch = a.Result.(meta.RegisterNodeResult).Epoch
	}
}

// linearize asks for a view that holds everything of which anybody was told before.
func (c *client) linearize() {
	n := c.find()
	if n == nil {
		return
	}
	w := c.w
	floor, lossy := w.acked, w.lossy
	var v *headwater.View
	var err error
	patience := c.patience()
	w.pending++
	alive := c.on(n, func(store *headwater.Store) {
		ctx, cancel := w.s.timeout(ctxRoot, n.g, patience)
		defer cancel()
		v, err = store.Linearize(ctx)
	})
	w.pending--
	if alive && !n.astray && err == nil && v.Index < floor && lossy == w.lossy {
		w.check(fmt.Errorf("freshness: %s gave a linearizable view at %d, and row %d had been answered before", n.name(), v.Index, floor))
	}
	w.counts["linearizable reads"]++
}

// await waits for a row that is about to come.
func (c *client) await() {
	n := c.find()
	if n == nil || n.view == nil {
		return
	}
	w := c.w
	want := n.view.Index + 1 + oplog.Index(w.s.dice.IntN(3))
	var v *headwater.View
	var err error
	patience := min(c.patience(), 15*time.Second) // the row may never come
	w.pending++
	alive := c.on(n, func(store *headwater.Store) {
		ctx, cancel := w.s.timeout(ctxRoot, n.g, patience)
		defer cancel()
		v, err = store.Wait(ctx, uint64(want))
	})
	w.pending--
	if alive && err == nil && v.Index < want {
		w.check(fmt.Errorf("freshness: %s was asked for row %d and gave a view at %d", n.name(), want, v.Index))
	}
}
