package replica_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// counter is the cheapest state there is, so that a benchmark measures the engine.
func counter() replica.Machine[uint64, uint64] {
	m := replica.Machine[uint64, uint64]{
		Apply: func(s uint64, _ oplog.Index, commands [][]byte) (uint64, []uint64, error) {
			out := make([]uint64, len(commands))
			for i := range commands {
				s++
				out[i] = s
			}
			return s, out, nil
		},
		Digest: func(s uint64) (d replica.Digest) {
			binary.LittleEndian.PutUint64(d[:], s)
			return d
		},
		Encode: func(s uint64, w io.Writer) error { return binary.Write(w, binary.LittleEndian, s) },
		Decode: func(r io.Reader) (s uint64, err error) { return s, binary.Read(r, binary.LittleEndian, &s) },
	}
	return m
}

func BenchmarkPropose(b *testing.B) {
	for _, callers := range []int{1, 16, 256, 1000} {
		b.Run(fmt.Sprintf("memory/callers=%d", callers), func(b *testing.B) {
			benchPropose(b, cluster(b).Open(), callers)
		})
		b.Run(fmt.Sprintf("sqlite/callers=%d", callers), func(b *testing.B) {
			log, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "bench.db")})
			if err != nil {
				b.Fatal(err)
			}
			defer log.Close()
			if _, err := replica.Init(b.Context(), log); err != nil {
				b.Fatal(err)
			}
			benchPropose(b, log, callers)
		})
	}
}

// benchPropose lets callers propose commands of 100 bytes, one at a time each.
func benchPropose(b *testing.B, log oplog.Log, callers int) {
	r, err := replica.Open(b.Context(), log, counter(), replica.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var left atomic.Int64
	left.Store(int64(b.N))
	command := make([]byte, 100)
	b.ReportAllocs()
	b.ResetTimer()
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			for left.Add(-1) >= 0 {
				if res := r.Propose(b.Context(), command)[0]; res.Err != nil {
					b.Error(res.Err)
					return
				}
			}
		})
	}
	done.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(float64(b.N)/float64(max(r.View().Index, 1)), "commands/row")
}

func BenchmarkView(b *testing.B) {
	r, err := replica.Open(b.Context(), cluster(b).Open(), counter(), replica.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	b.ReportAllocs()
	var v *replica.View[uint64]
	for b.Loop() {
		v = r.View()
	}
	if v == nil {
		b.Fatal("no view")
	}
}
