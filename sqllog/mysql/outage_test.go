package mysql_test

import (
	"testing"

	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/oplog"
)

// TestKilledThenScarce: a node through a kill, an outage and a server with two connections to give. Field case 14.6.
func TestKilledThenScarce(t *testing.T) {
	t.Parallel()
	x, m, o := proxied(t)
	admin := func(t testing.TB, text string) {
		t.Helper()
		mustExec(t, session(t, m.DSN("root")), text)
	}
	admin(t, "CREATE USER node")
	admin(t, "GRANT ALL ON test.* TO node")
	clustertest.Outage{
		Open: func(t testing.TB) oplog.Log { return openNode(t, as(o, "node")) }, Accepted: x.Accepted,
		Scarce:  func(t testing.TB) { admin(t, "ALTER USER node WITH MAX_USER_CONNECTIONS 2") },
		Kill:    m.Kill,
		Restart: func(t testing.TB) { m.Start(t) },
		Plenty:  func(t testing.TB) { admin(t, "ALTER USER node WITH MAX_USER_CONNECTIONS 0") },
	}.Run(t)
}
