package replica_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// fill opens a node, proposes count commands, one a row, and closes it.
func fill(t testing.TB, db *oplog.Memory, o replica.Options, count int) {
	t.Helper()
	r, err := replica.Open(t.Context(), db.Open(), machine(nil), o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range count {
		propose(t, r, fmt.Sprint("fill ", i))
	}
}

// payload returns the row at index as it is stored.
func payload(t testing.TB, db *oplog.Memory, index oplog.Index) []byte {
	t.Helper()
	log := db.Open()
	defer log.Close()
	rows, err := log.Read(context.Background(), index-1, 1)
	if err != nil || len(rows) == 0 || rows[0].Index != index {
		t.Fatalf("row %d: %v, %v", index, rows, err)
	}
	return rows[0].Payload
}

// never takes no snapshots.
var never = replica.Options{SnapshotInterval: -1}

// TestHalt: a row that cannot be passed stops the node and nothing else: reads go on, waiters are failed, proposals are
// refused with the index and the reason, and a node that starts later halts at the same row.
func TestHalt(t *testing.T) {
	t.Parallel()
	reencode := func(change func(*replica.RowInfo)) func(testing.TB, *oplog.Memory) []byte {
		return func(t testing.TB, db *oplog.Memory) []byte {
			row, err := replica.DecodeRow(3, payload(t, db, 3))
			if err != nil {
				t.Fatal(err)
			}
			row.Index, row.Seen, row.Previous = 4, 3, row.Checksum
			v := replica.Digest{}
			row.SeenDigest = v
			row.Writer = replica.Token{1}
			change(&row)
			return replica.AppendRow(nil, &row)
		}
	}
	for _, c := range []struct {
		name string
		bad  func(testing.TB, *oplog.Memory) []byte
		want string
	}{
		{"garbage", func(testing.TB, *oplog.Memory) []byte { return []byte("not a row at all") }, "envelope version 110"},
		{"empty", func(testing.TB, *oplog.Memory) []byte { return nil }, "0 bytes are too few"},
		{"checksum", func(t testing.TB, db *oplog.Memory) []byte {
			b := payload(t, db, 3)
			b[len(b)/2] ^= 1
			return b
		}, "checksum"},
		{"another index", func(t testing.TB, db *oplog.Memory) []byte { return payload(t, db, 3) }, "it says that it is row 3"},
		{"incarnation", reencode(func(r *replica.RowInfo) { r.Incarnation++ }), "incarnation"},
		{"refused by the machine", reencode(func(r *replica.RowInfo) {
			r.Seen = 0
			r.Commands = [][]byte{[]byte("poison")}
		}), "poison"},
		{"panic in apply", reencode(func(r *replica.RowInfo) {
			r.Seen = 0
			r.Commands = [][]byte{[]byte("panic")}
		}), "panic: as asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := cluster(t)
				fill(t, db, never, 3)
				var conditions []replica.Condition
				o := never
				o.Events.StateOf = func(st replica.Status) { conditions = append(conditions, st.Condition) }
				hold := faultlog.NewGate()
				r := open(t, faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.Append, Hold: hold}), o)
				before := r.View()
				var inFlight, queued replica.Result[answer]
				var waited error
				var done sync.WaitGroup
				done.Go(func() { inFlight = r.Propose(t.Context(), []byte("in flight"))[0] })
				<-hold.Reached()
				done.Go(func() { queued = r.Propose(t.Context(), []byte("queued"))[0] })
				done.Go(func() { _, waited = r.Wait(t.Context(), 10) })
				synctest.Wait()

				db.Put(4, c.bad(t, db))
				st := await(t, r, func(st replica.Status) bool { return st.Condition == replica.Halted })
				synctest.Wait() // until those who wait have been told
				hold.Open()
				done.Wait()
				if st.At != 4 || !strings.Contains(st.Reason, c.want) || st.Applied != 3 {
					t.Errorf("status %+v, want row 4 and %q", st, c.want)
				}
				if !errors.Is(inFlight.Err, replica.ErrUnknown) || !errors.Is(inFlight.Err, replica.ErrHalted) {
					t.Errorf("in flight: %v", inFlight.Err)
				}
				late := r.Propose(t.Context(), []byte("late"))[0].Err
				_, linear := r.Linearize(t.Context())
				_, snap := r.Snapshot(t.Context())
				for name, err := range map[string]error{"queued": queued.Err, "wait": waited, "late": late, "linearize": linear, "snapshot": snap} {
					if !errors.Is(err, replica.ErrHalted) || !strings.Contains(err.Error(), "index 4") || errors.Is(err, replica.ErrUnknown) {
						t.Errorf("%s: %v", name, err)
					}
				}
				if r.View() != before {
					t.Errorf("the view changed")
				}
				if v, err := r.Wait(t.Context(), 3); err != nil || v != before {
					t.Errorf("wait for what is there: %v", err)
				}
				synctest.Wait()
				if want := []replica.Condition{replica.Ready, replica.Halted}; !slices.Equal(conditions, want) {
					t.Errorf("conditions %v, want %v", conditions, want)
				}
				again := open(t, db.Open(), never)
				if st := again.Status(); st.Condition != replica.Halted || st.At != 4 || st.Applied != 3 {
					t.Errorf("a node that starts later: %+v", st)
				}
			})
		})
	}
}

// TestGapWaits: a row is missing in the middle and no snapshot covers it. The laggard stops before it, says so and
// refuses proposals, the others go on; when the row comes back, or a snapshot covers it, it goes on by itself (field
// case 04.3).
func TestGapWaits(t *testing.T) {
	t.Parallel()
	for _, cure := range []string{"row", "snapshot"} {
		t.Run(cure, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := cluster(t)
				fill(t, db, never, 50)
				healthy := open(t, db.Open(), never)
				row := payload(t, db, 30)
				db.Drop(30)
				r := open(t, db.Open(), never)
				st := await(t, r, func(st replica.Status) bool { return st.Condition == replica.Gap })
				if st.At != 30 || st.Applied != 29 || !strings.Contains(st.Reason, "row 30 is missing") || st.Newest != 50 {
					t.Errorf("status %+v", st)
				}
				res := r.Propose(t.Context(), []byte("x"))[0]
				if !errors.Is(res.Err, replica.ErrUnavailable) || !strings.Contains(res.Err.Error(), "gap at index 30") {
					t.Errorf("proposal: %v", res.Err)
				}
				soon, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := r.Wait(soon, 40); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "row 30 is missing") {
					t.Errorf("a wait in vain ends in %v", err)
				}
				propose(t, healthy, "healthy goes on")
				time.Sleep(time.Minute)
				if st := r.Status(); st.Condition != replica.Gap || st.Applied != 29 || st.Behind < time.Minute {
					t.Errorf("a minute later: %+v", st)
				}
				if cure == "row" {
					db.Put(30, row)
				} else if _, err := healthy.Snapshot(t.Context()); err != nil {
					t.Error(err)
				}
				wait(t, r, 51)
				await(t, r, func(st replica.Status) bool { return st.Condition == replica.Ready })
				propose(t, r, "works again")
				if a, b := r.View().State, wait(t, healthy, 52).State; a.digest != b.digest {
					t.Errorf("digests differ")
				}
			})
		})
	}
}

// TestReinstall: a node whose next rows were truncated installs the snapshot. Its proposals in the truncated part are
// answered from the state's memory, or as unknown where that has forgotten them; never by a guess (hazard 4).
func TestReinstall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		installFirst bool
		answer       error
	}{
		"answer lost, then installed": {false, oplog.ErrUnknown},
		"installed, then answer lost": {true, oplog.ErrUnknown},
		"installed, then answered":    {true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { reinstall(t, c.installFirst, c.answer) })
		})
	}
}

func reinstall(t *testing.T, installFirst bool, lostAnswer error) {
	db, lost, blind := cluster(t), faultlog.NewGate(), faultlog.NewGate()
	installed := make(chan oplog.Index, 1)
	log := faultlog.Wrap(db.Open())
	r := open(t, log, replica.Options{Events: replica.Events{Installed: func(i oplog.Index) { installed <- i }}})
	other := open(t, db.Open(), replica.Options{KeepRows: -1})
	propose(t, r, "first")
	log.Add(
		// The row lands and the answer hangs; nothing can be read meanwhile.
		faultlog.Rule{Op: faultlog.Append, Linger: lost, After: lostAnswer},
		faultlog.Rule{Op: faultlog.Read, Hold: blind, Times: -1}, faultlog.Rule{Op: faultlog.Bounds, Hold: blind, Times: -1})
	var results []replica.Result[answer]
	var waited *replica.View[list]
	var done sync.WaitGroup
	done.Go(func() { results = r.Propose(t.Context(), []byte("remembered"), []byte("forgotten")) })
	done.Go(func() { waited, _ = r.Wait(t.Context(), 5) })
	<-lost.Reached()
	for i := range 10 {
		propose(t, other, fmt.Sprint(i))
	}
	if at, err := other.Snapshot(t.Context()); at != 12 || err != nil {
		t.Fatalf("snapshot at %d, %v", at, err)
	}
	if !installFirst {
		lost.Open()
		synctest.Wait()
	}
	blind.Open()
	if at := <-installed; at != 12 {
		t.Errorf("installed %d", at)
	}
	synctest.Wait()
	lost.Open()
	done.Wait()
	if res := results[0]; res.Err != nil || !res.Value.Recall || res.Value.Index != 2 || res.Index != 12 {
		t.Errorf("remembered: %+v", res)
	}
	if res := results[1]; !errors.Is(res.Err, replica.ErrUnknown) {
		t.Errorf("forgotten: %+v", res)
	}
	if waited == nil || waited.Index != 12 {
		t.Errorf("the waiter was not woken by the install: %+v", waited)
	}
	propose(t, r, "after")
	once(t, r, append([]string{"first", "remembered", "forgotten", "after"}, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"))
}

// TestRowsBelowSnapshot: rows that a snapshot stands for and that are still there are not applied again, also after an
// install that failed half-way (field case 06.3).
func TestRowsBelowSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		fill(t, db, never, 20)
		r := open(t, db.Open(), replica.Options{SnapshotInterval: -1, KeepRows: 1000})
		if _, err := r.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		fill(t, db, never, 10)
		if got := len(rows(t, db)); got != 30 {
			t.Fatalf("%d rows are there, want all 30", got)
		}
		log := faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.ReadPart, Before: oplog.ErrUnavailable})
		if _, err := tryOpen(t, log, never); !errors.Is(err, oplog.ErrUnavailable) {
			t.Errorf("open while the snapshot cannot be read: %v", err)
		}
		fresh := open(t, log, never)
		if v := wait(t, fresh, 30); v.State.count != 30 {
			t.Errorf("%d commands, want 30", v.State.count)
		}
		if a, b := wait(t, r, 30).State, fresh.View().State; a.digest != b.digest {
			t.Errorf("digests differ")
		}
	})
}

// TestReadStopsEarly: reads that break off, with an error or with half a page, never make a node claim that it has
// caught up (field case 04.5).
func TestReadStopsEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		fill(t, db, never, 1000)
		log := faultlog.Wrap(db.Open())
		for n := range 200 { // each rule acts once, so they act one after the other; the first on the read of row 0
			rule := faultlog.Rule{Op: faultlog.Read, EditRows: func(rows []oplog.Row) []oplog.Row {
				return rows[:min(len(rows), 1+n%7)]
			}}
			if n%3 == 2 {
				rule = faultlog.Rule{Op: faultlog.Read, Before: oplog.ErrUnavailable}
			}
			log.Add(rule)
		}
		var early []oplog.Index
		o := never
		o.Events.StateOf = func(st replica.Status) {
			if st.Condition == replica.Ready && st.Applied < 1000 {
				early = append(early, st.Applied)
			}
		}
		r := open(t, log, o)
		wait(t, r, 1000)
		await(t, r, func(st replica.Status) bool { return st.Condition == replica.Ready })
		synctest.Wait()
		if len(early) > 0 {
			t.Errorf("ready at %v of 1000", early)
		}
		if r.View().State.count != 1000 {
			t.Errorf("%d commands", r.View().State.count)
		}
	})
}

// TestFrozenReads: a server that shows an old picture is lag, never a missing row: the node's own rows are applied by
// hand-over, others' when they appear, and it says that it is behind (hazard 7).
func TestFrozenReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		fill(t, db, never, 5)
		log := faultlog.Wrap(db.Open())
		r, other := open(t, log, never), open(t, db.Open(), never)
		old := func(rows []oplog.Row) []oplog.Row {
			return slices.DeleteFunc(rows, func(r oplog.Row) bool { return r.Index > 5 })
		}
		log.Add(faultlog.Rule{Op: faultlog.Read, EditRows: old, Times: -1},
			faultlog.Rule{Op: faultlog.Bounds, Times: -1, EditBounds: func(b oplog.Bounds) oplog.Bounds {
				b.Newest, b.Authoritative = 5, false
				return b
			}})
		if res := propose(t, r, "own"); res.Index != 6 {
			t.Errorf("own row at %d", res.Index)
		}
		time.Sleep(time.Minute)
		if st := r.Status(); st.Condition != replica.Ready || st.Applied != 6 {
			t.Errorf("with a stale picture behind its own row: %+v", st)
		}
		wait(t, other, 6)
		propose(t, other, "other's")
		if _, err := func() (*replica.View[list], error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return r.Linearize(ctx)
		}(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("linearize behind a frozen server: %v", err)
		}
		log.Clear()
		wait(t, r, 7)
		propose(t, r, "goes on")
	})
}

// TestRewound: the database was restored to an older state under a running node. It says so, ends its waits and takes
// no proposals; but only once an authoritative look proves it (hazard 14, field case 07.4).
func TestRewound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		fill(t, db, never, 20)
		var sure atomic.Bool
		log := faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.Bounds, Times: -1, EditBounds: func(b oplog.Bounds) oplog.Bounds {
			b.Authoritative = sure.Load()
			return b
		}})
		r := open(t, log, never)
		for i := oplog.Index(20); i > 10; i-- {
			db.Drop(i)
		}
		time.Sleep(10 * time.Second)
		if st := r.Status(); st.Condition != replica.Ready {
			t.Errorf("concluded from a look that proves nothing: %+v", st)
		}
		var waited error
		var done sync.WaitGroup
		done.Go(func() { _, waited = r.Wait(t.Context(), 25) })
		synctest.Wait()
		if _, err := r.Linearize(t.Context()); !errors.Is(err, replica.ErrUnavailable) {
			t.Errorf("linearize on a log that holds less than the view: %v", err)
		}
		sure.Store(true)
		done.Wait()
		st := r.Status()
		if st.Condition != replica.Rewound || st.At != 20 || st.Applied != 20 || st.Newest != 10 || !strings.Contains(st.Reason, "only up to 10") {
			t.Errorf("status %+v", st)
		}
		if !errors.Is(waited, replica.ErrRewound) {
			t.Errorf("wait: %v", waited)
		}
		if err := r.Propose(t.Context(), []byte("x"))[0].Err; !errors.Is(err, replica.ErrRewound) || !errors.Is(err, replica.ErrHalted) {
			t.Errorf("proposal: %v", err)
		}
		if _, err := r.Linearize(t.Context()); !errors.Is(err, replica.ErrRewound) {
			t.Errorf("linearize: %v", err)
		}
		if r.View().Index != 20 {
			t.Errorf("the view has gone back to %d", r.View().Index)
		}
		again := open(t, db.Open(), never)
		if res := propose(t, again, "new history"); res.Index != 11 {
			t.Errorf("a restarted node writes at %d", res.Index)
		}
	})
}

// twenty returns a node that has applied 20 rows, its log, and the database behind it.
func twenty(t testing.TB) (*oplog.Memory, *faultlog.Log, *node) {
	t.Helper()
	db := cluster(t)
	fill(t, db, never, 20)
	log := faultlog.Wrap(db.Open())
	return db, log, open(t, log, never)
}

// replace takes rows 11 to 20 away, and has somebody else write count rows in their place.
func replace(t testing.TB, db *oplog.Memory, count int) {
	t.Helper()
	for i := oplog.Index(20); i > 10; i-- {
		db.Drop(i)
	}
	fill(t, db, never, count)
}

// blindfold holds back all that log would show, until the gate is opened.
func blindfold(log *faultlog.Log) *faultlog.Gate {
	blind := faultlog.NewGate()
	log.Add(faultlog.Rule{Op: faultlog.Bounds, Hold: blind, Times: -1}, faultlog.Rule{Op: faultlog.Read, Hold: blind, Times: -1})
	return blind
}

// TestHistoryReplaced: as TestRewound, but others have written past this node's index before it looks. The next row
// follows on another row than the one that was applied here.
func TestHistoryReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, log, r := twenty(t)
		blind := blindfold(log)
		replace(t, db, 15)
		blind.Open()
		st := await(t, r, func(st replica.Status) bool { return st.Condition == replica.Rewound })
		if st.At != 20 || !strings.Contains(st.Reason, "row 21 follows on") || st.HealedFaults != 0 || r.View().Index != 20 {
			t.Errorf("status %+v", st)
		}
	})
}

// TestHistoryRefilled: as TestHistoryReplaced, but others have written up to exactly the row that this node has applied, so that
// no index tells. It writes neither a row nor a snapshot into the other history, and finds out by a look.
func TestHistoryRefilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, log, r := twenty(t)
		blind := blindfold(log)
		replace(t, db, 10)
		var proposed error
		var done sync.WaitGroup
		done.Go(func() { proposed = r.Propose(t.Context(), []byte("into the other history"))[0].Err })
		time.Sleep(time.Minute)
		if b := bounds(t, db); b.Newest != 20 {
			t.Errorf("the log has grown to %d", b.Newest)
		}
		blind.Open()
		st := await(t, r, func(st replica.Status) bool { return st.Condition == replica.Rewound })
		if st.At != 20 || !strings.Contains(st.Reason, "row 20 ends with") || r.View().Index != 20 {
			t.Errorf("status %+v", st)
		}
		if done.Wait(); !errors.Is(proposed, replica.ErrRewound) {
			t.Errorf("proposal: %v", proposed)
		}
		if b := bounds(t, db); b.Newest != 20 || b.Snapshot.Parts != 0 {
			t.Errorf("a node of the lost history has written: %+v", b)
		}
	})
}

// TestSnapshotOfLostHistory: a node that does not know yet that others have refilled the log stores no snapshot.
func TestSnapshotOfLostHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, log, r := twenty(t)
		hold := faultlog.NewGate()
		log.Add(faultlog.Rule{Op: faultlog.CommitSnapshot, Hold: hold})
		var err error
		var done sync.WaitGroup
		done.Go(func() { _, err = r.Snapshot(t.Context()) })
		<-hold.Reached()
		blind := blindfold(log)
		replace(t, db, 15)
		hold.Open()
		time.Sleep(time.Second)
		if b := bounds(t, db); b.Snapshot.Parts != 0 {
			t.Errorf("the snapshot at %d, of the lost history, is the current one", b.Snapshot.Index)
		}
		blind.Open()
		if done.Wait(); err == nil {
			t.Error("the call for a snapshot succeeded")
		}
	})
}

// TestDamagedNewestRow: a bit flips in the very bytes by which the newest row is told from another one. Whoever has applied it
// goes on and appends; rows that follow name it by the checksum that it had.
func TestDamagedNewestRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		fill(t, db, never, 20)
		one, two := open(t, db.Open(), never), open(t, db.Open(), never)
		p := payload(t, db, 20)
		before, err := replica.DecodeRow(20, p)
		if err != nil {
			t.Fatal(err)
		}
		p[len(p)-3] ^= 4
		db.Put(20, p)
		for i, r := range []*node{one, two, one} {
			if res := propose(t, r, fmt.Sprint("after ", i)); res.Err != nil || res.Index != oplog.Index(21+i) {
				t.Errorf("proposal %d: %+v", i, res)
			}
		}
		after, err := replica.DecodeRow(21, payload(t, db, 21))
		if err != nil || after.Previous != before.Checksum {
			t.Errorf("row 21 names %016x before it, %v; it was %016x", after.Previous, err, before.Checksum)
		}
		for _, r := range []*node{one, two} {
			if st := await(t, r, func(st replica.Status) bool { return st.Applied == 23 && st.Condition == replica.Ready }); st.HealedFaults != 0 {
				t.Errorf("status %+v", st)
			}
		}
	})
}

// TestDivergence: rows tell what their writers had. A node that finds another digest rebuilds: it was wrong, and takes
// the rebuilt state; or the writer was, and a second one that is makes it stop (hazard 11).
func TestDivergence(t *testing.T) {
	t.Parallel()
	type event struct {
		at     oplog.Index
		healed bool
	}
	// Machines that go wrong at row 5, by themselves: a rebuild does not repeat it.
	once := func() replica.Machine[list, answer] {
		var spent bool
		return machine(func(i oplog.Index) bool {
			was := spent
			spent = spent || i == 5
			return i == 5 && !was
		})
	}
	always := machine(func(i oplog.Index) bool { return i == 5 })
	setup := func(t *testing.T, m replica.Machine[list, answer], o replica.Options, events *[]event) (*oplog.Memory, *node) {
		db := cluster(t)
		o.SnapshotInterval = -1
		o.Events.Diverged = func(at oplog.Index, _ string, healed bool) { *events = append(*events, event{at, healed}) }
		r, err := openWithout(t, db.Open(), m, o)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, db, never, 4)
		wait(t, r, 4)
		return db, r
	}
	t.Run("healed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var events []event
			db, r := setup(t, once(), replica.Options{}, &events)
			other := open(t, db.Open(), never)
			propose(t, other, "five")
			wait(t, r, 5)
			propose(t, other, "six")
			v := wait(t, r, 6)
			if st := r.Status(); st.Condition != replica.Ready || st.HealedFaults != 1 {
				t.Errorf("status %+v", st)
			}
			if v.State.digest != other.View().State.digest {
				t.Errorf("not healed: %v", v.State.all())
			}
			synctest.Wait()
			if !slices.Equal(events, []event{{6, true}}) {
				t.Errorf("events %v", events)
			}
			propose(t, r, "goes on")
		})
	})
	t.Run("two writers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var events []event
			db, r := setup(t, always, replica.Options{}, &events)
			fill(t, db, never, 2)
			wait(t, r, 6)
			synctest.Wait()
			if st := r.Status(); st.Condition != replica.Ready || !slices.Equal(events, []event{{6, false}}) {
				t.Errorf("after one writer: %+v, events %v", st, events)
			}
			fill(t, db, never, 1)
			st := await(t, r, func(st replica.Status) bool { return st.Condition == replica.Diverged })
			synctest.Wait()
			if st.At != 7 || st.Applied != 6 || !slices.Equal(events, []event{{6, false}, {7, false}}) {
				t.Errorf("after two: %+v, events %v", st, events)
			}
			if err := r.Propose(t.Context(), []byte("x"))[0].Err; !errors.Is(err, replica.ErrHalted) {
				t.Errorf("proposal: %v", err)
			}
		})
	})
	t.Run("halt at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var events []event
			db, r := setup(t, once(), replica.Options{HaltOnDivergence: true}, &events)
			fill(t, db, never, 2)
			st := await(t, r, func(st replica.Status) bool { return st.Condition == replica.Diverged })
			synctest.Wait()
			if st.At != 6 || !slices.Equal(events, []event{{6, false}}) {
				t.Errorf("status %+v, events %v", st, events)
			}
		})
	})
}

// openWithout opens a node whose machine is broken on purpose: it is closed at the end, and not checked.
func openWithout(t testing.TB, log oplog.Log, m replica.Machine[list, answer], o replica.Options) (*node, error) {
	r, err := replica.Open(t.Context(), log, m, o)
	if err == nil {
		t.Cleanup(func() { r.Close() })
	}
	return r, err
}

// TestBacklog: a backlog is read in pages of ReadBytes, however large it is, and applied once (field case 06.5).
func TestBacklog(t *testing.T) {
	t.Parallel()
	db := cluster(t)
	fill(t, db, never, 400)
	largest, reads := 0, 0
	log := faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.Read, Times: -1, EditRows: func(rows []oplog.Row) []oplog.Row {
		size := 0
		for _, r := range rows {
			size += len(r.Payload)
		}
		largest, reads = max(largest, size), reads+1
		return rows
	}})
	r := open(t, log, replica.Options{SnapshotInterval: -1, ReadBytes: 2000})
	v := wait(t, r, 400)
	r.Close()
	if v.State.count != 400 || largest > 2000 || reads < 10 {
		t.Errorf("%d commands in %d reads of up to %d bytes", v.State.count, reads, largest)
	}
}

// TestLaggardConverges: a node that starts while others write, snapshot and truncate all the time gets there (field
// case 06.1).
func TestLaggardConverges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		writer := open(t, db.Open(), replica.Options{SnapshotInterval: 20})
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				writer.Propose(t.Context(), fmt.Appendf(nil, "%d", i))
				time.Sleep(time.Millisecond)
			}
		})
		time.Sleep(time.Second)
		var installs atomic.Int64
		slow := faultlog.Wrap(db.Open())
		r := open(t, slow, replica.Options{SnapshotInterval: -1, Events: replica.Events{Installed: func(oplog.Index) { installs.Add(1) }}})
		for range 5 {
			gate := faultlog.NewGate()
			slow.Clear()
			slow.Add(faultlog.Rule{Op: faultlog.Read, Hold: gate}, faultlog.Rule{Op: faultlog.OpenSnapshot, Hold: gate})
			time.Sleep(100 * time.Millisecond)
			gate.Open()
		}
		target := writer.View().Index
		wait(t, r, target)
		stop()
		done.Wait()
		v := wait(t, r, writer.View().Index)
		if v.State.digest != writer.View().State.digest {
			t.Error("digests differ")
		}
		if n := installs.Load(); n == 0 || n > 6 {
			t.Errorf("%d installs", n)
		}
	})
}

// TestRefusedAtOpen: what is not a cluster, another cluster or of a newer format is refused, and nothing is written.
func TestRefusedAtOpen(t *testing.T) {
	t.Parallel()
	newer := sampleGenesis
	newer.Format = 7
	for _, c := range []struct {
		name string
		db   func(t *testing.T) *oplog.Memory
		o    replica.Options
		want error
	}{
		{"nothing there", func(*testing.T) *oplog.Memory { return oplog.NewMemory() }, replica.Options{}, oplog.ErrNoCluster},
		{"another cluster", func(t *testing.T) *oplog.Memory { return cluster(t) },
			replica.Options{ClusterID: replica.ID{1}}, replica.ErrWrongCluster},
		{"newer format", func(*testing.T) *oplog.Memory {
			db := oplog.NewMemory()
			db.Put(0, replica.AppendGenesis(nil, newer))
			return db
		}, replica.Options{}, replica.ErrFormat},
		{"row 0 damaged", func(*testing.T) *oplog.Memory {
			db := oplog.NewMemory()
			db.Put(0, []byte("hello"))
			return db
		}, replica.Options{}, replica.ErrUndecodable},
		{"row 0 gone", func(t *testing.T) *oplog.Memory {
			db := cluster(t)
			fill(t, db, never, 3)
			db.Drop(0)
			return db
		}, replica.Options{}, oplog.ErrCorrupt},
		{"RowCommands", func(t *testing.T) *oplog.Memory { return cluster(t) }, replica.Options{RowCommands: 257}, nil},
		{"RowBytes", func(t *testing.T) *oplog.Memory { return cluster(t) }, replica.Options{RowBytes: 9 << 20}, nil},
		{"RetryMax", func(t *testing.T) *oplog.Memory { return cluster(t) }, replica.Options{RetryMax: 1}, nil},
		{"QueueBytes", func(t *testing.T) *oplog.Memory { return cluster(t) }, replica.Options{QueueBytes: -1}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := replica.Open(t.Context(), c.db(t).Open(), machine(nil), c.o)
			if err == nil {
				r.Close()
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("open: %v, want %v", err, c.want)
			}
		})
	}
	if _, err := replica.Open(t.Context(), cluster(t).Open(), replica.Machine[int, int]{
		Encode: func(int, io.Writer) error { return nil },
	}, replica.Options{}); err == nil {
		t.Error("a machine without functions was taken")
	}
}
