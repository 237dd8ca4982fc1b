package meta_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

// one is nodes 1 to 3 and stream 1, never opened; opened is the same with stream 1 open by node 1 at epoch 1.
var (
	one    = append(nodes[:3:3], createStream("a"))
	opened = append(one[:4:4], openStream(at(1, 1), 1, 0))
)

// filled commits [0, end) to stream 1, which node 1 has open at epoch 1 and which is empty.
func filled(end uint64) []meta.Command {
	return []meta.Command{prepareObjects(at(1, 1), 1), commitSlice(at(1, 1), 1, 1, 1, 0, end)}
}

func then(first []meta.Command, more ...meta.Command) []meta.Command {
	return append(first[:len(first):len(first)], more...)
}

func TestCreateStream(t *testing.T) {
	t.Parallel()
	labelled := func(pairs ...string) meta.CreateStream {
		return meta.CreateStream{Identity: at(1, 1), Name: "a", Labels: labels(pairs...)}
	}
	runClauses(t, nodes, []clause{
		{name: "ids from 1 upward, closed, epoch 0, offsets 0", given: []meta.Command{createStream("b")}, cmd: labelled("k", "v"), want: "applied",
			result: meta.CreateStreamResult{StreamID: 2}, check: func(t *testing.T, c *world) {
				if diff := cmp.Diff(meta.Stream{ID: 2, Name: "a", Labels: labels("k", "v")}, c.stream(2)); diff != "" {
					t.Error(diff)
				}
			}},
		{name: "identity first", given: []meta.Command{createStream("a")}, cmd: meta.CreateStream{Identity: at(9, 1), Name: "a"}, want: "NODE_NOT_FOUND"},
		{name: "identity first, before other labels", given: []meta.Command{createStream("a"), registerNode(1, "1b")}, cmd: labelled("k", "v"), want: "NODE_EPOCH_STALE"},
		{name: "name known with equal labels: redundant with its id", given: []meta.Command{createStream("b"), labelled("k", "v")}, cmd: labelled("k", "v"), want: "redundant",
			result: meta.CreateStreamResult{StreamID: 2}},
		{name: "by another node too", given: []meta.Command{createStream("a")}, cmd: meta.CreateStream{Identity: at(2, 1), Name: "a"}, want: "redundant",
			result: meta.CreateStreamResult{StreamID: 1}},
		{name: "name known with others", given: []meta.Command{labelled("k", "v")}, cmd: labelled("k", "w"), want: "STREAM_EXISTS"},
		{name: "name known with fewer", given: []meta.Command{labelled("k", "v")}, cmd: createStream("a"), want: "STREAM_EXISTS"},
		{name: "labels are those of now", given: []meta.Command{createStream("a"), meta.LabelStream{StreamID: 1, Labels: labels("k", "v")}}, cmd: labelled("k", "v"), want: "redundant"},
		{name: "the name of a deleted stream is free, its id is not used again", given: []meta.Command{createStream("a"), meta.DeleteStream{StreamID: 1}}, cmd: createStream("a"), want: "applied",
			result: meta.CreateStreamResult{StreamID: 2}},
		{name: "name missing", cmd: createStream(""), want: "INVALID_ARGUMENT"},
	})
}

func TestOpenStream(t *testing.T) {
	t.Parallel()
	owing := then(opened, recordTransfer(at(1, 1), 1, 1, 2, 10)) // reserved for node 2, node 1 owes [0, 10)
	restarted := then(opened, registerNode(1, "1b"))
	result := func(epoch, start, end uint64) meta.Result {
		return meta.OpenStreamResult{Epoch: epoch, StartOffset: start, EndOffset: end}
	}
	runClauses(t, nil, []clause{
		{name: "epoch 0: current + 1", given: one, cmd: openStream(at(1, 1), 1, 0), want: "applied", result: result(1, 0, 0), check: func(t *testing.T, c *world) {
			s := c.stream(1)
			if !s.Open || s.Owner != at(1, 1) || s.Epoch != 1 || s.Ranges != 1 {
				t.Errorf("got %+v", s)
			}
			want := []meta.Range{{StreamID: 1, Epoch: 1, NodeID: 1}}
			if diff := cmp.Diff(want, c.ranges(1)); diff != "" {
				t.Error(diff)
			}
		}},
		{name: "any higher epoch", given: one, cmd: openStream(at(1, 1), 1, 9), want: "applied", result: result(9, 0, 0)},
		{name: "identity first", given: one, cmd: openStream(at(9, 1), 7, 0), want: "NODE_NOT_FOUND"},
		{name: "never handed out", given: one, cmd: openStream(at(1, 1), 2, 0), want: "STREAM_NOT_FOUND"},
		{name: "id 0", given: one, cmd: openStream(at(1, 1), 0, 0), want: "STREAM_NOT_FOUND"},
		{name: "deleted", given: then(one, meta.DeleteStream{StreamID: 1}), cmd: openStream(at(1, 1), 1, 0), want: "STREAM_NOT_FOUND"},
		{name: "epoch 0, open by this node and node epoch: redundant", given: opened, cmd: openStream(at(1, 1), 1, 0), want: "redundant", result: result(1, 0, 0)},
		{name: "epoch 0, open by this node at an older node epoch: opened anew", given: restarted, cmd: openStream(at(1, 2), 1, 0), want: "applied", result: result(2, 0, 0)},
		{name: "epoch 0, open by another node", given: opened, cmd: openStream(at(2, 1), 1, 0), want: "STREAM_NOT_CLOSED"},
		{name: "epoch below", given: then(one, openStream(at(1, 1), 1, 5)), cmd: openStream(at(1, 1), 1, 4), want: "STREAM_EPOCH_STALE"},
		{name: "equal, open by the same node and node epoch: redundant", given: opened, cmd: openStream(at(1, 1), 1, 1), want: "redundant", result: result(1, 0, 0)},
		{name: "equal, open by the same node at an older node epoch", given: restarted, cmd: openStream(at(1, 2), 1, 1), want: "STREAM_EPOCH_STALE"},
		{name: "equal, open by another node", given: opened, cmd: openStream(at(2, 1), 1, 1), want: "STREAM_EPOCH_STALE"},
		{name: "equal, closed: a late duplicate never reopens", given: then(opened, closeStream(at(1, 1), 1, 1)), cmd: openStream(at(1, 1), 1, 1), want: "STREAM_EPOCH_STALE"},
		{name: "higher, open by another node", given: opened, cmd: openStream(at(2, 1), 1, 2), want: "STREAM_NOT_CLOSED"},
		{name: "higher, open by this one at its current node epoch", given: opened, cmd: openStream(at(1, 1), 1, 2), want: "STREAM_NOT_CLOSED"},
		{name: "higher, open by this one at an older node epoch", given: restarted, cmd: openStream(at(1, 2), 1, 4), want: "applied", result: result(4, 0, 0)},
		{name: "the epoch goes before the owner", given: opened, cmd: openStream(at(2, 1), 1, 1), want: "STREAM_EPOCH_STALE"},
		{name: "the caller owes data of it", given: owing, cmd: openStream(at(1, 1), 1, 0), want: "STREAM_NOT_CLOSED"},
		{name: "owing goes before the reservation", given: owing, cmd: openStream(at(1, 1), 1, 2), want: "STREAM_NOT_CLOSED"},
		{name: "reserved for another live node", given: owing, cmd: openStream(at(3, 1), 1, 0), want: "STREAM_RESERVED"},
		{name: "reserved for the caller: the reservation is used", given: owing, cmd: openStream(at(2, 1), 1, 0), want: "applied", result: result(2, 0, 10),
			check: func(t *testing.T, c *world) {
				if s := c.stream(1); s.ReservedFor != 0 || s.Transfer != nil || s.Debts != 1 {
					t.Errorf("got %+v", s)
				}
			}},
		{name: "a reservation is for the node, at any epoch", given: then(owing, registerNode(2, "2b")), cmd: openStream(at(2, 2), 1, 0), want: "applied"},
		{name: "reserved for a node that came back", given: then(owing, registerNode(2, "2b")), cmd: openStream(at(3, 1), 1, 0), want: "STREAM_RESERVED"},
		{name: "reserved for a fenced node", given: then(owing, fenceNode(2, 1, meta.Identity{})), cmd: openStream(at(3, 1), 1, 0), want: "applied"},
		{name: "reserved for a node that was fenced and came back", given: then(owing, fenceNode(2, 1, meta.Identity{}), registerNode(2, "2b")), cmd: openStream(at(3, 1), 1, 0), want: "STREAM_RESERVED"},
		{name: "reserved for a node that is gone", given: then(owing, meta.UnregisterNode{NodeID: 2, Epoch: 1}), cmd: openStream(at(3, 1), 1, 0), want: "applied"},
		{name: "transferred to any", given: then(opened, recordTransfer(at(1, 1), 1, 1, 0, 10)), cmd: openStream(at(3, 1), 1, 0), want: "applied", result: result(2, 0, 10)},
		{name: "the caller owes data of another stream only", given: then(owing, createStream("b")), cmd: openStream(at(1, 1), 2, 0), want: "applied"},
		{name: "epochs are used up", given: then(one, openStream(at(1, 1), 1, 1<<63-1), closeStream(at(1, 1), 1, 1<<63-1)), cmd: openStream(at(1, 1), 1, 0), want: "TOO_LARGE"},
		{name: "epoch beyond 2^63", given: one, cmd: openStream(at(1, 1), 1, 1<<63), want: "TOO_LARGE"},
	})
}

func TestOpenStreamRanges(t *testing.T) {
	t.Parallel()
	c := newWorld(t).given(one...)
	c.given(openStream(at(1, 1), 1, 0), closeStream(at(1, 1), 1, 1), openStream(at(2, 1), 1, 0))
	want := []meta.Range{{StreamID: 1, Epoch: 2, NodeID: 2}}
	if diff := cmp.Diff(want, c.ranges(1)); diff != "" {
		t.Fatalf("an empty range is replaced:\n%s", diff)
	}
	// Hand the stream to and fro, ten offsets each time, so that 40 ranges come about.
	for i := range uint64(40) {
		c.given(recordTransfer(at(2-i%2, 1), 1, 2+i, 0, 10*(i+1)), forceCloseStream(1, 2+i, true), openStream(at(1+i%2, 1), 1, 0))
	}
	c.verify()
	got := c.ranges(1)
	if len(got) != 41 {
		t.Fatalf("%d ranges, want 41", len(got))
	}
	for i, r := range got {
		want := meta.Range{StreamID: 1, Epoch: 2 + uint64(i), NodeID: 2 - uint64(i)%2, StartOffset: 10 * uint64(i), EndOffset: 10 * uint64(i+1), Sealed: true}
		if i == 40 {
			want.EndOffset, want.Sealed = 400, false
		}
		if r != want {
			t.Errorf("range %d is %+v, want %+v", i, r, want)
		}
	}
	// A trim touches no range; each open drops 16 that end at or below the start, not the one that reaches above it.
	c.given(trimStream(at(2, 1), 1, 42, 355))
	for i, left := range []int{25, 9, 6, 6} {
		epoch := 42 + uint64(i)
		c.given(forceCloseStream(1, epoch, false), openStream(at(2, 1), 1, 0))
		c.verify()
		if got := len(c.ranges(1)); got != left {
			t.Errorf("after the open at epoch %d: %d ranges, want %d", epoch+1, got, left)
		}
	}
	if r := c.ranges(1)[0]; r.StartOffset != 350 {
		t.Errorf("the first range left is %+v, want the one from 350", r)
	}
}

func TestCloseStream(t *testing.T) {
	t.Parallel()
	claimed := then(opened, fenceNode(1, 1, at(2, 1)))
	onBehalf := func(by meta.Identity, of, stream, epoch uint64) meta.CloseStream {
		return meta.CloseStream{Identity: by, OnBehalfOf: of, StreamID: stream, Epoch: epoch}
	}
	closed := closeStream(at(1, 1), 1, 1)
	runClauses(t, nil, []clause{
		{name: "seals the range at the end", given: then(opened, filled(7)...), cmd: closed, want: "applied", result: meta.CloseStreamResult{EndOffset: 7}, check: func(t *testing.T, c *world) {
			if s := c.stream(1); s.Open || s.Owner != at(1, 1) || s.EndOffset != 7 {
				t.Errorf("got %+v", s)
			}
			if diff := cmp.Diff([]meta.Range{{StreamID: 1, Epoch: 1, NodeID: 1, EndOffset: 7, Sealed: true}}, c.ranges(1)); diff != "" {
				t.Error(diff)
			}
		}},
		{name: "identity first", given: opened, cmd: closeStream(at(9, 1), 7, 1), want: "NODE_NOT_FOUND"},
		{name: "identity: the acting node is fenced", given: then(claimed, fenceNode(2, 1, at(3, 1))), cmd: onBehalf(at(2, 1), 1, 1, 1), want: "NODE_FENCED"},
		{name: "on behalf: claimed", given: claimed, cmd: onBehalf(at(2, 1), 1, 1, 1), want: "applied", result: meta.CloseStreamResult{}},
		{name: "on behalf: claimed by another", given: claimed, cmd: onBehalf(at(3, 1), 1, 1, 1), want: "NODE_NOT_CLAIMED"},
		{name: "on behalf: not fenced", given: opened, cmd: onBehalf(at(2, 1), 1, 1, 1), want: "NODE_NOT_CLAIMED"},
		{name: "on behalf: unknown", given: opened, cmd: onBehalf(at(2, 1), 9, 1, 1), want: "NODE_NOT_CLAIMED"},
		{name: "on behalf of itself", given: opened, cmd: onBehalf(at(1, 1), 1, 1, 1), want: "NODE_NOT_CLAIMED"},
		{name: "on behalf: fenced by an operator", given: then(opened, fenceNode(1, 1, meta.Identity{})), cmd: onBehalf(at(2, 1), 1, 1, 1), want: "NODE_NOT_CLAIMED"},
		{name: "on behalf: the claim was made at an earlier epoch", given: then(claimed, registerNode(2, "2b")), cmd: onBehalf(at(2, 2), 1, 1, 1), want: "NODE_NOT_CLAIMED"},
		{name: "on behalf: it came back", given: then(claimed, registerNode(1, "1b")), cmd: onBehalf(at(2, 1), 1, 1, 1), want: "NODE_NOT_CLAIMED"},
		{name: "on behalf: the claim goes before the stream", given: opened, cmd: onBehalf(at(2, 1), 1, 9, 1), want: "NODE_NOT_CLAIMED"},
		{name: "on behalf: the rules read the fenced node as the owner", given: then(claimed, createStream2("b"), openStream(at(2, 1), 2, 0)), cmd: onBehalf(at(2, 1), 1, 2, 1), want: "STREAM_NOT_OWNED"},
		{name: "a restarted node closes its open stream", given: then(opened, registerNode(1, "1b")), cmd: closeStream(at(1, 2), 1, 1), want: "applied"},
		{name: "stream check: never handed out", given: opened, cmd: closeStream(at(1, 1), 2, 1), want: "STREAM_NOT_FOUND"},
		{name: "stream check: deleted", given: then(opened, closed, meta.DeleteStream{StreamID: 1, Epoch: 1}), cmd: closed, want: "STREAM_NOT_FOUND"},
		{name: "stream check: epoch below, before the owner", given: then(opened, closed, openStream(at(2, 1), 1, 0)), cmd: closed, want: "STREAM_EPOCH_STALE"},
		{name: "stream check: epoch above, before the owner", given: opened, cmd: closeStream(at(2, 1), 1, 2), want: "STREAM_EPOCH_UNKNOWN"},
		{name: "stream check: owned by another node", given: opened, cmd: closeStream(at(2, 1), 1, 1), want: "STREAM_NOT_OWNED"},
		{name: "stream check: never opened", given: one, cmd: closeStream(at(1, 1), 1, 0), want: "STREAM_NOT_OWNED"},
		{name: "closed: redundant", given: then(opened, closed), cmd: closed, want: "redundant", result: meta.CloseStreamResult{}},
		{name: "the owner goes before closed", given: then(opened, closed), cmd: closeStream(at(2, 1), 1, 1), want: "STREAM_NOT_OWNED"},
	})
}

// createStream2 is createStream by node 2, for states in which node 1 is fenced.
func createStream2(name string) meta.CreateStream {
	return meta.CreateStream{Identity: at(2, 1), Name: name}
}

func TestTrimStream(t *testing.T) {
	t.Parallel()
	full := then(opened, filled(100)...)
	closed := then(full, closeStream(at(1, 1), 1, 1))
	// Node 1 owes [100, 150), node 2 owes [150, 200); node 3 has it open at epoch 3.
	twoDebts := then(full, recordTransfer(at(1, 1), 1, 1, 2, 150), openStream(at(2, 1), 1, 0), recordTransfer(at(2, 1), 1, 2, 3, 200), openStream(at(3, 1), 1, 0))
	offsets := func(start, end uint64) func(*testing.T, *world) {
		return func(t *testing.T, c *world) {
			if s := c.stream(1); s.StartOffset != start || s.EndOffset != end {
				t.Errorf("[%d, %d), want [%d, %d)", s.StartOffset, s.EndOffset, start, end)
			}
		}
	}
	debtsAre := func(want ...meta.Debt) func(*testing.T, *world) {
		return func(t *testing.T, c *world) {
			if diff := cmp.Diff(want, c.debts(meta.DebtFilter{})); diff != "" {
				t.Error(diff)
			}
		}
	}
	debt := func(epoch, node, start, boundary uint64) meta.Debt {
		return meta.Debt{StreamID: 1, StreamEpoch: epoch, NodeID: node, StartOffset: start, Boundary: boundary}
	}
	lost := then(twoDebts, forceCloseStream(1, 3, true), openStream(at(3, 1), 1, 0))
	runClauses(t, nil, []clause{
		{name: "open, by its owner", given: full, cmd: trimStream(at(1, 1), 1, 1, 50), want: "applied", result: meta.TrimStreamResult{StartOffset: 50, EndOffset: 100}, check: offsets(50, 100)},
		{name: "open, by its owner after a restart", given: then(full, registerNode(1, "1b")), cmd: trimStream(at(1, 2), 1, 1, 50), want: "applied"},
		{name: "identity first", given: full, cmd: trimStream(at(9, 1), 9, 1, 50), want: "NODE_NOT_FOUND"},
		{name: "open: never handed out", given: full, cmd: trimStream(at(1, 1), 2, 1, 50), want: "STREAM_NOT_FOUND"},
		{name: "open: epoch below", given: then(closed, openStream(at(1, 1), 1, 0)), cmd: trimStream(at(1, 1), 1, 1, 50), want: "STREAM_EPOCH_STALE"},
		{name: "open: epoch above, before the owner", given: full, cmd: trimStream(at(2, 1), 1, 2, 50), want: "STREAM_EPOCH_UNKNOWN"},
		{name: "open: owned by another", given: full, cmd: trimStream(at(2, 1), 1, 1, 50), want: "STREAM_NOT_OWNED"},
		{name: "open: owned by another goes before redundant", given: then(full, trimStream(at(1, 1), 1, 1, 50)), cmd: trimStream(at(2, 1), 1, 1, 50), want: "STREAM_NOT_OWNED"},
		{name: "closed: any live node may", given: closed, cmd: trimStream(at(2, 1), 1, 1, 50), want: "applied", check: offsets(50, 100)},
		{name: "closed: a fenced one may not", given: then(closed, fenceNode(2, 1, at(3, 1))), cmd: trimStream(at(2, 1), 1, 1, 50), want: "NODE_FENCED"},
		{name: "closed: epoch below", given: then(closed, openStream(at(1, 1), 1, 0), closeStream(at(1, 1), 1, 2)), cmd: trimStream(at(2, 1), 1, 1, 50), want: "STREAM_EPOCH_STALE"},
		{name: "closed: epoch above", given: closed, cmd: trimStream(at(2, 1), 1, 2, 50), want: "STREAM_EPOCH_UNKNOWN"},
		{name: "closed and never opened", given: one, cmd: trimStream(at(2, 1), 1, 0, 50), want: "applied", check: offsets(50, 50)},
		{name: "deleted", given: then(closed, meta.DeleteStream{StreamID: 1, Epoch: 1}), cmd: trimStream(at(1, 1), 1, 1, 50), want: "STREAM_NOT_FOUND"},
		{name: "at the start: redundant", given: then(full, trimStream(at(1, 1), 1, 1, 50)), cmd: trimStream(at(1, 1), 1, 1, 50), want: "redundant", result: meta.TrimStreamResult{StartOffset: 50, EndOffset: 100}},
		{name: "below the start: redundant", given: then(full, trimStream(at(1, 1), 1, 1, 50)), cmd: trimStream(at(1, 1), 1, 1, 49), want: "redundant", result: meta.TrimStreamResult{StartOffset: 50, EndOffset: 100}},
		{name: "to 0: redundant", given: one, cmd: trimStream(at(1, 1), 1, 0, 0), want: "redundant"},
		{name: "beyond the end: moves the end too, also of the last range", given: full, cmd: trimStream(at(1, 1), 1, 1, 300), want: "applied", result: meta.TrimStreamResult{StartOffset: 300, EndOffset: 300},
			check: func(t *testing.T, c *world) {
				if diff := cmp.Diff([]meta.Range{{StreamID: 1, Epoch: 1, NodeID: 1, EndOffset: 300}}, c.ranges(1)); diff != "" {
					t.Error(diff)
				}
			}},
		{name: "below all debts", given: twoDebts, cmd: trimStream(at(3, 1), 1, 3, 100), want: "applied", check: debtsAre(debt(1, 1, 100, 150), debt(2, 2, 150, 200))},
		{name: "raises a debt's start", given: twoDebts, cmd: trimStream(at(3, 1), 1, 3, 120), want: "applied", check: debtsAre(debt(1, 1, 120, 150), debt(2, 2, 150, 200))},
		{name: "ends the debt at it", given: twoDebts, cmd: trimStream(at(3, 1), 1, 3, 150), want: "applied", check: debtsAre(debt(2, 2, 150, 200))},
		{name: "ends one debt and raises another", given: twoDebts, cmd: trimStream(at(3, 1), 1, 3, 151), want: "applied", check: debtsAre(debt(2, 2, 151, 200))},
		{name: "ends all debts", given: twoDebts, cmd: trimStream(at(3, 1), 1, 3, 200), want: "applied", check: debtsAre()},
		{name: "cuts losses", given: lost, cmd: trimStream(at(3, 1), 1, 4, 120), want: "applied", check: func(t *testing.T, c *world) {
			if diff := cmp.Diff([]meta.Loss{{StreamID: 1, StartOffset: 120, EndOffset: 200}}, c.losses(1)); diff != "" {
				t.Error(diff)
			}
		}},
		{name: "ends losses", given: lost, cmd: trimStream(at(3, 1), 1, 4, 200), want: "applied", check: func(t *testing.T, c *world) {
			if got := c.losses(1); len(got) > 0 {
				t.Errorf("losses %v are left", got)
			}
		}},
		{name: "touches no object", given: full, cmd: trimStream(at(1, 1), 1, 1, 100), want: "applied", check: func(t *testing.T, c *world) {
			if o, ok := c.s.Object(1); !ok || o.State != meta.ObjectCommitted || o.LiveSlices != 1 {
				t.Errorf("got %+v", o)
			}
		}},
		{name: "to the largest offset", given: full, cmd: trimStream(at(1, 1), 1, 1, 1<<63-1), want: "applied", check: offsets(1<<63-1, 1<<63-1)},
		{name: "beyond 2^63", given: full, cmd: trimStream(at(1, 1), 1, 1, 1<<63), want: "TOO_LARGE"},
	})
}

func TestLabelStream(t *testing.T) {
	t.Parallel()
	label := func(id uint64, pairs ...string) meta.LabelStream {
		return meta.LabelStream{StreamID: id, Labels: labels(pairs...)}
	}
	runClauses(t, one, []clause{
		{name: "replaces the labels", given: []meta.Command{label(1, "a", "1", "b", "2")}, cmd: label(1, "b", "3"), want: "applied", check: func(t *testing.T, c *world) {
			if diff := cmp.Diff(labels("b", "3"), c.stream(1).Labels); diff != "" {
				t.Error(diff)
			}
			for l, want := range map[meta.Label]int{{Name: "b", Value: "3"}: 1, {Name: "b", Value: "2"}: 0, {Name: "a", Value: "1"}: 0} {
				if p, err := c.s.StreamsByLabel(l, "", 10); err != nil || len(p.Items) != want {
					t.Errorf("%d streams with label %v (%v), want %d", len(p.Items), l, err, want)
				}
			}
		}},
		{name: "unknown", cmd: label(2, "a", "1"), want: "STREAM_NOT_FOUND"},
		{name: "deleted", given: []meta.Command{meta.DeleteStream{StreamID: 1}}, cmd: label(1, "a", "1"), want: "STREAM_NOT_FOUND"},
		{name: "equal: redundant", given: []meta.Command{label(1, "a", "1")}, cmd: label(1, "a", "1"), want: "redundant"},
		{name: "none and none: redundant", cmd: label(1), want: "redundant"},
	})
}

func TestDeleteStream(t *testing.T) {
	t.Parallel()
	remove := func(id, epoch uint64) meta.DeleteStream { return meta.DeleteStream{StreamID: id, Epoch: epoch} }
	closed := then(opened, closeStream(at(1, 1), 1, 1))
	owing := then(opened, recordTransfer(at(1, 1), 1, 1, 2, 10))
	runClauses(t, nil, []clause{
		{name: "gone from all queries", given: then(closed, meta.LabelStream{StreamID: 1, Labels: labels("k", "v")}), cmd: remove(1, 1), want: "applied", check: func(t *testing.T, c *world) {
			_, byID := c.s.Stream(1)
			_, byName := c.s.StreamByName("a")
			byLabel, err := c.s.StreamsByLabel(meta.Label{Name: "k", Value: "v"}, "", 10)
			if byID || byName || err != nil || len(byLabel.Items) > 0 {
				t.Errorf("found by id %v, by name %v, by label %v (%v)", byID, byName, byLabel.Items, err)
			}
		}},
		{name: "without an identity, never opened", given: one, cmd: remove(1, 0), want: "applied"},
		{name: "with an identity", given: closed, cmd: meta.DeleteStream{Identity: at(2, 1), StreamID: 1, Epoch: 1}, want: "applied"},
		{name: "identity first", given: closed, cmd: meta.DeleteStream{Identity: at(9, 1), StreamID: 9}, want: "NODE_NOT_FOUND"},
		{name: "identity: fenced", given: then(closed, fenceNode(2, 1, at(3, 1))), cmd: meta.DeleteStream{Identity: at(2, 1), StreamID: 1, Epoch: 1}, want: "NODE_FENCED"},
		{name: "never handed out", given: one, cmd: remove(2, 0), want: "STREAM_NOT_FOUND"},
		{name: "id 0", given: one, cmd: remove(0, 0), want: "STREAM_NOT_FOUND"},
		{name: "deleted: redundant, whatever the epoch", given: then(closed, remove(1, 1)), cmd: remove(1, 7), want: "redundant"},
		{name: "epoch stale", given: closed, cmd: remove(1, 0), want: "STREAM_EPOCH_STALE"},
		{name: "epoch unknown", given: closed, cmd: remove(1, 2), want: "STREAM_EPOCH_UNKNOWN"},
		{name: "the epoch goes before open", given: opened, cmd: remove(1, 0), want: "STREAM_EPOCH_STALE"},
		{name: "open", given: opened, cmd: remove(1, 1), want: "STREAM_NOT_CLOSED"},
		{name: "debts and reservation go with it", given: owing, cmd: remove(1, 1), want: "applied", check: func(t *testing.T, c *world) {
			if d, n := c.debts(meta.DebtFilter{}), c.node(1); len(d) > 0 || n.OwedDebts != 0 {
				t.Errorf("debts %v are left, node 1 owes %d", d, n.OwedDebts)
			}
		}},
		{name: "its slices wait for ReclaimObjects", given: then(then(opened, filled(9)...), closeStream(at(1, 1), 1, 1)), cmd: remove(1, 1), want: "applied", check: func(t *testing.T, c *world) {
			if o, _ := c.s.Object(1); o.LiveSlices != 1 {
				t.Errorf("object 1 has %d slices that are not released", o.LiveSlices)
			}
			c.given(meta.ReclaimObjects{Limit: 10})
			if o, _ := c.s.Object(1); o.LiveSlices != 0 || o.State != meta.ObjectDeletable {
				t.Errorf("after ReclaimObjects object 1 is %+v", o)
			}
		}},
	})
}
