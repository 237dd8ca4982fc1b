package postgres_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// full is whether the tests of outages run at full size: HEADWATER_TEST_FULL=1.
var full = os.Getenv("HEADWATER_TEST_FULL") != ""

// put writes a key, in its own time or until ctx ends.
func put(ctx context.Context, s *headwater.Store, key string) error {
	return s.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: key, Value: []byte("v")}})[0].Err
}

func mustPut(t testing.TB, s *headwater.Store, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := put(ctx, s, key); err != nil {
		t.Fatalf("put %s: %v (%+v)", key, err, s.Status())
	}
}

// awaitSync waits until commits wait for a standby: some processes of a server read a new setting later than others. No
// standby may be there.
func awaitSync(t testing.TB, p *dbtest.Postgres) {
	t.Helper()
	commits, admin := session(t, p.DSN("postgres", "postgres")), session(t, p.DSN("postgres", "postgres"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = commits.Exec(ctx, "SELECT pg_logical_emit_message(true, 'test', '')") // a commit that changes nothing
		}
	}()
	pid := commits.PgConn().PID()
	awaitSession(t, admin, "wait_event = 'SyncRep' AND pid = $1", pid)
	cancel()
	<-ended
	mustExec(t, admin, "SELECT pg_terminate_backend($1)", pid) // or its wait might be taken for another's
	awaitTrue(t, admin, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $1", pid)
}

// awaitPair waits until commits on the primary wait for the standby.
func awaitPair(t testing.TB, p *dbtest.Pair) {
	t.Helper()
	p.Standby.Pause(t)
	awaitSync(t, p.Primary)
	p.Standby.Resume(t)
}

// TestPromotedStandby: the primary is killed under load and its synchronous standby promoted, again and again. The nodes
// find the new primary, and nothing that was answered is lost. 1 time, or 10 at full size.
func TestPromotedStandby(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPair(t, true)
	awaitPair(t, p)
	o := patient(p.DSN("postgres", "postgres"))
	stores := nodes(t, 3, o, headwater.Options{})
	times := 1
	if full {
		times = 10
	}
	clustertest.Run(t, stores, 6, 30*time.Second, func() {
		for i := range times {
			clustertest.Await(t, stores[i%3], 20)
			p.Primary.Kill(t)
			p.Failover(t)
			for _, s := range stores {
				clustertest.Await(t, s, 10)
			}
			if i < times-1 {
				p.Rejoin(t)
				awaitPair(t, p)
			}
		}
	})
}

// TestPromotedStandbyLost: an asynchronous standby is promoted that lacks rows. Every node that had applied them halts and
// says so, whether it meets the shorter log, one that others have filled up to exactly where it stands, or one that has grown
// past it; a node that starts works from what there is. Hazard 14, field case 07.4.
func TestPromotedStandbyLost(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPair(t, false)
	o := patient(p.DSN("postgres", "postgres"))
	o.NoNotify = true
	stores := nodes(t, 2, o, headwater.Options{})
	var away [2]*proxy.Proxy // the ways of nodes that are cut off for a while
	for i := range away {
		away[i] = proxy.New(t, proxy.Postgres, p.Primary.Addr())
		late := o
		late.DSN = strings.Replace(p.Primary.DSN("postgres", "postgres"), p.Primary.Addr(), away[i].Addr(), 1)
		stores = append(stores, nodes(t, 1, late, headwater.Options{})...)
	}
	mustPut(t, stores[0], "kept")
	kept := stores[0].View().Index
	admin := session(t, p.Primary.DSN("postgres", "postgres"))
	awaitTrue(t, admin, "SELECT count(*) > 0 AND bool_and(replay_lsn >= $1::pg_lsn) FROM pg_stat_replication", scan[string](t, admin, "SELECT pg_current_wal_lsn()::text"))
	p.Standby.Stop(t)
	for _, key := range []string{"lost 1", "lost 2", "lost 3"} {
		mustPut(t, stores[0], key)
	}
	for _, s := range stores {
		if _, err := s.Linearize(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	lost := stores[0].View().Index
	for _, x := range away {
		x.Refuse(true)
		x.Cut()
	}
	p.Primary.Kill(t)
	p.Standby.Start(t)
	p.Failover(t)

	halted(t, stores[0], lost)
	halted(t, stores[1], lost)
	fresh := nodes(t, 1, o, headwater.Options{})[0]
	if v := fresh.View(); v.Index != kept {
		t.Errorf("a node that starts is at %d, want %d", v.Index, kept)
	}
	back := func(i int) {
		away[i].SetUpstream(p.Primary.Addr())
		away[i].Refuse(false)
		halted(t, stores[2+i], lost)
	}
	for fresh.View().Index < lost {
		mustPut(t, fresh, "new")
	}
	tried := make(chan error, 1)
	go func() { tried <- put(t.Context(), stores[2], "into another history") }()
	back(0)
	if err := <-tried; !errors.Is(err, meta.ErrHalted) && !errors.Is(err, meta.ErrOutcomeUnknown) {
		t.Errorf("a node whose rows were replaced, up to the one that it stood at, has proposed: %v", err)
	}
	if v, err := fresh.Linearize(t.Context()); err != nil || v.Index != lost {
		t.Errorf("the log has grown to %d, %v", v.Index, err)
	}
	for fresh.View().Index <= lost+3 {
		mustPut(t, fresh, "newer")
	}
	back(1)
	for i, s := range stores {
		if _, ok := s.View().State.Key("new"); ok {
			t.Errorf("node %d went on in another history", i)
		}
	}
	mustPut(t, fresh, "newest")
}

// halted waits until a node has stopped for good because rows are gone that it has applied, and checks what it says.
func halted(t testing.TB, s *headwater.Store, applied oplog.Index) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Wait(ctx, uint64(applied)+1000); !errors.Is(err, meta.ErrHalted) {
		t.Fatalf("a node that had rows which are gone goes on: %v (%+v)", err, s.Status())
	}
	if st := s.Status(); st.Condition != headwater.Rewound && st.Condition != headwater.Diverged || st.Reason == "" {
		t.Errorf("status: %+v", st)
	}
	if err := put(ctx, s, "after"); !errors.Is(err, meta.ErrHalted) {
		t.Errorf("propose: %v, want halted", err)
	}
	if v := s.View(); v.Index != applied {
		t.Errorf("the view is at %d, want that of before, %d", v.Index, applied)
	}
}

// TestStandbyGone: the synchronous standby is gone. Proposals end as unknown at their deadlines and none is a success
// before the standby is back; then everything goes on by itself. Field case 07.3.
func TestStandbyGone(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPair(t, true)
	o := patient(p.DSN("postgres", "postgres"))
	nodes(t, 1, o, headwater.Options{})
	o.StatementTimeout = 600 * time.Millisecond
	s := nodes(t, 1, o, headwater.Options{})[0]
	mustPut(t, s, "before")
	p.Standby.Stop(t)
	awaitSync(t, p.Primary)
	for range 2 { // the second waits behind the first
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := put(ctx, s, "deadline"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("put without a standby: %v, want that it ends with its context", err)
		}
		cancel()
	}
	if _, ok := s.View().State.Key("before"); !ok {
		t.Error("the view is gone")
	}
	waiting := make(chan error, 1)
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { waiting <- put(patience, s, "patient") }()
	p.Standby.Start(t)
	if err := <-waiting; err != nil {
		t.Errorf("put that waited: %v", err)
	}
	mustPut(t, s, "after")
}

// TestStandbyWaitBroken: what breaks off the wait for a synchronous standby makes the row visible, its writer's node
// applies it, and still the proposer, whose deadline is far away, is told that the outcome is unknown. Asked again as the
// same request it is told what became of it when the standby is back. Hazard 2, field case 07.3.
func TestStandbyWaitBroken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given time.Duration // statement timeout
		end   func(t *testing.T, p *dbtest.Postgres)
	}{
		"cancelled":  {time.Minute, breakOff("pg_cancel_backend")},
		"terminated": {time.Minute, breakOff("pg_terminate_backend")},
		"given up":   {600 * time.Millisecond, breakOff("pg_cancel_backend")},
		"killed":     {time.Minute, func(t *testing.T, p *dbtest.Postgres) { p.Kill(t); p.Start(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dbtest.NewPostgres(t)
			o := on(p)
			nodes(t, 1, o, headwater.Options{})
			o.StatementTimeout = c.given
			s := nodes(t, 1, o, headwater.Options{})[0]
			mustPut(t, s, "before")
			p.Configure(t, "synchronous_standby_names = 'nobody'") // the node has its connections from before
			awaitSync(t, p)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			at := s.View().Index + 1
			proposal := meta.Proposal{Request: &meta.Request{Client: [16]byte{1}, Sequence: 1, Oldest: 1}, Command: meta.PutKey{Key: "k", Value: []byte("v"), IfAbsent: true}}
			var a meta.Answer
			var done sync.WaitGroup
			done.Go(func() { a = s.Propose(ctx, proposal)[0] })
			awaitSession(t, session(t, p.DSN("postgres", "postgres")), "wait_event = 'SyncRep'")
			if c.given < time.Minute {
				awaitFault(t, s)
			}
			c.end(t, p)
			done.Wait()
			if !errors.Is(a.Err, meta.ErrOutcomeUnknown) || ctx.Err() != nil {
				t.Errorf("the proposer is told %v, %v, want outcome unknown", a.Status, a.Err)
			}
			if _, err := s.Wait(ctx, uint64(at)); err != nil {
				t.Fatal(err)
			}
			if _, ok := s.View().State.Key("k"); !ok {
				t.Error("the row is not there: nothing was tried")
			}
			p.Configure(t, "synchronous_standby_names = ''")
			a = s.Propose(ctx, proposal)[0]
			if a.Err != nil || a.Status != meta.Redundant {
				t.Errorf("the same request again: %v, %v, want redundant", a.Status, a.Err)
			}
		})
	}
}

// breakOff ends the waits for a standby, one after the other, by a function of the server.
func breakOff(function string) func(t *testing.T, p *dbtest.Postgres) {
	return func(t *testing.T, p *dbtest.Postgres) {
		admin := session(t, p.DSN("postgres", "postgres"))
		mustExec(t, admin, "SELECT "+function+"(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	}
}

// awaitFault waits until a node has given up a statement that got no answer.
func awaitFault(t testing.TB, s *headwater.Store) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); s.Status().DatabaseError == ""; {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("no statement was given up: %+v", s.Status())
		}
	}
}
