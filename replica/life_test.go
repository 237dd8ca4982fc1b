package replica_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// TestMain fails the run if any goroutine is left when all tests are over.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCloseAnywhere closes a replica while it stands at each operation of the log in turn: Close returns, every waiter is
// answered with what is true, and no goroutine is left. A goroutine that stayed would keep the bubble from ending.
func TestCloseAnywhere(t *testing.T) {
	t.Parallel()
	for op := faultlog.Append; op <= faultlog.Truncate; op++ {
		if op == faultlog.AbortSnapshot {
			continue // runs only in the cleanup of a cycle that failed
		}
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := cluster(t)
				fill(t, db, never, 30)
				log := faultlog.Wrap(db.Open())
				r, err := replica.Open(t.Context(), log, machine(nil), replica.Options{SnapshotInterval: -1, KeepRows: -1})
				if err != nil {
					t.Fatal(err)
				}
				gate := faultlog.NewGate()
				if op != faultlog.Wait { // a wait is under way already
					log.Add(faultlog.Rule{Op: op, Hold: gate, Times: -1})
				}
				var proposed []replica.Result[answer]
				errs := map[string]error{}
				var mu sync.Mutex
				var done sync.WaitGroup
				try := func(name string, f func() error) {
					done.Go(func() {
						err := f()
						mu.Lock()
						errs[name] = err
						mu.Unlock()
					})
				}
				done.Go(func() { proposed = r.Propose(t.Context(), []byte("a"), []byte("b")) })
				try("wait", func() error { _, err := r.Wait(t.Context(), 1000); return err })
				try("linearize", func() error { _, err := r.Linearize(t.Context()); return err })
				try("snapshot", func() error { _, err := r.Snapshot(t.Context()); return err })
				time.Sleep(2 * time.Second)
				next := r.View().Next()
				done.Go(func() { r.Close() })
				r.Close()
				done.Wait()
				for _, res := range proposed {
					ok := res.Err == nil || errors.Is(res.Err, replica.ErrClosed)
					if op == faultlog.Append && !ok || op != faultlog.Append && op != faultlog.Read && res.Err != nil {
						t.Errorf("proposal: %v", res.Err)
					}
				}
				if err := errs["wait"]; !errors.Is(err, replica.ErrClosed) {
					t.Errorf("wait: %v", err)
				}
				for name, err := range errs {
					if err != nil && !errors.Is(err, replica.ErrClosed) && !errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v", name, err)
					}
				}
				<-next
				if st := r.Status(); st.Condition != replica.Closed || st.InFlight != 0 || st.Queued != 0 {
					t.Errorf("status after close: %+v", st)
				}
				for name, err := range map[string]error{
					"propose":   r.Propose(t.Context(), []byte("x"))[0].Err,
					"wait":      second(r.Wait(t.Context(), 1000)),
					"linearize": second(r.Linearize(t.Context())),
					"snapshot":  second(r.Snapshot(t.Context())),
				} {
					if !errors.Is(err, replica.ErrClosed) {
						t.Errorf("%s after close: %v", name, err)
					}
				}
				if v, err := r.Wait(t.Context(), 30); err != nil || v != r.View() {
					t.Errorf("the last view cannot be read after close: %v", err)
				}
			})
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestCloseUnknown: what was handed to the database when the replica is closed is not called "not applied".
func TestCloseUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := faultlog.NewGate()
		log := faultlog.Wrap(cluster(t).Open(), faultlog.Rule{Op: faultlog.Append, Linger: gate})
		r, err := replica.Open(t.Context(), log, machine(nil), never)
		if err != nil {
			t.Fatal(err)
		}
		log.Add(faultlog.Rule{Op: faultlog.Read, Before: oplog.ErrUnavailable, Times: -1})
		var first, second replica.Result[answer]
		var done sync.WaitGroup
		done.Go(func() { first = r.Propose(t.Context(), []byte("landed"))[0] })
		<-gate.Reached()
		done.Go(func() { second = r.Propose(t.Context(), []byte("queued"))[0] })
		synctest.Wait()
		r.Close()
		done.Wait()
		if !errors.Is(first.Err, replica.ErrUnknown) || !errors.Is(first.Err, replica.ErrClosed) {
			t.Errorf("in flight: %+v", first)
		}
		if !errors.Is(second.Err, replica.ErrClosed) || errors.Is(second.Err, replica.ErrUnknown) {
			t.Errorf("queued: %+v", second)
		}
	})
}

// TestLeaks: faults, cancelled calls and many lives leave nothing behind (field case 16.4). TestMain looks for goroutines
// at the end; the table of waiters is checked by finish.
func TestLeaks(t *testing.T) {
	t.Parallel()
	db := cluster(t)
	for life := range 40 {
		rng := rand.New(rand.NewPCG(uint64(life), 0))
		log := faultlog.Wrap(db.Open())
		for range 20 {
			op := []faultlog.Op{faultlog.Append, faultlog.Read, faultlog.Bounds, faultlog.Wait, faultlog.Newest}[rng.IntN(5)]
			err := []error{oplog.ErrUnavailable, oplog.ErrUnknown, oplog.ErrConflict}[rng.IntN(3)]
			log.Add(faultlog.Rule{Op: op, Skip: 2 + rng.IntN(20), Before: err})
		}
		m := machine(nil)
		r, err := replica.Open(t.Context(), log, m, replica.Options{SnapshotInterval: 8, RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		var done sync.WaitGroup
		for c := range 8 {
			done.Go(func() {
				for i := range 10 {
					ctx, cancel := context.WithCancel(t.Context())
					if (i+c)%2 == 0 {
						cancel()
					} else {
						defer cancel()
						time.AfterFunc(time.Duration(i)*time.Millisecond, cancel)
					}
					r.Propose(ctx, fmt.Appendf(nil, "%d-%d-%d", life, c, i))
					r.Wait(ctx, r.View().Index+5)
					r.Linearize(ctx)
				}
			})
		}
		if life%2 == 0 {
			done.Wait()
		}
		finish(t, r, m)
		done.Wait()
	}
}

// TestAbandonedQueue: callers that keep giving up while the database is away do not fill the memory.
func TestAbandonedQueue(t *testing.T) {
	t.Parallel()
	gate := faultlog.NewGate()
	r := open(t, faultlog.Wrap(cluster(t).Open(), faultlog.Rule{Op: faultlog.Append, Hold: gate}), replica.Options{})
	var done sync.WaitGroup
	done.Go(func() { r.Propose(t.Context(), []byte("blocks")) })
	<-gate.Reached()
	give := func(n int) {
		for range n {
			ctx, cancel := context.WithCancel(t.Context())
			called := make(chan []replica.Result[answer], 1)
			go func() { called <- r.Propose(ctx, make([]byte, 100)) }()
			for r.Status().Queued == 0 && len(called) == 0 {
				runtime.Gosched()
			}
			cancel()
			if res := (<-called)[0]; !errors.Is(res.Err, replica.ErrNotApplied) {
				t.Fatalf("given up: %v", res.Err)
			}
		}
	}
	give(3000)
	if st := r.Status(); st.Queued != 0 {
		t.Errorf("%d queued", st.Queued)
	}
	if n := replica.QueueLen(r); n > 2100 {
		t.Errorf("the queue keeps %d entries of callers that have gone", n)
	}
	gate.Open()
	done.Wait()
	propose(t, r, "after")
	once(t, r, []string{"blocks", "after"})
}

// TestHourAway: an hour without a database, with callers that come and give up all the time, under virtual time.
func TestHourAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		log := faultlog.Wrap(db.Open())
		r := open(t, log, never)
		for op := faultlog.Append; op <= faultlog.Wait; op++ {
			log.Add(faultlog.Rule{Op: op, Before: oplog.ErrUnavailable, Times: -1})
		}
		calls := func() (n int) {
			for op := faultlog.Append; op <= faultlog.Wait; op++ {
				n += log.Calls(op)
			}
			return n
		}
		before := calls()
		var done sync.WaitGroup
		for range 3600 {
			done.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if res := r.Propose(ctx, []byte("x"))[0]; !errors.Is(res.Err, replica.ErrNotApplied) {
					t.Errorf("proposal: %v", res.Err)
				}
			})
			time.Sleep(time.Second)
		}
		done.Wait()
		if n := calls() - before; n > 3600*20 {
			t.Errorf("%d statements in an hour", n)
		}
		if st := r.Status(); st.Behind < 59*time.Minute {
			t.Errorf("behind by %v", st.Behind)
		}
		log.Clear()
		propose(t, r, "after")
		once(t, r, []string{"after"})
	})
}

// TestStartDuringSnapshot: while a node starts, others append and store a snapshot above every row that its first look
// showed, be it the first one or a newer one, and truncate. The node opens there and goes on: that the look knew fewer rows
// than the snapshot stands for is no sign of a rewound log, and that row 0 is gone none of a damaged one.
func TestStartDuringSnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		before bool // there is a snapshot when the node begins to start
		wait   faultlog.Op
	}{
		"a newer one":   {true, faultlog.OpenSnapshot},
		"the first one": {false, faultlog.Read},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := cluster(t)
				other := open(t, db.Open(), replica.Options{SnapshotInterval: -1, KeepRows: -1})
				snapshot := func() {
					if _, err := other.Snapshot(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				propose(t, other, "a")
				if c.before {
					snapshot()
				}
				gate := faultlog.NewGate()
				log := faultlog.Wrap(db.Open(), faultlog.Rule{Op: c.wait, Hold: gate})
				var r *node
				opened := make(chan error)
				go func() {
					var err error
					r, err = tryOpen(t, log, replica.Options{})
					opened <- err
				}()
				<-gate.Reached()
				for _, command := range []string{"b", "c"} {
					propose(t, other, command)
				}
				snapshot()
				gate.Open()
				if err := <-opened; err != nil {
					t.Fatal(err)
				}
				propose(t, r, "d")
				if st := r.Status(); st.Condition != replica.Ready || st.Applied != 4 {
					t.Errorf("after a start beside a snapshot: %v at row %d: %s", st.Condition, st.Applied, st.Reason)
				}
			})
		})
	}
}
