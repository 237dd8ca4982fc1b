package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestStatementsAreKept: a session of our own gets the text of a statement once, however often it is executed.
func TestStatementsAreKept(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	x := proxy.New(t, proxy.Postgres, p.Addr())
	o := on(p)
	o.DSN = strings.Replace(o.DSN, p.Addr(), x.Addr(), 1)
	l := cluster(t, o, 0)
	const text, times = "SELECT max(idx)", 50
	sent := x.Add(proxy.Rule{From: proxy.Client, Type: 'P', Text: text, Times: -1})
	run := x.Add(proxy.Rule{From: proxy.Client, Type: 'E', Text: text, Times: -1})
	for range times {
		if _, err := l.Newest(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if sent.Hits() > x.Open() || run.Hits() < times {
		t.Errorf("the text was sent %d times over %d connections, and executed %d times, want at least %d", sent.Hits(), x.Open(), run.Hits(), times)
	}
}

// TestStatementsAreNotKept where the connection string says so, as those that were written for a pooler do.
func TestStatementsAreNotKept(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	o := on(p)
	o.DSN += "&statement_cache_capacity=0"
	l := cluster(t, o, 3)
	look(t, l, 3)
}

// TestKeptPlansReadByIndex: plans that the server makes while the log has a row or two, and keeps, do not read all of it
// when it has grown and nobody has told the planner. On a program's pool only the append's is kept.
func TestKeptPlansReadByIndex(t *testing.T) {
	t.Parallel()
	for _, pooled := range []bool{false, true} {
		t.Run(fmt.Sprintf("pool=%t", pooled), func(t *testing.T) {
			t.Parallel()
			p := dbtest.NewPostgres(t, "autovacuum = off")
			o := on(p)
			o.NoNotify = true
			admin := session(t, p.DSN("postgres", "postgres"))
			scans := func() int64 { // so far, when all sessions have ended, and with that told their counts
				awaitTrue(t, admin, "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
				return scan[int64](t, admin, "SELECT coalesce(seq_scan, 0) FROM pg_stat_user_tables WHERE relname = $1", o.Prefix+"_log")
			}
			if err := cluster(t, o, 1).Close(); err != nil {
				t.Fatal(err)
			}
			before := scans()
			mustExec(t, admin, "VACUUM ANALYZE "+o.Prefix+"_log") // one page, as the planner knows now
			end := func() {}
			var l oplog.Log
			if pooled {
				l, end = onPool(t, o)
			} else {
				l = open(t, o)
			}
			for at := oplog.Index(2); at < 40; at++ { // more often than a plan is made for the values of one execution
				mustAppend(t, l, at, "row")
				if !pooled {
					look(t, l, at)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			end()
			if after := scans(); after != before {
				t.Errorf("%d statements read the whole log", after-before)
			}
		})
	}
}

// TestNothingIsCompiled: no statement is so dear in the eyes of the planner that the server compiles it, which takes it
// a thousand times as long as any of them.
func TestNothingIsCompiled(t *testing.T) {
	t.Parallel()
	p := counting(t, "jit_above_cost = 100000")
	s := nodes(t, 1, on(p), headwater.Options{})[0]
	for range 3 { // each makes a snapshot, and sweeps what the one before has left
		mustPut(t, s, "k")
		if _, err := s.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	admin := session(t, p.DSN("postgres", "postgres"))
	awaitTrue(t, admin, "SELECT count(*) > 0 FROM pg_stat_statements WHERE query LIKE 'DELETE FROM %snapshot_part%' AND calls >= 2")
	if got := scan[string](t, admin, "SELECT coalesce(string_agg(left(query, 60), '; '), '') FROM pg_stat_statements WHERE jit_functions > 0"); got != "" {
		t.Errorf("compiled: %s", got)
	}
}

// onPool opens the log on a pool, which end closes.
func onPool(t *testing.T, o postgres.Options) (l oplog.Log, end func()) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), o.DSN)
	if err != nil {
		t.Fatal(err)
	}
	if l, err = postgres.OpenPool(t.Context(), pool, o); err != nil {
		t.Fatal(err)
	}
	return l, pool.Close
}

// look reads in every way that a node at rest reads.
func look(t *testing.T, l oplog.Log, newest oplog.Index) {
	t.Helper()
	if _, err := l.Read(t.Context(), newest-1, 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Bounds(t.Context()); err != nil {
		t.Fatal(err)
	}
}
