package mysql_test

import (
	"context"
	"testing"

	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// TestLeaks is field case 16.4. It is not parallel: it counts what the process has.
func TestLeaks(t *testing.T) {
	x, _, o := proxied(t)
	open := func(ctx context.Context) (oplog.Log, error) { return mysql.Open(ctx, o) }
	clustertest.Leaks{Open: open, Cut: x.Cut, Links: x.Open}.Run(t)
}
