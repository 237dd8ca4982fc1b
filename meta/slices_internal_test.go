package meta

// These tests are inside the package because the index is not part of its public face.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// oneSlice returns a ref to the only slice of an object of its own.
func oneSlice(id, start, end uint64, ts int64) sliceRef {
	o := Object{ObjectID: id, Slices: []Slice{{StreamID: 1, StartOffset: start, EndOffset: end, MaxTimestamp: ts}}}
	c, places := packContent(&o, nil)
	return newSliceRef(c, places[0], o.Slices[0], 0)
}

func packed(o *Object) *content {
	c, _ := packContent(o, nil)
	return c
}

// checkIndex checks the shape of the tree and that it holds exactly want.
func checkIndex(t *testing.T, x sliceIndex, want []sliceRef) {
	t.Helper()
	var got []sliceRef
	for c := x.seek(0); ; c.next() {
		r, ok := c.ref()
		if !ok {
			break
		}
		got = append(got, r)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("index holds %d refs %v, want %d %v", len(got), brief(got), len(want), brief(want))
	}
	if x.len() != len(want) {
		t.Fatalf("len %d, want %d", x.len(), len(want))
	}
	if x.root == nil {
		return
	}
	nodes, refs := 0, 0
	var walk func(n *sliceNode) int
	walk = func(n *sliceNode) int {
		nodes++
		if n.kids == nil {
			if len(n.refs) == 0 || len(n.refs) > leafMax {
				t.Fatalf("leaf of %d refs", len(n.refs))
			}
			refs += len(n.refs)
			return 0
		}
		if len(n.kids) == 0 || len(n.kids) > innerMax || n.refs != nil {
			t.Fatalf("inner node of %d kids, refs %v", len(n.kids), n.refs)
		}
		height := -1
		for i, k := range n.kids {
			h := walk(k.node)
			if height >= 0 && h != height {
				t.Fatalf("kids of heights %d and %d", height, h)
			}
			height = h
			if want := newKid(k.node); k != want {
				t.Fatalf("kid %d is summed up as %+v, want %+v", i, k, want)
			}
		}
		return height + 1
	}
	if h := walk(x.root); h >= maxHeight {
		t.Fatalf("height %d", h)
	}
	if most := 2 + 4*refs/leafMerge; nodes > most {
		t.Fatalf("%d nodes hold %d refs, want at most %d", nodes, refs, most)
	}
}

func brief(refs []sliceRef) string {
	s := ""
	for i, r := range refs {
		if i == 100 {
			return s + "…"
		}
		s += fmt.Sprintf(" [%d,%d)", r.start, r.end())
	}
	return s
}

// naiveLookups compares every look-up at the offset with one pass over the plain list.
func naiveLookups(t *testing.T, x sliceIndex, refs []sliceRef, offset uint64, ts int64) {
	t.Helper()
	var at, newer, seek sliceRef
	var atOK, newerOK, seekOK bool
	rank := 0
	for _, r := range refs {
		if r.end() <= offset {
			rank++
			continue
		}
		if !seekOK {
			seek, seekOK = r, true
		}
		if r.start <= offset {
			at, atOK = r, true
		}
		if !newerOK && r.maxTimestamp() >= ts {
			newer, newerOK = r, true
		}
	}
	if got, ok := x.at(offset); ok != atOK || ok && got != at {
		t.Fatalf("at(%d) = [%d,%d) %v, want [%d,%d) %v", offset, got.start, got.end(), ok, at.start, at.end(), atOK)
	}
	if got := x.rank(offset); got != rank {
		t.Fatalf("rank(%d) = %d, want %d", offset, got, rank)
	}
	c := x.seek(offset)
	if got, ok := c.ref(); ok != seekOK || got != seek {
		t.Fatalf("seek(%d) stands at [%d,%d) %v, want [%d,%d) %v", offset, got.start, got.end(), ok, seek.start, seek.end(), seekOK)
	}
	if got, ok := x.newerThan(offset, ts); ok != newerOK || ok && got != newer {
		t.Fatalf("newerThan(%d, %d) = [%d,%d) %v, want [%d,%d) %v", offset, ts, got.start, got.end(), ok, newer.start, newer.end(), newerOK)
	}
}

func TestSliceIndexRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			var x sliceIndex
			var list []sliceRef
			e := pmap.NewEdit()
			type frozen struct {
				x    sliceIndex
				list []sliceRef
			}
			var kept []frozen
			next, id := uint64(1), uint64(0)
			for step := range 4000 {
				if rnd.IntN(8) == 0 {
					if rnd.IntN(40) == 0 {
						kept = append(kept, frozen{x, slices.Clone(list)})
					}
					if len(kept) > 0 && rnd.IntN(40) == 0 { // another one that follows on the same
						kept = append(kept, frozen{x, slices.Clone(list)})
						k := kept[rnd.IntN(len(kept))]
						x, list = k.x, slices.Clone(k.list)
					}
					e = pmap.NewEdit()
				}
				id++
				ts := rnd.Int64N(1000) - 500 + int64(step/10)
				grow := (step/1000)%2 == 0 // grow, shrink, grow, shrink
				switch p := rnd.IntN(10); {
				case grow && p < 8 || !grow && p < 2: // append, now and then behind a hole
					if rnd.IntN(10) == 0 {
						next += 5
					}
					r := oneSlice(id, next, next+1+rnd.Uint64N(9), ts)
					next = r.end()
					x.insert(e, r)
					list = append(list, r)
				case len(list) < 3:
				case p < 9 && rnd.IntN(3) > 0: // release from the front
					if r, ok := x.remove(e, list[0].start); !ok || r != list[0] {
						t.Fatalf("step %d: remove(%d) = %v %v", step, list[0].start, r, ok)
					}
					list = list[1:]
				default: // replace a run, as compaction does, or fill a hole in part
					i := rnd.IntN(len(list) - 1)
					j := min(len(list), i+1+rnd.IntN(4))
					from, to := list[i].start, list[j-1].end()
					for _, r := range list[i:j] {
						if _, ok := x.remove(e, r.start); !ok {
							t.Fatalf("step %d: %d is not there", step, r.start)
						}
					}
					r := oneSlice(id, from, to, ts)
					x.insert(e, r)
					list = slices.Replace(slices.Clone(list), i, j, r)
				}
				if _, ok := x.remove(e, next+100); ok {
					t.Fatal("removed what is not there")
				}
				for range 3 {
					naiveLookups(t, x, list, rnd.Uint64N(next+5), ts)
				}
				if step%100 == 0 {
					checkIndex(t, x, list)
				}
			}
			checkIndex(t, x, list)
			for _, k := range kept {
				checkIndex(t, k.x, k.list)
			}
			for len(list) > 0 {
				i := rnd.IntN(len(list))
				x.remove(e, list[i].start)
				list = slices.Delete(list, i, i+1)
			}
			if x.root != nil {
				t.Fatalf("an empty index keeps a node: %+v", x.root)
			}
		})
	}
}

// TestSliceIndexFollowers: of several indexes that follow on the same one, made at once, each is what it ought to be, and so
// is what they follow on. With the race detector it shows that they do not need each other's order either.
func TestSliceIndexFollowers(t *testing.T) {
	t.Parallel()
	var x sliceIndex
	var list []sliceRef
	for n := uint64(1); n <= 3*leafMax; n++ {
		r := oneSlice(n, n*10, n*10+10, int64(n))
		x.insert(pmap.NewEdit(), r)
		list = append(list, r)
		followers, wants := make([]sliceIndex, 4), make([][]sliceRef, 4)
		var all sync.WaitGroup
		for i := range followers {
			all.Go(func() {
				f, e, want := x, pmap.NewEdit(), slices.Clone(list)
				for k := range uint64(1 + i) {
					r := oneSlice(1000+k, (n+1+k)*10, (n+2+k)*10, int64(i))
					f.insert(e, r)
					want = append(want, r)
				}
				if i == 3 {
					f.remove(e, want[len(want)-2].start)
					want = slices.Delete(want, len(want)-2, len(want)-1)
				}
				followers[i], wants[i] = f, want
			})
		}
		checkIndex(t, x, list)
		all.Wait()
		checkIndex(t, x, list)
		for i := range followers {
			checkIndex(t, followers[i], wants[i])
		}
	}
}

func TestSliceRefLong(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{1, math.MaxUint32 - 1, math.MaxUint32, math.MaxUint32 + 1, 1<<63 - 8} {
		r := oneSlice(1, 7, 7+n, 0)
		if r.end() != 7+n {
			t.Errorf("a slice of %d offsets ends at %d, want %d", n, r.end(), 7+n)
		}
	}
}

func TestContentPacks(t *testing.T) {
	t.Parallel()
	full := Object{ObjectID: 3, Size: 1 << 40, Attributes: []byte("zstd"), Slices: []Slice{
		{StreamID: 1, StreamEpoch: 2, StartOffset: 3, EndOffset: 1<<63 - 1, Position: 4, Length: 5, MaxTimestamp: math.MinInt64},
		{StreamID: math.MaxUint64, StreamEpoch: 1, StartOffset: 0, EndOffset: 1, Position: 1 << 62, Length: 1, MaxTimestamp: math.MaxInt64},
	}}
	for _, o := range []Object{full, {ObjectID: 9}, {ObjectID: 1, Attributes: []byte{0}}} {
		c := packed(&o)
		got := c.object()
		if fmt.Sprint(got) != fmt.Sprint(o) {
			t.Errorf("unpacked %v, want %v", got, o)
		}
		if c.count() != len(o.Slices) || c.size() != o.Size {
			t.Errorf("count %d, size %d", c.count(), c.size())
		}
		d, err := decodeContent(o.ObjectID, c.data)
		if err != nil || !d.equal(c) {
			t.Errorf("decodeContent: %v", err)
		}
	}
	// Whatever is changed, the contents differ.
	a := packed(&full)
	for i := range a.data {
		data := slices.Clone(a.data)
		data[i] ^= 0x41
		if d, err := decodeContent(3, data); err == nil && d.equal(a) {
			t.Errorf("changing byte %d makes no difference", i)
		}
	}
	if b := newContent(4, a.data); a.equal(b) {
		t.Error("another object id makes no difference")
	}
}

// FuzzDecodeContent shows that no bytes make the decoder panic or accept a second form of the same content.
func FuzzDecodeContent(f *testing.F) {
	f.Add([]byte{0, 0, 0})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0})
	f.Add(packed(&Object{Size: 5, Attributes: []byte("a"), Slices: []Slice{{StreamID: 1, EndOffset: 1}}}).data)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeContent(1, data)
		if err != nil {
			return
		}
		o := c.object()
		if d := packed(&o); !d.equal(c) || string(c.data) != string(data) {
			t.Fatalf("%x decodes to %v, which packs to %x", data, o, d.data)
		}
	})
}
