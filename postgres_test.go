package headwater_test

import (
	"context"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// onPostgres returns a way to open logs in one cluster's place on a PostgreSQL server.
func onPostgres(t *testing.T) func() oplog.Log {
	t.Helper()
	o := postgres.Options{DSN: dbtest.SharedPostgres(t), Prefix: dbtest.Prefix()}
	return func() oplog.Log {
		l, err := postgres.Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// TestTourOnPostgres deals the lines of the tour out over three nodes.
func TestTourOnPostgres(t *testing.T) {
	t.Parallel()
	tr := readTour(t)
	open := onPostgres(t)
	var stores []*headwater.Store
	for range 3 {
		s, done := node(t, open, headwater.Options{})
		defer done()
		stores = append(stores, s)
	}
	for i, p := range tr.proposals {
		tr.check(t, i, stores[i%len(stores)].Propose(t.Context(), p)[0])
	}
	sameDigest(t, stores)
	sound(t, open)
}

// TestTourOnPostgresWithRestarts opens the cluster anew before each line, with a snapshot every three rows.
func TestTourOnPostgresWithRestarts(t *testing.T) {
	t.Parallel()
	tr := readTour(t)
	open := onPostgres(t)
	o := headwater.Options{}
	o.Engine.SnapshotInterval = 3
	for i, p := range tr.proposals {
		s, done := node(t, open, o)
		tr.check(t, i, s.Propose(t.Context(), p)[0])
		done()
	}
	sound(t, open)
}
