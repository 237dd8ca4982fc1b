package meta_test

import (
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

func onBehalf(node, of uint64, objects ...meta.Object) meta.Command {
	return meta.CommitObjects{Identity: by(node), OnBehalfOf: of, Objects: objects}
}

func fence(node, rescuer uint64) meta.Command {
	return meta.FenceNode{NodeID: node, Epoch: 1, Rescuer: by(rescuer)}
}

func TestPrepareObjects(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.ok(register(1))
	c.script([]step{
		{cmd: prepare(7, 1), want: "NODE_NOT_FOUND"},
		{cmd: meta.PrepareObjects{Identity: meta.Identity{NodeID: 1, NodeEpoch: 2}, Count: 1}, want: "NODE_EPOCH_UNKNOWN"},
		{cmd: prepare(1, 3), want: "applied", result: meta.PrepareObjectsResult{FirstObjectID: 1, Count: 3}},
		{cmd: prepare(1, 1000), want: "applied", result: meta.PrepareObjectsResult{FirstObjectID: 4, Count: 1000}},
		{cmd: prepare(1, 1001), want: "TOO_LARGE"},
		{cmd: prepare(1, 0), want: "INVALID_ARGUMENT"},
		{cmd: prepare(1, 1), want: "applied", result: meta.PrepareObjectsResult{FirstObjectID: 1004, Count: 1}},
	})
	if got := c.object(2); got != "prepared owner=1 slices=0 live=0 committed=0 deletable=0 at 0" {
		t.Error(got)
	}
}

// TestCommitObjectsOrder has one step for each rule, and for each pair of rules that may refuse the same command the
// one that comes first.
func TestCommitObjectsOrder(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.script([]step{
		// Identity comes before everything but the limits.
		{cmd: commit(7, obj(99, sl(99, 0, 1))), want: "NODE_NOT_FOUND"},
		{cmd: onBehalf(1, 2, obj(99, sl(99, 0, 1))), want: "NODE_NOT_CLAIMED"},
		{cmd: commit(1, obj(1, sl(1, 5, 5))), want: "INVALID_ARGUMENT"},
		{cmd: commit(1, obj(1, sl(1, 0, 5)), obj(1, sl(1, 0, 5))), want: "INVALID_ARGUMENT"},
		// Objects, in the order sent, all before any slice.
		{cmd: commit(1, obj(0)), want: "OBJECT_NOT_FOUND"},
		{cmd: commit(1, obj(10)), want: "OBJECT_NOT_FOUND"},
		{cmd: commit(1, obj(6)), want: "OBJECT_NOT_OWNED"},
		{cmd: commit(1, obj(10), obj(6)), want: "OBJECT_NOT_FOUND"},
		{cmd: commit(1, obj(6), obj(10)), want: "OBJECT_NOT_OWNED"},
		{cmd: commit(1, obj(1, sl(99, 0, 1)), obj(10)), want: "OBJECT_NOT_FOUND"},
		// Slices, in the order sent.
		{cmd: commit(1, obj(1, sl(99, 0, 1), sl(1, 7, 8))), want: "STREAM_NOT_FOUND"},
		{cmd: commit(1, obj(1, sl(0, 0, 1))), want: "STREAM_NOT_FOUND"},
		{cmd: commit(1, obj(1, sl(1, 7, 8), sl(99, 0, 1))), want: "OFFSET_MISMATCH"},
		{cmd: commit(1, obj(1, sle(1, 0, 7, 8))), want: "STREAM_EPOCH_STALE"},
		{cmd: commit(1, obj(1, sle(1, 2, 7, 8))), want: "STREAM_EPOCH_UNKNOWN"},
		{cmd: commit(1, obj(1, sle(3, 2, 7, 8))), want: "STREAM_EPOCH_UNKNOWN"},
		{cmd: commit(1, obj(1, sl(3, 7, 8))), want: "STREAM_NOT_OWNED"},
		// Later slices are judged against what the earlier ones left, also across objects; all or nothing.
		{cmd: commit(1, obj(1, sl(1, 0, 5)), obj(2, sl(1, 6, 9))), want: "OFFSET_MISMATCH"},
		{cmd: commit(1, obj(1, sl(1, 0, 5)), obj(2, sl(1, 5, 9), sl(1, 5, 9))), want: "OFFSET_MISMATCH"},
		{cmd: commit(1, obj(1, sl(1, 0, 5), sl(2, 0, 3)), obj(2, sl(1, 5, 9))), want: "applied", result: meta.CommitObjectsResult{}},
		// Redundancy comes before continuity, and before ownership.
		{cmd: commit(1, obj(1, sl(1, 0, 5), sl(2, 0, 3)), obj(2, sl(1, 5, 9))), want: "redundant", result: meta.CommitObjectsResult{}},
		{cmd: commit(2, obj(1, sl(1, 0, 5), sl(2, 0, 3))), want: "redundant"},
		{cmd: commit(1, obj(1, sl(1, 0, 5), sl(2, 0, 4))), want: "OBJECT_EXISTS"},
		{cmd: commit(2, obj(1, sl(1, 0, 5))), want: "OBJECT_EXISTS"},
		{cmd: commit(1, meta.Object{ObjectID: 2, Size: 101, Attributes: []byte{2}, Slices: []meta.Slice{sl(1, 5, 9)}}), want: "OBJECT_EXISTS"},
		{cmd: commit(1, meta.Object{ObjectID: 2, Size: 100, Attributes: []byte{3}, Slices: []meta.Slice{sl(1, 5, 9)}}), want: "OBJECT_EXISTS"},
		// A skipped object is not judged again: only what is new must go on at 9.
		{cmd: commit(1, obj(2, sl(1, 5, 9)), obj(3, sl(1, 9, 10))), want: "applied"},
		{cmd: commit(1, obj(2, sl(1, 5, 9)), obj(4, sl(1, 9, 10))), want: "OFFSET_MISMATCH"},
		// A closed stream.
		{cmd: shut(1, 2, 1), want: "applied"},
		{cmd: commit(1, obj(4, sl(2, 7, 8))), want: "STREAM_NOT_OPEN"},
	})
	if got, want := c.find(1, 0, 0), "0: 1[0,5) 2[5,9) 3[9,10) :10 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

func TestCommitNeverOpened(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(create(1, "d"))
	c.script([]step{
		{cmd: commit(1, obj(1, sle(4, 0, 0, 1))), want: "STREAM_NOT_OWNED"},
		{cmd: commit(1, obj(1, sle(4, 1, 0, 1))), want: "STREAM_EPOCH_UNKNOWN"},
	})
}

func TestCommitObjectsExpired(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(commit(1, obj(1, sl(1, 0, 5))), reclaim(5001, 100))
	c.script([]step{
		{cmd: commit(1, obj(6, sl(1, 0, 5))), want: "OBJECT_NOT_OWNED"}, // before expired
		{cmd: commit(1, obj(2, sl(99, 0, 5))), want: "OBJECT_EXPIRED"},
		{cmd: forget(2), want: "applied", result: meta.ForgetObjectsResult{Forgotten: 1}},
		{cmd: commit(1, obj(2, sl(1, 5, 6))), want: "OBJECT_NOT_FOUND"},
		// Committed before it became deletable: its content is kept, so the retry is told what the first was.
		{cmd: trim(1, 1, 1, 5), want: "applied"},
		{cmd: reclaim(0, 10), want: "applied", result: meta.ReclaimObjectsResult{ReleasedSlices: 1, DeletableObjects: 1}},
		{cmd: commit(1, obj(1, sl(1, 0, 5))), want: "redundant"},
		{cmd: commit(1, obj(1, sl(1, 0, 6))), want: "OBJECT_EXISTS"},
		{cmd: forget(1), want: "applied"},
		{cmd: commit(1, obj(1, sl(1, 0, 5))), want: "OBJECT_NOT_FOUND"},
	})
}

func TestCommitDroppedAndKeptOut(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(commit(1, obj(1, sl(1, 0, 10), sl(2, 0, 10))), trim(1, 1, 1, 20), shut(1, 2, 1), meta.DeleteStream{StreamID: 2, Epoch: 1})
	c.script([]step{
		// Deleted comes first, whatever else is wrong with the slice; then kept out, whoever owns the stream.
		{cmd: commit(1, obj(2, sle(2, 9, 99, 100), sle(1, 9, 0, 20), sl(1, 20, 25), sl(2, 10, 11))), want: "applied", result: meta.CommitObjectsResult{DroppedSlices: 2}},
		{cmd: commit(2, obj(6, sl(1, 19, 20), sl(2, 1, 2))), want: "applied", result: meta.CommitObjectsResult{DroppedSlices: 1}},
		{cmd: commit(2, obj(7, sl(1, 19, 21))), want: "STREAM_NOT_OWNED"},
	})
	// Nothing of object 6 is live: it is reclaimed with the next call, and only object 1 has slices to release.
	if got, want := c.object(6), "committed owner=2 slices=2 live=0 committed=16 deletable=0 at 0"; got != want {
		t.Errorf("object 6 is %s, want %s", got, want)
	}
	c.script([]step{
		{cmd: reclaim(0, 10), want: "applied", result: meta.ReclaimObjectsResult{ReleasedSlices: 2, DeletableObjects: 2}},
		{cmd: reclaim(0, 10), want: "redundant", result: meta.ReclaimObjectsResult{}},
		{cmd: forget(1, 6), want: "applied", result: meta.ForgetObjectsResult{Forgotten: 2}},
	})
	if got, want := c.find(1, 0, 0), "20: 2[20,25) :25 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if got := c.find(2, 0, 0); got != "STREAM_NOT_FOUND" {
		t.Errorf("a deleted stream answers %s", got)
	}
}

// TestCommitObjectWithoutSlices: such an object is committed, and reclaimed with the next call.
func TestCommitObjectWithoutSlices(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.script([]step{
		{cmd: commit(1, obj(1)), want: "applied"},
		{cmd: commit(1, obj(1)), want: "redundant"},
		{cmd: reclaim(0, 1), want: "applied", result: meta.ReclaimObjectsResult{DeletableObjects: 1}},
		{cmd: forget(1), want: "applied"},
	})
}

// TestCommitBelowStart: a slice may begin below the start only where the next offset is the start.
func TestCommitBelowStart(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(commit(1, obj(1, sl(1, 0, 10))), trim(1, 1, 1, 20))
	c.script([]step{
		{cmd: commit(1, obj(2, sl(1, 21, 25))), want: "OFFSET_MISMATCH"},
		{cmd: commit(1, obj(2, sl(1, 10, 25))), want: "applied"},
		{cmd: commit(1, obj(3, sl(1, 10, 30))), want: "OFFSET_MISMATCH"}, // the next offset is 25 now
		{cmd: trim(1, 1, 1, 22), want: "applied"},
		{cmd: commit(1, obj(3, sl(1, 21, 30))), want: "OFFSET_MISMATCH"}, // [22, 25) is live
	})
	if got, want := c.find(1, 0, 0), "22: 2[10,25) :25 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	c.script([]step{
		{cmd: trim(1, 1, 1, 25), want: "applied"},
		// It may even begin below what is dead but unreleased: readers never see that part.
		{cmd: commit(1, obj(3, sl(1, 0, 30))), want: "applied"},
	})
	if got, want := c.find(1, 0, 0), "25: 3[0,30) :30 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	c.script([]step{
		{cmd: reclaim(0, 1000), want: "applied", result: meta.ReclaimObjectsResult{ReleasedSlices: 2, DeletableObjects: 2}},
		{cmd: trim(1, 1, 1, 30), want: "applied"},
		{cmd: reclaim(0, 1000), want: "applied", result: meta.ReclaimObjectsResult{ReleasedSlices: 1, DeletableObjects: 1}},
	})
}

func TestCommitDebts(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(commit(1, obj(1, sl(1, 0, 10))), handOver(1, 1, 1, 2, 30), open(2, 1))
	if got, want := c.find(1, 0, 0), "0: 1[0,10) :10 debt node 1 [10,30) epoch 1"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	c.script([]step{
		// The new owner goes on at the boundary while the debt is open.
		{cmd: commit(2, obj(6, sle(1, 2, 10, 40))), want: "OFFSET_MISMATCH"},
		{cmd: commit(2, obj(6, sle(1, 2, 30, 40))), want: "applied"},
		// The debtor commits exactly what it owes, in order, in pieces.
		{cmd: commit(1, obj(2, sl(1, 11, 30))), want: "OFFSET_MISMATCH"},
		{cmd: commit(1, obj(2, sl(1, 9, 30))), want: "OFFSET_MISMATCH"},
		{cmd: commit(1, obj(2, sl(1, 10, 31))), want: "OFFSET_MISMATCH"},
		{cmd: commit(1, obj(2, sle(1, 2, 10, 30))), want: "STREAM_NOT_OWNED"},
		{cmd: commit(2, obj(7, sl(1, 10, 30))), want: "STREAM_EPOCH_STALE"},
		{cmd: commit(1, obj(2, sl(1, 10, 15), sl(1, 15, 20))), want: "applied"},
		{cmd: commit(1, obj(2, sl(1, 10, 15), sl(1, 15, 20))), want: "redundant"},
		{cmd: commit(1, obj(3, sl(1, 20, 30), sl(1, 30, 31))), want: "STREAM_EPOCH_STALE"}, // it owes nothing beyond
	})
	for _, f := range []struct {
		start, end uint64
		want       string
	}{
		{0, 0, "0: 1[0,10) 2[10,15) 2[15,20) :20 debt node 1 [20,30) epoch 1"},
		{0, 20, "0: 1[0,10) 2[10,15) 2[15,20) :20 end"},
		{25, 0, "25: :25 debt node 1 [20,30) epoch 1"},
		{30, 0, "30: 6[30,40) :40 end"},
		{35, 0, "35: 6[30,40) :40 end"},
		{40, 0, "40: :40 end"},
		{99, 0, "99: :99 end"},
		{12, 13, "12: 2[10,15) :15 end"},
		{12, 12, "INVALID_ARGUMENT"},
		{12, 11, "INVALID_ARGUMENT"},
	} {
		if got := c.find(1, f.start, f.end); got != f.want {
			t.Errorf("find [%d, %d): %s, want %s", f.start, f.end, got, f.want)
		}
	}
	c.script([]step{{cmd: commit(1, obj(3, sl(1, 20, 30))), want: "applied"}})
	if got, want := c.find(1, 0, 0), "0: 1[0,10) 2[10,15) 2[15,20) 3[20,30) 6[30,40) :40 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// TestFindAdjoiningGaps: what is owed by two nodes and what is lost, side by side.
func TestFindAdjoiningGaps(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(register(3), commit(1, obj(1, sl(1, 0, 10))), handOver(1, 1, 1, 2, 20),
		meta.ForceCloseStream{StreamID: 1, Epoch: 1, WriteOff: true}, open(1, 1), handOver(1, 1, 2, 2, 30), open(2, 1),
		handOver(2, 1, 3, 3, 40), open(3, 1))
	for start, want := range map[uint64]string{
		0:  "0: 1[0,10) :10 loss [10,20)",
		19: "19: :19 loss [10,20)",
		20: "20: :20 debt node 1 [20,30) epoch 2",
		29: "29: :29 debt node 1 [20,30) epoch 2",
		30: "30: :30 debt node 2 [30,40) epoch 3",
		40: "40: :40 end",
	} {
		if got := c.find(1, start, 0); got != want {
			t.Errorf("find from %d: %s, want %s", start, got, want)
		}
	}
	c.script([]step{
		{cmd: commit(2, obj(6, sle(1, 2, 20, 30))), want: "STREAM_EPOCH_STALE"}, // owed by the other
		{cmd: commit(2, obj(6, sle(1, 3, 30, 35))), want: "applied"},
		{cmd: commit(1, obj(2, sle(1, 2, 20, 30))), want: "applied"},
	})
	if got, want := c.find(1, 20, 0), "20: 2[20,30) 6[30,35) :35 debt node 2 [35,40) epoch 3"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// TestCommitTrimmedDebt: a trim raises the start of the debt, and the debtor's slice may then begin below it.
func TestCommitTrimmedDebt(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(commit(1, obj(1, sl(1, 0, 10))), handOver(1, 1, 1, 2, 30), open(2, 1), commit(2, obj(6, sle(1, 2, 30, 40))), trim(2, 1, 2, 20))
	c.script([]step{
		{cmd: commit(1, obj(2, sl(1, 21, 30))), want: "OFFSET_MISMATCH"},
		{cmd: commit(1, obj(2, sl(1, 10, 20), sl(1, 20, 25))), want: "applied"}, // the first is kept out
		{cmd: commit(1, obj(3, sl(1, 10, 30))), want: "OFFSET_MISMATCH"},        // [20, 25) is live
		{cmd: trim(2, 1, 2, 26), want: "applied"},
		{cmd: commit(1, obj(3, sl(1, 25, 30))), want: "applied"},
	})
	if got, want := c.find(1, 0, 0), "26: 3[25,30) 6[30,40) :40 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

func TestCommitWrittenOff(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	writeOff := meta.ForceCloseStream{StreamID: 1, Epoch: 1, WriteOff: true}
	c.ok(commit(1, obj(1, sl(1, 0, 10))), handOver(1, 1, 1, 2, 30), writeOff)
	c.script([]step{
		{cmd: commit(1, obj(2, sl(1, 10, 30))), want: "STREAM_NOT_OPEN"}, // nothing is owed any more
		{cmd: open(2, 1), want: "applied"},
		{cmd: commit(1, obj(2, sl(1, 10, 30))), want: "STREAM_EPOCH_STALE"},
		{cmd: commit(2, obj(6, sle(1, 2, 30, 40))), want: "applied"},
	})
	for start, want := range map[uint64]string{
		0:  "0: 1[0,10) :10 loss [10,30)",
		10: "10: :10 loss [10,30)",
		29: "29: :29 loss [10,30)",
		30: "30: 6[30,40) :40 end",
	} {
		if got := c.find(1, start, 0); got != want {
			t.Errorf("find from %d: %s, want %s", start, got, want)
		}
	}
	c.ok(trim(2, 1, 2, 15))
	if got, want := c.find(1, 0, 0), "15: :15 loss [15,30)"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// TestCommitOnBehalf: the rescuer of a fenced node commits what either prepared, for the streams and debts of the
// fenced one only.
func TestCommitOnBehalf(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(register(3), prepare(3, 3), handOver(1, 1, 1, 2, 30))
	c.script([]step{
		{cmd: onBehalf(3, 1, obj(10, sl(1, 0, 30))), want: "NODE_NOT_CLAIMED"},
		{cmd: fence(1, 3), want: "applied"},
		{cmd: commit(1, obj(1, sl(1, 0, 30))), want: "NODE_FENCED"},
		{cmd: onBehalf(2, 1, obj(1, sl(1, 0, 30))), want: "NODE_NOT_CLAIMED"},
		{cmd: commit(3, obj(10, sl(1, 0, 30))), want: "STREAM_NOT_OWNED"},
		{cmd: onBehalf(3, 1, obj(6, sl(1, 0, 30))), want: "OBJECT_NOT_OWNED"},
		{cmd: onBehalf(3, 1, obj(10, sl(3, 0, 30))), want: "STREAM_NOT_OWNED"},
		{cmd: onBehalf(3, 1, obj(10, sl(1, 0, 20)), obj(1, sl(1, 20, 30), sl(2, 0, 5))), want: "applied"},
		{cmd: onBehalf(3, 1, obj(10, sl(1, 0, 20))), want: "redundant"},
	})
	if got, want := c.find(1, 0, 0), "0: 10[0,20) 1[20,30) :30 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// TestCommitAfterRestart: ownership goes by node id, so a node at a new epoch commits what it had prepared.
func TestCommitAfterRestart(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(meta.RegisterNode{NodeID: 1, Instance: [16]byte{9}})
	now := meta.Identity{NodeID: 1, NodeEpoch: 2}
	c.script([]step{
		{cmd: commit(1, obj(1, sl(1, 0, 5))), want: "NODE_EPOCH_STALE"},
		{cmd: meta.CommitObjects{Identity: now, Objects: []meta.Object{obj(1, sl(1, 0, 5))}}, want: "applied"},
	})
}

// TestCommitManyStreams goes over more streams than are looked through one by one, each touched twice.
func TestCommitManyStreams(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.fast = true
	c.ok(register(1), prepare(1, 10))
	const n = 100
	var first, second []meta.Slice
	for id := uint64(1); id <= n; id++ {
		c.ok(create(1, string(rune('a'+id%26))+string(rune('a'+id/26))), open(1, id))
		first = append(first, sl(id, 0, id))
		second = append(second, sl(n+1-id, n+1-id, 200))
	}
	c.fast = false
	c.script([]step{
		{cmd: commit(1, obj(1, first...), obj(2, append(second[:n:n], sl(50, 199, 201))...)), want: "OFFSET_MISMATCH"},
		{cmd: commit(1, obj(1, first...), obj(2, append(second[:n:n], sl(50, 200, 201))...)), want: "applied"},
		{cmd: commit(1, obj(3, sl(50, 201, 202))), want: "applied"},
	})
}
