package mysql_test

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

func TestMain(m *testing.M) {
	clustertest.Starter(func(ctx context.Context, place string) (oplog.Log, error) {
		dsn, prefix, _ := strings.Cut(place, " ")
		return mysql.Open(ctx, mysql.Options{DSN: dsn, Prefix: prefix})
	})
	os.Exit(dbtest.Main(m))
}

// place returns options for tables of the test's own on the shared server. The tables go when the test ends.
func place(t testing.TB) mysql.Options {
	t.Helper()
	o := mysql.Options{DSN: dbtest.SharedMySQL(t), Prefix: dbtest.Prefix()}
	t.Cleanup(func() {
		db := rawDB(t, o.DSN)
		defer db.Close()
		for _, table := range []string{"_log", "_snapshot", "_snapshot_part"} {
			if _, err := db.ExecContext(context.Background(), "DROP TABLE IF EXISTS "+o.Prefix+table); err != nil {
				t.Errorf("drop the tables: %v", err)
			}
		}
	})
	return o
}

// on returns options for tables on a server of the test's own.
func on(m *dbtest.MariaDB) mysql.Options {
	return mysql.Options{DSN: m.DSN("root"), Prefix: dbtest.Prefix()}
}

func open(t testing.TB, o mysql.Options) oplog.Log {
	t.Helper()
	l, err := mysql.Open(t.Context(), o)
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
func cluster(t testing.TB, o mysql.Options, newest oplog.Index) oplog.Log {
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

// native is a connection string in the form of the driver.
func native(dsn string) string {
	rest, ok := strings.CutPrefix(dsn, "mysql://")
	if !ok {
		return dsn
	}
	user, rest, _ := strings.Cut(rest, "@")
	host, rest, _ := strings.Cut(rest, "/")
	return user + "@tcp(" + host + ")/" + rest
}

// rawDB opens a pool past the package, as another program would. It is closed when the test ends.
func rawDB(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", native(dsn))
	if err != nil {
		t.Fatalf("open a pool: %v", err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// session opens one connection past the package, as a person with a shell would.
func session(t testing.TB, dsn string) *sql.Conn {
	t.Helper()
	c, err := rawDB(t, dsn).Conn(context.Background())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func mustExec(t testing.TB, c *sql.Conn, text string, args ...any) {
	t.Helper()
	if _, err := c.ExecContext(context.Background(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func scan[T any](t testing.TB, c *sql.Conn, text string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRowContext(context.Background(), text, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}
