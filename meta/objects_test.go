package meta_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

// cluster applies commands, each as a row of its own, and checks the whole state after each.
type cluster struct {
	t    testing.TB
	s    *meta.State
	sent uint64 // requests
	fast bool   // do not check the state after each row
}

func newCluster(t testing.TB) *cluster { return &cluster{t: t, s: meta.NewState()} }

// proposal wraps a command as its kind demands.
func (c *cluster) proposal(cmd meta.Command) meta.Proposal {
	p := meta.Proposal{Stamp: int64(1000 + c.s.Index()), Command: cmd}
	switch cmd.(type) {
	case meta.PrepareObjects, meta.Atomic:
		c.sent++
		p.Request = &meta.Request{Client: [16]byte{1}, Sequence: c.sent, Oldest: c.sent}
	}
	return p
}

// row applies commands as one row.
func (c *cluster) row(cmds ...meta.Command) []meta.Answer {
	c.t.Helper()
	rows := make([][]byte, len(cmds))
	for i, cmd := range cmds {
		b, err := meta.AppendProposal(nil, c.proposal(cmd))
		if err != nil {
			c.t.Fatalf("encode %+v: %v", cmd, err)
		}
		rows[i] = b
	}
	next, answers, err := c.s.Apply(c.s.Index()+1, rows)
	if err != nil {
		c.t.Fatalf("apply: %v", err)
	}
	c.s = next
	if !c.fast {
		if err := c.s.Verify(); err != nil {
			c.t.Fatalf("after %+v: %v", cmds, err)
		}
	}
	return answers
}

func (c *cluster) do(cmd meta.Command) meta.Answer {
	c.t.Helper()
	return c.row(cmd)[0]
}

// ok applies commands, which all must be applied, and returns the result of the last.
func (c *cluster) ok(cmds ...meta.Command) (r meta.Result) {
	c.t.Helper()
	for _, cmd := range cmds {
		a := c.do(cmd)
		if a.Status != meta.Applied {
			c.t.Fatalf("%+v: %v %v, want applied", cmd, a.Status, a.Err)
		}
		r = a.Result
	}
	return r
}

// verdict says how a command was judged in one word: applied, redundant or the code.
func verdict(a meta.Answer) string {
	switch a.Status {
	case meta.Applied:
		return "applied"
	case meta.Redundant:
		return "redundant"
	}
	return meta.CodeOf(a.Err).String()
}

// Short forms of the commands; every node registers at epoch 1 and stays there.
func by(node uint64) meta.Identity { return meta.Identity{NodeID: node, NodeEpoch: 1} }

func register(node uint64) meta.Command {
	return meta.RegisterNode{NodeID: node, Instance: [16]byte{byte(node), byte(node >> 8), 1}}
}

func create(node uint64, name string) meta.Command {
	return meta.CreateStream{Identity: by(node), Name: name}
}

func open(node, stream uint64) meta.Command {
	return meta.OpenStream{Identity: by(node), StreamID: stream}
}

func prepare(node, count uint64) meta.Command {
	return meta.PrepareObjects{Identity: by(node), Count: count, Deadline: 5000}
}

func trim(node, stream, epoch, start uint64) meta.Command {
	return meta.TrimStream{Identity: by(node), StreamID: stream, Epoch: epoch, StartOffset: start}
}

// sl is a slice of the stream at stream epoch 1.
func sl(stream, start, end uint64) meta.Slice { return sle(stream, 1, start, end) }

func sle(stream, epoch, start, end uint64) meta.Slice {
	return meta.Slice{StreamID: stream, StreamEpoch: epoch, StartOffset: start, EndOffset: end, Position: start, Length: end - start, MaxTimestamp: int64(end)}
}

func obj(id uint64, slices ...meta.Slice) meta.Object {
	return meta.Object{ObjectID: id, Size: 100, Attributes: []byte{byte(id)}, Slices: slices}
}

func commit(node uint64, objects ...meta.Object) meta.Command {
	return meta.CommitObjects{Identity: by(node), Objects: objects}
}

func compact(node uint64, sources []uint64, objects ...meta.Object) meta.Command {
	return meta.CompactObjects{Identity: by(node), Sources: sources, Objects: objects}
}

func reclaim(time int64, limit uint64) meta.Command {
	return meta.ReclaimObjects{Time: time, Limit: limit}
}

func forget(ids ...uint64) meta.Command { return meta.ForgetObjects{ObjectIDs: ids} }

func shut(node, stream, epoch uint64) meta.Command {
	return meta.CloseStream{Identity: by(node), StreamID: stream, Epoch: epoch}
}

func handOver(node, stream, epoch, to, boundary uint64) meta.Command {
	return meta.RecordTransfer{Identity: by(node), StreamID: stream, Epoch: epoch, ToNode: to, Boundary: boundary}
}

// twoNodes has nodes 1 and 2, streams 1 and 2 open by node 1 and stream 3 open by node 2, all at epoch 1, objects 1 to
// 5 prepared by node 1 and 6 to 9 by node 2.
func twoNodes(t testing.TB) *cluster {
	c := newCluster(t)
	c.ok(register(1), register(2), create(1, "a"), create(1, "b"), create(2, "c"), open(1, 1), open(1, 2), open(2, 3),
		prepare(1, 5), prepare(2, 4))
	return c
}

// A step is a command, the verdict that it must get and the result where that is told.
type step struct {
	cmd    meta.Command
	want   string
	result meta.Result // nil: not looked at
}

// script runs the steps on c. A refused or redundant command must leave everything but the index as it was.
func (c *cluster) script(steps []step) {
	c.t.Helper()
	for i, st := range steps {
		before := c.dump()
		a := c.do(st.cmd)
		if got := verdict(a); got != st.want {
			c.t.Fatalf("step %d %+v: %s (%v), want %s", i, st.cmd, got, a.Err, st.want)
		}
		if st.result != nil {
			if diff := cmp.Diff(st.result, a.Result); diff != "" {
				c.t.Fatalf("step %d %+v: result (-want +got):\n%s", i, st.cmd, diff)
			}
		}
		if st.want != "applied" {
			if diff := cmp.Diff(before, c.dump()); diff != "" {
				c.t.Fatalf("step %d %+v: %s, yet it changed (-before +after):\n%s", i, st.cmd, st.want, diff)
			}
		}
	}
}

// dump tells all about streams and objects.
func (c *cluster) dump() (lines []any) {
	c.t.Helper()
	for id := uint64(1); id < 10; id++ {
		if st, ok := c.s.Stream(id); ok {
			lines = append(lines, st)
		}
		lines = append(lines, fmt.Sprintf("find %d: %s", id, c.find(id, 0, 0)))
	}
	for id := uint64(1); id < 20; id++ {
		lines = append(lines, fmt.Sprintf("object %d: %s", id, c.object(id)))
	}
	return lines
}

func (c *cluster) object(id uint64) string {
	c.t.Helper()
	o, ok := c.s.Object(id)
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%s owner=%d slices=%d live=%d committed=%d deletable=%d at %d", o.State, o.Owner, o.SliceCount, o.LiveSlices,
		o.CommittedIndex, o.DeletableIndex, o.DeletableStamp)
}

// find tells in one line what FindObjects answers: object[start,end) for each slice, where it began and stopped, and why.
func (c *cluster) find(stream, start, end uint64) string {
	c.t.Helper()
	f, err := c.s.FindObjects(stream, start, end, 0)
	if err != nil {
		var e *meta.Error
		if !errors.As(err, &e) {
			c.t.Fatalf("find %d: %v is no *Error", stream, err)
		}
		return e.Code.String()
	}
	return foundLine(f)
}

func foundLine(f meta.Found) string {
	s := fmt.Sprintf("%d:", f.StartOffset)
	for _, x := range f.Slices {
		s += fmt.Sprintf(" %d[%d,%d)", x.ObjectID, x.Slice.StartOffset, x.Slice.EndOffset)
	}
	s += fmt.Sprintf(" :%d %s", f.EndOffset, f.Stop)
	switch f.Stop {
	case meta.StopDebt:
		s += fmt.Sprintf(" node %d [%d,%d) epoch %d", f.Debt.NodeID, f.Debt.StartOffset, f.Debt.Boundary, f.Debt.StreamEpoch)
	case meta.StopLoss:
		s += fmt.Sprintf(" [%d,%d)", f.Loss.StartOffset, f.Loss.EndOffset)
	}
	return s
}
