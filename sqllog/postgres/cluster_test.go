package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/fieldcase"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// nodes opens n nodes on the database, the first of which makes it a cluster.
func nodes(t *testing.T, n int, o postgres.Options, engine headwater.Options) []*headwater.Store {
	t.Helper()
	var logs []oplog.Log
	for range n {
		logs = append(logs, openNode(t, o))
	}
	return clustertest.Nodes(t, engine, logs...)
}

// TestKilledServer kills the server with -9 under load and starts it again. It runs 3 rounds, or as many as
// HEADWATER_ROUNDS says. Hazard 8, field case 14.6.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	engine := headwater.Options{}
	engine.Engine.SnapshotInterval = 50
	o := on(p)
	o.Turnstile = true
	fieldcase.KilledServer(t, nodes(t, 3, o, engine), p.Kill, p.Stop, p.Start)
}

// TestBadNetwork runs three nodes through a network that loses answers, holds requests back and breaks connections, at
// moments drawn from a seed. It runs 30 faults, or as many as HEADWATER_ROUNDS says. Hazards 2 and 3.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	for _, turnstile := range []bool{false, true} {
		t.Run(fmt.Sprintf("turnstile=%t", turnstile), func(t *testing.T) {
			t.Parallel()
			testBadNetwork(t, turnstile)
		})
	}
}

func testBadNetwork(t *testing.T, turnstile bool) {
	x, _, o := proxied(t)
	o.Turnstile = turnstile
	o.StatementTimeout = 300 * time.Millisecond
	engine := headwater.Options{}
	engine.Engine.SnapshotInterval = 40
	fieldcase.BadNetwork(t, nodes(t, 3, o, engine), x, "INSERT INTO "+o.Prefix+"_log")
}

// TestOutage: while the server is away reads answer from the view, proposals end with their contexts, and everything
// goes on when it is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	fieldcase.Outage(t, nodes(t, 1, on(p), headwater.Options{})[0], p.Stop, p.Start)
}
