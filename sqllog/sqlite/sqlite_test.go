package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// TestLog: the suite on a file.
func TestLog(t *testing.T) {
	oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
		return database(sqlite.Options{Path: filepath.Join(t.TempDir(), "a b%3f?#.db")})
	}})
}

// TestLogSharedFile: the suite on a file that holds other clusters too.
func TestLogSharedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	n := make(chan int, 1)
	n <- 0
	oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
		i := <-n
		n <- i + 1
		return database(sqlite.Options{Path: path, Prefix: fmt.Sprintf("cluster_%d", i)})
	}})
}

func database(o sqlite.Options) oplogtest.Database {
	prefix := o.Prefix
	if prefix == "" {
		prefix = "headwater"
	}
	return oplogtest.Database{
		Open: func(t testing.TB) oplog.Log {
			t.Helper()
			return open(t, o)
		},
		Put: func(t testing.TB, rows ...oplog.Row) {
			t.Helper()
			db := rawDB(t, o.Path)
			tx, err := db.Begin()
			if err != nil {
				t.Fatalf("put rows: %v", err)
			}
			defer tx.Rollback()
			for _, r := range rows {
				if _, err := tx.Exec("INSERT OR REPLACE INTO "+prefix+"_log (idx, payload) VALUES (?, ?)", int64(r.Index), r.Payload); err != nil {
					t.Fatalf("put row %d: %v", r.Index, err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatalf("put rows: %v", err)
			}
		},
		Drop: func(t testing.TB, index oplog.Index) {
			t.Helper()
			mustExec(t, rawDB(t, o.Path), "DELETE FROM "+prefix+"_log WHERE idx = ?", int64(index))
		},
		Parts: func(t testing.TB) int {
			t.Helper()
			var n int
			if err := rawDB(t, o.Path).QueryRow("SELECT count(*) FROM " + prefix + "_snapshot_part").Scan(&n); err != nil {
				t.Fatalf("count parts: %v", err)
			}
			return n
		},
	}
}

func open(t testing.TB, o sqlite.Options) oplog.Log {
	t.Helper()
	l, err := sqlite.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

// rawDB opens the file past the package, as a person with a shell would.
func rawDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := openRaw(path)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func openRaw(path string) (*sql.DB, error) {
	return sql.Open("sqlite", sqlite.FileURI(path, "mode=rwc&_pragma=busy_timeout(10000)&_txlock=immediate"))
}

func mustExec(t testing.TB, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.Exec(text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
