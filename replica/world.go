package replica

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// World is what the engine asks of its surroundings besides the log: time, waiting, goroutines and chance. Left zero it
// is the real world, and programs leave it so. A simulation gives one of its own, in which a clock stands until it is
// moved and one goroutine runs at a time, so that the engine as it is in production, its goroutines included, repeats a
// history by a seed. Each field may be nil, for the real thing.
type World struct {
	// Now is the node's clock. Only differences between its readings count.
	Now func() time.Time
	// Wait returns when a or b can be received from, and has received then; at the moment until; or when ctx ends. A nil
	// channel and a zero moment never come. It reports whether it received.
	Wait func(ctx context.Context, until time.Time, a, b <-chan struct{}) bool
	// Timeout is context.WithTimeout by this clock.
	Timeout func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Go runs f in a goroutine.
	Go func(f func())
	// Random draws 16 bytes.
	Random func() [16]byte
	// Step is called after each critical section, where the scheduler of an operating system may strike as well; nil: nothing.
	Step func()
}

// withDefaults puts the real things in place of nil.
func (w World) withDefaults() World {
	if w.Now == nil {
		w.Now = time.Now
	}
	if w.Wait == nil {
		w.Wait = wait
	}
	if w.Timeout == nil {
		w.Timeout = context.WithTimeout
	}
	if w.Go == nil {
		w.Go = func(f func()) { go f() }
	}
	if w.Random == nil {
		w.Random = randomBytes
	}
	return w
}

// wait is World.Wait on real channels and the real clock.
func wait(ctx context.Context, until time.Time, a, b <-chan struct{}) bool {
	if until.IsZero() && b == nil { // each proposal waits like this
		select {
		case <-a:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var alarm <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(max(time.Until(until), 0))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-a:
		return true
	case <-b:
		return true
	case <-alarm:
	case <-ctx.Done():
	}
	return false
}

// sleep waits for d. It reports false where ctx ended before.
func (w *World) sleep(ctx context.Context, d time.Duration) bool {
	w.Wait(ctx, w.Now().Add(d), nil, nil)
	return ctx.Err() == nil
}

// over reports whether a channel that is only ever closed has been.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lock is a mutex that tells the world when it was let go.
type lock struct {
	sync.Mutex
	step func() // nil: nobody is told
}

// Unlock lets go.
func (l *lock) Unlock() {
	l.Mutex.Unlock()
	if l.step != nil {
		l.step()
	}
}

// crew is the goroutines of a replica.
type crew struct {
	mu   sync.Mutex // guards left
	left int
	gone chan struct{} // closed when the last one has ended
}

// start runs each of tasks in a goroutine of its own.
func (c *crew) start(w *World, tasks ...func()) {
	c.left, c.gone = len(tasks), make(chan struct{})
	for _, run := range tasks {
		w.Go(func() {
			defer c.leave()
			run()
		})
	}
}

func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.gone)
	}
}

// retrier pauses between the tries of one goroutine, and tells of it.
type retrier struct {
	world  *World
	pauses pauses
	chance *rand.Rand
	events *Events
}

// pause waits after the given number of failures before this one. It reports false where ctx ended.
func (r *retrier) pause(ctx context.Context, what string, err error, failures int) bool {
	d := r.pauses.after(failures, r.chance)
	r.events.retry(what, err, d)
	return r.world.sleep(ctx, d)
}
