package meta_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

func TestRecordTransfer(t *testing.T) {
	t.Parallel()
	full := then(opened, filled(100)...)
	sent := then(full, recordTransfer(at(1, 1), 1, 1, 2, 150))
	runClauses(t, nil, []clause{
		{name: "the sender owes [old end, boundary)", given: full, cmd: recordTransfer(at(1, 1), 1, 1, 2, 150), want: "applied",
			result: meta.RecordTransferResult{StartOffset: 100, Boundary: 150}, check: func(t *testing.T, c *world) {
				s := c.stream(1)
				want := meta.Stream{ID: 1, Name: "a", Epoch: 1, Owner: at(1, 1), EndOffset: 150, ReservedFor: 2, Ranges: 1, Debts: 1, Slices: 1,
					Transfer: &meta.Transfer{ToNode: 2, StartOffset: 100, Boundary: 150}}
				if diff := cmp.Diff(want, s); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]meta.Range{{StreamID: 1, Epoch: 1, NodeID: 1, EndOffset: 150, Sealed: true}}, c.ranges(1)); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]meta.Debt{{StreamID: 1, StreamEpoch: 1, NodeID: 1, StartOffset: 100, Boundary: 150}}, c.debts(meta.DebtFilter{NodeID: 1})); diff != "" {
					t.Error(diff)
				}
			}},
		{name: "boundary at the end: no debt", given: full, cmd: recordTransfer(at(1, 1), 1, 1, 2, 100), want: "applied",
			result: meta.RecordTransferResult{StartOffset: 100, Boundary: 100}, check: func(t *testing.T, c *world) {
				if s := c.stream(1); s.Debts != 0 || s.ReservedFor != 2 || s.Open {
					t.Errorf("got %+v", s)
				}
			}},
		{name: "to any: no reservation", given: full, cmd: recordTransfer(at(1, 1), 1, 1, 0, 100), want: "applied", check: func(t *testing.T, c *world) {
			if s := c.stream(1); s.ReservedFor != 0 || s.Transfer == nil {
				t.Errorf("got %+v", s)
			}
		}},
		{name: "by a restarted owner", given: then(full, registerNode(1, "1b")), cmd: recordTransfer(at(1, 2), 1, 1, 2, 100), want: "applied"},
		{name: "to a fenced node", given: then(full, fenceNode(2, 1, at(3, 1))), cmd: recordTransfer(at(1, 1), 1, 1, 2, 100), want: "applied"},
		{name: "identity first", given: full, cmd: recordTransfer(at(9, 1), 9, 1, 2, 150), want: "NODE_NOT_FOUND"},
		{name: "identity: fenced", given: then(full, fenceNode(1, 1, at(2, 1))), cmd: recordTransfer(at(1, 1), 1, 1, 2, 150), want: "NODE_FENCED"},
		{name: "stream check: never handed out", given: full, cmd: recordTransfer(at(1, 1), 2, 1, 2, 150), want: "STREAM_NOT_FOUND"},
		{name: "stream check: epoch below", given: then(full, closeStream(at(1, 1), 1, 1), openStream(at(1, 1), 1, 0)), cmd: recordTransfer(at(1, 1), 1, 1, 2, 150), want: "STREAM_EPOCH_STALE"},
		{name: "stream check: epoch above", given: full, cmd: recordTransfer(at(1, 1), 1, 2, 2, 150), want: "STREAM_EPOCH_UNKNOWN"},
		{name: "stream check: owned by another", given: full, cmd: recordTransfer(at(2, 1), 1, 1, 2, 150), want: "STREAM_NOT_OWNED"},
		{name: "stream check: never opened", given: one, cmd: recordTransfer(at(1, 1), 1, 0, 2, 150), want: "STREAM_NOT_OWNED"},
		{name: "closed: same to and boundary: redundant", given: sent, cmd: recordTransfer(at(1, 1), 1, 1, 2, 150), want: "redundant", result: meta.RecordTransferResult{StartOffset: 100, Boundary: 150}},
		{name: "closed: redundant as at first, where the debt is paid in part", given: then(sent, prepareObjects(at(1, 1), 1), commitSlice(at(1, 1), 2, 1, 1, 100, 120)),
			cmd: recordTransfer(at(1, 1), 1, 1, 2, 150), want: "redundant", result: meta.RecordTransferResult{StartOffset: 100, Boundary: 150}},
		{name: "closed: redundant where the debt was trimmed away", given: then(sent, trimStream(at(2, 1), 1, 1, 200)),
			cmd: recordTransfer(at(1, 1), 1, 1, 2, 150), want: "redundant", result: meta.RecordTransferResult{StartOffset: 100, Boundary: 150}},
		{name: "closed: other boundary", given: sent, cmd: recordTransfer(at(1, 1), 1, 1, 2, 160), want: "OFFSET_MISMATCH"},
		{name: "closed: other boundary, below the end", given: sent, cmd: recordTransfer(at(1, 1), 1, 1, 2, 90), want: "OFFSET_MISMATCH"},
		{name: "closed: other to", given: sent, cmd: recordTransfer(at(1, 1), 1, 1, 3, 150), want: "STREAM_NOT_OPEN"},
		{name: "closed: other boundary goes before other to", given: sent, cmd: recordTransfer(at(1, 1), 1, 1, 3, 160), want: "OFFSET_MISMATCH"},
		{name: "closed: other to goes before unknown to", given: sent, cmd: recordTransfer(at(1, 1), 1, 1, 9, 150), want: "STREAM_NOT_OPEN"},
		{name: "closed otherwise", given: then(full, closeStream(at(1, 1), 1, 1)), cmd: recordTransfer(at(1, 1), 1, 1, 2, 100), want: "STREAM_NOT_OPEN"},
		{name: "closed by an operator", given: then(full, forceCloseStream(1, 1, false)), cmd: recordTransfer(at(1, 1), 1, 1, 2, 100), want: "STREAM_NOT_OPEN"},
		{name: "closed: a write-off forgets the transfer", given: then(sent, forceCloseStream(1, 1, true)), cmd: recordTransfer(at(1, 1), 1, 1, 2, 150), want: "STREAM_NOT_OPEN"},
		{name: "closed: the transfer of an earlier epoch is forgotten", given: then(sent, openStream(at(2, 1), 1, 0), closeStream(at(2, 1), 1, 2)), cmd: recordTransfer(at(2, 1), 1, 2, 2, 150), want: "STREAM_NOT_OPEN"},
		{name: "to unknown", given: full, cmd: recordTransfer(at(1, 1), 1, 1, 9, 150), want: "NODE_NOT_FOUND"},
		{name: "to unregistered", given: then(full, meta.UnregisterNode{NodeID: 2, Epoch: 1}), cmd: recordTransfer(at(1, 1), 1, 1, 2, 150), want: "NODE_NOT_FOUND"},
		{name: "to unknown goes before the boundary", given: full, cmd: recordTransfer(at(1, 1), 1, 1, 9, 50), want: "NODE_NOT_FOUND"},
		{name: "boundary below the end", given: full, cmd: recordTransfer(at(1, 1), 1, 1, 2, 99), want: "OFFSET_MISMATCH"},
		{name: "boundary beyond 2^63", given: full, cmd: recordTransfer(at(1, 1), 1, 1, 2, 1<<63), want: "TOO_LARGE"},
		{name: "the largest boundary", given: full, cmd: recordTransfer(at(1, 1), 1, 1, 2, 1<<63-1), want: "applied", result: meta.RecordTransferResult{StartOffset: 100, Boundary: 1<<63 - 1}},
		{name: "64 debts already", given: indebted(64), cmd: recordTransfer(at(164, 1), 1, 65, 0, 10_000), want: "TOO_MANY_DEBTS"},
		{name: "64 debts already goes after the boundary", given: indebted(64), cmd: recordTransfer(at(164, 1), 1, 65, 0, 1), want: "OFFSET_MISMATCH"},
		{name: "64 debts already, where no other would come", given: indebted(64), cmd: recordTransfer(at(164, 1), 1, 65, 0, 640), want: "TOO_MANY_DEBTS"},
		{name: "63 debts already", given: indebted(63), cmd: recordTransfer(at(163, 1), 1, 64, 0, 10_000), want: "applied", check: func(t *testing.T, c *world) {
			if s := c.stream(1); s.Debts != 64 {
				t.Errorf("%d debts, want 64", s.Debts)
			}
		}},
		{name: "64 debts, one of them trimmed away", given: then(indebted(64), trimStream(at(164, 1), 1, 65, 10)), cmd: recordTransfer(at(164, 1), 1, 65, 0, 10_000), want: "applied"},
	})
}

// indebted hands stream 1 from node to node, so that nodes 100, 101, … owe ten offsets each, and the one after them has
// it open: whoever owes may not open again.
func indebted(debts uint64) []meta.Command {
	cmds := then(one, registerNode(100, "r"), openStream(at(100, 1), 1, 0))
	for i := range debts {
		next := 101 + i
		cmds = then(cmds, recordTransfer(at(next-1, 1), 1, 1+i, 0, 10*(i+1)), registerNode(next, "r"), openStream(at(next, 1), 1, 0))
	}
	return cmds
}

// TestTwoFutures: two rows that are applied to one state, as a dry run and the real one are, know nothing of each other.
func TestTwoFutures(t *testing.T) {
	t.Parallel()
	for debts := range uint64(10) {
		c := newWorld(t).given(indebted(debts)...)
		future := func(boundary uint64) *meta.State {
			next, answers := meta.ApplyProposals(c.s, meta.Proposal{Command: recordTransfer(at(100+debts, 1), 1, 1+debts, 0, boundary)})
			if answers[0].Status != meta.Applied {
				t.Fatal(answers[0].Err)
			}
			return next
		}
		one := future(1000)
		digest := one.Digest()
		two := future(2000)
		if err := one.Verify(); err != nil || one.Digest() != digest {
			t.Fatalf("with %d debts: the one future changed when the other came: %v", debts, err)
		}
		if err := two.Verify(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDebtsOutlastTheirOwner: debts belong to the node id, survive its restart and a half-done rescue.
func TestDebtsOutlastTheirOwner(t *testing.T) {
	t.Parallel()
	c := newWorld(t).given(opened...).given(recordTransfer(at(1, 1), 1, 1, 2, 30), openStream(at(2, 1), 1, 0))
	owes := func(start uint64) {
		t.Helper()
		want := []meta.Debt{{StreamID: 1, StreamEpoch: 1, NodeID: 1, StartOffset: start, Boundary: 30}}
		if diff := cmp.Diff(want, c.debts(meta.DebtFilter{})); diff != "" {
			t.Fatal(diff)
		}
		c.verify()
	}
	c.given(prepareObjects(at(1, 1), 4), commitSlice(at(1, 1), 1, 1, 1, 0, 10))
	owes(10)
	c.given(registerNode(1, "1b"), commitSlice(at(1, 2), 2, 1, 1, 10, 15))
	owes(15)
	c.given(fenceNode(1, 2, at(3, 1)))
	rescue := commitSlice(at(3, 1), 3, 1, 1, 15, 20)
	rescue.OnBehalfOf = 1
	c.given(rescue)
	owes(20)
	c.given(registerNode(1, "1c"))
	if a := c.do(meta.CommitObjects{Identity: at(3, 1), OnBehalfOf: 1, Objects: commitSlice(at(3, 1), 4, 1, 1, 20, 30).Objects}); ending(a) != "NODE_NOT_CLAIMED" {
		t.Fatalf("a rescue goes on after the node came back: %s", ending(a))
	}
	owes(20)
	c.given(commitSlice(at(1, 3), 4, 1, 1, 20, 30))
	if got := c.debts(meta.DebtFilter{}); len(got) > 0 {
		t.Fatalf("debts %v are left", got)
	}
	c.verify()
}

func TestForceCloseStream(t *testing.T) {
	t.Parallel()
	full := then(opened, filled(100)...)
	sent := then(full, recordTransfer(at(1, 1), 1, 1, 2, 150))
	reopened := then(sent, openStream(at(2, 1), 1, 0))
	lossesAre := func(pairs ...uint64) func(*testing.T, *world) {
		return func(t *testing.T, c *world) {
			var want []meta.Loss
			for i := 0; i < len(pairs); i += 2 {
				want = append(want, meta.Loss{StreamID: 1, StartOffset: pairs[i], EndOffset: pairs[i+1]})
			}
			if diff := cmp.Diff(want, c.losses(1)); diff != "" {
				t.Error(diff)
			}
			if s := c.stream(1); s.Open || s.ReservedFor != 0 || s.Transfer != nil || s.Debts != 0 {
				t.Errorf("got %+v", s)
			}
		}
	}
	runClauses(t, nil, []clause{
		{name: "closes", given: full, cmd: forceCloseStream(1, 1, false), want: "applied", result: meta.CloseStreamResult{EndOffset: 100}, check: func(t *testing.T, c *world) {
			if s := c.stream(1); s.Open || s.Owner != at(1, 1) {
				t.Errorf("got %+v", s)
			}
		}},
		{name: "unknown", given: full, cmd: forceCloseStream(2, 1, false), want: "STREAM_NOT_FOUND"},
		{name: "deleted", given: then(one, meta.DeleteStream{StreamID: 1}), cmd: forceCloseStream(1, 0, true), want: "STREAM_NOT_FOUND"},
		{name: "stale", given: reopened, cmd: forceCloseStream(1, 1, true), want: "STREAM_EPOCH_STALE"},
		{name: "unknown epoch", given: full, cmd: forceCloseStream(1, 2, false), want: "STREAM_EPOCH_UNKNOWN"},
		{name: "closed: nothing to do", given: then(full, closeStream(at(1, 1), 1, 1)), cmd: forceCloseStream(1, 1, false), want: "redundant", result: meta.CloseStreamResult{EndOffset: 100}},
		{name: "closed: nothing to write off", given: then(full, closeStream(at(1, 1), 1, 1)), cmd: forceCloseStream(1, 1, true), want: "redundant"},
		{name: "never opened: nothing to do", given: one, cmd: forceCloseStream(1, 0, true), want: "redundant"},
		{name: "leaves debts and reservation alone", given: sent, cmd: forceCloseStream(1, 1, false), want: "redundant", check: func(t *testing.T, c *world) {
			if s := c.stream(1); s.Debts != 1 || s.ReservedFor != 2 || s.Transfer == nil {
				t.Errorf("got %+v", s)
			}
		}},
		{name: "leaves debts alone on an open stream", given: reopened, cmd: forceCloseStream(1, 2, false), want: "applied", check: func(t *testing.T, c *world) {
			if s := c.stream(1); s.Debts != 1 || s.Open {
				t.Errorf("got %+v", s)
			}
		}},
		{name: "write off: debts become losses, the reservation is lifted", given: sent, cmd: forceCloseStream(1, 1, true), want: "applied", result: meta.CloseStreamResult{EndOffset: 150}, check: lossesAre(100, 150)},
		{name: "write off twice: redundant", given: then(sent, forceCloseStream(1, 1, true)), cmd: forceCloseStream(1, 1, true), want: "redundant", check: lossesAre(100, 150)},
		{name: "write off on an open stream closes it too", given: reopened, cmd: forceCloseStream(1, 2, true), want: "applied", check: lossesAre(100, 150)},
		{name: "write off on an open stream without debts", given: full, cmd: forceCloseStream(1, 1, true), want: "applied", check: lossesAre()},
		{name: "write off: a reservation alone", given: then(full, recordTransfer(at(1, 1), 1, 1, 2, 100)), cmd: forceCloseStream(1, 1, true), want: "applied", check: lossesAre()},
		{name: "write off: a transfer to any without a debt is forgotten", given: then(full, recordTransfer(at(1, 1), 1, 1, 0, 100)), cmd: forceCloseStream(1, 1, true), want: "applied", check: lossesAre()},
		{name: "adjoining losses merge", given: then(opened, recordTransfer(at(1, 1), 1, 1, 0, 10), forceCloseStream(1, 1, true),
			openStream(at(2, 1), 1, 0), recordTransfer(at(2, 1), 1, 2, 0, 20), openStream(at(3, 1), 1, 0), recordTransfer(at(3, 1), 1, 3, 0, 25)),
			cmd: forceCloseStream(1, 3, true), want: "applied", check: lossesAre(0, 25)},
		{name: "losses keep apart where data lies between", given: then(opened, recordTransfer(at(1, 1), 1, 1, 0, 10), forceCloseStream(1, 1, true),
			openStream(at(1, 1), 1, 0), prepareObjects(at(1, 1), 1), commitSlice(at(1, 1), 1, 1, 2, 10, 12), recordTransfer(at(1, 1), 1, 2, 0, 20)),
			cmd: forceCloseStream(1, 2, true), want: "applied", check: lossesAre(0, 10, 12, 20)},
		{name: "what is paid of a debt is not lost", given: then(opened, recordTransfer(at(1, 1), 1, 1, 0, 10), openStream(at(2, 1), 1, 0), prepareObjects(at(1, 1), 1),
			commitSlice(at(1, 1), 1, 1, 1, 0, 4), recordTransfer(at(2, 1), 1, 2, 0, 20)),
			cmd: forceCloseStream(1, 2, true), want: "applied", check: lossesAre(4, 20)},
		{name: "reason too long", given: full, cmd: meta.ForceCloseStream{StreamID: 1, Epoch: 1, Reason: string(make([]byte, 1025))}, want: "TOO_LARGE"},
	})
}

// TestMostLosses: a stream has at most 1,000 losses; a trim makes room.
func TestMostLosses(t *testing.T) {
	t.Parallel()
	c := newWorld(t).given(then(opened, prepareObjects(at(1, 1), 1000))...)
	var end uint64
	lose := func(i uint64) meta.Answer {
		epoch := 1 + i
		c.given(commitSlice(at(1, 1), 1+i, 1, epoch, end, end+1), recordTransfer(at(1, 1), 1, epoch, 0, end+2))
		end += 2
		return c.do(forceCloseStream(1, epoch, true))
	}
	for i := range uint64(1000) {
		if i == 999 {
			c.given(prepareObjects(at(1, 1), 1000))
		}
		if a := lose(i); a.Status != meta.Applied {
			t.Fatalf("loss %d: %v", i, a.Err)
		}
		c.given(openStream(at(1, 1), 1, 0))
	}
	before := meta.RuleDigest(c.s)
	if a := lose(1000); ending(a) != "TOO_LARGE" {
		t.Fatalf("loss 1001 ends as %s (%v)", ending(a), a.Err)
	}
	if before == meta.RuleDigest(c.s) {
		t.Fatal("the commit and the transfer had no effect")
	}
	if got := len(c.losses(1)); got != 1000 {
		t.Fatalf("%d losses, want 1000", got)
	}
	c.given(trimStream(at(2, 1), 1, 1001, 2), forceCloseStream(1, 1001, true))
	if got := c.losses(1); len(got) != 1000 || got[0].StartOffset != 3 || got[999].EndOffset != end {
		t.Fatalf("%d losses from %+v to %+v", len(got), got[0], got[len(got)-1])
	}
	c.verify()
}
