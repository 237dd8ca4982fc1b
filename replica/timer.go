package replica

import (
	"context"
	"math/rand/v2"
	"time"
)

// timer is a timer that a loop sets anew each round.
type timer struct{ t *time.Timer }

func newTimer() *timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &timer{t}
}

// set lets the timer fire at until, or never where until is zero.
func (t *timer) set(until time.Time) {
	if until.IsZero() {
		t.t.Stop()
		return
	}
	t.t.Reset(max(time.Until(until), 0))
}

func (t *timer) c() <-chan time.Time { return t.t.C }

func (t *timer) stop() { t.t.Stop() }

// retrier pauses between the tries of one goroutine, and tells of it.
type retrier struct {
	pauses pauses
	chance *rand.Rand
	events *Events
}

// pause waits after the given number of failures before this one. It reports false where ctx ended.
func (r *retrier) pause(ctx context.Context, what string, err error, failures int) bool {
	d := r.pauses.after(failures, r.chance)
	r.events.retry(what, err, d)
	return sleep(ctx, d)
}

// sleep waits for d. It reports false where ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
