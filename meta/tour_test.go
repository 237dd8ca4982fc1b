package meta_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

// TestTour walks through a whole life: nodes register, streams are opened, filled, compacted, trimmed and handed over,
// a node is fenced and rescued, keys come and go. It is the tour that the command line is tested with, at the level of
// the rules; the state is verified and sent through a snapshot after every step.
func TestTour(t *testing.T) {
	t.Parallel()
	n1, n1b, n2, n3 := at(1, 1), at(1, 2), at(2, 1), at(3, 1)
	filled16 := func(b byte) (out [16]byte) {
		for i := range out {
			out[i] = b
		}
		return out
	}
	reg := func(id, epoch uint64, b byte, address string, l ...string) meta.RegisterNode {
		return meta.RegisterNode{NodeID: id, Epoch: epoch, Instance: filled16(b), Address: address, Labels: labels(l...)}
	}
	slice := func(stream, epoch, start, end, position, length uint64) meta.Slice {
		return meta.Slice{StreamID: stream, StreamEpoch: epoch, StartOffset: start, EndOffset: end, Position: position, Length: length}
	}
	object := func(id, size uint64, slices ...meta.Slice) meta.Object {
		return meta.Object{ObjectID: id, Size: size, Slices: slices}
	}
	commit := func(by meta.Identity, objects ...meta.Object) meta.CommitObjects {
		return meta.CommitObjects{Identity: by, Objects: objects}
	}
	compact := func(objects ...meta.Object) meta.CompactObjects {
		return meta.CompactObjects{Identity: n2, Sources: []uint64{1, 2}, Objects: objects}
	}
	closeFor := func(by meta.Identity) meta.CloseStream {
		return meta.CloseStream{Identity: by, OnBehalfOf: 1, StreamID: 2, Epoch: 1}
	}
	put := func(value string, ifAbsent bool, ifVersion uint64) meta.PutKey {
		return meta.PutKey{Key: "topics/orders", Value: []byte(value), IfAbsent: ifAbsent, IfVersion: ifVersion}
	}
	orders := meta.CreateStream{Identity: n1, Name: "orders-0"}
	first := object(1, 1000, slice(1, 1, 0, 100, 0, 600), slice(2, 1, 0, 40, 600, 400))
	both := []meta.Slice{slice(1, 1, 0, 200, 0, 1600), slice(2, 1, 0, 40, 1600, 400)}
	const deadline = 4102444800000
	prepare := func(by meta.Identity, count uint64) meta.PrepareObjects {
		return meta.PrepareObjects{Identity: by, Count: count, Deadline: deadline}
	}

	c := newWorld(t)
	for i, step := range []struct {
		client byte // of the request, whose sequence and oldest are 1; 0: none
		cmd    meta.Command
		want   string
		result meta.Result // nil: not looked at
	}{
		{0, reg(1, 1, 1, "10.0.0.1:9092", "zone", "a"), "applied", meta.RegisterNodeResult{Epoch: 1}},
		{0, reg(1, 1, 1, "10.0.0.1:9092", "zone", "a"), "redundant", meta.RegisterNodeResult{Epoch: 1}},
		{0, reg(1, 1, 9, "10.0.0.9:9092"), "NODE_EPOCH_STALE", nil},
		{0, reg(2, 0, 2, "10.0.0.2:9092", "zone", "b"), "applied", meta.RegisterNodeResult{Epoch: 1}},
		{0, reg(3, 0, 3, ""), "applied", nil},
		{0, orders, "applied", meta.CreateStreamResult{StreamID: 1}},
		{0, orders, "redundant", meta.CreateStreamResult{StreamID: 1}},
		{0, meta.CreateStream{Identity: n1, Name: "orders-0", Labels: labels("x", "y")}, "STREAM_EXISTS", nil},
		{0, meta.CreateStream{Identity: n1, Name: "orders-1"}, "applied", meta.CreateStreamResult{StreamID: 2}},
		{0, meta.CreateStream{Identity: at(7, 1), Name: "nope"}, "NODE_NOT_FOUND", nil},
		{0, openStream(n1, 1, 1), "applied", meta.OpenStreamResult{Epoch: 1}},
		{0, openStream(n1, 1, 1), "redundant", meta.OpenStreamResult{Epoch: 1}},
		{0, openStream(n2, 1, 2), "STREAM_NOT_CLOSED", nil},
		{0, openStream(n1, 2, 0), "applied", meta.OpenStreamResult{Epoch: 1}},
		{0, openStream(n1, 99, 1), "STREAM_NOT_FOUND", nil},
		{0xa1, prepare(n1, 3), "applied", meta.PrepareObjectsResult{FirstObjectID: 1, Count: 3}},
		{0xa1, prepare(n1, 3), "redundant", meta.PrepareObjectsResult{FirstObjectID: 1, Count: 3}},
		{0, commit(n1, first), "applied", nil},
		{0, commit(n1, first), "redundant", nil},
		{0, commit(n1, object(1, 1000, slice(1, 1, 0, 101, 0, 600))), "OBJECT_EXISTS", nil},
		{0, commit(n1, object(2, 1000, slice(1, 1, 101, 200, 0, 1000))), "OFFSET_MISMATCH", nil},
		{0, commit(n2, object(2, 1000, slice(1, 1, 100, 200, 0, 1000))), "OBJECT_NOT_OWNED", nil},
		{0, commit(n1, object(2, 1000, slice(1, 1, 100, 200, 0, 1000))), "applied", nil},
		{0, commit(n1, object(77, 1000, slice(1, 1, 200, 201, 0, 1))), "OBJECT_NOT_FOUND", nil},
		{0xa2, prepare(n2, 1), "applied", meta.PrepareObjectsResult{FirstObjectID: 4, Count: 1}},
		{0, compact(object(4, 2000, both[0])), "COVERAGE_MISMATCH", nil},
		{0, compact(object(4, 2000, both...)), "applied", nil},
		{0, compact(object(4, 2000, both...)), "redundant", nil},
		{0, trimStream(n1, 1, 1, 50), "applied", meta.TrimStreamResult{StartOffset: 50, EndOffset: 200}},
		{0, trimStream(n1, 1, 1, 50), "redundant", meta.TrimStreamResult{StartOffset: 50, EndOffset: 200}},
		{0, trimStream(n2, 1, 1, 60), "STREAM_NOT_OWNED", nil},
		{0, reg(1, 0, 11, "10.0.0.1:9092"), "applied", meta.RegisterNodeResult{Epoch: 2, OwnedStreams: 2}},
		{0, commit(n1, object(3, 1000, slice(1, 1, 200, 210, 0, 10))), "NODE_EPOCH_STALE", nil},
		{0, openStream(n1b, 1, 2), "applied", meta.OpenStreamResult{Epoch: 2, StartOffset: 50, EndOffset: 200}},
		{0, recordTransfer(n1b, 1, 2, 2, 190), "OFFSET_MISMATCH", nil},
		{0, recordTransfer(n1b, 1, 2, 2, 225), "applied", meta.RecordTransferResult{StartOffset: 200, Boundary: 225}},
		{0, recordTransfer(n1b, 1, 2, 2, 225), "redundant", meta.RecordTransferResult{StartOffset: 200, Boundary: 225}},
		{0, openStream(n3, 1, 3), "STREAM_RESERVED", nil},
		{0, openStream(n2, 1, 3), "applied", meta.OpenStreamResult{Epoch: 3, StartOffset: 50, EndOffset: 225}},
		{0xa3, prepare(n1b, 2), "applied", meta.PrepareObjectsResult{FirstObjectID: 5, Count: 2}},
		{0, commit(n1b, object(5, 1000, slice(1, 2, 200, 230, 0, 30))), "OFFSET_MISMATCH", nil},
		{0, commit(n1b, object(5, 1000, slice(1, 2, 200, 225, 0, 25))), "applied", nil},
		{0, fenceNode(1, 2, n3), "applied", nil},
		{0, fenceNode(1, 2, n3), "redundant", nil},
		{0, fenceNode(1, 2, n2), "NODE_CLAIMED", nil},
		{0, meta.CreateStream{Identity: n1b, Name: "late"}, "NODE_FENCED", nil},
		{0, closeFor(n2), "NODE_NOT_CLAIMED", nil},
		{0, closeFor(n3), "applied", meta.CloseStreamResult{EndOffset: 40}},
		{0, closeFor(n3), "redundant", meta.CloseStreamResult{EndOffset: 40}},
		{0, openStream(n3, 2, 1), "STREAM_EPOCH_STALE", nil},
		{0, openStream(n3, 2, 2), "applied", meta.OpenStreamResult{Epoch: 2, EndOffset: 40}},
		{0, put("v1", true, 0), "applied", nil},
		{0, put("v1", true, 0), "redundant", nil},
		{0, put("v2", true, 0), "KEY_EXISTS", nil},
		{0, put("v2", false, 1), "KEY_VERSION_MISMATCH", nil},
		{0xa4, put("v2", false, 0), "applied", nil},
		{0, put("v3", false, 0), "applied", nil},
		{0xa4, put("v2", false, 0), "redundant", nil},
		{0xa4, put("v9", false, 0), "REQUEST_REUSED", nil},
		{0, meta.DeleteKey{Key: "topics/orders"}, "applied", nil},
		{0, meta.DeleteKey{Key: "topics/orders"}, "redundant", nil},
		{0, meta.ForgetObjects{ObjectIDs: []uint64{4}}, "OBJECT_IN_USE", nil},
		{0, meta.ForgetObjects{ObjectIDs: []uint64{1, 2}}, "applied", meta.ForgetObjectsResult{Forgotten: 2}},
		{0, meta.ForgetObjects{ObjectIDs: []uint64{1, 2}}, "redundant", nil},
		{0, closeStream(n3, 2, 2), "applied", nil},
		{0, meta.DeleteStream{StreamID: 2, Epoch: 2}, "applied", nil},
		{0, meta.DeleteStream{StreamID: 2, Epoch: 2}, "redundant", nil},
		{0, meta.CreateStream{Identity: n2, Name: ""}, "INVALID_ARGUMENT", nil},
		{0, commit(n2, object(3, 1000, slice(1, 3, 30, 20, 0, 1))), "INVALID_ARGUMENT", nil},
	} {
		p := meta.Proposal{Command: step.cmd}
		if step.client != 0 {
			p.Request = &meta.Request{Client: filled16(step.client), Sequence: 1, Oldest: 1}
		}
		a := c.propose(p)
		if got := ending(a); got != step.want {
			t.Fatalf("line %d, %T, ends as %s (%v), want %s", i+1, step.cmd, got, a.Err, step.want)
		}
		if diff := cmp.Diff(step.result, a.Result); step.result != nil && diff != "" {
			t.Errorf("line %d, %T, result (-want +got):\n%s", i+1, step.cmd, diff)
		}
		c.verify()
		again, err := throughSnapshot(c.s)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if again.Digest() != c.s.Digest() {
			t.Fatalf("line %d: a snapshot has another digest", i+1)
		}
		c.s = again
	}
}
