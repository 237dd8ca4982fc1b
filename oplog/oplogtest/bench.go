package oplogtest

import (
	"fmt"
	"testing"

	"github.com/headwaterdb/headwater/oplog"
)

// BenchmarkLog measures one appending caller and one that reads everything, with rows of 100 bytes and of 64 KiB, and a
// look for the newest row. open returns a log on a fresh database.
func BenchmarkLog(b *testing.B, open func(b *testing.B) oplog.Log) {
	start := func(b *testing.B) oplog.Log {
		l := open(b)
		b.Cleanup(func() { l.Close() })
		if err := l.Init(b.Context(), nil); err != nil {
			b.Fatalf("init: %v", err)
		}
		return l
	}
	for _, size := range []int{100, 64 << 10} {
		p := make([]byte, size)
		b.Run(fmt.Sprintf("append/bytes=%d", size), func(b *testing.B) {
			l := start(b)
			b.SetBytes(int64(size))
			for i := oplog.Index(1); b.Loop(); i++ {
				if err := l.Append(b.Context(), i, nil, p); err != nil {
					b.Fatalf("append: %v", err)
				}
			}
		})
		b.Run(fmt.Sprintf("read/bytes=%d", size), func(b *testing.B) {
			const rows = 500
			l := start(b)
			for i := oplog.Index(1); i <= rows; i++ {
				if err := l.Append(b.Context(), i, nil, p); err != nil {
					b.Fatalf("append: %v", err)
				}
			}
			after := oplog.Index(0)
			b.SetBytes(int64(size) * rows)
			for b.Loop() { // one operation reads all rows, in portions of 4 MiB
				for after = 0; after < rows; {
					got, err := l.Read(b.Context(), after, 4<<20)
					if err != nil || len(got) == 0 {
						b.Fatalf("read after %d: %d rows, %v", after, len(got), err)
					}
					after = got[len(got)-1].Index
				}
			}
			b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
		})
	}
	b.Run("newest", func(b *testing.B) {
		l := start(b)
		for b.Loop() {
			if _, err := l.Newest(b.Context()); err != nil {
				b.Fatalf("newest: %v", err)
			}
		}
	})
}
