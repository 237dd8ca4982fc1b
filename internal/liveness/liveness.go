// Package liveness watches the nodes of a cluster and fences those that gave no sign of life for a time-to-live.
//
// It decides by its own monotonic clock alone: a node lives as long as its renewal counter moves. No wall clock is
// read, none is compared, and the state holds no time. The fence is proposed with the counter that stood still as its
// condition, so that a renewal that came in between wins, however late, paused or confused the observer is. Several
// observers may run at once; they fence the same node once.
//
// It is not needed for safety, and does not take over what a fenced node owned: the other nodes do that.
package liveness

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/headwaterdb/headwater/meta"
)

// Cluster is what an observer needs of the node that it runs on. Its functions may be called from one goroutine only.
type Cluster struct {
	// Nodes returns the nodes of the current state, and whether that is known to be up to date. While it is not, a
	// counter that stands still proves nothing: no time is counted then.
	Nodes func() (nodes iter.Seq[meta.Node], current bool)
	// Proposer carries the fences.
	Proposer meta.Proposer
}

// Options configure an observer.
type Options struct {
	// TTL is how long a counter may stand still. At least MinTTL. Nodes should renew three times in it.
	TTL time.Duration
	// Fenced is told of each fence that was proposed, and how it was answered; nil: nobody is.
	Fenced func(node meta.Node, answer meta.Answer)
}

// MinTTL is the shortest time-to-live: below it, an ordinary pause of a database would look like a dead node.
const MinTTL = time.Second

// Observer watches one cluster. It is used by one goroutine.
type Observer struct {
	cluster Cluster
	o       Options
	seen    map[uint64]sighting // by node id; registered and not fenced ones only
	last    time.Time           // of the previous look; zero: none that counts
	round   uint64
}

// sighting is the newest sign of life of a node.
type sighting struct {
	epoch, renewals uint64
	since           time.Time // when the observer first saw this counter; its monotonic reading is what counts
	round           uint64    // the look at which the node was last there
}

// New returns an observer of c.
func New(c Cluster, o Options) (*Observer, error) {
	if o.TTL < MinTTL {
		return nil, fmt.Errorf("time-to-live of %v: at least %v is needed", o.TTL, MinTTL)
	}
	return &Observer{cluster: c, o: o, seen: map[uint64]sighting{}}, nil
}

// looksPerTTL is how many times within a time-to-live the observer looks: a dead node is fenced at most a tenth late.
const looksPerTTL = 10

// Run watches until ctx ends.
func (ob *Observer) Run(ctx context.Context) {
	ticker := time.NewTicker(ob.o.TTL / looksPerTTL)
	defer ticker.Stop()
	for {
		ob.Look(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Look compares the counters with those of the looks before, at the moment now, and fences the nodes whose counter
// stood still for the time-to-live. now must carry a monotonic reading, as time.Now does.
func (ob *Observer) Look(ctx context.Context, now time.Time) {
	nodes, current := ob.cluster.Nodes()
	if !current {
		ob.last = time.Time{}
		return
	}
	// After a look that did not count, or a pause of this process, every node gets its full time again: the renewals
	// that were held up with us must have a chance to arrive before anyone is judged by them.
	restart := ob.last.IsZero() || now.Sub(ob.last) > ob.o.TTL/2
	ob.last = now
	ob.round++
	var dead []meta.Node
	for n := range nodes {
		if !n.Registered || n.Fenced {
			continue
		}
		s, known := ob.seen[n.ID]
		if !known || restart || s.epoch != n.Epoch || s.renewals != n.Renewals {
			s = sighting{epoch: n.Epoch, renewals: n.Renewals, since: now}
		}
		s.round = ob.round
		ob.seen[n.ID] = s
		if now.Sub(s.since) >= ob.o.TTL {
			dead = append(dead, n)
		}
	}
	for id, s := range ob.seen {
		if s.round != ob.round {
			delete(ob.seen, id)
		}
	}
	ob.fence(ctx, dead)
}

// fence proposes to fence the nodes, in proposals that share rows. No claim is made: any node may claim them later.
func (ob *Observer) fence(ctx context.Context, dead []meta.Node) {
	if len(dead) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ob.o.TTL)
	defer cancel()
	proposals := make([]meta.Proposal, len(dead))
	for i, n := range dead {
		proposals[i] = meta.Proposal{Command: meta.FenceNode{NodeID: n.ID, Epoch: n.Epoch, Renewals: n.Renewals}}
	}
	answers := ob.cluster.Proposer.Propose(ctx, proposals...)
	for i, answer := range answers {
		if ob.o.Fenced != nil {
			ob.o.Fenced(dead[i], answer)
		}
	}
}
