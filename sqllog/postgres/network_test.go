package postgres_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestListenerTerminatedUnderLoad: the connection on which a node listens is ended again and again while another node writes.
// The reader keeps up, and does not flood the server with attempts. How late it is is reported. 5 times, or as often as
// HEADWATER_ROUNDS says (50 in field case 11.1).
func TestListenerTerminatedUnderLoad(t *testing.T) {
	t.Parallel()
	x, _, o := proxied(t)
	writer := nodes(t, 1, o, headwater.Options{})[0]
	listening := o
	listening.DSN += "&application_name=reader"
	reader := nodes(t, 1, listening, headwater.Options{})[0]
	admin := session(t, o.DSN)
	var ended atomic.Bool
	var late time.Duration // the most that the reader was behind an answer of the writer's
	var load sync.WaitGroup
	load.Go(func() {
		for !ended.Load() {
			err := put(t.Context(), writer, "k")
			at, answered := writer.View().Index, time.Now()
			if err == nil {
				_, err = reader.Wait(t.Context(), uint64(at))
			}
			if err != nil {
				t.Errorf("write and read: %v", err)
				return
			}
			late = max(late, time.Since(answered))
		}
	})
	defer load.Wait()
	defer ended.Store(true)
	before, start := x.Accepted(), time.Now()
	times := clustertest.Rounds(t, 5)
	for range times {
		awaitTrue(t, admin, "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'reader' AND query LIKE 'LISTEN%'")
		mustExec(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'reader' AND query LIKE 'LISTEN%'")
		clustertest.Await(t, reader, 5)
	}
	ended.Store(true)
	load.Wait()
	t.Logf("the reader was behind by %v at most, with %d terminations in %v", late, times, time.Since(start))
	if n := x.Accepted() - before; n > 4*times+10 {
		t.Errorf("%d connections were made for %d terminations", n, times)
	}
}

// TestPoolerNodes: three nodes through PgBouncer with two server connections, in both modes that share them. Field case 14.1.
func TestPoolerNodes(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	for _, mode := range []string{"transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o := on(p)
			o.DSN = dbtest.NewPgBouncer(t, p, mode)
			engine := headwater.Options{}
			engine.Engine.SnapshotInterval = 20
			stores := nodes(t, 3, o, engine)
			clustertest.Run(t, stores, 6, time.Minute, func() {
				for i := range clustertest.Rounds(t, 6) {
					clustertest.Await(t, stores[i%3], 20)
				}
			})
		})
	}
}

// TestFailoverWithoutGoodbye: all connections of three nodes go dead without a word, again and again, while a second server
// stands ready behind the same address; here it is the same one by another way. Calls end by their deadlines, nothing is
// lost, and the nodes find the new way by themselves, at full size with the default timeouts and within 15 s. Field case 14.4.
func TestFailoverWithoutGoodbye(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	ways := []*proxy.Proxy{proxy.New(t, proxy.Postgres, p.Addr()), proxy.New(t, proxy.Postgres, p.Addr())}
	x := proxy.New(t, proxy.Postgres, ways[0].Addr())
	o := postgres.Options{DSN: strings.Replace(p.DSN("postgres", "postgres"), p.Addr(), x.Addr(), 1), Prefix: dbtest.Prefix(), StatementTimeout: time.Second}
	times, patience := 2, 3*time.Second
	if clustertest.Full {
		o.StatementTimeout, times, patience = 0, 10, 12*time.Second
	}
	stores := nodes(t, 3, o, headwater.Options{})
	var slowest time.Duration
	clustertest.Run(t, stores, 6, patience, func() {
		for i := range times {
			clustertest.Await(t, stores[i%3], 20)
			x.SetUpstream(ways[(i+1)%2].Addr())
			x.BlackHole()
			ways[i%2].Refuse(true)
			start := time.Now()
			for _, s := range stores {
				clustertest.Await(t, s, 5)
			}
			slowest = max(slowest, time.Since(start))
			ways[i%2].Refuse(false)
		}
	})
	t.Logf("%d times, recovered within %v", times, slowest.Round(time.Millisecond))
	if clustertest.Full && slowest > 15*time.Second {
		t.Errorf("recovered within %v by the default timeouts, want 15 s", slowest)
	}
}
