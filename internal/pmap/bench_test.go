package pmap_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// wide is a value of 16 bytes without pointers.
type wide [2]uint64

func randomKeys(n int) []uint64 {
	rng := rand.New(rand.NewPCG(1, 2))
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = rng.Uint64()
	}
	return keys
}

func filled[V any](keys []uint64) pmap.Map[uint64, V] {
	var m pmap.Map[uint64, V]
	var none V
	for i := 0; i < len(keys); i += 256 {
		e := pmap.NewEdit()
		for _, k := range keys[i:min(i+256, len(keys))] {
			m.Set(e, k, none)
		}
	}
	return m
}

var sizes = []int{1_000, 1_000_000}

func each(b *testing.B, f func(b *testing.B, keys []uint64)) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) { f(b, randomKeys(n)) })
	}
}

// BenchmarkGet looks up random keys that are there.
func BenchmarkGet(b *testing.B) {
	each(b, func(b *testing.B, keys []uint64) {
		m := filled[wide](keys)
		for i := 0; b.Loop(); i++ {
			if _, ok := m.Get(keys[i%len(keys)]); !ok {
				b.Fatal("absent")
			}
		}
	})
}

// BenchmarkUpdate replaces the values of random keys, with a snapshot after each row.
func BenchmarkUpdate(b *testing.B) {
	for _, row := range []int{1, 256} {
		b.Run(fmt.Sprintf("row%d", row), func(b *testing.B) {
			each(b, func(b *testing.B, keys []uint64) {
				m := filled[wide](keys)
				var view pmap.Map[uint64, wide]
				e, n := pmap.NewEdit(), 0
				for b.Loop() {
					m.Set(e, keys[n%len(keys)], wide{1})
					if n++; n%row == 0 {
						view, e = m, pmap.NewEdit()
					}
				}
				runtime.KeepAlive(view)
			})
		})
	}
}

// BenchmarkInsertDelete puts a new key in and takes an old one out, in rows of 256.
func BenchmarkInsertDelete(b *testing.B) {
	each(b, func(b *testing.B, keys []uint64) {
		m := filled[wide](keys)
		rng := rand.New(rand.NewPCG(7, 8))
		e, n := pmap.NewEdit(), 0
		for b.Loop() {
			i := rng.IntN(len(keys))
			m.Delete(e, keys[i])
			keys[i] = rng.Uint64()
			m.Set(e, keys[i], wide{1})
			if n++; n%128 == 0 {
				e = pmap.NewEdit()
			}
		}
	})
}

// BenchmarkBuild builds a map from sorted entries; the time is per entry.
func BenchmarkBuild(b *testing.B) {
	each(b, func(b *testing.B, keys []uint64) {
		m := filled[wide](keys)
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			built, err := pmap.FromSorted(m.All())
			if err != nil {
				b.Fatal(err)
			}
			n += built.Len()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/entry")
	})
}

// BenchmarkAppend sets ascending keys, in rows of 256, as ids are handed out.
func BenchmarkAppend(b *testing.B) {
	var m pmap.Map[uint64, wide]
	e, n := pmap.NewEdit(), uint64(0)
	for b.Loop() {
		m.Set(e, n, wide{})
		if n++; n%256 == 0 {
			e = pmap.NewEdit()
		}
	}
}

// BenchmarkIterate walks the whole map; the time is per entry.
func BenchmarkIterate(b *testing.B) {
	each(b, func(b *testing.B, keys []uint64) {
		m := filled[wide](keys)
		n, sum := 0, uint64(0)
		for b.Loop() {
			for k := range m.All() {
				sum += k
				n++
			}
		}
		runtime.KeepAlive(sum)
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/entry")
	})
}

// BenchmarkHeap reports the live heap of a map built in random order in rows of 256, per entry: with values of 8 and
// of 16 bytes, and of 16 built from sorted input.
func BenchmarkHeap(b *testing.B) {
	heap := func(b *testing.B, build func() any) {
		for b.Loop() {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			m := build()
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "B/entry")
			b.ReportMetric(float64(after.HeapObjects-before.HeapObjects)/1e6, "objects/entry")
			runtime.KeepAlive(m)
		}
	}
	keys := randomKeys(1_000_000)
	b.Run("value8", func(b *testing.B) { heap(b, func() any { return filled[uint64](keys) }) })
	b.Run("value16", func(b *testing.B) { heap(b, func() any { return filled[wide](keys) }) })
	b.Run("value16sorted", func(b *testing.B) {
		m := filled[wide](keys)
		heap(b, func() any {
			built, err := pmap.FromSorted(m.All())
			if err != nil {
				b.Fatal(err)
			}
			return built
		})
	})
}
