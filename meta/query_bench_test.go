package meta_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// filledState has n open streams with names and two labels, owned by 100 nodes, and n/10 keys; with objects, also n/10 objects of ten
// slices each.
func filledState(t testing.TB, n int, objects bool) *meta.State {
	t.Helper()
	s := meta.NewState()
	var row [][]byte
	flush := func() {
		next, answers, err := s.Apply(s.Index()+1, row)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			if a.Err != nil {
				t.Fatalf("command %d: %v", i, a.Err)
			}
		}
		s, row = next, nil
	}
	add := func(p meta.Proposal) {
		b, err := meta.AppendProposal(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		if row = append(row, b); len(row) == 256 {
			flush()
		}
	}
	const nodes = 100
	who := func(i int) meta.Identity { return meta.Identity{NodeID: uint64(i%nodes) + 1, NodeEpoch: 1} }
	for i := range nodes {
		add(meta.Proposal{Command: meta.RegisterNode{NodeID: uint64(i + 1), Instance: [16]byte{1, byte(i)}, Address: "10.0.0.1:7000"}})
	}
	for i := range n {
		add(meta.Proposal{Command: meta.CreateStream{Identity: who(i), Name: fmt.Sprintf("tenant-%d/topic-%d", i%1000, i),
			Labels: []meta.Label{{Name: "tenant", Value: fmt.Sprint(i % 1000)}, {Name: "tier", Value: "hot"}}}})
		add(meta.Proposal{Command: meta.OpenStream{Identity: who(i), StreamID: uint64(i + 1)}})
		if i%10 == 0 {
			add(meta.Proposal{Command: meta.PutKey{Key: fmt.Sprintf("offsets/group-%d", i), Value: []byte("0123456789abcdef")}})
		}
	}
	for i := 0; objects && i+10*nodes <= n; i += 10 * nodes {
		for node := range nodes {
			id := uint64(i/10 + node + 1)
			add(meta.Proposal{Request: &meta.Request{Client: [16]byte{1, byte(id >> 16), byte(id >> 8), byte(id)}, Sequence: 1},
				Command: meta.PrepareObjects{Identity: who(node), Count: 1, Deadline: 1 << 40}})
			o := meta.Object{ObjectID: id, Size: 1 << 20, Attributes: []byte("etag")}
			for k := range 10 {
				o.Slices = append(o.Slices, meta.Slice{StreamID: uint64(i + k*nodes + node + 1), StreamEpoch: 1, EndOffset: 1000,
					Position: uint64(k) * 100, Length: 100, MaxTimestamp: 1_700_000_000_000})
			}
			add(meta.Proposal{Command: meta.CommitObjects{Identity: who(node), Objects: []meta.Object{o}}})
		}
	}
	flush()
	return s
}

var states sync.Map // number of streams → func() *meta.State

// stateOf returns the filled state with n streams, made once.
func stateOf(b *testing.B, n int) *meta.State {
	b.Helper()
	f, _ := states.LoadOrStore(n, sync.OnceValue(func() *meta.State { return filledState(b, n, true) }))
	return f.(func() *meta.State)()
}

func eachSize(b *testing.B, f func(b *testing.B, s *meta.State, n int)) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := stateOf(b, n)
			b.ReportAllocs()
			f(b, s, n)
		})
	}
}

// BenchmarkStreamByID looks one stream up, the same few again and again (hot) and all in turn (spread).
func BenchmarkStreamByID(b *testing.B) {
	for _, mode := range []struct {
		name string
		span int
	}{{"hot", 8}, {"spread", 1 << 30}} {
		b.Run(mode.name, func(b *testing.B) {
			eachSize(b, func(b *testing.B, s *meta.State, n int) {
				span := uint64(min(n, mode.span))
				for i := uint64(0); b.Loop(); i++ {
					if _, ok := s.Stream(i*7919%span + 1); !ok {
						b.Fatal("absent")
					}
				}
			})
		})
	}
}

// BenchmarkStreamByName looks streams up by name, in turn.
func BenchmarkStreamByName(b *testing.B) {
	eachSize(b, func(b *testing.B, s *meta.State, n int) {
		names := make([]string, min(n, 10_000))
		for i := range names {
			k := i * 97 % n
			names[i] = fmt.Sprintf("tenant-%d/topic-%d", k%1000, k)
		}
		for i := 0; b.Loop(); i++ {
			if _, ok := s.StreamByName(names[i%len(names)]); !ok {
				b.Fatal("absent")
			}
		}
	})
}

// BenchmarkPage reads a page of 100 streams, by label and by prefix.
func BenchmarkPage(b *testing.B) {
	b.Run("label", func(b *testing.B) {
		eachSize(b, func(b *testing.B, s *meta.State, n int) {
			for b.Loop() {
				if p, err := s.StreamsByLabel(meta.Label{Name: "tier", Value: "hot"}, "", 100); err != nil || len(p.Items) != 100 {
					b.Fatal(err, len(p.Items))
				}
			}
		})
	})
	b.Run("prefix", func(b *testing.B) {
		eachSize(b, func(b *testing.B, s *meta.State, n int) {
			for b.Loop() {
				if p, err := s.StreamsByName("tenant-5", "", 100); err != nil || len(p.Items) != 100 {
					b.Fatal(err, len(p.Items))
				}
			}
		})
	})
}

// BenchmarkCounts reads the counts.
func BenchmarkCounts(b *testing.B) {
	eachSize(b, func(b *testing.B, s *meta.State, n int) {
		for b.Loop() {
			if s.Counts().Streams != uint64(n) {
				b.Fatal("wrong count")
			}
		}
	})
}

// BenchmarkSnapshot encodes and decodes whole states.
func BenchmarkSnapshot(b *testing.B) {
	b.Run("encode", func(b *testing.B) {
		eachSize(b, func(b *testing.B, s *meta.State, n int) {
			b.SetBytes(int64(len(encodeState(b, s))))
			for b.Loop() {
				if err := s.Encode(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("decode", func(b *testing.B) {
		eachSize(b, func(b *testing.B, s *meta.State, n int) {
			encoded := encodeState(b, s)
			b.SetBytes(int64(len(encoded)))
			for b.Loop() {
				if _, err := meta.Decode(bytes.NewReader(encoded)); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkHeap reports the live heap of a decoded state: with 10⁶ streams also 10⁵ objects, 10⁶ slices and 10⁵ keys.
func BenchmarkHeap(b *testing.B) {
	encoded := encodeState(b, filledState(b, 1_000_000, true))
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s, err := meta.Decode(bytes.NewReader(encoded))
		if err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
		b.ReportMetric(float64(after.HeapObjects-before.HeapObjects), "objects")
		runtime.KeepAlive(s)
	}
}
