package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// TestLimits: what is as large as it may be comes back as it was written.
func TestLimits(t *testing.T) {
	t.Parallel()
	o := sqlite.Options{Path: filepath.Join(t.TempDir(), "limits.db")}
	clustertest.Limits(t, func() oplog.Log { return open(t, o) })
}
