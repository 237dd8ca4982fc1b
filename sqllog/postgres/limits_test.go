package postgres_test

import (
	"errors"
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

// TestOptionsRefused: options that cannot be.
func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]postgres.Options{
		"prefix":            {Prefix: "Robert'); --"},
		"schema":            {Schema: "Robert'); --"},
		"idle poll":         {PollInterval: 2, IdlePollInterval: 1},
		"statement timeout": {StatementTimeout: -1},
		"connections":       {MaxConnections: 2},
		"small values":      {MaxValueBytes: 64<<10 - 1},
		"large values":      {MaxValueBytes: 8<<20 + 1},
	} {
		o.DSN = "postgres://hw@127.0.0.1:1/meta"
		if _, err := postgres.Open(t.Context(), o); !errors.Is(err, oplog.ErrSettings) {
			t.Errorf("%s: %v, want setting refused", name, err)
		}
	}
}
