package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

func BenchmarkLog(b *testing.B) {
	oplogtest.BenchmarkLog(b, func(b *testing.B) oplog.Log {
		return open(b, sqlite.Options{Path: filepath.Join(b.TempDir(), "bench.db")})
	})
}

// BenchmarkVisibility measures the time from an append in one process to the row's being read in another, on a file to
// which nothing has happened for a moment, or for so long that the pauses have grown.
func BenchmarkVisibility(b *testing.B) {
	for _, idle := range []time.Duration{10 * time.Millisecond, time.Second} {
		b.Run(fmt.Sprintf("idle=%v", idle), func(b *testing.B) {
			writer, path := cluster(b, 0)
			sqlite.Apart()
			reader := open(b, sqlite.Options{Path: path})
			defer reader.Close()
			oplogtest.BenchmarkVisibility(b, writer, reader, 0, idle)
		})
	}
}

// BenchmarkAgainst measures an append against a plain INSERT of the driver, prepared once.
func BenchmarkAgainst(b *testing.B) {
	l, path := cluster(b, 0)
	db := rawDB(b, path)
	db.SetMaxOpenConns(1)
	mustExec(b, db, "CREATE TABLE plain (idx INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT")
	insert, err := db.PrepareContext(b.Context(), "INSERT INTO plain (idx, payload) VALUES (?, ?)")
	if err != nil {
		b.Fatal(err)
	}
	defer insert.Close()
	oplogtest.BenchmarkAgainst(b, l, 0, func(index oplog.Index, payload []byte) error {
		_, err := insert.ExecContext(b.Context(), int64(index), payload)
		return err
	})
}
