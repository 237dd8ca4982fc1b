package postgres_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestNotificationsApart: rows are told over another connection than the one that appends, so never within an append's
// transaction, where each notification would queue all commits of the server behind one lock; and once in 5 ms at most,
// however many rows there are. Field case 11.9.
func TestNotificationsApart(t *testing.T) {
	t.Parallel()
	x, _, o := proxied(t)
	var mu sync.Mutex
	did := map[int]map[string]int{} // connection → what it ran → how often
	x.Add(proxy.Rule{From: proxy.Client, Type: 'E', Times: -1, Match: func(m proxy.Message) bool {
		what := ""
		switch {
		case strings.HasPrefix(m.Text, "INSERT INTO "+o.Prefix+"_log (idx, payload) SELECT $1"): // not row 0
			what = "append"
		case strings.Contains(strings.ToLower(m.Text), "notify"):
			what = "notify"
		}
		mu.Lock()
		defer mu.Unlock()
		if did[m.Conn] == nil {
			did[m.Conn] = map[string]int{}
		}
		did[m.Conn][what]++
		if what == "notify" && did[m.Conn]["append"] > 0 { // one that has notified may become the one that appends
			t.Errorf("connection %d notifies after it has appended", m.Conn)
		}
		return false // it only looks
	}})
	start := time.Now()
	l := cluster(t, o, 0)
	hourly := o
	hourly.PollInterval = time.Hour
	reader := open(t, hourly)
	const rows = 300
	for at := oplog.Index(1); at <= rows; at++ {
		mustAppend(t, l, at, "row")
	}
	waitFor(t, reader, rows) // it polls once an hour: notifications arrived
	most := int(time.Since(start)/(5*time.Millisecond)) + 4
	mu.Lock()
	defer mu.Unlock()
	appends, notes := 0, 0
	for _, what := range did {
		appends, notes = appends+what["append"], notes+what["notify"]
	}
	if appends < rows || notes == 0 || notes > most {
		t.Errorf("%d appends and %d notifications, want %d and at most %d", appends, notes, rows, most)
	}
}

// TestToldRowsNeedNoLook: a node that heard of a row by its index, and has read it, does not ask for the newest index.
func TestToldRowsNeedNoLook(t *testing.T) {
	t.Parallel()
	x, p, o := proxied(t)
	var looks atomic.Int64
	x.Add(proxy.Rule{From: proxy.Client, Type: 'E', Times: -1, Match: func(m proxy.Message) bool {
		if strings.HasPrefix(m.Text, "SELECT max(idx)") {
			looks.Add(1)
		}
		return false // it only looks
	}})
	direct := o
	direct.DSN = on(p).DSN
	writer := cluster(t, direct, 0)
	o.PollInterval = time.Hour
	reader := open(t, o)
	const rows = 40
	read := make(chan oplog.Index, rows)
	go func() {
		for at := oplog.Index(1); at <= rows; at++ {
			waitFor(t, reader, at)
			read <- at
		}
	}()
	next := time.NewTicker(time.Hour)
	defer next.Stop()
	for at := oplog.Index(1); at <= rows; at++ {
		next.Reset(10 * time.Millisecond) // after the last one was read: rows that come faster are told of without an index
		<-next.C
		mustAppend(t, writer, at, "row")
		<-read
	}
	if n := looks.Load(); n > rows/2 {
		t.Errorf("%d looks for the newest index beside %d rows that were told of", n, rows)
	}
}

// TestNeighbour measures what another application, which commits in a database of its own on the same server, gets done
// beside a node that appends 500 rows a second: without the node, with notifications off, with them on, and with one inside
// each append's transaction, as it must not be. It runs for a moment, or for 5 rounds of 3 s at full size; figures are
// reported, and only what depends on no clock is a fault. Field case 11.9.
func TestNeighbour(t *testing.T) {
	p := dbtest.NewPostgres(t) // not beside other tests: it measures
	admin := session(t, p.DSN("postgres", "postgres"))
	mustExec(t, admin, "CREATE DATABASE other")
	mustExec(t, session(t, p.DSN("postgres", "other")), "CREATE TABLE work (id BIGSERIAL PRIMARY KEY, v TEXT)")
	rounds, long := 1, 300*time.Millisecond
	if clustertest.Full {
		rounds, long = 5, 3*time.Second
	}
	quiet, telling, wrong := on(p), on(p), on(p)
	quiet.NoNotify, wrong.NoNotify = true, true
	cases := []struct {
		name  string
		store *headwater.Store // nil: none
	}{{name: "alone"}, {name: "notifications off", store: nodes(t, 1, quiet, headwater.Options{})[0]},
		{name: "notifications on", store: nodes(t, 1, telling, headwater.Options{})[0]},
		{name: "one in each transaction", store: nodes(t, 1, wrong, headwater.Options{})[0]}}
	tellInside(t, p, wrong)
	done := make([][]float64, len(cases))
	for range rounds {
		for i, c := range cases {
			n := commitBeside(t, p, c.store, long)
			if n == 0 {
				t.Errorf("%s: the other application got nothing done", c.name)
			}
			done[i] = append(done[i], n)
		}
	}
	for i, c := range cases {
		slices.Sort(done[i])
		slices.Sort(done[0])
		median, alone := done[i][len(done[i])/2], done[0][len(done[0])/2]
		t.Logf("%-24s %6.0f commits/s, %3.0f %% of alone", c.name, median, 100*median/alone)
	}
}

// tellInside has the server send a notification in the transaction of each append.
func tellInside(t *testing.T, p *dbtest.Postgres, o postgres.Options) {
	t.Helper()
	admin := session(t, p.DSN("postgres", "postgres"))
	mustExec(t, admin, "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('wrong', ''); RETURN NEW; END $$")
	mustExec(t, admin, "CREATE TRIGGER tell AFTER INSERT ON "+o.Prefix+"_log FOR EACH ROW EXECUTE FUNCTION tell()")
}

// commitBeside returns how many commits a second four sessions of another application make while the node, if any, appends
// 500 rows a second.
func commitBeside(t *testing.T, p *dbtest.Postgres, s *headwater.Store, long time.Duration) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var commits atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		c := session(t, p.DSN("postgres", "other"))
		all.Go(func() {
			defer c.Close(context.Background())
			for ctx.Err() == nil {
				if _, err := c.Exec(context.WithoutCancel(ctx), "INSERT INTO work (v) VALUES ('x')"); err != nil {
					t.Errorf("the other application: %v", err)
					return
				}
				commits.Add(1)
			}
		})
	}
	if s != nil {
		all.Go(func() {
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				if err := put(context.WithoutCancel(ctx), s, "k"); err != nil {
					t.Errorf("the node: %v", err)
				}
				<-tick.C
			}
		})
	}
	start := time.Now()
	all.Wait()
	return float64(commits.Load()) / time.Since(start).Seconds()
}
