package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestMain lets the test binary be the processes of TestManyNodes and of TestRacedStart.
func TestMain(m *testing.M) {
	clustertest.Starter(func(ctx context.Context, place string) (oplog.Log, error) {
		dsn, prefix, _ := strings.Cut(place, " ")
		return postgres.Open(ctx, postgres.Options{DSN: dsn, Prefix: prefix})
	})
	if plan := os.Getenv(fleetEnv); plan != "" {
		if err := runFleet(plan); err != nil {
			fmt.Fprintln(os.Stderr, "fleet:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(dbtest.Main(m))
}

// place returns options for tables of the test's own on the shared server. The tables go when the test ends.
func place(t testing.TB) postgres.Options {
	t.Helper()
	o := patient(dbtest.SharedPostgres(t))
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), o.DSN)
		if err != nil {
			t.Errorf("connect to drop the tables: %v", err)
			return
		}
		defer c.Close(context.Background())
		for _, table := range []string{"_log", "_snapshot", "_snapshot_part"} {
			if _, err := c.Exec(context.Background(), "DROP TABLE IF EXISTS "+o.Prefix+table); err != nil {
				t.Errorf("drop the tables: %v", err)
			}
		}
	})
	return o
}

// on returns options for tables on a server of the test's own.
func on(p *dbtest.Postgres) postgres.Options {
	return patient(p.DSN("postgres", "postgres"))
}

// patient returns options with which a machine that is busy with other things fails no test.
func patient(dsn string) postgres.Options {
	return postgres.Options{DSN: dsn, Prefix: dbtest.Prefix(), StatementTimeout: time.Minute, ConnectTimeout: time.Minute, RetryTimeout: time.Minute}
}

// open opens a log, as in a process of its own.
func open(t testing.TB, o postgres.Options) oplog.Log {
	t.Helper()
	postgres.Apart()
	l, err := postgres.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// cluster opens a log and makes it a cluster with rows 0 to newest.
func cluster(t testing.TB, o postgres.Options, newest oplog.Index) oplog.Log {
	t.Helper()
	l := open(t, o)
	if err := l.Init(t.Context(), []byte("genesis")); err != nil {
		t.Fatalf("init: %v", err)
	}
	for i := oplog.Index(1); i <= newest; i++ {
		mustAppend(t, l, i, "row")
	}
	return l
}

func mustAppend(t testing.TB, l oplog.Log, at oplog.Index, payload string) {
	t.Helper()
	if err := l.Append(t.Context(), at, nil, []byte(payload)); err != nil {
		t.Fatalf("append row %d: %v", at, err)
	}
}

// session opens a connection past the package, as a person with a shell would.
func session(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func mustExec(t testing.TB, c *pgx.Conn, text string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func scan[T any](t testing.TB, c *pgx.Conn, text string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(t.Context(), text, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// awaitTrue asks again and again until the answer is true.
func awaitTrue(t testing.TB, c *pgx.Conn, text string, args ...any) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); !scan[bool](t, c, text, args...); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never true: %s", text)
		}
	}
}
