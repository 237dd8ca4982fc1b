package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

func BenchmarkLog(b *testing.B) {
	oplogtest.BenchmarkLog(b, func(b *testing.B) oplog.Log {
		return open(b, sqlite.Options{Path: filepath.Join(b.TempDir(), "bench.db")})
	})
}
