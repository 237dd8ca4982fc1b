package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestLog: the suite on a server.
func TestLog(t *testing.T) {
	oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
		o := place(t)
		return database(o, func(t testing.TB) oplog.Log {
			t.Helper()
			postgres.Apart()
			l, err := postgres.Open(t.Context(), o)
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
		o := place(t)
		pool, err := pgxpool.New(t.Context(), o.DSN)
		if err != nil {
			t.Fatalf("open the pool: %v", err)
		}
		t.Cleanup(pool.Close)
		return database(o, func(t testing.TB) oplog.Log {
			t.Helper()
			postgres.Apart()
			l, err := postgres.OpenPool(t.Context(), pool, o)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return l
		})
	}})
}

// database lets the suite open logs and reach behind them.
func database(o postgres.Options, open func(t testing.TB) oplog.Log) oplogtest.Database {
	behind := func(t testing.TB) *pgx.Conn { t.Helper(); return session(t, o.DSN) }
	return oplogtest.Database{
		Open: open,
		Put: func(t testing.TB, rows ...oplog.Row) {
			t.Helper()
			var batch pgx.Batch
			for _, r := range rows {
				batch.Queue("INSERT INTO "+o.Prefix+"_log (idx, payload) VALUES ($1, $2) ON CONFLICT (idx) DO UPDATE SET payload = excluded.payload",
					int64(r.Index), r.Payload)
			}
			if err := behind(t).SendBatch(context.Background(), &batch).Close(); err != nil { // one transaction
				t.Fatalf("put rows: %v", err)
			}
		},
		Drop: func(t testing.TB, index oplog.Index) {
			t.Helper()
			mustExec(t, behind(t), "DELETE FROM "+o.Prefix+"_log WHERE idx = $1", int64(index))
		},
		Parts: func(t testing.TB) int {
			t.Helper()
			return scan[int](t, behind(t), "SELECT count(*) FROM "+o.Prefix+"_snapshot_part")
		},
	}
}
