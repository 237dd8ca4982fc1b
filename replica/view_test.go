package replica_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// TestViewAllocates nothing: reading is a pointer load.
func TestViewAllocatesNothing(t *testing.T) {
	r := open(t, cluster(t).Open(), replica.Options{})
	propose(t, r, "x")
	var v *replica.View[list]
	if n := testing.AllocsPerRun(1000, func() { v = r.View() }); n != 0 {
		t.Errorf("%v allocations for a view", n)
	}
	if v.Index != 1 {
		t.Errorf("index %d", v.Index)
	}
}

// full is whether tests have the size of the field cases: HEADWATER_TEST_FULL=1.
var full = os.Getenv("HEADWATER_TEST_FULL") != ""

// TestOwnWrites: sixteen goroutines propose, take the index, wait for it and read their own change, again and again, on one
// processor, two and eight; it is always there. 10,000 rounds each, or 1,000,000 at full size (invariant 4, field case 11.3).
func TestOwnWrites(t *testing.T) {
	rounds := 10_000 // not beside other tests: it changes what all of them run on
	switch {
	case full:
		rounds = 1_000_000
	case testing.Short():
		rounds = 1000
	}
	for _, processors := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("%d processors", processors), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			testOwnWrites(t, rounds)
		})
	}
}

func testOwnWrites(t *testing.T, rounds int) {
	r := open(t, cluster(t).Open(), never)
	var done sync.WaitGroup
	for g := range 16 {
		done.Go(func() {
			for i := range rounds / 16 {
				word := fmt.Sprintf("%d-%d", g, i)
				res := r.Propose(t.Context(), []byte(word))[0]
				v := r.View()
				w, err := r.Wait(t.Context(), res.Index)
				if res.Err != nil || err != nil || v.Index < res.Index || w.Index < res.Index {
					t.Errorf("answer %+v, view at %d, wait %v", res, v.Index, err)
					return
				}
				n := v.State.last
				for skip := v.State.count - res.Value.Count; skip > 0; skip-- {
					n = n.before
				}
				if n.command != word {
					t.Errorf("the view has %q where %q was applied", n.command, word)
				}
			}
		})
	}
	done.Wait()
}

// accounts is a state in which every command moves a token between two accounts, so that the sum is the same always.
type accounts struct {
	balances [8]int64
	index    oplog.Index
}

// TestTornViews: every row moves tokens in several steps; no view shows half a row, none changes while it is held, and
// none is older than the one before. 400 calls and 4 readers, or 100 readers for ten minutes at full size (field case 11.8).
func TestTornViews(t *testing.T) {
	t.Parallel()
	m := replica.Machine[*accounts, int]{
		Empty: &accounts{balances: [8]int64{800}},
		Apply: func(s *accounts, index oplog.Index, commands [][]byte) (*accounts, []int, error) {
			next := *s
			next.index = index
			for _, c := range commands {
				next.balances[c[0]%8]--
				runtime.Gosched()
				next.balances[c[1]%8]++
			}
			return &next, make([]int, len(commands)), nil
		},
		Digest: func(s *accounts) replica.Digest { return replica.Digest{byte(s.index), byte(s.index >> 8)} },
	}
	m.Encode, m.Decode = noCodec[*accounts]()
	r, err := replica.Open(t.Context(), cluster(t).Open(), m, never)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, stop := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	count, end := 4, time.Now() // by the calls alone
	if full {
		count, end = 100, time.Now().Add(10*time.Minute)
	}
	for range count {
		readers.Go(func() {
			var held []*replica.View[*accounts]
			var copies []accounts
			last := oplog.Index(0)
			for ctx.Err() == nil {
				v := r.View()
				if v.Index < last || v.State.index != v.Index {
					t.Errorf("view %d with state %d after view %d", v.Index, v.State.index, last)
				}
				last = v.Index
				if len(held) == 0 || held[len(held)-1] != v {
					held, copies = append(held, v), append(copies, *v.State)
				}
				for i, h := range held {
					var sum int64
					for _, b := range h.State.balances {
						sum += b
					}
					if sum != 800 || *h.State != copies[i] {
						t.Errorf("view %d: sum %d, changed %v", h.Index, sum, *h.State != copies[i])
					}
				}
				if len(held) > 20 { // for how long each is held is left to chance
					from := rand.IntN(15)
					held, copies = slices.Delete(held, from, from+5), slices.Delete(copies, from, from+5)
				}
				runtime.Gosched()
			}
		})
	}
	for g := range 4 {
		writers.Go(func() {
			for i := 0; i < 100 || time.Now().Before(end); i++ {
				r.Propose(t.Context(), []byte{byte(g), byte(i)}, []byte{byte(i), byte(g + 1)}, []byte{byte(g + 2), byte(i)})
			}
		})
	}
	writers.Wait()
	stop()
	readers.Wait()
}

// TestWait: it ends with the view, with the context, and never by itself.
func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, cluster(t).Open(), never)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Wait(ctx, 1<<60); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait for what never comes: %v", err)
		}
		var got *replica.View[list]
		var done sync.WaitGroup
		done.Go(func() { got, _ = r.Wait(t.Context(), 3) })
		next := r.View().Next()
		for i := range 3 {
			propose(t, r, fmt.Sprint(i))
		}
		done.Wait()
		<-next
		if got == nil || got.Index != 3 {
			t.Errorf("waited for 3, got %+v", got)
		}
	})
}

// TestLinearize: callers that come together share a look at the log, none shares one that had started before it came,
// and the view holds what was answered anywhere before.
func TestLinearize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, gate := cluster(t), faultlog.NewGate()
		log := faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.Newest, Linger: gate})
		r, other := open(t, log, never), open(t, db.Open(), never)
		var done sync.WaitGroup
		views := make([]*replica.View[list], 21)
		ask := func(i int) {
			done.Go(func() {
				v, err := r.Linearize(t.Context())
				if err != nil {
					t.Errorf("linearize: %v", err)
				}
				views[i] = v
			})
		}
		ask(0) // looks before the write, and its answer hangs
		<-gate.Reached()
		at := propose(t, other, "elsewhere").Index
		for i := 1; i <= 20; i++ {
			ask(i)
		}
		synctest.Wait()
		gate.Open()
		done.Wait()
		if n := log.Calls(faultlog.Newest); n != 2 {
			t.Errorf("%d looks for 21 callers, want 2", n)
		}
		for i, v := range views[1:] {
			if v == nil || v.Index < at {
				t.Errorf("caller %d got an older view", i+1)
			}
		}
	})
}

// TestProposeFromListener: what learns of changes by View.Next may propose, and wait for what comes, since it runs off the
// apply path (field case 11.6).
func TestProposeFromListener(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, cluster(t).Open(), never)
		var done sync.WaitGroup
		v := r.View()
		done.Go(func() {
			<-v.Next()
			res := r.Propose(t.Context(), []byte("from the listener"))[0]
			if w, err := r.Wait(t.Context(), res.Index); err != nil || res.Err != nil || w.Index < 2 {
				t.Errorf("propose from the listener: %+v, %v", res, err)
			}
		})
		done.Go(func() { // one that waits for the row after the one it was told of
			<-v.Next()
			told := r.View().Index
			if w, err := r.Wait(t.Context(), told+1); err != nil || w.Index <= told {
				t.Errorf("wait for row %d from the listener: %v", told+1, err)
			}
		})
		propose(t, r, "change")
		synctest.Wait()
		propose(t, r, "another") // the second may have been told of two rows at once
		done.Wait()
	})
}

// TestNotReadyWithoutProof: a node calls itself ready for as long as looks at the log prove it, and not while none is
// answered: whether the database says that it is away, or says nothing at all. A look that fails now and then changes nothing.
func TestNotReadyWithoutProof(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault func(gate *faultlog.Gate) faultlog.Rule
		told  bool // the change of the condition is told, not only seen
	}{
		"refused": {func(*faultlog.Gate) faultlog.Rule {
			return faultlog.Rule{Op: faultlog.Bounds, Before: oplog.ErrUnavailable, Times: -1}
		}, true},
		"silent": {func(g *faultlog.Gate) faultlog.Rule { return faultlog.Rule{Op: faultlog.Bounds, Hold: g, Times: -1} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := cluster(t)
				log := faultlog.Wrap(db.Open())
				var mu sync.Mutex // guards said
				var said []replica.Condition
				told := func() []replica.Condition { mu.Lock(); defer mu.Unlock(); return slices.Clone(said) }
				r := open(t, log, replica.Options{Events: replica.Events{StateOf: func(st replica.Status) {
					mu.Lock()
					defer mu.Unlock()
					said = append(said, st.Condition)
				}}})
				propose(t, r, "before")
				await(t, r, func(st replica.Status) bool { return st.Condition == replica.Ready })
				log.Add(faultlog.Rule{Op: faultlog.Bounds, Before: oplog.ErrUnavailable, Times: 2})
				time.Sleep(10 * time.Second)
				if len(told()) != 1 || r.Status().Condition != replica.Ready {
					t.Errorf("after a fault that passed: %+v, told %v", r.Status(), told())
				}
				gate := faultlog.NewGate()
				log.Add(c.fault(gate))
				time.Sleep(10 * time.Second)
				if st := r.Status(); st.Condition != replica.CatchingUp || st.Behind < 5*time.Second || st.Reason == "" {
					t.Errorf("without an answer for 10 s: %+v", st)
				}
				log.Clear()
				gate.Open()
				st := await(t, r, func(st replica.Status) bool { return st.Condition == replica.Ready })
				want := []replica.Condition{replica.Ready}
				if c.told {
					want = append(want, replica.CatchingUp, replica.Ready)
				}
				if st.Behind != 0 || !slices.Equal(told(), want) {
					t.Errorf("afterwards: %+v, told %v, want %v", st, told(), want)
				}
			})
		})
	}
}
