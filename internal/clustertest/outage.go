package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// Full is whether tests have the size of the field cases: HEADWATER_TEST_FULL=1.
var Full = os.Getenv("HEADWATER_TEST_FULL") != ""

// Outage is what happens to a database while a node works: it is killed, is away, comes back with hardly a connection to
// give, and is itself again.
type Outage struct {
	Open          func(t testing.TB) oplog.Log // as a user whose connections Scarce bounds
	Accepted      func() int                   // attempts to connect so far
	Scarce        func(t testing.TB)           // from the next start on there are two connections at most
	Kill, Restart func(t testing.TB)
	Plenty        func(t testing.TB) // as many as before again
}

// Run is field case 14.6 on one node: proposals all the time, 3 s without a server and 2 s with two connections, or five
// minutes and one at full size. Attempts to connect become one a second, callers are told that nothing was applied, the queue
// does not grow, reads go on and say how old they are, and nobody has to help in the end.
func (o Outage) Run(t *testing.T) {
	t.Helper()
	away, few := 3*time.Second, 2*time.Second
	if Full {
		away, few = 5*time.Minute, time.Minute
	}
	var retries atomic.Int64
	options := headwater.Options{}
	options.Engine.Events.Retry = func(string, error, time.Duration) { retries.Add(1) }
	s := Nodes(t, options, o.Open(t))[0]
	w := watch(t, s)
	defer w.stop()

	o.Scarce(t)
	o.Kill(t)
	gone := time.Now()
	attempts, told := o.Accepted(), retries.Load()
	// bounded: at most one attempt a second once the pause has grown, and no flood of errors to be logged.
	bounded := func(phase string) {
		t.Helper()
		took := time.Since(gone).Seconds()
		n, m := o.Accepted()-attempts, retries.Load()-told
		t.Logf("%s: after %.1f s %d attempts to connect, %d errors told, %v", phase, took, n, m, w)
		if most := 12 + took; float64(n) > most {
			t.Errorf("%s: %d attempts to connect in %.1f s, want at most %.0f", phase, n, took, most)
		}
		if most := 20 * (1 + took); float64(m) > most {
			t.Errorf("%s: %d errors were told in %.1f s, want at most %.0f", phase, m, took, most)
		}
	}
	sleep(t, away)
	bounded("away")
	if st := s.Status(); st.Behind == 0 || st.DatabaseError == "" || st.Queued > callers {
		t.Errorf("the status without a server: %+v", st)
	}
	o.Restart(t)
	sleep(t, few)
	bounded("two connections")
	o.Plenty(t)
	back := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := meta.Propose(ctx, s, meta.PutKey{Key: "after", Value: []byte("v")}); err != nil {
		t.Fatalf("the node does not go on: %v (%+v)", err, s.Status())
	}
	t.Logf("proposals are answered again %v after the server was itself", time.Since(back).Round(time.Millisecond))
	w.stop()
	Agree(t, append(Nodes(t, headwater.Options{}, o.Open(t)), s))
	w.check(t, s)
}

// sleep is the length of a phase.
func sleep(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// callers is how many propose at once while a watch goes on.
const callers = 4

// workers propose keys all the time and look at the view, and remember how that ended.
type workers struct {
	end  context.CancelFunc
	done sync.WaitGroup

	applied, definite, unknown atomic.Int64

	mu      sync.Mutex    // guards the rest
	slowest time.Duration // look at a view
	there   []string      // keys that were answered applied
	doubted []string
	never   []string // keys that were answered not applied
}

// watch begins it. Each proposal is given 100 ms.
func watch(t *testing.T, s *headwater.Store) *workers {
	ctx, end := context.WithCancel(t.Context())
	w := &workers{end: end}
	for i := range callers {
		w.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				w.one(t, s, string(rune('a'+i))+"/"+time.Now().Format("15:04:05.000000000"))
			}
		})
	}
	return w
}

func (w *workers) one(t *testing.T, s *headwater.Store, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	a := s.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: key, Value: []byte("v")}})[0]
	start := time.Now()
	_, _ = s.View().State.Key(key)
	took := time.Since(start)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slowest = max(w.slowest, took)
	switch {
	case a.Err == nil:
		w.applied.Add(1)
		w.there = append(w.there, key)
	case errors.Is(a.Err, meta.ErrOutcomeUnknown):
		w.unknown.Add(1)
		w.doubted = append(w.doubted, key)
	case errors.Is(a.Err, meta.ErrNotApplied), errors.Is(a.Err, meta.ErrUnavailable), errors.Is(a.Err, meta.ErrOverloaded):
		w.definite.Add(1)
		w.never = append(w.never, key)
	default:
		t.Errorf("a proposal ended with %v", a.Err)
	}
}

func (w *workers) stop() {
	w.end()
	w.done.Wait()
}

// check holds the answers against what is there.
func (w *workers) check(t *testing.T, s *headwater.Store) {
	t.Helper()
	state := s.View().State
	for _, k := range w.there {
		if _, ok := state.Key(k); !ok {
			t.Errorf("%s was acknowledged and is gone", k)
		}
	}
	for _, k := range w.never {
		if _, ok := state.Key(k); ok {
			t.Errorf("%s was answered not applied and is there", k)
		}
	}
	if w.applied.Load() == 0 || w.definite.Load() == 0 {
		t.Errorf("%v: nothing was tried", w)
	}
}

// String tells how the proposals ended so far.
func (w *workers) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("proposals: %d applied, %d not applied, %d unknown; slowest look at a view %v",
		w.applied.Load(), w.definite.Load(), w.unknown.Load(), w.slowest)
}
