package meta_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// churn drives a state with random commands, most of which make sense, so that all kinds of entries come about.
type churn struct {
	t     testing.TB
	rng   *rand.Rand
	s     *meta.State
	rows  [][][]byte // all rows applied so far
	clock int64
	names int
	seq   uint64
}

func newChurn(t testing.TB, seed uint64) *churn {
	return &churn{t: t, rng: rand.New(rand.NewPCG(seed, 77)), s: meta.NewState(), clock: 1_700_000_000_000}
}

// run applies rows of a few random commands each.
func (c *churn) run(rows int) {
	c.t.Helper()
	for range rows {
		var row [][]byte
		for range 1 + c.rng.IntN(6) {
			b, err := meta.AppendProposal(nil, c.proposal())
			if err != nil {
				c.t.Fatalf("encode a command: %v", err)
			}
			row = append(row, b)
		}
		c.apply(row)
	}
}

func (c *churn) apply(row [][]byte) {
	c.t.Helper()
	next, _, err := c.s.Apply(c.s.Index()+1, row)
	if err != nil {
		c.t.Fatalf("apply row %d: %v", c.s.Index()+1, err)
	}
	c.s = next
	c.rows = append(c.rows, row)
}

func (c *churn) proposal() meta.Proposal {
	c.clock += int64(c.rng.IntN(1000))
	p := meta.Proposal{Stamp: c.clock, Command: c.command()}
	switch p.Command.(type) {
	case meta.RenewNode, meta.SetFormat:
		return p
	case meta.PrepareObjects, meta.Atomic:
		p.Request = c.request()
	default:
		if c.rng.IntN(3) == 0 {
			p.Request = c.request()
		}
	}
	return p
}

// request is that of one of a few clients; some repeat a sequence, some raise the oldest.
func (c *churn) request() *meta.Request {
	c.seq++
	r := &meta.Request{Client: [16]byte{byte(1 + c.rng.IntN(5))}, Sequence: c.seq}
	if back := uint64(c.rng.IntN(4)); back < c.seq {
		r.Sequence -= back
	}
	if r.Sequence > 100 {
		r.Oldest = r.Sequence - uint64(c.rng.IntN(100))
	}
	return r
}

func (c *churn) command() meta.Command {
	if c.rng.IntN(12) > 0 {
		return c.simple()
	}
	var a meta.Atomic
	for range 1 + c.rng.IntN(3) {
		switch cmd := c.simple().(type) {
		case meta.RenewNode, meta.SetFormat:
		default:
			a.Commands = append(a.Commands, cmd)
		}
	}
	if len(a.Commands) == 0 {
		return c.simple()
	}
	return a
}

// identity is that of a node as it is registered, or nearly.
func (c *churn) identity() meta.Identity {
	id := meta.Identity{NodeID: uint64(1 + c.rng.IntN(5)), NodeEpoch: 1}
	if n, ok := c.s.Node(id.NodeID); ok {
		id.NodeEpoch = n.Epoch
	}
	return id
}

// identityOf is that of a node id at its present epoch.
func (c *churn) identityOf(id uint64) meta.Identity {
	n, _ := c.s.Node(id)
	return meta.Identity{NodeID: max(id, 1), NodeEpoch: max(n.Epoch, 1)}
}

func (c *churn) labels() []meta.Label {
	var l []meta.Label
	for _, name := range []string{"rack", "team", "zone"} {
		if c.rng.IntN(2) == 0 {
			l = append(l, meta.Label{Name: name, Value: fmt.Sprint(c.rng.IntN(3))})
		}
	}
	return l
}

// stream is a random live stream, if one is met.
func (c *churn) stream() meta.Stream {
	for range 5 {
		if st, ok := c.s.Stream(uint64(1 + c.rng.IntN(c.names+1))); ok {
			return st
		}
	}
	return meta.Stream{ID: 1}
}

func (c *churn) simple() meta.Command {
	id, st := c.identity(), c.stream()
	owner := c.identityOf(st.Owner.NodeID)
	switch c.rng.IntN(30) {
	case 0, 1:
		return meta.RegisterNode{NodeID: id.NodeID, Instance: [16]byte{1, byte(c.rng.Uint32()), byte(c.rng.Uint32())},
			Address: "10.0.0.1:70", Labels: c.labels(), FormatLevel: 1}
	case 2:
		return meta.RenewNode{Identity: id}
	case 3:
		if c.rng.IntN(3) > 0 {
			return meta.RenewNode{Identity: id}
		}
		return meta.UnregisterNode{NodeID: id.NodeID, Epoch: id.NodeEpoch}
	case 4:
		f := c.identity()
		if f.NodeID == id.NodeID || c.rng.IntN(4) > 0 {
			return meta.RenewNode{Identity: id}
		}
		return meta.FenceNode{NodeID: f.NodeID, Epoch: f.NodeEpoch, Rescuer: id}
	case 5, 6:
		c.names++
		return meta.CreateStream{Identity: id, Name: fmt.Sprintf("%s/%d", []string{"a", "b", "ab"}[c.rng.IntN(3)], c.names), Labels: c.labels()}
	case 7, 8, 9:
		if st.ReservedFor != 0 {
			id = c.identityOf(st.ReservedFor)
		}
		return meta.OpenStream{Identity: id, StreamID: st.ID}
	case 10:
		return meta.CloseStream{Identity: owner, StreamID: st.ID, Epoch: st.Epoch}
	case 11:
		return meta.TrimStream{Identity: owner, StreamID: st.ID, Epoch: st.Epoch,
			StartOffset: st.StartOffset + c.rng.Uint64N(st.EndOffset-st.StartOffset+1)}
	case 12:
		return meta.LabelStream{StreamID: st.ID, Labels: c.labels()}
	case 13:
		if st.Open {
			return meta.CheckKey{Key: "k", IfAbsent: true}
		}
		return meta.DeleteStream{StreamID: st.ID, Epoch: st.Epoch}
	case 14, 15:
		return meta.RecordTransfer{Identity: owner, StreamID: st.ID, Epoch: st.Epoch,
			ToNode: uint64(c.rng.IntN(6)), Boundary: st.EndOffset + uint64(c.rng.IntN(50))}
	case 16:
		return meta.ForceCloseStream{StreamID: st.ID, Epoch: st.Epoch, WriteOff: c.rng.IntN(2) == 0, Reason: "test"}
	case 17, 18:
		return meta.PrepareObjects{Identity: id, Count: uint64(1 + c.rng.IntN(4)), Deadline: c.clock + int64(c.rng.IntN(20000))}
	case 19, 20, 21, 22, 23:
		return c.commit()
	case 24:
		return c.compact(id)
	case 25:
		if c.rng.IntN(3) > 0 {
			return meta.CheckKey{Key: "k", IfAbsent: true}
		}
		return meta.ReclaimObjects{Time: c.clock, Limit: uint64(1 + c.rng.IntN(8))}
	case 26:
		return c.forget()
	case 27:
		return meta.DeleteKey{Key: fmt.Sprintf("k%d", c.rng.IntN(40))}
	case 28:
		return meta.SetFormat{Level: 2}
	default:
		return meta.PutKey{Key: fmt.Sprintf("k%d", c.rng.IntN(40)), Value: []byte(fmt.Sprint(c.rng.IntN(9)))}
	}
}

// commit commits a prepared object with slices of streams that its owner owns or owes.
func (c *churn) commit() meta.Command {
	p, err := c.s.Objects(meta.ObjectFilter{State: meta.ObjectPrepared}, "", 0)
	if err != nil || len(p.Items) == 0 {
		return meta.ReclaimObjects{Time: c.clock, Limit: 1}
	}
	o := p.Items[c.rng.IntN(len(p.Items))]
	out := meta.Object{ObjectID: o.ID, Size: 1000, Attributes: []byte{1, 2}}
	at := uint64(0)
	add := func(stream, epoch, start, n uint64) {
		out.Slices = append(out.Slices, meta.Slice{StreamID: stream, StreamEpoch: epoch, StartOffset: start,
			EndOffset: start + n, Position: at, Length: n, MaxTimestamp: c.clock - int64(c.rng.IntN(5000))})
		at += n
	}
	owned, err := c.s.StreamsByOwner(o.Owner, "", 0)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, st := range owned.Items {
		if st.Debts == 0 && c.rng.IntN(2) == 0 {
			end := st.EndOffset
			for range 1 + c.rng.IntN(2) {
				n := uint64(1 + c.rng.IntN(30))
				add(st.ID, st.Epoch, end, n)
				end += n
			}
		}
	}
	debts, err := c.s.Debts(meta.DebtFilter{NodeID: o.Owner}, "", 3)
	if err != nil {
		c.t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for _, d := range debts.Items {
		if !seen[d.StreamID] && c.rng.IntN(2) == 0 {
			add(d.StreamID, d.StreamEpoch, d.StartOffset, 1+c.rng.Uint64N(d.Boundary-d.StartOffset))
		}
		seen[d.StreamID] = true
	}
	return meta.CommitObjects{Identity: c.identityOf(o.Owner), Objects: []meta.Object{out}}
}

// compact replaces a committed object by a prepared one with the same live slices.
func (c *churn) compact(id meta.Identity) meta.Command {
	from, err := c.s.Objects(meta.ObjectFilter{State: meta.ObjectCommitted, WithSlices: true}, "", 0)
	if err != nil {
		c.t.Fatal(err)
	}
	to, err := c.s.Objects(meta.ObjectFilter{State: meta.ObjectPrepared}, "", 0)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(from.Items) == 0 || len(to.Items) == 0 {
		return meta.ReclaimObjects{Time: c.clock, Limit: 1}
	}
	source, target := from.Items[c.rng.IntN(len(from.Items))], to.Items[0]
	out := meta.Object{ObjectID: target.ID, Size: 500}
	for _, sl := range source.Slices {
		if st, ok := c.s.Stream(sl.StreamID); ok && sl.EndOffset > st.StartOffset {
			out.Slices = append(out.Slices, sl)
		}
	}
	compact := meta.CompactObjects{Identity: c.identityOf(target.Owner), Sources: []uint64{source.ID}}
	if len(out.Slices) > 0 {
		compact.Objects = []meta.Object{out}
	}
	return compact
}

func (c *churn) forget() meta.Command {
	p, err := c.s.Objects(meta.ObjectFilter{State: meta.ObjectDeletable}, "", 4)
	if err != nil || len(p.Items) == 0 {
		return meta.ReclaimObjects{Time: c.clock, Limit: 10}
	}
	var f meta.ForgetObjects
	for _, o := range p.Items {
		f.ObjectIDs = append(f.ObjectIDs, o.ID)
	}
	return f
}
