package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

func BenchmarkLog(b *testing.B) {
	oplogtest.BenchmarkLog(b, func(b *testing.B) oplog.Log {
		l, err := postgres.Open(b.Context(), place(b))
		if err != nil {
			b.Fatalf("open: %v", err)
		}
		return l
	})
}

// BenchmarkVisibility measures the time from an append on one node to the row's being read on another, with and without
// notifications, on a server where nothing has happened for a moment, or for so long that the poller's pauses have grown.
func BenchmarkVisibility(b *testing.B) {
	for _, notify := range []bool{true, false} {
		for _, idle := range []time.Duration{10 * time.Millisecond, 2 * time.Second} {
			b.Run(fmt.Sprintf("notify=%t/idle=%v", notify, idle), func(b *testing.B) {
				o := place(b)
				o.NoNotify = !notify
				oplogtest.BenchmarkVisibility(b, cluster(b, o, 0), open(b, o), 0, idle)
			})
		}
	}
}

// BenchmarkAgainst measures an append against a plain INSERT of the driver.
func BenchmarkAgainst(b *testing.B) {
	o := place(b)
	l := cluster(b, o, 0)
	c := session(b, o.DSN)
	table := o.Prefix + "_plain"
	mustExec(b, c, "CREATE TABLE "+table+" (idx BIGINT PRIMARY KEY, payload BYTEA NOT NULL)")
	defer mustExec(b, c, "DROP TABLE "+table)
	oplogtest.BenchmarkAgainst(b, l, 0, func(index oplog.Index, payload []byte) error {
		_, err := c.Exec(b.Context(), "INSERT INTO "+table+" (idx, payload) VALUES ($1, $2)", int64(index), payload)
		return err
	})
}
