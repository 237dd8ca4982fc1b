package pmap_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// model is a map as plainly as can be: sorted pairs.
type model []pair

type pair struct {
	K uint64
	V int
}

func (m model) find(k uint64) (int, bool) {
	return slices.BinarySearchFunc(m, k, func(p pair, k uint64) int {
		switch {
		case p.K < k:
			return -1
		case p.K > k:
			return 1
		}
		return 0
	})
}

func (m model) set(k uint64, v int) model {
	if i, ok := m.find(k); ok {
		m[i].V = v
		return m
	} else {
		return slices.Insert(m, i, pair{k, v})
	}
}

func (m model) remove(k uint64) model {
	if i, ok := m.find(k); ok {
		return slices.Delete(m, i, i+1)
	}
	return m
}

func pairs(seq iter.Seq2[uint64, int]) model {
	var out model
	for k, v := range seq {
		out = append(out, pair{k, v})
	}
	return out
}

// same compares the whole of m with the model.
func same(t *testing.T, m pmap.Map[uint64, int], want model) {
	t.Helper()
	if m.Len() != len(want) {
		t.Fatalf("Len() = %d, want %d", m.Len(), len(want))
	}
	if got := pairs(m.All()); !slices.Equal(got, want) {
		t.Fatalf("All() differs (-want +got):\n%s", cmp.Diff(want, got))
	}
	if err := pmap.Check(m); err != nil {
		t.Fatalf("shape: %v", err)
	}
}

// probe compares every kind of look-up and iteration at k with the model.
func probe(t *testing.T, m pmap.Map[uint64, int], want model, k uint64) {
	t.Helper()
	point(t, m, want, k)
	i, found := want.find(k)
	if got := pairs(m.From(k)); !slices.Equal(got, want[i:]) {
		t.Fatalf("From(%d) differs:\n%s", k, cmp.Diff(want[i:], got))
	}
	if found {
		i++
	}
	down := slices.Clone(want[:i])
	slices.Reverse(down)
	if got := pairs(m.Backward(k)); !slices.Equal(got, down) {
		t.Fatalf("Backward(%d) differs:\n%s", k, cmp.Diff(down, got))
	}
}

// point compares every kind of look-up at k with the model.
func point(t *testing.T, m pmap.Map[uint64, int], want model, k uint64) {
	t.Helper()
	type answer struct {
		K  uint64
		V  int
		OK bool
	}
	at := func(i int) answer {
		if i < 0 || i >= len(want) {
			return answer{}
		}
		return answer{want[i].K, want[i].V, true}
	}
	i, found := want.find(k)
	floor := i - 1
	if found {
		floor = i
	}
	check := func(name string, got, want answer) {
		t.Helper()
		if got != want {
			t.Fatalf("%s(%d) = %v, want %v", name, k, got, want)
		}
	}
	var get answer
	if get.V, get.OK = m.Get(k); get.OK {
		get.K = k
	}
	wantGet := at(i)
	if !found {
		wantGet = answer{}
	}
	check("Get", get, wantGet)
	check("Has", answer{OK: m.Has(k)}, answer{OK: found})
	var a answer
	a.K, a.V, a.OK = m.Floor(k)
	check("Floor", a, at(floor))
	a.K, a.V, a.OK = m.Ceil(k)
	check("Ceil", a, at(i))
	a.K, a.V, a.OK = m.Min()
	check("Min", a, at(0))
	a.K, a.V, a.OK = m.Max()
	check("Max", a, at(len(want)-1))
}

// TestRandomAgainstModel changes maps of several sizes at random, keeps snapshots, and compares everything with the
// model, the snapshots again at the end.
func TestRandomAgainstModel(t *testing.T) {
	t.Parallel()
	for _, span := range []uint64{3, 60, 70, 200, 5000, 20000} {
		t.Run(fmt.Sprint(span), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, span))
			var m pmap.Map[uint64, int]
			var want model
			type held struct {
				m    pmap.Map[uint64, int]
				want model
			}
			var kept []held
			e := pmap.NewEdit()
			growing := true
			places := map[uint64]pmap.Place{}
			for step := range 30000 {
				if len(want) >= int(span)*3/4 {
					growing = false
				} else if len(want) <= int(span)/10 {
					growing = true
				}
				k := rng.Uint64N(span) * 2
				if (rng.IntN(3) > 0) == growing {
					i, had := want.find(k)
					var old int
					var replaced bool
					switch at, ok := places[k]; {
					case rng.IntN(2) == 0:
						old, replaced = m.Set(e, k, step)
					case ok && rng.IntN(2) == 0: // found long ago, maybe moved or deleted since
						old, replaced = m.Replace(e, at, k, step)
					default:
						v, at, found := m.Find(k)
						if found != had || had && v != want[i].V {
							t.Fatalf("Find(%d) = %d, %v", k, v, found)
						}
						places[k] = at
						old, replaced = m.Replace(e, at, k, step)
					}
					if replaced != had || had && old != want[i].V {
						t.Fatalf("Set(%d) = %d, %v", k, old, replaced)
					}
					want = want.set(k, step)
				} else {
					i, had := want.find(k)
					old, deleted := m.Delete(e, k)
					if deleted != had || had && old != want[i].V {
						t.Fatalf("Delete(%d) = %d, %v", k, old, deleted)
					}
					want = want.remove(k)
				}
				if rng.IntN(20) == 0 {
					e = pmap.NewEdit()
				}
				if rng.IntN(400) == 0 {
					same(t, m, want)
					probe(t, m, want, rng.Uint64N(span*2+2))
					for range 200 {
						point(t, m, want, rng.Uint64N(span*2+2))
					}
					kept = append(kept, held{m, slices.Clone(want)})
					e = pmap.NewEdit()
				}
			}
			same(t, m, want)
			for _, h := range kept {
				same(t, h.m, h.want)
			}
		})
	}
}

// TestEveryKeyAtFanOutBoundaries looks at every key of maps whose sizes lie around full leaves and full inner nodes,
// built by Set upward, downward and by FromSorted, and then empties them from either end.
func TestEveryKeyAtFanOutBoundaries(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 2, 3, 16, 63, 64, 65, 127, 128, 129, 64*63 + 1, 64 * 64, 64*64 + 1, 64*64 + 65} {
		var want model
		for i := range size {
			want = append(want, pair{uint64(i)*2 + 1, i})
		}
		up, down := pmap.Map[uint64, int]{}, pmap.Map[uint64, int]{}
		for i := range want {
			e := pmap.NewEdit()
			up.Set(e, want[i].K, want[i].V)
			w := want[len(want)-1-i]
			down.Set(e, w.K, w.V)
		}
		sorted, err := pmap.FromSorted(up.All())
		if err != nil {
			t.Fatalf("FromSorted of %d: %v", size, err)
		}
		for name, m := range map[string]pmap.Map[uint64, int]{"up": up, "down": down, "sorted": sorted} {
			t.Run(fmt.Sprintf("%d %s", size, name), func(t *testing.T) {
				same(t, m, want)
				for k := uint64(0); k <= uint64(size)*2+2; k += 1 + uint64(size)/50 {
					probe(t, m, want, k)
				}
				front, back := m, m
				for i := range want {
					front.Delete(pmap.NewEdit(), want[i].K)
					back.Delete(pmap.NewEdit(), want[len(want)-1-i].K)
					if i%97 == 0 {
						same(t, front, want[i+1:])
						same(t, back, want[:len(want)-1-i])
					}
				}
				same(t, front, nil)
				same(t, back, nil)
				same(t, m, want)
			})
		}
	}
}

// TestDeleteOfNothingCopiesNothing holds the promise that a miss costs no node.
func TestDeleteOfNothingCopiesNothing(t *testing.T) {
	t.Parallel()
	var m pmap.Map[uint64, int]
	for k := range uint64(1000) {
		m.Set(pmap.NewEdit(), k*2, 1)
	}
	e := pmap.NewEdit()
	if _, deleted := m.Delete(e, 1001); deleted || e.Nodes() != 0 {
		t.Fatalf("Delete of an absent key: deleted %v, %d nodes touched", deleted, e.Nodes())
	}
}

// TestWorkPerChange counts nodes: a change in a fresh row copies one path, and a second change of the same entry none.
func TestWorkPerChange(t *testing.T) {
	t.Parallel()
	for _, size := range []uint64{1000, 200_000} {
		m, err := pmap.FromSorted(func(yield func(uint64, int) bool) {
			for k := range size {
				if !yield(k*2, 0) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		const path = 4 // levels at 200,000 entries, and what a split or a join adds at each
		for k := uint64(0); k < size*2; k += size / 100 {
			e := pmap.NewEdit()
			m.Set(e, k|1, 1)
			if e.Nodes() > 3*path {
				t.Fatalf("size %d: insert touched %d nodes", size, e.Nodes())
			}
			before := e.Nodes()
			m.Set(e, k|1, 2)
			if e.Nodes() != before {
				t.Fatalf("size %d: a second change in the same row copied %d nodes", size, e.Nodes()-before)
			}
			e = pmap.NewEdit()
			m.Delete(e, k|1)
			if e.Nodes() > 3*path {
				t.Fatalf("size %d: delete touched %d nodes", size, e.Nodes())
			}
		}
	}
}

// TestMemoryFollowsSize deletes most of a large map in random order and looks at what is left in memory; and it
// shows that ascending keys and FromSorted give dense leaves.
func TestMemoryFollowsSize(t *testing.T) {
	t.Parallel()
	const size = 100_000
	var m pmap.Map[uint64, int]
	e := pmap.NewEdit()
	for k := range uint64(size) {
		m.Set(e, k, 0)
	}
	if nodes, places := pmap.Shape(m); nodes > size/60 || places > size*11/10 {
		t.Errorf("ascending: %d entries in %d nodes with %d places", size, nodes, places)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	order := rand.New(rand.NewPCG(seed, 0)).Perm(size)
	for _, k := range order[:size*99/100] {
		m.Delete(e, uint64(k))
	}
	left := m.Len()
	if nodes, places := pmap.Shape(m); nodes > left/12 || places > left*3/2+100 {
		t.Errorf("after deletions: %d entries in %d nodes with %d places", left, nodes, places)
	}
	if err := pmap.Check(m); err != nil {
		t.Error(err)
	}
	// Keys that descend into the gap behind a full leaf must not get a leaf each.
	dense, err := pmap.FromSorted(func(yield func(uint64, int) bool) {
		for k := uint64(0); k < 640; k++ {
			if !yield(k*1000, 0) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for k := uint64(63*1000 + 999); k > 63*1000; k-- {
		dense.Set(e, k, 0)
	}
	if nodes, _ := pmap.Shape(dense); nodes > dense.Len()/12 {
		t.Errorf("behind a full leaf: %d entries in %d nodes", dense.Len(), nodes)
	}
	var small pmap.Map[uint64, int]
	small.Set(e, 1, 1)
	if _, places := pmap.Shape(small); places != 1 {
		t.Errorf("one entry in %d places", places)
	}
}

// TestHeldSnapshotsUnderReaders lets readers compare snapshots again and again while the writer goes on. Run with
// -race it shows that look-ups write nothing and that nothing published is written.
func TestHeldSnapshotsUnderReaders(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	type held struct {
		m   pmap.Map[uint64, int]
		sum int
	}
	publish := make(chan held, 4)
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for h := range publish {
				for range 2 {
					sum, count := 0, 0
					for k, v := range h.m.All() {
						got, ok := h.m.Get(k)
						if !ok || got != v {
							t.Errorf("Get(%d) = %d, %v, but All says %d", k, got, ok, v)
						}
						sum, count = sum+v, count+1
					}
					if sum != h.sum || count != h.m.Len() {
						t.Errorf("a published map changed: sum %d, was %d", sum, h.sum)
					}
				}
			}
		})
	}
	var m pmap.Map[uint64, int]
	sum := 0
	for range 300 {
		e := pmap.NewEdit()
		for range 40 {
			k := rng.Uint64N(3000)
			if rng.IntN(3) == 0 {
				old, _ := m.Delete(e, k)
				sum -= old
			} else {
				v := rng.IntN(1000)
				old, _ := m.Set(e, k, v)
				sum += v - old
			}
		}
		publish <- held{m, sum}
	}
	close(publish)
	readers.Wait()
}

// TestRestoreAfterRefusal shows the way Atomic uses a map: keep a copy, go on with a new Edit, put the copy back and
// go on with the first Edit.
func TestRestoreAfterRefusal(t *testing.T) {
	t.Parallel()
	var m pmap.Map[uint64, int]
	var want model
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	e := pmap.NewEdit()
	for range 2000 {
		k := rng.Uint64N(700)
		m.Set(e, k, 1)
		want = want.set(k, 1)
		saved, inner := m, pmap.NewEdit()
		for range 5 {
			m.Set(inner, rng.Uint64N(700), 2)
			m.Delete(inner, rng.Uint64N(700))
		}
		m = saved
	}
	same(t, m, want)
}

// TestStringsAndEmptyValues covers keys with pointers and values without size.
func TestStringsAndEmptyValues(t *testing.T) {
	t.Parallel()
	var m pmap.Map[string, struct{}]
	var want []string
	for i := range 1000 {
		k := fmt.Sprintf("key-%d", i*7919%1000)
		m.Set(pmap.NewEdit(), k, struct{}{})
		want = append(want, k)
	}
	slices.Sort(want)
	var got []string
	for k := range m.All() {
		got = append(got, k)
	}
	if !slices.Equal(got, want) {
		t.Fatal(cmp.Diff(want, got))
	}
	if k, _, ok := m.Ceil("key-5"); !ok || k != "key-5" {
		t.Errorf("Ceil = %q, %v", k, ok)
	}
	if _, deleted := m.Delete(nil, "key-5"); !deleted || m.Has("key-5") || m.Len() != 999 {
		t.Error("Delete with a nil edit")
	}
}

// TestFromSortedRefusesDisorder also shows that nothing after the fault is read.
func TestFromSortedRefusesDisorder(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]uint64{{1, 1}, {2, 1}, {1, 2, 3, 3, 4}} {
		read := 0
		m, err := pmap.FromSorted(func(yield func(uint64, int) bool) {
			for _, k := range append(slices.Clone(keys), 100) {
				read++
				if !yield(k, 0) {
					return
				}
			}
		})
		if err == nil || m.Len() != 0 || read > len(keys) {
			t.Errorf("%v: error %v, %d entries, %d read", keys, err, m.Len(), read)
		}
	}
}

// TestStopsEarly breaks out of each kind of iteration at every position.
func TestStopsEarly(t *testing.T) {
	t.Parallel()
	var m pmap.Map[uint64, int]
	for k := range uint64(300) {
		m.Set(pmap.NewEdit(), k, int(k))
	}
	for stop := range 300 {
		for name, seq := range map[string]iter.Seq2[uint64, int]{"All": m.All(), "From": m.From(0), "Backward": m.Backward(299)} {
			n := 0
			for range seq {
				if n++; n > stop {
					break
				}
			}
			if n != stop+1 {
				t.Fatalf("%s stopped after %d, want %d", name, n, stop+1)
			}
		}
	}
}
