package postgres_test

import (
	"testing"

	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
)

// TestOlderBackup: an older backup is put in place under running nodes. Field case 07.4.
func TestOlderBackup(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	o := on(p)
	clustertest.Backup{Open: func() oplog.Log { return openNode(t, o) }, Save: func() { p.Save(t) }, Load: func() { p.Load(t) }}.Run(t)
}
