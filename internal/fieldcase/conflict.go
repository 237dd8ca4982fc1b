package fieldcase

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/oplog"
)

// Contention is field cases 03.1 and 03.4: writers at all of the nodes, on a database that is well, with a deadline that is
// far away. No proposal may fail, whatever codes the server gives to those who lose a race. Quick, it lasts two seconds.
func Contention(t *testing.T, d *Database, stores []*headwater.Store, writers int, length time.Duration, lost *atomic.Int64) {
	took := clustertest.Load{Clients: writers, Patience: time.Minute, Strict: true}.Run(t, stores, func() {
		pass(size(2*time.Second, length))
	})
	t.Logf("%d writers on %d nodes: %d commands, %d lost races, p99 %v", writers, len(stores), len(took), lost.Load(), clustertest.P99(took))
	d.Whole(t, stores)
}

// Races returns options of a node that tells lost of every race that it lost.
func Races(lost *atomic.Int64) (o headwater.Options) {
	o.Engine.Events.Conflict = func(oplog.Index) { lost.Add(1) }
	o.Engine.SnapshotInterval = size(100, 1024)
	return o
}
