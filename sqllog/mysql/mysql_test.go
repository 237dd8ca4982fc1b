package mysql_test

import (
	"context"
	"testing"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// TestLog: the suite on a server.
func TestLog(t *testing.T) {
	oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
		o := patient(place(t))
		return database(o, func(t testing.TB) oplog.Log {
			t.Helper()
			l, err := mysql.Open(t.Context(), o)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return l
		})
	}})
}

// TestLogOnPool: the suite on the pool of a program.
func TestLogOnPool(t *testing.T) {
	oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
		o := patient(place(t))
		pool := rawDB(t, o.DSN)
		return database(o, func(t testing.TB) oplog.Log {
			t.Helper()
			l, err := mysql.OpenPool(t.Context(), pool, o)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return l
		})
	}})
}

// database lets the suite open logs, and reach behind them through o.
func database(o mysql.Options, open func(t testing.TB) oplog.Log) oplogtest.Database {
	return oplogtest.Database{
		Open: open,
		Put: func(t testing.TB, rows ...oplog.Row) {
			t.Helper()
			tx, err := session(t, o.DSN).BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatalf("put rows: %v", err)
			}
			defer tx.Rollback()
			for _, r := range rows {
				if _, err := tx.Exec("REPLACE INTO "+o.Prefix+"_log (idx, payload) VALUES (?, ?)", int64(r.Index), r.Payload); err != nil {
					t.Fatalf("put row %d: %v", r.Index, err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatalf("put rows: %v", err)
			}
		},
		Drop: func(t testing.TB, index oplog.Index) {
			t.Helper()
			mustExec(t, session(t, o.DSN), "DELETE FROM "+o.Prefix+"_log WHERE idx = ?", int64(index))
		},
		Parts: func(t testing.TB) int {
			t.Helper()
			return scan[int](t, session(t, o.DSN), "SELECT COUNT(*) FROM "+o.Prefix+"_snapshot_part")
		},
	}
}
