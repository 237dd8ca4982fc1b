package fakedb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest/fakedb"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// ceiling is a server that takes no value above so many bytes, and says so with its code.
type ceiling struct {
	name  string
	start func(t testing.TB) *fakedb.Server
	// open opens a log that is told to keep values within most bytes; 0: it is told nothing.
	open func(t testing.TB, address string, most int) (oplog.Log, error)
	code string
}

var ceilings = []ceiling{
	{"CockroachDB", func(t testing.TB) *fakedb.Server { return fakedb.NewPostgres(t, fakedb.Options{}) },
		func(t testing.TB, address string, most int) (oplog.Log, error) {
			return postgres.Open(t.Context(), postgres.Options{DSN: "postgres://u:p@" + address + "/d?sslmode=disable", Prefix: "p", NoNotify: true, MaxValueBytes: most})
		}, "54000"},
	{"TiDB", func(t testing.TB) *fakedb.Server {
		return fakedb.NewMySQL(t, fakedb.Options{Version: "8.0.11-TiDB-v8.5.0"})
	},
		func(t testing.TB, address string, most int) (oplog.Log, error) {
			return mysql.Open(t.Context(), mysql.Options{DSN: "mysql://u:p@" + address + "/d", Prefix: "p", TiDBPessimistic: true, MaxValueBytes: most})
		}, "8025"},
}

// TestCeiling: a node with a state of 4 MB, or of 20 MB at full size, that nothing compresses, on a store whose values have
// a ceiling. Field case 12.4: with the usual ceiling, and with a low one that was told, rows and parts stay below it; with a low
// one that was not told, the snapshot fails and says with which size, nothing is truncated, and the node works on.
func TestCeiling(t *testing.T) {
	t.Parallel()
	for _, c := range ceilings {
		for _, run := range []struct {
			name        string
			over, told  int
			keys, value int // a state of so many values of so many bytes
			snapshotErr error
		}{
			{"6 MB", 6 << 20, 0, 16, meta.MaxValueBytes, nil},
			{"400 KiB, told", 400 << 10, 399 << 10, 16, meta.MaxValueBytes, nil},
			{"100 KiB, told", 100 << 10, 99 << 10, 64, 64 << 10, nil},
			{"100 KiB, not told", 100 << 10, 0, 64, 64 << 10, oplog.ErrTooLarge},
		} {
			t.Run(c.name+", "+run.name, func(t *testing.T) {
				t.Parallel()
				s := c.start(t)
				l, err := c.open(t, s.Addr(), run.told)
				if err != nil {
					t.Fatalf("open: %v", err)
				}
				s.Inject(fakedb.Fault{Over: run.over, Code: c.code, Times: -1})
				if clustertest.Full {
					run.keys *= 5
				}
				testCeilingNode(t, s, l, run.keys, run.value, run.snapshotErr)
			})
		}
	}
}

func testCeilingNode(t *testing.T, s *fakedb.Server, l oplog.Log, keys, size int, want error) {
	t.Helper()
	var tries atomic.Int64
	o := headwater.Options{}
	o.Engine.SnapshotInterval, o.Engine.KeepRows = 8, -1
	o.Engine.Events.Snapshot = func(oplog.Index, int64, time.Duration, error) { tries.Add(1) }
	store := clustertest.Nodes(t, o, l)[0]
	random := rand.NewChaCha8([32]byte{1})
	start := time.Now()
	put := func(key string) {
		t.Helper()
		value := make([]byte, size)
		random.Read(value)
		if _, err := meta.Propose(t.Context(), store, meta.PutKey{Key: key, Value: value}); err != nil {
			t.Fatalf("put %s: %v", key, err)
		}
	}
	for i := range keys {
		put(fmt.Sprint(i))
	}
	index, err := store.Snapshot(t.Context())
	if !errors.Is(err, want) {
		t.Fatalf("snapshot at %d: %v, want %v", index, err, want)
	}
	rows := s.Tables().Rows("p")
	_, kept := rows[0]
	switch {
	case want == nil && kept:
		t.Error("nothing was truncated below a snapshot that is there")
	case want != nil && (!kept || len(rows) != int(store.View().Index)+1):
		t.Errorf("%d rows of %d are left without a snapshot", len(rows), store.View().Index+1)
	case want != nil && tries.Load() > 10+int64(5*time.Since(start).Seconds()):
		t.Errorf("%d snapshots were tried in %v", tries.Load(), time.Since(start))
	}
	put("afterwards")
	fresh, err := headwater.Open(t.Context(), l, headwater.Options{})
	if err != nil {
		t.Fatalf("open a node on what is there: %v", err)
	}
	defer fresh.Close()
	v, err := fresh.Linearize(t.Context())
	if err != nil || v.State.Digest() != store.View().State.Digest() {
		t.Errorf("a node that starts has another state: %v", err)
	}
}
