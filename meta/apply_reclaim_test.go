package meta_test

import (
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

func TestReclaimOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.ok(register(1), create(1, "a"), create(1, "b"), open(1, 1), open(1, 2),
		meta.PrepareObjects{Identity: by(1), Count: 2, Deadline: 300}, // 1, 2
		meta.PrepareObjects{Identity: by(1), Count: 2, Deadline: 100}, // 3, 4
		meta.PrepareObjects{Identity: by(1), Count: 1, Deadline: -5},  // 5
		meta.PrepareObjects{Identity: by(1), Count: 4, Deadline: 900}, // 6 to 9
		commit(1, obj(9, sl(1, 0, 10), sl(2, 0, 10))), commit(1, obj(8, sl(2, 10, 20), sl(1, 10, 20))), commit(1, obj(7, sl(2, 20, 30))),
		trim(1, 2, 1, 25), trim(1, 1, 1, 10))
	state := func(want ...uint64) {
		t.Helper()
		var got []uint64
		for id := uint64(1); id < 10; id++ {
			if o, ok := c.s.Object(id); ok && o.State == meta.ObjectDeletable {
				got = append(got, id)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("deletable are %v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("deletable are %v, want %v", got, want)
			}
		}
	}
	live := func(id, want uint64) {
		t.Helper()
		if o, _ := c.s.Object(id); o.LiveSlices != want {
			t.Fatalf("object %d has %d slices in the indexes, want %d", id, o.LiveSlices, want)
		}
	}
	result := func(slices, objects uint64) meta.Result {
		return meta.ReclaimObjectsResult{ReleasedSlices: slices, DeletableObjects: objects}
	}
	c.script([]step{
		{cmd: reclaim(0, 0), want: "INVALID_ARGUMENT"},
		{cmd: reclaim(0, 1001), want: "TOO_LARGE"},
		// The slices of the lowest stream first, the lowest offset first; the deadline must be below the time.
		{cmd: reclaim(-5, 1), want: "applied", result: result(1, 0)},
	})
	live(9, 1)
	state()
	c.script([]step{{cmd: reclaim(-4, 1), want: "applied", result: result(1, 1)}})
	live(9, 0)
	state(5)
	// The deadline comes before the id, prepared before released; object 9 was released before and waits.
	c.script([]step{{cmd: reclaim(300, 1), want: "applied", result: result(1, 1)}})
	live(8, 1)
	state(3, 5)
	c.script([]step{{cmd: reclaim(300, 2), want: "applied", result: result(0, 2)}})
	state(3, 4, 5, 9)
	c.script([]step{
		{cmd: reclaim(300, 1), want: "redundant", result: result(0, 0)},
		{cmd: trim(1, 2, 1, 30), want: "applied"},
		{cmd: trim(1, 1, 1, 20), want: "applied"},
		{cmd: reclaim(0, 1000), want: "applied", result: result(2, 2)},
		{cmd: reclaim(301, 1), want: "applied", result: result(0, 1)},
		{cmd: reclaim(301, 1), want: "applied", result: result(0, 1)},
		{cmd: reclaim(301, 1), want: "redundant"},
	})
	state(1, 2, 3, 4, 5, 7, 8, 9)
	if got, want := c.object(1), "deletable owner=1 slices=0 live=0 committed=0 deletable=25 at 1024"; got != want {
		t.Errorf("object 1 is %s, want %s", got, want)
	}
}

// TestReclaimDeletedStream: a deletion costs nothing at once; its slices are released in bounded steps, between those
// of other streams.
func TestReclaimDeletedStream(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	var slices []meta.Slice
	for i := range uint64(500) {
		slices = append(slices, sl(2, i, i+1))
	}
	c.ok(commit(1, obj(1, slices...), obj(2, sl(1, 0, 5))), commit(2, obj(6, sl(3, 0, 5))),
		shut(1, 2, 1), trim(1, 1, 1, 5), trim(2, 3, 1, 5), meta.DeleteStream{StreamID: 2, Epoch: 1})
	if got, want := c.object(1), "committed owner=1 slices=500 live=500 committed=11 deletable=0 at 0"; got != want {
		t.Errorf("object 1 is %s, want %s", got, want)
	}
	result := func(slices, objects uint64) meta.Result {
		return meta.ReclaimObjectsResult{ReleasedSlices: slices, DeletableObjects: objects}
	}
	c.script([]step{
		{cmd: reclaim(0, 300), want: "applied", result: result(300, 1)}, // stream 1 and 299 of stream 2
		{cmd: reclaim(0, 201), want: "applied", result: result(201, 1)},
		{cmd: reclaim(0, 300), want: "applied", result: result(1, 1)},
		{cmd: reclaim(0, 300), want: "redundant"},
		{cmd: forget(1, 2, 6), want: "applied"},
	})
}

func TestForgetObjectsOrder(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	c.ok(commit(1, obj(1, sl(1, 0, 5))), trim(1, 1, 1, 5), reclaim(0, 10), commit(1, obj(2, sl(1, 5, 6))))
	c.script([]step{
		{cmd: forget(), want: "INVALID_ARGUMENT"},
		{cmd: forget(1, 1), want: "INVALID_ARGUMENT"},
		{cmd: forget(0), want: "OBJECT_NOT_FOUND"},
		{cmd: forget(2, 10), want: "OBJECT_NOT_FOUND"}, // never handed out comes before in use
		{cmd: forget(2), want: "OBJECT_IN_USE"},
		{cmd: forget(3), want: "OBJECT_IN_USE"},
		{cmd: forget(1, 2), want: "OBJECT_IN_USE"},
		{cmd: forget(1), want: "applied", result: meta.ForgetObjectsResult{Forgotten: 1}},
		{cmd: forget(1), want: "redundant", result: meta.ForgetObjectsResult{}},
		{cmd: reclaim(5001, 1), want: "applied"},
		{cmd: forget(1, 3), want: "applied", result: meta.ForgetObjectsResult{Forgotten: 1}},
	})
	if got := c.object(1); got != "none" {
		t.Errorf("object 1 is %s", got)
	}
}
