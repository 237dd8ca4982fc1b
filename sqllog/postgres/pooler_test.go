package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestPooler: the suite through PgBouncer with two server connections, in both modes that share them. Field case 14.1.
func TestPooler(t *testing.T) {
	p := dbtest.NewPostgres(t)
	for _, mode := range []string{"transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			dsn := dbtest.NewPgBouncer(t, p, mode)
			oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
				o := on(p)
				behind := o
				o.DSN = dsn
				return database(behind, func(t testing.TB) oplog.Log {
					t.Helper()
					postgres.Apart()
					l, err := postgres.Open(t.Context(), o)
					if err != nil {
						t.Fatalf("open: %v", err)
					}
					return l
				})
			}})
		})
	}
}

// TestPoolerSettings: what cannot be set through a pooler is refused, with what to do.
func TestPoolerSettings(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	o := on(p)
	o.DSN = dbtest.NewPgBouncer(t, p, "transaction")
	admin := session(t, p.DSN("postgres", "postgres"))
	mustExec(t, admin, "ALTER ROLE postgres SET synchronous_commit = off")
	if _, err := postgres.Open(t.Context(), o); !errors.Is(err, oplog.ErrSettings) || !strings.Contains(err.Error(), "synchronous_commit") {
		t.Errorf("open: %v, want refused", err)
	}
	mustExec(t, admin, "ALTER ROLE postgres SET synchronous_commit = remote_apply")
	mustExec(t, admin, "ALTER ROLE postgres SET default_transaction_isolation = 'serializable'")
	endAll(t, admin)
	o.PollInterval = 2 * time.Millisecond
	l, reader := cluster(t, o, 0), open(t, o)
	for at := oplog.Index(1); at <= 20; at++ { // no notification arrives, polling finds the rows
		mustAppend(t, l, at, "row")
		waitFor(t, reader, at)
	}
}
