package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
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

// testNodesOnMembers runs three nodes, each on another member, under load, while one member stands still, is cut off and
// comes back. Field cases 03.1 and 08.3.
func testNodesOnMembers(t *testing.T, g *dbtest.Galera) {
	o := on(g.Members[0])
	o.StatementTimeout = 2 * time.Second
	var logs []oplog.Log
	for _, m := range g.Members {
		l, err := mysql.Open(t.Context(), member(o, m))
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		if !strings.Contains(l.Info().Backend, "galera") {
			t.Errorf("the backend is %q", l.Info().Backend)
		}
		logs = append(logs, l)
	}
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

		mustExec(t, admin, "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
		poll(t, "the member to be cut off", func() bool { return !ready(admin) })
		if _, err := logs[2].Newest(t.Context()); !errors.Is(err, oplog.ErrUnavailable) {
			t.Errorf("newest on a member that is cut off: %v, want unavailable", err)
		}
		if b, err := logs[2].Bounds(t.Context()); err == nil {
			t.Errorf("bounds on a member that is cut off: %+v", b)
		}
		clustertest.Await(t, stores[0], 5)
		mustExec(t, admin, "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
		clustertest.Await(t, stores[2], 5)
	})
}

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
	if err := l.Append(t.Context(), 4, []byte("next")); err != nil && !errors.Is(err, oplog.ErrUnknown) {
		t.Errorf("append: %v", err)
	} else if err != nil { // the old connection died in the middle
		mustAppend(t, l, 4, "next")
	}
}
