package mysql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

func BenchmarkLog(b *testing.B) {
	oplogtest.BenchmarkLog(b, func(b *testing.B) oplog.Log {
		l, err := mysql.Open(b.Context(), place(b))
		if err != nil {
			b.Fatalf("open: %v", err)
		}
		return l
	})
}

// BenchmarkVisibility measures the time from an append on one node to the row's being read on another, on a server where
// nothing has happened for a moment, or for so long that the poller's pauses have grown.
func BenchmarkVisibility(b *testing.B) {
	for _, idle := range []time.Duration{10 * time.Millisecond, 2 * time.Second} {
		b.Run(fmt.Sprintf("idle=%v", idle), func(b *testing.B) {
			o := place(b)
			writer := cluster(b, o, 0)
			mysql.Apart()
			oplogtest.BenchmarkVisibility(b, writer, open(b, o), 0, idle)
		})
	}
}

// BenchmarkAgainst measures an append against a plain INSERT of the driver, prepared once.
func BenchmarkAgainst(b *testing.B) {
	o := place(b)
	l := cluster(b, o, 0)
	c := session(b, o.DSN)
	table := o.Prefix + "_plain"
	mustExec(b, c, "CREATE TABLE "+table+" (idx BIGINT NOT NULL PRIMARY KEY, payload LONGBLOB NOT NULL) ENGINE=InnoDB")
	defer mustExec(b, c, "DROP TABLE "+table)
	insert, err := c.PrepareContext(b.Context(), "INSERT INTO "+table+" (idx, payload) VALUES (?, ?)")
	if err != nil {
		b.Fatal(err)
	}
	defer insert.Close()
	oplogtest.BenchmarkAgainst(b, l, 0, func(index oplog.Index, payload []byte) error {
		_, err := insert.ExecContext(b.Context(), int64(index), payload)
		return err
	})
}
