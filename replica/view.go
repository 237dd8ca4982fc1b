package replica

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// View is one immutable state. It never changes and may be kept.
type View[S any] struct {
	State S
	Index oplog.Index
	row   uint64 // the checksum of the row at Index
	next  chan struct{}
}

// Next returns a channel that is closed when a newer view is published or the replica is closed.
func (v *View[S]) Next() <-chan struct{} { return v.next }

// publish makes the tailer's state the current view. The order matters: first the pointer, then the channel of the
// view before, and only after that, in the table, the answers. Whoever is woken, or answered, loads a view at or
// above the index they were told.
func (r *Replica[S, R]) publish(step *tailStep[S, R]) *View[S] {
	v := &View[S]{State: step.state, Index: step.applied, row: step.row, next: make(chan struct{})}
	if old := r.view.Swap(v); old != nil {
		close(old.next)
	}
	return v
}

// View returns the current view: a pointer load.
func (r *Replica[S, R]) View() *View[S] { return r.view.Load() }

// Wait returns the first view at or above index that it sees. It ends with an error when ctx ends, or when the
// replica halts, is rewound or is closed before it gets there.
func (r *Replica[S, R]) Wait(ctx context.Context, index oplog.Index) (*View[S], error) {
	for {
		v := r.View()
		if v.Index >= index {
			return v, nil
		}
		if !r.o.World.Wait(ctx, time.Time{}, v.next, r.stopped) {
			return nil, fmt.Errorf("wait for index %d at %d%s: %w", index, v.Index, r.held(), ctx.Err())
		}
		if r.View() == v { // at Close the channel is closed without a newer view
			return nil, r.waitError(index)
		}
	}
}

// held says what keeps the replica from getting on, for those who waited in vain; nothing where nothing does.
func (r *Replica[S, R]) held() string {
	if st := r.Status(); st.Condition != Ready && st.Reason != "" {
		return fmt.Sprintf(" (%v: %s)", st.Condition, st.Reason)
	}
	return ""
}

func (r *Replica[S, R]) waitError(index oplog.Index) error {
	return fmt.Errorf("wait for index %d: %w", index, r.table.endedBy())
}

// lookup is one look at the log's newest index, shared by everybody who asked before it started.
type lookup struct {
	floor  oplog.Index // what was applied when it started: the log must hold at least that
	newest oplog.Index
	err    error
	done   chan struct{}
}

// Linearize returns a view that holds every command whose answer was given, anywhere, before the call. Callers that
// come together share one look at the log, but none of them one that had started before it came: an answer given in
// between might be missing in it.
func (r *Replica[S, R]) Linearize(ctx context.Context) (*View[S], error) {
	l, err := r.table.joinLook()
	if err != nil {
		return nil, fmt.Errorf("look up the newest index: %w", err)
	}
	signal(r.wakeLooker)
	switch {
	case !r.o.World.Wait(ctx, time.Time{}, l.done, r.stopped):
		return nil, fmt.Errorf("look up the newest index: %w", ctx.Err())
	case !over(l.done):
		return nil, fmt.Errorf("look up the newest index: %w", r.table.endedBy())
	}
	if l.err != nil {
		return nil, fmt.Errorf("look up the newest index: %w: %w", ErrUnavailable, l.err)
	}
	return r.Wait(ctx, l.newest)
}

// looker is the goroutine that makes the looks for Linearize, one at a time.
func (r *Replica[S, R]) looker(ctx context.Context) {
	for {
		r.o.World.Wait(ctx, time.Time{}, r.wakeLooker, nil)
		if ctx.Err() != nil {
			return
		}
		runtime.Gosched() // callers that are ready to run come along
		l := r.table.startLook()
		if l == nil {
			continue
		}
		asking, cancel := r.o.World.Timeout(ctx, appendPatience)
		l.newest, l.err = r.log.Newest(asking)
		cancel()
		if l.err == nil && l.newest < l.floor {
			l.err = fmt.Errorf("row %d was applied here and the log's newest row is %d", l.floor, l.newest)
			r.table.suspect()
			signal(r.wakeTailer)
		}
		close(l.done)
	}
}

// joinLook returns the look that has not started yet, for one more caller to share.
func (t *table[R]) joinLook() (*lookup, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return nil, t.ended
	}
	if t.look == nil {
		t.look = &lookup{done: make(chan struct{})}
	}
	return t.look, nil
}

// startLook takes that look: whoever comes from now on gets another one.
func (t *table[R]) startLook() *lookup {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.look
	if t.look = nil; l != nil {
		l.floor = t.status.Applied
	}
	return l
}

// suspect asks the tailer for a look at the log: it seems to hold less than it should.
func (t *table[R]) suspect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspected = true
}
