//go:build unix

package nemesis_test

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headwaterdb/headwater/internal/history"
	"github.com/headwaterdb/headwater/meta"
)

// actor is a process of the user's system, as far as the metadata see it: it registers as a node, owns streams, appends to
// them, gives them away, and saves those of nodes that it takes for dead. Two actors share each node id and take each
// other for a predecessor that is dead: what it still does must be refused.
type actor struct {
	*session
	node    uint64
	me      meta.Identity           // as last registered; the other actor may have done so since
	streams map[uint64]*meta.Stream // as last heard of
	nodes   map[uint64]meta.Node    // as last heard of
	objects []uint64                // prepared, and not committed yet as far as known
	debts   []meta.Debt
	unsure  *meta.CommitObjects // whose outcome is unknown
}

// sharedStreams is how many streams all actors share; further ones are created and left alone.
const sharedStreams = 4

func streamName(i int) string { return fmt.Sprintf("stream-%03d", i) }

func (a *actor) step() {
	s := a.streams[1+a.rng.Uint64N(sharedStreams)]
	switch n := a.rng.IntN(100); {
	case a.me.NodeEpoch == 0, n < 3:
		a.register()
	case s == nil || n < 15:
		a.look(1 + a.rng.IntN(sharedStreams))
	case n < 20:
		a.hearNodes(a.read(a.freshness(), history.Read{Nodes: true}))
	case n < 23:
		_, _ = a.read(a.freshness(), history.Read{Slices: s.ID})
	case n < 25:
		a.propose(meta.RenewNode{Identity: a.me})
	case n < 28:
		a.rescue()
	case n < 31:
		a.check(a.propose(meta.TrimStream{Identity: a.me, StreamID: s.ID, Epoch: s.Epoch, StartOffset: s.StartOffset + a.rng.Uint64N(8)}))
	case n < 33:
		a.check(a.propose(meta.PutKey{Identity: a.me, Key: fmt.Sprintf("lock%d/holder", a.rng.IntN(3)), Value: fmt.Appendf(nil, "%d.%d", a.number, a.calls.Load())}))
	case n < 34:
		a.check(a.propose(meta.CreateStream{Identity: a.me, Name: fmt.Sprintf("more-%d-%d", a.number, a.calls.Load())}))
	case n < 40 && len(a.debts) > 0:
		a.pay()
	case s.Owner.NodeID != a.node || !s.Open || n < 42:
		a.open(s)
	case n < 46:
		a.check(a.propose(meta.CloseStream{Identity: a.me, StreamID: s.ID, Epoch: s.Epoch}))
		s.Open = false
	case n < 50:
		a.transfer(s)
	default:
		a.write(s.ID, s.Epoch, s.EndOffset, s.EndOffset+1+a.rng.Uint64N(5), 0)
	}
}

// register begins a new life.
func (a *actor) register() {
	var instance [16]byte
	for i := range instance {
		instance[i] = byte(a.rng.Uint32())
	}
	answer := a.propose(meta.RegisterNode{NodeID: a.node, Instance: instance, Address: fmt.Sprintf("session-%d", a.number)})
	if r, ok := answer.Result.(meta.RegisterNodeResult); ok {
		a.me = meta.Identity{NodeID: a.node, NodeEpoch: r.Epoch}
		a.objects, a.unsure = nil, nil
	}
}

// check looks at an answer: an actor that hears that it is dead goes on for a while, as such processes do, before it
// registers again.
func (a *actor) check(answer meta.Answer) {
	switch meta.CodeOf(answer.Err) {
	case meta.CodeNodeEpochStale, meta.CodeNodeFenced:
		if a.rng.IntN(3) == 0 {
			a.register()
		}
	case meta.CodeOffsetMismatch, meta.CodeStreamEpochStale, meta.CodeStreamEpochUnknown, meta.CodeStreamNotOwned,
		meta.CodeStreamNotOpen, meta.CodeStreamNotClosed:
		a.look(1 + a.rng.IntN(sharedStreams))
	}
}

// look reads one of the shared streams, by number from 1.
func (a *actor) look(number int) {
	got, err := a.read(a.freshness(), history.Read{Streams: streamName(number)})
	for _, r := range got {
		if s, ok := r.(meta.Stream); ok && err == nil {
			a.streams[s.ID] = &s
		}
	}
}

func (a *actor) hearNodes(got []meta.Record, err error) {
	for _, r := range got {
		if n, ok := r.(meta.Node); ok && err == nil {
			a.nodes[n.ID] = n
		}
	}
}

func (a *actor) open(s *meta.Stream) {
	answer := a.propose(meta.OpenStream{Identity: a.me, StreamID: s.ID})
	a.check(answer)
	if r, ok := answer.Result.(meta.OpenStreamResult); ok {
		a.streams[s.ID] = &meta.Stream{ID: s.ID, Epoch: r.Epoch, Open: true, Owner: a.me, StartOffset: r.StartOffset, EndOffset: r.EndOffset}
	}
}

// write appends [start, end) of a stream in an object of its own, for a node that was saved if one is named.
func (a *actor) write(stream, epoch, start, end, onBehalfOf uint64) {
	if a.unsure != nil { // as a writer does that had no answer
		a.commit(*a.unsure)
		return
	}
	if len(a.objects) == 0 {
		answer := a.propose(meta.PrepareObjects{Identity: a.me, Count: 1 + a.rng.Uint64N(3), Deadline: 1})
		a.check(answer)
		r, ok := answer.Result.(meta.PrepareObjectsResult)
		if !ok {
			return
		}
		for i := range r.Count {
			a.objects = append(a.objects, r.FirstObjectID+i)
		}
	}
	object := a.objects[0]
	a.objects = a.objects[1:]
	a.commit(meta.CommitObjects{Identity: a.me, OnBehalfOf: onBehalfOf, Objects: []meta.Object{{ObjectID: object, Size: 10, Slices: []meta.Slice{
		{StreamID: stream, StreamEpoch: epoch, StartOffset: start, EndOffset: end, Length: 10, MaxTimestamp: int64(end)}}}}})
}

func (a *actor) commit(c meta.CommitObjects) {
	answer := a.propose(c)
	a.unsure = nil
	sl := c.Objects[0].Slices[0]
	switch s := a.streams[sl.StreamID]; {
	case answer.Status == 0:
		a.unsure = &c
	case answer.Err == nil && s != nil && s.Epoch == sl.StreamEpoch:
		s.EndOffset = max(s.EndOffset, sl.EndOffset)
	}
	a.check(answer)
}

// transfer gives a stream to another node and keeps some records to be committed later.
func (a *actor) transfer(s *meta.Stream) {
	c := meta.RecordTransfer{Identity: a.me, StreamID: s.ID, Epoch: s.Epoch, ToNode: a.rng.Uint64N(nodeIDs + 1), Boundary: s.EndOffset + a.rng.Uint64N(4)}
	answer := a.propose(c)
	a.check(answer)
	if r, ok := answer.Result.(meta.RecordTransferResult); ok {
		s.Open = false
		a.debts = append(a.debts, meta.Debt{StreamID: s.ID, StreamEpoch: s.Epoch, NodeID: a.node, StartOffset: r.StartOffset, Boundary: r.Boundary})
	}
}

// pay commits a piece of what is owed.
func (a *actor) pay() {
	d := &a.debts[0]
	if d.StartOffset >= d.Boundary {
		a.debts = a.debts[1:]
		return
	}
	end := d.StartOffset + 1 + a.rng.Uint64N(d.Boundary-d.StartOffset)
	epoch, start, stream := d.StreamEpoch, d.StartOffset, d.StreamID
	if d.StartOffset = end; end == d.Boundary {
		a.debts = a.debts[1:]
	}
	a.write(stream, epoch, start, end, 0)
}

// rescue fences a node and closes its streams, one of which it goes on with for a moment.
func (a *actor) rescue() {
	ids := make([]meta.Node, 0, len(a.nodes))
	for _, n := range a.nodes {
		if n.ID != a.node {
			ids = append(ids, n)
		}
	}
	if len(ids) == 0 {
		return
	}
	slices.SortFunc(ids, func(a, b meta.Node) int { return cmp.Compare(a.ID, b.ID) })
	dead := ids[a.rng.IntN(len(ids))]
	answer := a.propose(meta.FenceNode{NodeID: dead.ID, Epoch: dead.Epoch, Rescuer: a.me})
	a.check(answer)
	if answer.Status != meta.Applied && answer.Status != meta.Redundant {
		return
	}
	for id := uint64(1); id <= sharedStreams; id++ {
		if s := a.streams[id]; s != nil && s.Owner.NodeID == dead.ID && s.Open {
			a.write(s.ID, s.Epoch, s.EndOffset, s.EndOffset+1, dead.ID)
			a.check(a.propose(meta.CloseStream{Identity: a.me, OnBehalfOf: dead.ID, StreamID: s.ID, Epoch: s.Epoch}))
		}
	}
}
