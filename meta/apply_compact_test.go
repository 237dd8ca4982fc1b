package meta_test

import (
	"fmt"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// threeSources has of stream 1 [0,10) in object 1, [10,20) in 2 and [20,30) in 3; of stream 2 [0,5) in 1 and [5,9) in 3.
func threeSources(t *testing.T) *cluster {
	c := twoNodes(t)
	c.ok(commit(1, obj(1, sl(1, 0, 10), sl(2, 0, 5))), commit(1, obj(2, sl(1, 10, 20))), commit(1, obj(3, sl(1, 20, 30), sl(2, 5, 9))))
	return c
}

func TestCompactObjectsOrder(t *testing.T) {
	t.Parallel()
	c := threeSources(t)
	whole := []meta.Slice{sl(1, 0, 20), sl(2, 0, 5)}
	c.script([]step{
		{cmd: compact(7, []uint64{99}), want: "NODE_NOT_FOUND"},
		{cmd: compact(2, nil), want: "INVALID_ARGUMENT"},
		{cmd: compact(2, []uint64{1, 1}), want: "INVALID_ARGUMENT"},
		// Sources come before results.
		{cmd: compact(2, []uint64{99}, obj(98)), want: "OBJECT_NOT_FOUND"},
		{cmd: compact(2, []uint64{4, 1}, obj(1)), want: "OBJECT_NOT_FOUND"}, // 4 is prepared
		{cmd: compact(2, []uint64{0}), want: "OBJECT_NOT_FOUND"},
		// Results as objects of a commit, already committed first, in the order sent.
		{cmd: compact(2, []uint64{1, 2}, obj(3, whole...)), want: "OBJECT_EXISTS"},
		{cmd: compact(2, []uint64{1, 2}, obj(3, sl(1, 20, 30), sl(2, 5, 9))), want: "OBJECT_EXISTS"}, // equal content too
		{cmd: compact(2, []uint64{1, 2}, obj(1, whole...)), want: "OBJECT_EXISTS"},
		{cmd: compact(2, []uint64{1, 2}, obj(99, whole...)), want: "OBJECT_NOT_FOUND"},
		{cmd: compact(2, []uint64{1, 2}, obj(4, whole...), obj(99)), want: "OBJECT_NOT_OWNED"},
		// Coverage.
		{cmd: compact(2, []uint64{1, 2}), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(1, 0, 20))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(2, 0, 5))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(1, 0, 20), sl(2, 0, 5), sl(3, 0, 1))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(1, 0, 20), sl(2, 0, 5), sl(99, 0, 1))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(1, 0, 21), sl(2, 0, 5))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(1, 0, 19), sl(2, 0, 5))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(1, 1, 20), sl(2, 0, 5))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(1, 0, 9), sl(1, 10, 20), sl(2, 0, 5))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(1, 0, 11), sl(1, 10, 20), sl(2, 0, 5))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, whole...), obj(7, sl(1, 5, 6))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 3}, obj(6, sl(1, 0, 30), sl(2, 0, 9))), want: "COVERAGE_MISMATCH"}, // 2 holds the middle
		// Any live node; any order and cut of the results; stream epochs are not looked at.
		{cmd: compact(2, []uint64{2, 1}, obj(6, sle(2, 77, 0, 5), sle(1, 0, 3, 20)), obj(7, sl(1, 0, 3))), want: "applied"},
		{cmd: compact(2, []uint64{2, 1}, obj(6, sle(2, 77, 0, 5), sle(1, 0, 3, 20)), obj(7, sl(1, 0, 3))), want: "redundant"},
		{cmd: compact(1, []uint64{1}, obj(7, sl(1, 0, 3))), want: "redundant"},
		{cmd: compact(1, []uint64{1}), want: "redundant"},
		{cmd: compact(1, []uint64{1}, obj(7, sl(1, 0, 4))), want: "OBJECT_NOT_FOUND"},
		{cmd: compact(1, []uint64{1, 3}, obj(7, sl(1, 0, 3))), want: "OBJECT_NOT_FOUND"},
		{cmd: forget(1), want: "applied"},
		{cmd: compact(2, []uint64{2, 1}, obj(7, sl(1, 0, 3))), want: "redundant"},
		{cmd: compact(2, []uint64{99}, obj(7, sl(1, 0, 3))), want: "OBJECT_NOT_FOUND"}, // never handed out is not forgotten
		// The commit of a source again is what it was.
		{cmd: commit(1, obj(2, sl(1, 10, 20))), want: "redundant"},
	})
	if got, want := c.find(1, 0, 0), "0: 7[0,3) 6[3,20) 3[20,30) :30 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if got, want := c.find(2, 0, 0), "0: 6[0,5) 3[5,9) :9 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if got, want := c.object(2), fmt.Sprintf("deletable owner=1 slices=1 live=0 committed=12 deletable=%d at %d", 37, 1036); got != want {
		t.Errorf("object 2 is %s, want %s", got, want)
	}
}

// TestCompactDead: what is below the start or of a deleted stream is ignored on both sides, and released.
func TestCompactDead(t *testing.T) {
	t.Parallel()
	c := threeSources(t)
	c.ok(trim(1, 1, 1, 15), shut(1, 2, 1), meta.DeleteStream{StreamID: 2, Epoch: 1})
	c.script([]step{
		{cmd: compact(2, []uint64{1, 2, 3}, obj(6, sl(1, 16, 30))), want: "COVERAGE_MISMATCH"},
		// [0,15) of stream 1 may be there or not, wholly or in part, even twice; so may anything of stream 2.
		{cmd: compact(2, []uint64{1, 2, 3}, obj(6, sl(1, 3, 30), sl(1, 0, 15), sl(1, 0, 9), sl(2, 50, 60))), want: "applied"},
		{cmd: reclaim(0, 1000), want: "redundant"},
		{cmd: forget(1, 2, 3), want: "applied"},
	})
	if got, want := c.find(1, 0, 0), "15: 6[3,30) :30 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if got, want := c.object(6), "committed owner=2 slices=4 live=1 committed=18 deletable=0 at 0"; got != want {
		t.Errorf("object 6 is %s, want %s", got, want)
	}
	c.script([]step{
		{cmd: trim(1, 1, 1, 30), want: "applied"},
		// No results are needed where nothing is live; results are judged all the same.
		{cmd: compact(2, []uint64{6}, obj(99)), want: "OBJECT_NOT_FOUND"},
		{cmd: compact(2, []uint64{6}, obj(7, sl(1, 29, 31))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{6}), want: "applied"},
		{cmd: compact(2, []uint64{6}), want: "redundant"},
	})
}

// TestCompactResultWithoutLiveSlices: it is committed, and given up with the next ReclaimObjects.
func TestCompactResultWithoutLiveSlices(t *testing.T) {
	t.Parallel()
	c := threeSources(t)
	c.script([]step{
		{cmd: trim(1, 1, 1, 10), want: "applied"},
		{cmd: compact(2, []uint64{2}, obj(6, sl(1, 0, 10)), obj(7, sl(1, 10, 20))), want: "applied"},
		{cmd: reclaim(0, 1000), want: "applied", result: meta.ReclaimObjectsResult{ReleasedSlices: 1, DeletableObjects: 1}},
	})
	if got, want := c.object(6), "deletable owner=2 slices=1 live=0 committed=15 deletable=16 at 1015"; got != want {
		t.Errorf("object 6 is %s, want %s", got, want)
	}
}

// TestCompactSourcesReleased: a source all of whose slices are released by now, and not given up yet, is committed.
func TestCompactSourcesReleased(t *testing.T) {
	t.Parallel()
	c := threeSources(t)
	c.ok(trim(1, 1, 1, 20))
	c.script([]step{
		{cmd: reclaim(0, 1), want: "applied", result: meta.ReclaimObjectsResult{ReleasedSlices: 1}},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(2, 0, 5))), want: "applied"},
		{cmd: reclaim(0, 1), want: "redundant"},
	})
}

// TestCompactDebt: a result must not bridge what is owed or lost; what adjoins on both sides may be compacted by two.
func TestCompactDebt(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(commit(1, obj(1, sl(1, 0, 10))), handOver(1, 1, 1, 2, 20), open(2, 1), commit(2, obj(6, sle(1, 2, 20, 30))))
	c.script([]step{
		{cmd: compact(2, []uint64{1, 6}, obj(7, sl(1, 0, 30))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 6}, obj(7, sl(1, 0, 11), sl(1, 20, 30))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 6}, obj(7, sl(1, 0, 10), sl(1, 20, 30))), want: "applied"},
	})
	if got, want := c.find(1, 0, 0), "0: 7[0,10) :10 debt node 1 [10,20) epoch 1"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	c.script([]step{
		{cmd: commit(1, obj(2, sl(1, 10, 20))), want: "applied"},
		{cmd: compact(2, []uint64{7, 2}, obj(8, sl(1, 0, 30))), want: "applied"},
	})
	if got, want := c.find(1, 0, 0), "0: 8[0,30) :30 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	lost := newLoss(t)
	lost.script([]step{
		{cmd: compact(2, []uint64{1, 6}, obj(7, sl(1, 0, 30))), want: "COVERAGE_MISMATCH"},
		{cmd: compact(2, []uint64{1, 6}, obj(7, sl(1, 0, 10)), obj(8, sl(1, 20, 30))), want: "applied"},
	})
}

// newLoss has a stream 1 of which [10,20) was written off.
func newLoss(t *testing.T) *cluster {
	c := twoNodes(t)
	c.ok(commit(1, obj(1, sl(1, 0, 10))), handOver(1, 1, 1, 2, 20), meta.ForceCloseStream{StreamID: 1, Epoch: 1, WriteOff: true},
		open(2, 1), commit(2, obj(6, sle(1, 2, 20, 30))))
	return c
}

// TestCompactTooLarge: the sources' slices count, the released ones too; inside an Atomic all commands together.
func TestCompactTooLarge(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.fast = true
	var at uint64
	for id := uint64(1); id <= 3; id++ {
		var s []meta.Slice
		for range 5000 {
			s = append(s, sl(1, at, at+1))
			at++
		}
		c.ok(commit(1, obj(id, s...)))
	}
	c.fast = false
	atomic := meta.Atomic{Commands: []meta.Command{
		compact(2, []uint64{1}, obj(6, sl(1, 0, 5000))),
		compact(2, []uint64{2}, obj(7, sl(1, 5000, 10000))),
	}}
	c.script([]step{
		{cmd: compact(2, []uint64{1, 2, 3}, obj(6, sl(1, 0, 15000))), want: "TOO_LARGE"},
		{cmd: compact(2, []uint64{1, 2, 99, 3}, obj(6, sl(1, 0, 15000))), want: "TOO_LARGE"},
		{cmd: atomic, want: "TOO_LARGE"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(1, 0, 10000))), want: "applied"},
		{cmd: compact(2, []uint64{1, 2}, obj(6, sl(1, 0, 10000))), want: "redundant"},
	})
	if got, want := c.find(1, 0, 9999), "0: 6[0,10000) :10000 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// TestAtomicObjects: what a refused Atomic did to slices and objects is undone, also where the row goes on.
func TestAtomicObjects(t *testing.T) {
	t.Parallel()
	c := threeSources(t)
	move := []meta.Command{
		commit(1, obj(4, sl(1, 30, 40), sl(2, 9, 12))),
		compact(2, []uint64{1, 2, 3, 4}, obj(6, sl(1, 0, 40), sl(2, 0, 12))),
		trim(1, 1, 1, 40),
		reclaim(0, 10),
		forget(1, 2, 3, 4),
	}
	refused := meta.Atomic{Commands: append(move[:5:5], forget(6))}
	c.script([]step{{cmd: refused, want: "OBJECT_IN_USE"}})
	answers := c.row(refused, commit(1, obj(4, sl(1, 30, 31))), refused, meta.Atomic{Commands: move})
	var got []string
	for _, a := range answers {
		got = append(got, verdict(a))
	}
	// In the row, object 4 has other content by the time of the second and third Atomic.
	if want := "[OBJECT_IN_USE applied OBJECT_EXISTS OBJECT_EXISTS]"; fmt.Sprint(got) != want {
		t.Errorf("the row is judged %v, want %s", got, want)
	}
	if got, want := c.find(1, 0, 0), "0: 1[0,10) 2[10,20) 3[20,30) 4[30,31) :31 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	fresh := threeSources(t)
	fresh.script([]step{{cmd: meta.Atomic{Commands: move}, want: "applied"}})
	if got, want := fresh.find(1, 0, 0), "40: :40 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if got, want := fresh.find(2, 0, 0), "0: 6[0,12) :12 end"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}
