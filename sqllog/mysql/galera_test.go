package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/internal/fieldcase"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// member returns o for another member of the cluster.
func member(o mysql.Options, m *dbtest.MariaDB) mysql.Options {
	o.DSN = m.DSN("root")
	return o
}

// TestGalera runs everything on one cluster of three members, which takes its time to come up.
func TestGalera(t *testing.T) {
	t.Parallel()
	g := dbtest.NewGalera(t, 3)
	t.Run("Log", func(t *testing.T) { testLogOnGalera(t, g) })
	t.Run("HeldBackMember", func(t *testing.T) { testHeldBackMember(t, g) })
	t.Run("NodesOnMembers", func(t *testing.T) { testNodesOnMembers(t, g) })
	t.Run("Contention", func(t *testing.T) { testContention(t, g) })
	t.Run("CutOffMember", func(t *testing.T) { testCutOffMember(t, g) })
	t.Run("NextMember", func(t *testing.T) { testNextMember(t, g) }) // the last: it kills one
}

// testLogOnGalera: the suite, each log of it on another member.
func testLogOnGalera(t *testing.T, g *dbtest.Galera) {
	oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
		o := on(g.Members[0])
		next := make(chan int, 1)
		next <- 0
		return database(o, func(t testing.TB) oplog.Log {
			t.Helper()
			i := <-next
			next <- i + 1
			l, err := mysql.Open(t.Context(), member(o, g.Members[i%3]))
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return l
		})
	}})
}

// heldBack makes member a slow in applying what the others write to the table that it names: whoever inserts a row there
// holds it back for a second.
func heldBack(t *testing.T, a, b *dbtest.MariaDB) (brake func()) {
	t.Helper()
	here, there := session(t, a.DSN("root")), session(t, b.DSN("root"))
	mustExec(t, there, "CREATE TABLE brake (id INT AUTO_INCREMENT PRIMARY KEY)")
	mustExec(t, here, "SET SESSION wsrep_sync_wait = 1")
	scan[int](t, here, "SELECT COUNT(*) FROM brake")
	mustExec(t, here, "SET GLOBAL slave_run_triggers_for_rbr = YES")
	mustExec(t, here, "SET SESSION wsrep_on = OFF") // the trigger is for this member alone
	mustExec(t, here, "CREATE TRIGGER slow BEFORE INSERT ON brake FOR EACH ROW SET @slept = SLEEP(1)")
	return func() { mustExec(t, there, "INSERT INTO brake VALUES ()") }
}

// testHeldBackMember: a member that is behind still has row 4 as the newest while the others have written rows 5 to 12
// and truncated rows 0 to 11. An append of row 5 there, whose row locks the truncation elsewhere never met, is refused
// by certification. Hazard 1.
func testHeldBackMember(t *testing.T, g *dbtest.Galera) {
	a, b := g.Members[0], g.Members[1]
	brake := heldBack(t, a, b)
	late := session(t, a.DSN("root"))
	mustExec(t, late, "SET SESSION wsrep_retry_autocommit = 0")
	for round := range clustertest.Rounds(t, 3) {
		o := member(on(a), b)
		l := cluster(t, o, 4)
		poll(t, "row 4 to come", func() bool {
			var n int
			err := late.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+o.Prefix+"_log WHERE idx = 4").Scan(&n)
			return err == nil && n == 1
		})
		brake()
		for at := oplog.Index(5); at <= 12; at++ {
			mustAppend(t, l, at, "row")
		}
		snapshot(t, l, 12)
		if n, err := l.Truncate(t.Context(), 12, 100); n != 12 || err != nil {
			t.Fatalf("truncate: %d, %v", n, err)
		}
		if behind := scan[int](t, late, "SELECT MAX(idx) FROM "+o.Prefix+"_log"); behind != 4 {
			t.Fatalf("round %d: the member is not held back: its newest row is %d", round, behind)
		}
		n, err := appendRaw(late, o, 5, "fork", 4)
		if n != 0 || err != nil && number(err) != 1213 && number(err) != 1062 {
			t.Errorf("round %d: the late append inserted %d rows: %v", round, n, err)
		}
		for i, m := range g.Members {
			c := session(t, m.DSN("root"))
			mustExec(t, c, "SET SESSION wsrep_sync_wait = 1")
			if rows := scan[int](t, c, "SELECT COUNT(*) FROM "+o.Prefix+"_log WHERE payload = 'fork'"); rows != 0 {
				t.Errorf("round %d: member %d has the row a second time", round, i)
			}
		}
	}
}

// membersOf opens a log on each member, each through a proxy of its own.
func membersOf(t *testing.T, g *dbtest.Galera, o mysql.Options) (logs []oplog.Log, proxies []*proxy.Proxy) {
	t.Helper()
	for _, m := range g.Members {
		x := proxy.New(t, proxy.MySQL, m.Addr())
		mine := member(o, m)
		mine.DSN = strings.Replace(mine.DSN, m.Addr(), x.Addr(), 1)
		l, err := mysql.Open(t.Context(), mine)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		if !strings.Contains(l.Info().Backend, "galera") {
			t.Errorf("the backend is %q", l.Info().Backend)
		}
		logs, proxies = append(logs, l), append(proxies, x)
	}
	return logs, proxies
}

// testContention: 12 writers, nodes on all members. Field case 03.1: two seconds, or a minute at full size.
func testContention(t *testing.T, g *dbtest.Galera) {
	o := patient(on(g.Members[0]))
	logs, proxies := membersOf(t, g, o)
	d := caseOn(t, o, proxy.MySQL)
	var lost atomic.Int64
	stores := clustertest.Nodes(t, fieldcase.Races(&lost), logs...)
	deadlocks := proxies[0].Add(proxy.Rule{From: proxy.Server, Runs: true, Times: -1, Hold: openedGate(), Match: func(m proxy.Message) bool {
		return len(m.Bytes) > 7 && m.Bytes[4] == 0xff && m.Bytes[5] == 0xbd && m.Bytes[6] == 0x04 // 1213
	}})
	fieldcase.Contention(t, d, stores, 12, time.Minute, &lost)
	t.Logf("member 0 answered 1213 %d times", deadlocks.Hits())
	newest := scan[int64](t, session(t, o.DSN), "SELECT MAX(idx) FROM "+o.Prefix+"_log")
	for i, m := range g.Members { // the same run of rows everywhere
		c := session(t, m.DSN("root"))
		mustExec(t, c, "SET SESSION wsrep_sync_wait = 1")
		if n := scan[int64](t, c, "SELECT MAX(idx) - MIN(idx) + 1 - COUNT(*) + ? - MAX(idx) FROM "+o.Prefix+"_log", newest); n != 0 {
			t.Errorf("the rows of member %d are not a run up to %d", i, newest)
		}
	}
}

// openedGate is a gate that holds nothing.
func openedGate() *proxy.Gate {
	g := proxy.NewGate()
	g.Open()
	return g
}

// testNodesOnMembers runs three nodes, each on another member, under load, while one member stands still and goes on.
func testNodesOnMembers(t *testing.T, g *dbtest.Galera) {
	o := on(g.Members[0])
	o.StatementTimeout = 2 * time.Second
	logs, _ := membersOf(t, g, o)
	engine := headwater.Options{}
	engine.Engine.SnapshotInterval = 20
	stores := clustertest.Nodes(t, engine, logs...)
	admin := session(t, g.Members[2].DSN("root"))
	clustertest.Run(t, stores, 6, time.Second, func() {
		clustertest.Await(t, stores[0], 30)
		g.Members[2].Pause(t)
		clustertest.Await(t, stores[0], 5) // the others go on
		g.Members[2].Resume(t)
		clustertest.Await(t, stores[2], 5)
		poll(t, "the member to be ready", func() bool { return ready(admin) })
	})
}

// testCutOffMember is field case 08.3: under load one member is cut off from the others and answers 1047, and then the
// network to it swallows everything, each until the checks are through, or for 20 s at full size. Its node never gives a view
// out as current, says that it is not ready, and goes on by itself afterwards. A log that knows all members uses another.
func testCutOffMember(t *testing.T, g *dbtest.Galera) {
	o := on(g.Members[0])
	o.StatementTimeout = 2 * time.Second
	logs, proxies := membersOf(t, g, o)
	engine := headwater.Options{}
	engine.Engine.SnapshotInterval = 20
	stores := clustertest.Nodes(t, engine, logs...)
	admin := session(t, g.Members[2].DSN("root"))
	everywhere := o
	everywhere.DSN = "mysql://root@" + g.Members[2].Addr() + "," + g.Members[0].Addr() + "," + g.Members[1].Addr() + "/test"
	roaming := open(t, everywhere)
	meter := fieldcase.NewMeter(proxies[2], o.Prefix+"_log")
	clustertest.Run(t, stores, 6, time.Second, func() {
		for name, c := range map[string]struct{ cut, mend func() }{
			"by the group": {func() {
				mustExec(t, admin, "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
				poll(t, "the member to be cut off", func() bool { return !ready(admin) })
				if b, err := logs[2].Bounds(t.Context()); err == nil {
					t.Errorf("bounds on a member that is cut off: %+v", b)
				}
			}, func() { mustExec(t, admin, "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'") }},
			"by the network": {func() { proxies[2].Refuse(true); proxies[2].BlackHole() }, func() { proxies[2].Refuse(false) }},
		} {
			clustertest.Await(t, stores[2], 5)
			c.cut()
			beCutOff(t, stores, meter)
			if n, err := roaming.Newest(t.Context()); err != nil || uint64(n) < uint64(stores[2].View().Index) {
				t.Errorf("cut off %s: a log that knows other members sees row %d: %v", name, n, err)
			}
			c.mend()
			start := time.Now()
			clustertest.Await(t, stores[2], 5)
			poll(t, "the node to be ready", func() bool { return stores[2].Status().DatabaseError == "" })
			t.Logf("cut off %s: back after %v", name, time.Since(start))
		}
	})
}

// beCutOff looks at the third node while its member cannot be used.
func beCutOff(t *testing.T, stores []*headwater.Store, meter *fieldcase.Meter) {
	t.Helper()
	start, from := time.Now(), meter.Count()
	patience := 10 * time.Second
	for fullSize() && time.Since(start) < 20*time.Second || stores[2].Status().Condition == headwater.Ready {
		clustertest.Await(t, stores[0], 1)
		clustertest.Await(t, stores[1], 1) // the others go on
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		known := stores[0].View().Index
		if v, err := stores[2].Linearize(ctx); err == nil && v.Index < known {
			t.Errorf("index %d was given out as current by a node that is cut off, %d was there before", v.Index, known)
		} else if err == nil {
			t.Error("a node that is cut off gave a view out as current")
		}
		cancel()
		if time.Since(start) > 3*patience {
			t.Fatalf("the node never says that it is not ready: %+v", stores[2].Status())
		}
	}
	if st := stores[2].Status(); st.Condition != headwater.CatchingUp || st.Behind == 0 {
		t.Errorf("the status of the node that is cut off: %+v", st)
	}
	meter.Slow(t, 1, from, time.Since(start))
}

// fullSize is whether field cases have their full size.
func fullSize() bool { return os.Getenv("HEADWATER_TEST_FULL") != "" }

// ready reports whether a member takes part in its cluster.
func ready(c *sql.Conn) bool {
	var name, value string
	err := c.QueryRowContext(context.Background(), "SHOW STATUS LIKE 'wsrep_ready'").Scan(&name, &value)
	return err == nil && value == "ON"
}

// testNextMember: a log that knows all members goes on when the one that it uses is killed.
func testNextMember(t *testing.T, g *dbtest.Galera) {
	o := on(g.Members[0])
	o.DSN = "mysql://root@" + g.Members[0].Addr() + "," + g.Members[1].Addr() + "," + g.Members[2].Addr() + "/test"
	l := cluster(t, o, 3)
	g.Members[0].Kill(t)
	poll(t, "the next member to serve", func() bool {
		newest, err := l.Newest(t.Context())
		if err != nil && !errors.Is(err, oplog.ErrUnavailable) {
			t.Errorf("newest: %v", err)
		}
		return err == nil && newest == 3
	})
	if err := l.Append(t.Context(), 4, nil, []byte("next")); err != nil && !errors.Is(err, oplog.ErrUnknown) {
		t.Errorf("append: %v", err)
	} else if err != nil { // the old connection died in the middle
		mustAppend(t, l, 4, "next")
	}
}
