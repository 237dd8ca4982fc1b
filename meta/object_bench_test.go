package meta_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// committer commits objects of ten slices each, of random streams of filledState.
type committer struct {
	b     *testing.B
	s     *meta.State
	rnd   *rand.Rand
	ends  []uint64 // by stream id - 1
	ids   []uint64 // prepared by node 1 and not committed yet
	slots int      // streams of node 1
	sent  uint64   // requests
}

func newCommitter(b *testing.B, s *meta.State, streams int) *committer {
	c := &committer{b: b, s: s, rnd: rand.New(rand.NewPCG(1, 2)), ends: make([]uint64, streams), slots: streams / 100}
	for i := range c.ends {
		st, _ := s.Stream(uint64(i + 1))
		c.ends[i] = st.EndOffset
	}
	return c
}

// prepare makes n commands. The time of preparing ids is not measured.
func (c *committer) prepare(n int) [][]byte {
	c.b.StopTimer()
	defer c.b.StartTimer()
	for len(c.ids) < n {
		b, err := meta.AppendProposal(nil, meta.Proposal{Command: meta.PrepareObjects{Identity: by(1), Count: 1000, Deadline: 1 << 40},
			Request: &meta.Request{Client: [16]byte{9}, Sequence: c.sent + 1, Oldest: c.sent + 1}})
		c.sent++
		if err != nil {
			c.b.Fatal(err)
		}
		for i, a := range c.apply([][]byte{b}) {
			r, ok := a.Result.(meta.PrepareObjectsResult)
			if !ok {
				c.b.Fatal(i, a.Err)
			}
			for k := range r.Count {
				c.ids = append(c.ids, r.FirstObjectID+k)
			}
		}
	}
	row := make([][]byte, n)
	for i := range row {
		o := meta.Object{ObjectID: c.ids[0], Size: 1 << 20, Attributes: []byte("etag")}
		c.ids = c.ids[1:]
		for k := range uint64(10) {
			id := c.rnd.IntN(c.slots) * 100
			end := c.ends[id]
			c.ends[id] += 1000
			o.Slices = append(o.Slices, meta.Slice{StreamID: uint64(id + 1), StreamEpoch: 1, StartOffset: end, EndOffset: end + 1000,
				Position: k * 100_000, Length: 100_000, MaxTimestamp: 1_700_000_000_000})
		}
		b, err := meta.AppendProposal(nil, meta.Proposal{Command: meta.CommitObjects{Identity: by(1), Objects: []meta.Object{o}}})
		if err != nil {
			c.b.Fatal(err)
		}
		row[i] = b
	}
	return row
}

func (c *committer) apply(row [][]byte) []meta.Answer {
	next, answers, err := c.s.Apply(c.s.Index()+1, row)
	if err != nil {
		c.b.Fatal(err)
	}
	c.s = next
	return answers
}

// BenchmarkCommitTen is one CommitObjects of one object with ten slices of random streams, decoded, judged and applied; of
// ten streams, or of all that node 1 has, which are one in a hundred.
func BenchmarkCommitTen(b *testing.B) {
	for _, x := range []struct{ streams, of int }{{1_000, 10}, {1_000_000, 10}, {1_000_000, 10_000}} {
		for _, perRow := range []int{1, 256} {
			b.Run(fmt.Sprintf("streams=%d/of=%d/row=%d", x.streams, x.of, perRow), func(b *testing.B) {
				c := newCommitter(b, stateOf(b, x.streams), x.streams)
				c.slots = x.of
				b.ReportAllocs()
				b.ResetTimer()
				for n := 0; n < b.N; n += perRow {
					for _, a := range c.apply(c.prepare(perRow)) {
						if a.Err != nil {
							b.Fatal(a.Err)
						}
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			})
		}
	}
}

// BenchmarkFindTen is FindObjects of ten slices at a random offset of one stream.
func BenchmarkFindTen(b *testing.B) {
	for _, slices := range []uint64{10_000, 1_000_000} {
		c := longStream(b, slices)
		rnd := rand.New(rand.NewPCG(1, 2))
		b.Run(fmt.Sprintf("slices=%d/alloc", slices), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if f, err := c.s.FindObjects(1, rnd.Uint64N(slices), 0, 10); err != nil || len(f.Slices) != 10 {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("slices=%d/into", slices), func(b *testing.B) {
			b.ReportAllocs()
			var f meta.Found
			for b.Loop() {
				if err := c.s.FindObjectsInto(&f, 1, rnd.Uint64N(slices), 0, 10); err != nil || len(f.Slices) != 10 {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("slices=%d/offset", slices), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, found, err := c.s.FindOffset(1, rnd.Int64N(int64(slices))); err != nil || !found {
					b.Fatal(err)
				}
			}
		})
	}
	// Over many streams nothing is in the cache: a million slices, ten to each of 100,000 streams.
	c, n := manySlices(b, 100_000, 10)
	b.Run(fmt.Sprintf("streams=100000/slices=%d", n), func(b *testing.B) {
		rnd := rand.New(rand.NewPCG(1, 2))
		var f meta.Found
		b.ReportAllocs()
		for b.Loop() {
			if err := c.s.FindObjectsInto(&f, 1+rnd.Uint64N(100_000), 0, 0, 10); err != nil || len(f.Slices) != 10 {
				b.Fatal(err)
			}
		}
	})
}

// manySlices has each object hold one slice of each of ten streams.
func manySlices(b testing.TB, streams, rounds int) (c *cluster, n int) {
	c = newCluster(b)
	c.fast = true
	c.ok(register(1))
	each := func(count int, f func(i int) meta.Command) {
		for i := 0; i < count; {
			var row []meta.Command
			for ; i < count && len(row) < 256; i++ {
				row = append(row, f(i))
			}
			for _, a := range c.row(row...) {
				if a.Err != nil {
					b.Fatal(a.Err)
				}
			}
		}
	}
	each(streams, func(i int) meta.Command { return create(1, fmt.Sprintf("stream-%d", i)) })
	each(streams, func(i int) meta.Command { return open(1, uint64(i+1)) })
	objects := streams / 10 * rounds
	each(objects/1000, func(int) meta.Command { return prepare(1, 1000) })
	each(objects, func(i int) meta.Command {
		o := obj(uint64(i + 1))
		at := uint64(i/(streams/10)) * 1000
		for k := range uint64(10) {
			x := sl(uint64(i%(streams/10))*10+k+1, at, at+1000)
			x.Position, x.Length, x.MaxTimestamp = k*100_000, 100_000, 1_700_000_000_000
			o.Slices = append(o.Slices, x)
		}
		return commit(1, o)
	})
	return c, objects * 10
}

// randomSlices has streams with a label, a tenth as many keys, and objects of ten slices of streams drawn at random, until
// there are ten slices for each stream on average.
func randomSlices(b testing.TB, streams int) *meta.State {
	c, _ := manySlices(b, streams, 0)
	c.fast = true
	for row := range slices.Chunk(sequence(0, streams), 250) {
		var commands []meta.Command
		for _, i := range row {
			commands = append(commands, meta.LabelStream{StreamID: uint64(i + 1), Labels: []meta.Label{{Name: "topic", Value: fmt.Sprint(i % 1000)}}})
			if i%10 == 0 {
				commands = append(commands, putKey(fmt.Sprintf("key-%d", i), "a value of a hundred bytes, or nearly so, as the other benchmarks have them, which is what keys are used for"))
			}
		}
		for half := range slices.Chunk(commands, 250) {
			c.row(half...)
		}
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	ends := make([]uint64, streams)
	for first := 0; first < streams; first += 1000 {
		c.ok(prepare(1, 1000))
		for row := range slices.Chunk(sequence(first, 1000), 250) {
			commands := make([]meta.Command, len(row))
			for i, object := range row {
				o := obj(uint64(object + 1))
				for k := range uint64(10) {
					id := rnd.IntN(streams)
					x := sl(uint64(id+1), ends[id], ends[id]+1000)
					ends[id] += 1000
					x.Position, x.Length, x.MaxTimestamp = k*100_000, 100_000, 1_700_000_000_000
					o.Slices = append(o.Slices, x)
				}
				commands[i] = commit(1, o)
			}
			for _, a := range c.row(commands...) {
				if a.Err != nil {
					b.Fatal(a.Err)
				}
			}
		}
	}
	return c.s
}

func sequence(first, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = first + i
	}
	return all
}

// BenchmarkSnapshotOfSlices encodes and decodes a state whose streams have ten slices each, in objects of random streams,
// and reports the live heap of what was decoded.
func BenchmarkSnapshotOfSlices(b *testing.B) {
	for _, streams := range []int{10_000, 1_000_000} {
		s := randomSlices(b, streams)
		encoded := encodeState(b, s)
		b.Run(fmt.Sprintf("encode/streams=%d", streams), func(b *testing.B) {
			b.SetBytes(int64(len(encoded)))
			for b.Loop() {
				if err := s.Encode(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(streams)/10*1e9, "ns/slice")
		})
		s = nil
		b.Run(fmt.Sprintf("decode/streams=%d", streams), func(b *testing.B) {
			b.SetBytes(int64(len(encoded)))
			var s *meta.State
			var err error
			before := liveHeap()
			for b.Loop() {
				s = nil
				if s, err = meta.Decode(bytes.NewReader(encoded)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(streams)/10*1e9, "ns/slice")
			b.ReportMetric(float64(liveHeap()-before)/(1<<20), "MiB")
			runtime.KeepAlive(s)
		})
	}
}

// liveHeap returns how many bytes are reachable.
func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkObjectsHeap reports the live heap of objects of ten slices each, per slice, everything counted: records,
// contents and indexes.
func BenchmarkObjectsHeap(b *testing.B) {
	for _, rounds := range []int{10, 100} {
		b.Run(fmt.Sprintf("slices=%d", rounds*10_000), func(b *testing.B) {
			for b.Loop() {
				before := liveHeap()
				empty, _ := manySlices(b, 10_000, 0)
				streams := liveHeap() - before
				before = liveHeap()
				c, n := manySlices(b, 10_000, rounds)
				all := liveHeap() - before
				b.ReportMetric(float64(all-streams)/float64(n), "B/slice")
				b.ReportMetric(float64(all-streams)/float64(n)*10, "B/object")
				runtime.KeepAlive(c)
				runtime.KeepAlive(empty)
			}
		})
	}
}
