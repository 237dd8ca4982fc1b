package oplog_test

import (
	"testing"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
)

func TestMemory(t *testing.T) {
	oplogtest.TestLog(t, oplogtest.Harness{New: func(testing.TB) oplogtest.Database {
		m := oplog.NewMemory()
		return oplogtest.Database{
			Open: func(testing.TB) oplog.Log { return m.Open() },
			Put: func(_ testing.TB, rows ...oplog.Row) {
				for _, r := range rows {
					m.Put(r.Index, r.Payload)
				}
			},
			Drop: func(_ testing.TB, index oplog.Index) { m.Drop(index) },
		}
	}})
}

func BenchmarkMemory(b *testing.B) {
	oplogtest.BenchmarkLog(b, func(*testing.B) oplog.Log { return oplog.NewMemory().Open() })
}
