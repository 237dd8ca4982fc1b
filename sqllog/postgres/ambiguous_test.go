package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/internal/fieldcase"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// proxied returns a server of the test's own behind a proxy, and options that lead through it.
func proxied(t testing.TB) (*proxy.Proxy, *dbtest.Postgres, postgres.Options) {
	t.Helper()
	p := dbtest.NewPostgres(t)
	x := proxy.New(t, proxy.Postgres, p.Addr())
	o := on(p)
	o.DSN = strings.Replace(o.DSN, p.Addr(), x.Addr(), 1)
	return x, p, o
}

// TestAmbiguousAppend: what a writer is told when the answer to its append is lost or late, and what becomes of the row.
// Hazards 2 and 3, field cases 01.1 and 01.3.
func TestAmbiguousAppend(t *testing.T) {
	t.Parallel()
	x, p, o := proxied(t)
	o.NoNotify = true // so that the proxy has no other connection that comes and goes
	direct := session(t, p.DSN("postgres", "postgres"))
	cluster(t, o, 0)
	o.StatementTimeout = 700 * time.Millisecond
	l := open(t, o)
	insert := "INSERT INTO " + o.Prefix + "_log"
	payloadOf := func(index oplog.Index) string {
		t.Helper()
		return scan[string](t, direct, "SELECT coalesce((SELECT convert_from(payload, 'UTF8') FROM "+o.Prefix+"_log WHERE idx = $1), 'no row')", int64(index))
	}
	unknown := func(err error) {
		t.Helper()
		if !errors.Is(err, oplog.ErrUnknown) || oplog.NotApplied(err) {
			t.Errorf("append: %v, want unknown", err)
		}
	}

	// The server has committed, then the connection breaks before the answer is through.
	trap := x.Add(proxy.LoseAnswer(insert))
	unknown(l.Append(t.Context(), 1, nil, []byte("answer lost")))
	<-trap.Answered()
	if got := payloadOf(1); got != "answer lost" {
		t.Errorf("row 1 is %q", got)
	}
	if err := l.Append(t.Context(), 1, nil, []byte("again")); !errors.Is(err, oplog.ErrConflict) {
		t.Errorf("append again: %v, want conflict", err)
	}
	mustAppend(t, l, 2, "next")

	// The server has nothing yet: nothing is known either, and nothing is there.
	held := proxy.NewGate()
	x.Add(proxy.HoldStatement(insert, held))
	unknown(l.Append(t.Context(), 3, nil, []byte("held"))) // by the statement timeout
	if got := payloadOf(3); got != "no row" {
		t.Errorf("row 3 is %q", got)
	}
	// The writer goes on on another connection, and what was held commits later: it loses.
	mustAppend(t, l, 3, "somebody else's")
	mustAppend(t, l, 4, "next")
	links := x.Open()
	held.Open()
	awaitCount(t, x.Open, links-1)
	if got := payloadOf(3); got != "somebody else's" {
		t.Errorf("row 3 became %q", got)
	}

	// The same, but nobody took the slot: the row arrives when nobody expects it, and is seen.
	held = proxy.NewGate()
	x.Add(proxy.AbandonStatement(insert, held))
	unknown(l.Append(t.Context(), 5, nil, []byte("late")))
	waited := make(chan error, 1)
	go func() { waited <- l.Wait(t.Context(), 4) }()
	held.Open()
	if err := <-waited; err != nil {
		t.Errorf("wait for the late row: %v", err)
	}
	if err := l.Append(t.Context(), 5, nil, []byte("again")); !errors.Is(err, oplog.ErrConflict) {
		t.Errorf("append beside the late row: %v, want conflict", err)
	}
	if got := payloadOf(5); got != "late" {
		t.Errorf("row 5 is %q", got)
	}

	// The caller gives up sooner than the answer comes. The statement goes on, and so does the connection.
	held = proxy.NewGate()
	trap = x.Add(proxy.HoldAnswer(insert, held))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-trap.Sprung(); cancel() }()
	err := l.Append(ctx, 6, nil, []byte("impatient"))
	unknown(err)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v, want it to say that the context ended", err)
	}
	held.Open()
	mustAppend(t, l, 7, "next") // waits for it
	if got := payloadOf(6); got != "impatient" {
		t.Errorf("row 6 is %q", got)
	}
}

// TestNoCancelRequests: a read that is given up asks nobody to cancel it: the next one needs one connection, and there is
// no other.
func TestNoCancelRequests(t *testing.T) {
	t.Parallel()
	x, _, o := proxied(t)
	o.NoNotify = true
	l := cluster(t, o, 3)
	if _, err := l.Newest(t.Context()); err != nil { // now there is a connection besides the one that appends
		t.Fatal(err)
	}
	held := proxy.NewGate()
	trap := x.Add(proxy.HoldAnswer("SELECT idx, payload", held))
	made, open := x.Accepted(), x.Open()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-trap.Sprung(); cancel() }()
	if _, err := l.Read(ctx, 0, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	held.Open()
	awaitCount(t, x.Open, open-1) // whatever its end brings with it has been
	if _, err := l.Newest(t.Context()); err != nil {
		t.Errorf("newest: %v", err)
	}
	if n := x.Accepted() - made; n > 1 {
		t.Errorf("%d connections were made, want at most one", n)
	}
}

// awaitCount asks again and again until the count is at most this.
func awaitCount(t testing.TB, count func() int, most int) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); count() > most; {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the count is %d, want %d", count(), most)
		}
	}
}

// TestBlackHole: the network swallows everything and says nothing. Calls end by the statement timeout, and everything
// works again over new connections. Field case 14.4.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	x, _, o := proxied(t)
	o.NoNotify = true // whoever sends a notification just then has the idle connection, and runs into the hole instead of the call
	o.StatementTimeout = 500 * time.Millisecond
	fieldcase.BlackHole(t, cluster(t, o, 3), x)
}

// TestSynchronousStandby: a commit that waits for a standby is neither done nor undone, whatever the writer does; giving
// up does not cancel it, and a cancellation by somebody else, which the server answers with a success and a warning, is
// no success. Field case 07.3.
func TestSynchronousStandby(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	o := on(p)
	o.StatementTimeout = 600 * time.Millisecond
	l := cluster(t, o, 1)
	admin := session(t, p.DSN("postgres", "postgres"))
	count := func(payload string) int {
		t.Helper()
		return scan[int](t, admin, "SELECT count(*) FROM "+o.Prefix+"_log WHERE payload = $1::text::bytea", payload)
	}
	mustExec(t, admin, "SET synchronous_commit = local")
	mustExec(t, admin, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	mustExec(t, admin, "SELECT pg_reload_conf()")
	awaitSync(t, p)

	if err := l.Append(t.Context(), 2, nil, []byte("given up")); !errors.Is(err, oplog.ErrUnknown) {
		t.Errorf("append without a standby: %v, want unknown", err)
	}
	awaitSession(t, admin, "wait_event = 'SyncRep'")
	// Its connection is closed by now, and still it waits: not cancelled, and so not visible.
	if err := l.Append(t.Context(), 2, nil, []byte("again")); oplog.NotApplied(err) && !errors.Is(err, oplog.ErrUnavailable) || err == nil {
		t.Errorf("append beside one that waits: %v", err)
	}
	if n := count("given up"); n != 0 {
		t.Error("a row that no standby has became visible")
	}
	mustExec(t, admin, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	awaitTrue(t, admin, "SELECT count(*) = 1 FROM "+o.Prefix+"_log WHERE idx = 2")

	done := make(chan error, 1)
	go func() { done <- l.Append(t.Context(), 3, nil, []byte("cancelled")) }()
	awaitSession(t, admin, "wait_event = 'SyncRep'")
	mustExec(t, admin, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	if err := <-done; !errors.Is(err, oplog.ErrUnknown) || !strings.Contains(err.Error(), "warns") {
		t.Errorf("append whose wait was cancelled: %v, want unknown because the server warns", err)
	}
	if n := count("cancelled"); n != 1 {
		t.Errorf("the row is there %d times", n)
	}
	mustExec(t, admin, "ALTER SYSTEM RESET synchronous_standby_names")
	mustExec(t, admin, "SELECT pg_reload_conf()")
	awaitTrue(t, admin, "SELECT current_setting('synchronous_standby_names') = ''")
	mustAppend(t, l, 4, "all is well")
}
