package replica_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// TestNotDurable: an append that leaves a row which a synchronous standby may not have is never a success, whoever reads
// the row, and is unknown, not repeated, to its proposer. Where it left no row it is repeated and succeeds. Hazard 2.
func TestNotDurable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule    faultlog.Rule
		unknown bool
	}{
		"row is there":     {faultlog.Rule{Op: faultlog.Append, After: oplog.ErrNotDurable}, true},
		"row is not there": {faultlog.Rule{Op: faultlog.Append, Before: oplog.ErrNotDurable}, false},
		"answer was lost":  {faultlog.Rule{Op: faultlog.Append, After: oplog.ErrUnknown}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := open(t, faultlog.Wrap(cluster(t).Open(), c.rule), replica.Options{})
				res := r.Propose(t.Context(), []byte("first"))[0]
				if c.unknown && (!errors.Is(res.Err, replica.ErrUnknown) || !errors.Is(res.Err, oplog.ErrNotDurable)) || !c.unknown && res.Err != nil {
					t.Errorf("propose: %+v", res)
				}
				propose(t, r, "second") // acknowledged, and so is everything before it
				once(t, r, []string{"first", "second"})
			})
		})
	}
}

// TestRowBeforeAnswer: a row that is read while its append is still under way is in the view at once, and is answered when
// the append ends: by then it is known whether it is a success.
func TestRowBeforeAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end     error
		unknown bool
	}{
		"acknowledged": {nil, false}, "answer lost": {oplog.ErrUnknown, false}, "not durable": {oplog.ErrNotDurable, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				awaited := faultlog.NewGate()
				r := open(t, faultlog.Wrap(cluster(t).Open(), faultlog.Rule{Op: faultlog.Append, After: c.end, Linger: awaited}), replica.Options{})
				var res replica.Result[answer]
				answered := false
				var done sync.WaitGroup
				done.Go(func() { res = r.Propose(t.Context(), []byte("first"))[0]; answered = true })
				<-awaited.Reached()
				wait(t, r, 1)
				synctest.Wait()
				if answered {
					t.Errorf("answered while the append was under way: %+v", res)
				}
				if st := r.Status(); st.InFlight != 1 {
					t.Errorf("%d in flight", st.InFlight)
				}
				awaited.Open()
				done.Wait()
				if c.unknown != errors.Is(res.Err, oplog.ErrNotDurable) || !c.unknown && (res.Err != nil || res.Index != 1) {
					t.Errorf("propose: %+v", res)
				}
				propose(t, r, "second")
				once(t, r, []string{"first", "second"})
			})
		})
	}
}
