package replica_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// rows returns how many commands each row of db holds, from row 1 on.
func rows(t testing.TB, db *oplog.Memory) []int {
	t.Helper()
	log := db.Open()
	defer log.Close()
	var out []int
	for after := oplog.Index(0); ; {
		page, err := log.Read(context.Background(), after, 1<<20)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if len(page) == 0 {
			return out
		}
		for _, row := range page {
			info, err := replica.DecodeRow(row.Index, row.Payload)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, len(info.Commands))
			after = row.Index
		}
	}
}

// once checks that each of the words was applied exactly once, and nothing else.
func once(t testing.TB, r *node, words []string) {
	t.Helper()
	seen := map[string]int{}
	for _, w := range r.View().State.all() {
		seen[w]++
	}
	for _, w := range words {
		if seen[w] != 1 {
			t.Errorf("%q was applied %d times", w, seen[w])
		}
		delete(seen, w)
	}
	for w := range seen {
		t.Errorf("%q was applied and not expected", w)
	}
}

// TestIdleAppendsAtOnce: nobody waits for company.
func TestIdleAppendsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, cluster(t).Open(), replica.Options{})
		start := time.Now()
		for range 10 {
			propose(t, r, "x")
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("ten proposals of an idle node took %v", took)
		}
	})
}

// TestGroupCommit: what gathers while an append is under way makes the next row, up to 256 commands, in order.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, gate := cluster(t), faultlog.NewGate()
		r := open(t, faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.Append, Hold: gate}), replica.Options{})
		var all []string
		var done sync.WaitGroup
		for call := range 101 {
			var commands [][]byte
			for i := range 6 {
				all = append(all, fmt.Sprintf("%d-%d", call, i))
				commands = append(commands, []byte(all[len(all)-1]))
			}
			done.Go(func() {
				for _, res := range r.Propose(t.Context(), commands...) {
					if res.Err != nil {
						t.Errorf("propose: %v", res.Err)
					}
				}
			})
			synctest.Wait()
		}
		gate.Open()
		done.Wait()
		if diff := cmp.Diff([]int{6, 256, 256, 88}, rows(t, db)); diff != "" {
			t.Errorf("commands a row (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(all, r.View().State.all()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// TestByteBudget: a row stays within its byte budget, and a command above it is alone in its row.
func TestByteBudget(t *testing.T) {
	t.Parallel()
	db := cluster(t)
	r := open(t, db.Open(), replica.Options{RowBytes: 1100})
	var commands [][]byte
	for i := range 10 {
		size := 300
		if i == 4 {
			size = 5000
		}
		commands = append(commands, []byte(strings.Repeat(string(rune('a'+i)), size)))
	}
	for i, res := range r.Propose(t.Context(), commands...) {
		if res.Err != nil || res.Value.Count != uint64(i+1) {
			t.Errorf("command %d: %+v", i, res)
		}
	}
	if diff := cmp.Diff([]int{3, 1, 1, 3, 2}, rows(t, db)); diff != "" {
		t.Errorf("commands a row (-want +got):\n%s", diff)
	}
}

// smallLog is a log with a limit on payloads, which it keeps.
type smallLog struct {
	oplog.Log
	max  int
	says int
}

func (l smallLog) Info() oplog.Info { return oplog.Info{MaxPayload: l.says} }

func (l smallLog) Append(ctx context.Context, at oplog.Index, mark, payload []byte) error {
	if err := oplog.CheckAppend(at, len(payload), l.max); err != nil {
		return err
	}
	return l.Log.Append(ctx, at, mark, payload)
}

// TestTooLarge: a command above the limit of the database is refused before it is sent, and the others of its call are
// not. Where the database has not told of its limit, rows are split until they fit, and only what cannot fit is refused.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	for _, says := range []int{2000, 0} {
		t.Run(fmt.Sprintf("told %d", says), func(t *testing.T) {
			db := cluster(t)
			r := open(t, smallLog{db.Open(), 2000, says}, replica.Options{RetryMin: time.Millisecond})
			var commands [][]byte
			for i := range 12 {
				commands = append(commands, make([]byte, 400+i))
			}
			commands[7] = make([]byte, 3000)
			for i, res := range r.Propose(t.Context(), commands...) {
				if got, want := errors.Is(res.Err, replica.ErrTooLarge), i == 7; got != want || (res.Err != nil) != want {
					t.Errorf("command %d: %v", i, res.Err)
				}
			}
			if n := r.View().State.count; n != 11 {
				t.Errorf("%d commands applied, want 11", n)
			}
		})
	}
}

// TestLostAnswers: every tenth append is answered as unknown, whether or not it was done; each command is applied
// exactly once and answered (field case 01.5).
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]faultlog.Rule{
		"done":     {Op: faultlog.Append, After: oplog.ErrUnknown},
		"not done": {Op: faultlog.Append, Before: oplog.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := cluster(t)
				var rs [2]*node
				for i := range rs {
					log := faultlog.Wrap(db.Open())
					for skip := 9; skip < 2000; skip += 10 {
						rule := rule
						rule.Skip = skip
						log.Add(rule)
					}
					rs[i] = open(t, log, replica.Options{})
				}
				var all []string
				var done sync.WaitGroup
				for i, r := range rs {
					for c := range 5 {
						for p := range 50 {
							all = append(all, fmt.Sprintf("%d-%d-%d", i, c, p))
						}
						done.Go(func() {
							for p := range 50 {
								if res := r.Propose(t.Context(), fmt.Appendf(nil, "%d-%d-%d", i, c, p))[0]; res.Err != nil {
									t.Errorf("propose: %v", res.Err)
								}
							}
						})
					}
				}
				done.Wait()
				newest := max(rs[0].View().Index, rs[1].View().Index)
				wait(t, rs[0], newest)
				wait(t, rs[1], newest)
				once(t, rs[0], all)
				once(t, rs[1], all)
			})
		})
	}
}

// TestLateCommit: an append that was answered as unknown arrives later. If the repeat was there first, the late one
// meets its slot taken; if the late one is there first, the repeat does, and the row is recognised. Either way there is
// one copy (hazard 3).
func TestLateCommit(t *testing.T) {
	t.Parallel()
	for _, lateFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("late first %v", lateFirst), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, late, repeat := cluster(t), faultlog.NewGate(), faultlog.NewGate()
				log := faultlog.Wrap(db.Open(),
					faultlog.Rule{Op: faultlog.Append, Late: late, After: oplog.ErrUnknown},
					faultlog.Rule{Op: faultlog.Append, Skip: 1, Hold: repeat}) // every rule counts what the ones before took
				r := open(t, log, replica.Options{})
				var first, second replica.Result[answer]
				var done sync.WaitGroup
				done.Go(func() { first = r.Propose(t.Context(), []byte("first"))[0] })
				<-late.Reached()
				done.Go(func() { second = r.Propose(t.Context(), []byte("second"))[0] })
				if lateFirst {
					late.Open()
					log.Settle()
					repeat.Open()
				} else {
					repeat.Open()
					done.Wait()
					late.Open()
					log.Settle()
				}
				done.Wait()
				if first.Err != nil || first.Index != 1 || second.Err != nil || second.Index != 2 {
					t.Errorf("first %+v, second %+v", first, second)
				}
				once(t, r, []string{"first", "second"})
			})
		})
	}
}

// TestErrorOfTheLastAppend: the error of an append that nobody follows with another one is in the status until the log has
// told what became of it, and no longer.
func TestErrorOfTheLastAppend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := faultlog.NewGate()
		log := faultlog.Wrap(cluster(t).Open(), faultlog.Rule{Op: faultlog.Append, After: oplog.ErrUnknown})
		r := open(t, log, replica.Options{})
		log.Add(faultlog.Rule{Op: faultlog.Read, Hold: reads})
		done := make(chan replica.Result[answer], 1)
		go func() { done <- r.Propose(t.Context(), []byte("last"))[0] }()
		<-reads.Reached()
		synctest.Wait()
		if s := r.Status(); !strings.Contains(s.Database, oplog.ErrUnknown.Error()) {
			t.Errorf("nobody knows what became of the append, and the status says %q", s.Database)
		}
		reads.Open()
		if res := <-done; res.Err != nil {
			t.Fatal(res.Err)
		}
		synctest.Wait()
		if s := r.Status(); s.Database != "" {
			t.Errorf("the row was read, and the status says %q", s.Database)
		}
	})
}

// TestUnknownThenDefinite: after an append whose outcome is unknown, the repeat is refused as definite. That says nothing
// of the first one, which lands later: it is not called off, not appended elsewhere, and is answered when it is seen.
func TestUnknownThenDefinite(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{oplog.ErrUnavailable, oplog.ErrFull, oplog.ErrConflict, oplog.ErrTooLarge} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				late := faultlog.NewGate()
				log := faultlog.Wrap(cluster(t).Open(),
					faultlog.Rule{Op: faultlog.Append, Late: late, After: oplog.ErrUnknown},
					faultlog.Rule{Op: faultlog.Append, Before: cause, Times: -1})
				r := open(t, log, never)
				var res replica.Result[answer]
				var done sync.WaitGroup
				done.Go(func() { res = r.Propose(t.Context(), []byte("first"))[0] })
				<-late.Reached()
				time.Sleep(10 * time.Second)
				if n := log.Calls(faultlog.Append); n < 3 || n > 100 {
					t.Errorf("%d appends in ten seconds", n)
				}
				if st := r.Status(); st.InFlight != 1 {
					t.Errorf("%d in flight, %d queued", st.InFlight, st.Queued)
				}
				late.Open()
				log.Settle()
				done.Wait()
				if res.Err != nil || res.Index != 1 {
					t.Errorf("answer %+v", res)
				}
				log.Clear()
				propose(t, r, "second")
				once(t, r, []string{"first", "second"})
			})
		})
	}
}

// TestUnknownSlotTaken: while the outcome is unknown another node takes the slot. Only then does the batch go to the
// next one, and what was given up in between does not.
func TestUnknownSlotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		log := faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.Append, Before: oplog.ErrUnknown, Times: 3})
		r, other := open(t, log, replica.Options{}), open(t, db.Open(), replica.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var given, kept replica.Result[answer]
		var done sync.WaitGroup
		done.Go(func() { given = r.Propose(ctx, []byte("given up"))[0] })
		synctest.Wait()
		done.Go(func() { kept = r.Propose(t.Context(), []byte("kept"))[0] })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(given.Err, replica.ErrUnknown) || !errors.Is(given.Err, context.Canceled) {
			t.Errorf("given up in flight: %v", given.Err)
		}
		propose(t, other, "of the other")
		done.Wait()
		if kept.Err != nil || kept.Index != 2 {
			t.Errorf("kept: %+v", kept)
		}
		once(t, r, []string{"of the other", "kept"})
	})
}

// TestDatabaseAway: while the database is away callers end by their own contexts with "not applied", the queue is
// bounded, statements are few, reads go on, and work resumes by itself (hazard 19).
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		log := faultlog.Wrap(db.Open())
		r := open(t, log, replica.Options{QueueCommands: 100})
		propose(t, r, "before")
		log.Add(faultlog.Rule{Op: faultlog.Append, Before: oplog.ErrUnavailable, Times: -1},
			faultlog.Rule{Op: faultlog.Read, Before: oplog.ErrUnavailable, Times: -1},
			faultlog.Rule{Op: faultlog.Bounds, Before: oplog.ErrUnavailable, Times: -1},
			faultlog.Rule{Op: faultlog.Newest, Before: oplog.ErrUnavailable, Times: -1})
		count := func() int {
			return log.Calls(faultlog.Append) + log.Calls(faultlog.Read) + log.Calls(faultlog.Bounds)
		}
		before := count()
		var done sync.WaitGroup
		for range 100 {
			done.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				res := r.Propose(ctx, []byte("in vain"))[0]
				if !errors.Is(res.Err, replica.ErrNotApplied) || !errors.Is(res.Err, context.DeadlineExceeded) || !strings.Contains(res.Err.Error(), oplog.ErrUnavailable.Error()) {
					t.Errorf("while away: %v, which should say why", res.Err)
				}
			})
		}
		time.Sleep(30 * time.Second)
		if res := r.Propose(t.Context(), []byte("too much"))[0]; !errors.Is(res.Err, replica.ErrOverloaded) {
			t.Errorf("beyond the bound: %v", res.Err)
		}
		if st := r.Status(); st.Database == "" || st.Behind < 25*time.Second || st.Queued != 100 || st.Condition != replica.CatchingUp {
			t.Errorf("status while away: %+v", st)
		}
		if _, err := r.Linearize(t.Context()); !errors.Is(err, replica.ErrUnavailable) {
			t.Errorf("linearize while away: %v", err)
		}
		if r.View().State.count != 1 {
			t.Errorf("the view has gone")
		}
		done.Wait()
		if n := count() - before; n > 20*60 {
			t.Errorf("%d statements in a minute", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done.Go(func() {
			if res := r.Propose(ctx, []byte("after"))[0]; res.Err != nil {
				t.Errorf("after: %v", res.Err)
			}
		})
		synctest.Wait()
		log.Clear()
		done.Wait()
		st := await(t, r, func(st replica.Status) bool { return st.Database == "" && st.Condition == replica.Ready })
		if st.Behind != 0 {
			t.Errorf("behind by %v", st.Behind)
		}
		once(t, r, []string{"before", "after"})
	})
}

// TestDefiniteRefusals: a full disk, a read-only database and a missing permission are told at once, as definite, with
// their cause, at a bounded rate; and it works again when they are over.
func TestDefiniteRefusals(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{oplog.ErrFull, oplog.ErrReadOnly, oplog.ErrDenied, oplog.ErrNoCluster, oplog.ErrCorrupt} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log := faultlog.Wrap(cluster(t).Open(), faultlog.Rule{Op: faultlog.Append, Before: cause, Times: -1})
				r := open(t, log, replica.Options{})
				start := time.Now()
				for range 100 {
					res := r.Propose(t.Context(), []byte("in vain"))[0]
					if !errors.Is(res.Err, replica.ErrUnavailable) || !errors.Is(res.Err, cause) {
						t.Fatalf("proposal: %v", res.Err)
					}
				}
				if n, s := log.Calls(faultlog.Append), time.Since(start).Seconds(); float64(n) > 20*s+20 {
					t.Errorf("%d statements in %.1f s", n, s)
				}
				log.Clear()
				propose(t, r, "after")
				once(t, r, []string{"after"})
			})
		})
	}
}

// TestGivenUpInQueue: what was not handed to the database when its context ended is not applied, and never will be.
func TestGivenUpInQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := faultlog.NewGate()
		r := open(t, faultlog.Wrap(cluster(t).Open(), faultlog.Rule{Op: faultlog.Append, Hold: gate}), replica.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var inFlight, queued []replica.Result[answer]
		var done sync.WaitGroup
		done.Go(func() { inFlight = r.Propose(ctx, []byte("in flight")) })
		<-gate.Reached()
		done.Go(func() { queued = r.Propose(ctx, []byte("queued"), []byte("queued too")) })
		synctest.Wait()
		if st := r.Status(); st.InFlight != 1 || st.Queued != 2 {
			t.Errorf("%d in flight, %d queued", st.InFlight, st.Queued)
		}
		cancel()
		done.Wait()
		if err := inFlight[0].Err; !errors.Is(err, replica.ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("in flight: %v", err)
		}
		for _, res := range queued {
			if !errors.Is(res.Err, replica.ErrNotApplied) || !errors.Is(res.Err, context.Canceled) {
				t.Errorf("queued: %v", res.Err)
			}
		}
		if res := r.Propose(ctx, []byte("too late"))[0]; !errors.Is(res.Err, replica.ErrNotApplied) {
			t.Errorf("with a context that has ended: %v", res.Err)
		}
		gate.Open()
		propose(t, r, "after")
		once(t, r, []string{"in flight", "after"})
	})
}

// TestFalseConflict: a lost race that nobody won, as a database reports after a deadlock, is tried again at the same
// slot, without a row in it and without a rush (field case 03.1).
func TestFalseConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := faultlog.Wrap(cluster(t).Open(), faultlog.Rule{Op: faultlog.Append, Before: oplog.ErrConflict, Times: 6})
		r := open(t, log, replica.Options{})
		start := time.Now()
		if res := propose(t, r, "stubborn"); res.Index != 1 {
			t.Errorf("landed at %d", res.Index)
		}
		if took := time.Since(start); took < 300*time.Millisecond || took > 5*time.Second {
			t.Errorf("seven tries took %v", took)
		}
	})
}

// TestSlotLostBelowSnapshot: an append hangs before it was done, while the rest of its node goes on and installs a snapshot
// from beyond its slot. When it ends it has lost its slot, so its command is appended once more, and not given up.
func TestSlotLostBelowSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, paused, blind := cluster(t), faultlog.NewGate(), faultlog.NewGate()
		installed := make(chan oplog.Index, 1)
		log := faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.Append, Hold: paused})
		r := open(t, log, replica.Options{Events: replica.Events{Installed: func(i oplog.Index) { installed <- i }}})
		other := open(t, db.Open(), replica.Options{KeepRows: -1})
		log.Add(faultlog.Rule{Op: faultlog.Read, Hold: blind, Times: -1}, faultlog.Rule{Op: faultlog.Bounds, Hold: blind, Times: -1})
		var slow replica.Result[answer]
		var done sync.WaitGroup
		done.Go(func() { slow = r.Propose(t.Context(), []byte("slow"))[0] })
		<-paused.Reached()
		for i := range 10 {
			propose(t, other, fmt.Sprint(i))
		}
		if _, err := other.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		blind.Open()
		if at := <-installed; at != 10 {
			t.Errorf("installed %d", at)
		}
		synctest.Wait()
		paused.Open()
		done.Wait()
		if slow.Err != nil || slow.Index != 11 {
			t.Errorf("answer %+v", slow)
		}
	})
}

// TestTruncatedSlot: a writer chooses slot 2 and is stopped, with all that it does, while another node goes on,
// snapshots and truncates that slot away. When it comes to, its append does not take the slot; it reinstalls, and its
// proposal lands once, at the end (hazard 1).
func TestTruncatedSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, paused := cluster(t), faultlog.NewGate()
		log := faultlog.Wrap(db.Open())
		r := open(t, log, replica.Options{})
		other := open(t, db.Open(), replica.Options{KeepRows: -1})
		propose(t, r, "first")
		log.Add(faultlog.Rule{Op: faultlog.Append, Hold: paused, Times: -1}, faultlog.Rule{Op: faultlog.Read, Hold: paused, Times: -1},
			faultlog.Rule{Op: faultlog.Bounds, Hold: paused, Times: -1})
		var slow replica.Result[answer]
		var done sync.WaitGroup
		done.Go(func() { slow = r.Propose(t.Context(), []byte("slow"))[0] })
		<-paused.Reached()
		all := []string{"first", "slow"}
		for i := range 20 {
			all = append(all, fmt.Sprint(i))
			propose(t, other, fmt.Sprint(i))
		}
		if at, err := other.Snapshot(t.Context()); at != 21 || err != nil {
			t.Errorf("snapshot at %d: %v", at, err)
		}
		if got := len(rows(t, db)); got != 1 {
			t.Errorf("%d rows are left, want the newest only", got)
		}
		paused.Open()
		done.Wait()
		if slow.Err == nil {
			if slow.Index != 22 {
				t.Errorf("landed at %d, want 22", slow.Index)
			}
			once(t, r, all)
		} else if !errors.Is(slow.Err, replica.ErrUnknown) {
			t.Errorf("slow: %v", slow.Err)
		}
		wait(t, other, r.View().Index)
		if a, b := r.View().State, wait(t, other, r.View().Index).State; a.digest != b.digest {
			t.Errorf("forked: %v and %v", a.all(), b.all())
		}
	})
}

// TestAppendErrorPasses: where the database was away for an append, and whoever waited for it has left, the status says so only
// until the database answers again. What lasts (a server that is read-only) stays until an append succeeds.
func TestAppendErrorPasses(t *testing.T) {
	t.Parallel()
	for refusal, stays := range map[error]bool{oplog.ErrUnavailable: false, oplog.ErrReadOnly: true} {
		synctest.Test(t, func(t *testing.T) {
			db := cluster(t)
			log := faultlog.Wrap(db.Open())
			r := open(t, log, never)
			log.Add(faultlog.Rule{Op: faultlog.Append, Before: refusal, Times: -1}, faultlog.Rule{Op: faultlog.Bounds, Before: refusal, Times: 3})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if res := r.Propose(ctx, []byte("given up"))[0]; res.Err == nil {
				t.Fatal("applied")
			}
			time.Sleep(time.Minute)
			if got := r.Status().Database; (got != "") != stays {
				t.Errorf("after %v, with nothing left to append: %q", refusal, got)
			}
		})
	}
}
