package meta_test

import (
	"fmt"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// longStream has stream 1, open by node 1, with n slices of one offset each in n/100 objects at least, and stream 2
// with none; node 1 has 100 more objects prepared, and the last of the objects hold ten slices of each.
func longStream(t testing.TB, n uint64) *cluster {
	c := newCluster(t)
	c.fast = true
	c.ok(register(1), create(1, "long"), create(1, "empty"), open(1, 1), open(1, 2))
	per := n / 100
	c.ok(prepare(1, 200))
	for id := range uint64(100) {
		o := obj(id + 1)
		for i := range per {
			o.Slices = append(o.Slices, sl(1, id*per+i, id*per+i+1))
		}
		c.ok(commit(1, o))
	}
	for id := uint64(101); id <= 102; id++ {
		o := obj(id)
		for i := range uint64(10) {
			o.Slices = append(o.Slices, sl(1, n+i, n+i+1))
		}
		c.ok(commit(1, o))
		n += 10
	}
	return c
}

// TestObjectsBoundedWork counts what a command looks at and allocates in a stream of a thousand slices and in one of
// a million. Only the height of the trees may tell.
func TestObjectsBoundedWork(t *testing.T) { // not parallel: it counts allocations
	type cost struct {
		work   int
		allocs float64
	}
	costs := map[string][2]cost{}
	for i, n := range []uint64{1_000, 1_000_000} {
		c := longStream(t, n)
		end := n + 20
		measure := func(name string, cmd meta.Command) {
			t.Helper()
			p := c.proposal(cmd)
			var work int
			allocs := testing.AllocsPerRun(3, func() {
				var a meta.Answer
				if a, work = meta.Work(c.s, p); a.Status != meta.Applied {
					t.Fatalf("%s: %v", name, a.Err)
				}
			})
			both := costs[name]
			both[i] = cost{work, allocs}
			costs[name] = both
		}
		next := obj(110)
		for at := end; at < end+10; at++ {
			next.Slices = append(next.Slices, sl(1, at, at+1))
		}
		measure("prepare", prepare(1, 10))
		measure("commit ten slices", commit(1, next))
		measure("compact two objects", compact(1, []uint64{101, 102}, obj(110, sl(1, n, end))))
		measure("trim half", trim(1, 1, 1, n/2))
		c.ok(trim(1, 1, 1, n/2))
		measure("reclaim of half", reclaim(0, 100))
		c.ok(shut(1, 1, 1))
		measure("delete", meta.DeleteStream{StreamID: 1, Epoch: 1})
		c.ok(meta.DeleteStream{StreamID: 1, Epoch: 1})
		measure("reclaim of all", reclaim(0, 100))
		c.ok(reclaim(5001, 10))
		measure("forget", forget(103, 104))
	}
	for name, c := range costs {
		t.Logf("%-20s work %5d and %5d, allocations %5.0f and %5.0f", name, c[0].work, c[1].work, c[0].allocs, c[1].allocs)
		if c[1].work > 2*c[0].work+20 || c[1].allocs > 2*c[0].allocs+20 {
			t.Errorf("%s: %+v with a thousand slices, %+v with a million", name, c[0], c[1])
		}
	}
}

// TestFindObjectsAllocates: nothing into an answer with room, and once otherwise.
func TestFindObjectsAllocates(t *testing.T) { // not parallel: it counts allocations
	c := longStream(t, 10_000)
	var f meta.Found
	find := func() {
		if err := c.s.FindObjectsInto(&f, 1, 5_000, 0, 10); err != nil || len(f.Slices) != 10 || f.Stop != meta.StopLimit {
			t.Fatal(err, f)
		}
	}
	find()
	if n := testing.AllocsPerRun(100, find); n != 0 {
		t.Errorf("FindObjectsInto allocates %v times, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if g, err := c.s.FindObjects(1, 5_000, 0, 10); err != nil || cap(g.Slices) != 10 {
			t.Fatal(err, cap(g.Slices))
		}
	}); n != 1 {
		t.Errorf("FindObjects allocates %v times, want 1", n)
	}
}

func TestFindLimits(t *testing.T) {
	t.Parallel()
	c := longStream(t, 20_000)
	for _, f := range []struct {
		limit, want int
		code        meta.Code
	}{{0, 100, 0}, {1, 1, 0}, {10_000, 10_000, 0}, {10_001, 0, meta.CodeTooLarge}, {-1, 0, meta.CodeInvalidArgument}} {
		got, err := c.s.FindObjects(1, 0, 0, f.limit)
		if meta.CodeOf(err) != f.code || len(got.Slices) != f.want {
			t.Errorf("limit %d: %d slices, %v", f.limit, len(got.Slices), err)
		}
	}
	// Answers put together give the whole stream.
	var at uint64
	for {
		got, err := c.s.FindObjects(1, at, 0, 999)
		if err != nil || got.StartOffset != at {
			t.Fatal(err, got.StartOffset)
		}
		at = got.EndOffset
		if got.Stop == meta.StopEnd {
			break
		}
	}
	if at != 20_020 {
		t.Errorf("read up to %d", at)
	}
}

// TestCompactionCandidatesPages goes over more slices than one page looks at, and over more objects than one holds.
func TestCompactionCandidatesPages(t *testing.T) {
	t.Parallel()
	c := longStream(t, 50_000) // 100 objects of 500 slices, two of ten
	c.ok(trim(1, 1, 1, 750))
	for _, limit := range []int{3, 7, 100} {
		found := map[uint64]uint64{}
		cursor, pages := "", 0
		for {
			p, err := c.s.CompactionCandidates(1, 2, cursor, limit)
			if err != nil || len(p.Items) > limit {
				t.Fatal(err, len(p.Items))
			}
			for _, x := range p.Items {
				found[x.ObjectID] += x.SmallSlices
			}
			pages++
			if cursor = p.Next; cursor == "" {
				break
			}
		}
		if len(found) != 101 || found[1] != 0 || found[2] != 250 || found[3] != 500 || found[102] != 10 {
			t.Errorf("limit %d: %d objects: %v", limit, len(found), found)
		}
		if want := max(5, 101/limit); pages < want {
			t.Errorf("limit %d: %d pages, want at least %d", limit, pages, want)
		}
	}
	if p, err := c.s.CompactionCandidates(1, 1, "", 0); err != nil || len(p.Items) != 0 {
		t.Errorf("no slice is below one byte, but %v are candidates: %v", p.Items, err)
	}
	if _, err := c.s.CompactionCandidates(9, 1, "", 0); meta.CodeOf(err) != meta.CodeStreamNotFound {
		t.Error(err)
	}
	if _, err := c.s.CompactionCandidates(1, 1, "x", 0); meta.CodeOf(err) != meta.CodeInvalidArgument {
		t.Error(err)
	}
}

func TestFindOffset(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	slices := []meta.Slice{sl(1, 0, 10), sl(1, 10, 20), sl(1, 20, 30), sl(1, 30, 40)}
	for i, ts := range []int64{50, 10, 70, 60} { // they need not ascend
		slices[i].MaxTimestamp = ts
	}
	c.ok(commit(1, obj(1, slices...)))
	check := func(want ...string) {
		t.Helper()
		for i, ts := range []int64{-100, 50, 51, 70, 71} {
			offset, found, err := c.s.FindOffset(1, ts)
			if got := fmt.Sprint(offset, found, err); got != want[i] {
				t.Errorf("first offset at %d: %s, want %s", ts, got, want[i])
			}
		}
	}
	check("0 true <nil>", "0 true <nil>", "20 true <nil>", "20 true <nil>", "40 false <nil>")
	c.ok(trim(1, 1, 1, 7))
	check("7 true <nil>", "7 true <nil>", "20 true <nil>", "20 true <nil>", "40 false <nil>")
	c.ok(trim(1, 1, 1, 10)) // dead, though not released
	check("10 true <nil>", "20 true <nil>", "20 true <nil>", "20 true <nil>", "40 false <nil>")
	if _, _, err := c.s.FindOffset(9, 0); meta.CodeOf(err) != meta.CodeStreamNotFound {
		t.Error(err)
	}
}
