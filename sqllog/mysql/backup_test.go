package mysql_test

import (
	"testing"

	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
)

// TestOlderBackup: an older backup is put in place under running nodes. Field case 07.4.
func TestOlderBackup(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	o := on(m)
	clustertest.Backup{Open: func() oplog.Log { return openNode(t, o) }, Save: func() { m.Save(t) }, Load: func() { m.Load(t) }}.Run(t)
}
