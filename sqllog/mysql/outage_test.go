package mysql_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
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

// TestFullUnderNode: a node whose server's disk is full. MariaDB 10.11 tries for some seconds to make its file larger and
// then ends itself, so somebody has to start it again; the node needs nobody. Field case 16.1.
func TestFullUnderNode(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	mustExec(t, session(t, m.DSN("root")), "CREATE DATABASE small") // which is a folder
	disk := dbtest.NewDisk(t, filepath.Join(m.Dir(), "data", "small"), m.Uid(), "8m")
	o := on(m)
	o.DSN = strings.Replace(o.DSN, "/test", "/small", 1)
	clustertest.Disk{Open: func() oplog.Log { return openNode(t, o) }, Dies: true,
		Full:     func(*headwater.Store) bool { return strings.Contains(m.Log(), "failed with error 28") },
		MakeRoom: func() { disk.Resize(t, "64m"); m.Restart(t) }}.Run(t)
}
