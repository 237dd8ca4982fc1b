package postgres_test

import (
	"testing"

	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestLimits: what is as large as it may be comes back as it was written.
func TestLimits(t *testing.T) {
	t.Parallel()
	o := place(t)
	clustertest.Limits(t, func() oplog.Log { return openNode(t, o) })
}

// openNode opens a log for a node, which closes it.
func openNode(t testing.TB, o postgres.Options) oplog.Log {
	t.Helper()
	postgres.Apart()
	l, err := postgres.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}
