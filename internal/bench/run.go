package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Load says how hard and how long callers work. Without Duration and Count they work until the context ends.
type Load struct {
	Duration time.Duration // of what is measured, from the end of Warmup on; 0: no end of its own
	Warmup   time.Duration // work before that, not measured
	Count    int64         // measured operations, at most; 0: no bound
	// Rate is the operations that begin in a second, of all callers together (an open loop): an operation's latency then
	// counts from the moment at which it was due, also where no caller was free. With 0 each caller begins its next
	// operation when the last one ended (a closed loop), and latency counts from that begin.
	Rate float64
	// Grace is how long operations under way may take after the end. Then they are cancelled.
	Grace time.Duration
}

// Validate refuses what makes no sense.
func (l Load) Validate() error {
	switch {
	case l.Duration < 0 || l.Warmup < 0 || l.Grace < 0:
		return errors.New("duration, warm-up and grace must not be negative")
	case l.Count < 0:
		return fmt.Errorf("the number of operations is %d, must not be negative", l.Count)
	case !(l.Rate >= 0 && l.Rate <= 1e9): // nor is it no number
		return fmt.Errorf("the rate is %v operations a second, allowed are 0 (as many as go) to 1e9", l.Rate)
	}
	return nil
}

// Sample is how one operation ended.
type Sample struct {
	Op  int // an index into the names given to Run
	Err error
	// Start, where not zero, is when what is measured began: later than the call, for operations that need a preparation.
	Start time.Time
}

// Caller does one operation each time it is called. It is used by one goroutine at a time.
type Caller func(ctx context.Context) Sample

// Options of a Run beside its load; the zero value works.
type Options struct {
	// Classify names an error, to count by; nil: Code.
	Classify func(error) string
	// Progress is told of each second that has passed, from one goroutine; nil: nobody is.
	Progress func(Second)
	// Began and Ended are called once each, by the same goroutine, when what is measured begins and when it ends; nil: not.
	Began, Ended func()
}

// run is one Run.
type run struct {
	load    Load
	rec     *recorder
	start   time.Time     // of what is measured
	end     time.Time     // zero: none is set
	tickets atomic.Int64  // taken since then
	warming atomic.Int64  // taken before
	stopped chan struct{} // closed when no operation may begin any more
	once    sync.Once
}

// Run lets each caller do one operation after another under the load, and returns what was measured. When ctx ends, or
// the load's time, no operation begins any more, and those under way are waited for: their latencies count, they
// themselves count towards the rate only where they ended in time. ops names the operations of the samples.
func Run(ctx context.Context, load Load, ops []string, callers []Caller, o Options) (*Result, error) {
	if err := load.Validate(); err != nil {
		return nil, err
	}
	if o.Classify == nil {
		o.Classify = Code
	}
	if o.Progress == nil {
		o.Progress = func(Second) {}
	}
	if o.Began == nil {
		o.Began = func() {}
	}
	if o.Ended == nil {
		o.Ended = func() {}
	}
	r := &run{load: load, rec: newRecorder(ops, len(callers), o.Classify), stopped: make(chan struct{})}
	r.rec.strict = load.Rate > 0 || load.Count > 0
	working, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	r.begin(load.Warmup)
	var wg sync.WaitGroup
	for i, c := range callers {
		wg.Go(func() { r.work(working, i, c) })
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	var used *Processor
	began, ended := o.Began, o.Ended
	if before, ok := processorTime(); ok {
		o.Began = func() {
			began()
			before, _ = processorTime() // it told a moment ago
		}
		o.Ended = func() {
			if now, ok := processorTime(); ok {
				now = now.minus(before)
				used = &now
			}
			ended()
		}
	}
	interrupted := r.watch(ctx, done, giveUp, o)
	missed, oldest := r.missed()
	res := r.rec.result(time.Now(), missed, oldest)
	res.Interrupted, res.Processor = interrupted, used
	return res, nil
}

// begin sets the clock.
func (r *run) begin(warmup time.Duration) {
	r.start = time.Now().Add(warmup)
	r.rec.begin(r.start)
	if r.load.Duration > 0 {
		r.end = r.start.Add(r.load.Duration)
		r.rec.close(r.end)
	}
}

// over reports whether nothing may begin at t any more.
func (r *run) over(t time.Time) bool { return !r.end.IsZero() && !t.Before(r.end) }

// stop lets no operation begin any more.
func (r *run) stop() { r.once.Do(func() { close(r.stopped) }) }

// watch waits for the end of the run and tells of each second of what is measured. It reports whether ctx ended it. When
// that is over already and ctx ends, what is still under way is given up.
func (r *run) watch(ctx context.Context, done <-chan struct{}, giveUp func(), o Options) (interrupted bool) {
	tick := time.NewTimer(time.Until(r.start.Add(time.Second)))
	defer tick.Stop()
	start := time.NewTimer(time.Until(r.start))
	defer start.Stop()
	began := start.C
	begin, over := sync.OnceFunc(o.Began), sync.OnceFunc(o.Ended)
	defer over()
	defer begin()
	var end, grace <-chan time.Time
	if r.load.Duration > 0 {
		t := time.NewTimer(time.Until(r.start.Add(r.load.Duration)))
		defer t.Stop()
		end = t.C
	}
	ended, seconds := ctx.Done(), tick.C
	finish := func() {
		began, end, seconds = nil, nil, nil
		r.stop()
		r.rec.close(time.Now())
		begin()
		over()
		t := time.NewTimer(r.load.Grace)
		grace = t.C
	}
	for second := 1; ; {
		select {
		case <-began:
			begin()
		case <-seconds:
			if r.over(time.Now()) { // the last one is told when nothing is under way any more
				seconds = nil
				continue
			}
			o.Progress(r.rec.second(second, time.Second))
			second++
			tick.Reset(time.Until(r.start.Add(time.Duration(second) * time.Second)))
		case <-end:
			finish()
		case <-ended:
			ended = nil
			if grace != nil {
				giveUp()
				continue
			}
			interrupted = true
			finish()
		case <-grace:
			giveUp()
		case <-done:
			if r.load.Duration == 0 || r.load.Count > 0 && r.tickets.Load() >= r.load.Count {
				r.rec.close(time.Now())
			}
			left := r.rec.window() - time.Duration(second-1)*time.Second
			for ; left > time.Second; second++ { // nothing was due any more
				o.Progress(r.rec.second(second, time.Second))
				left -= time.Second
			}
			if s := r.rec.second(second, left); left > 0 && (s.Count > 0 || s.Errors > 0) {
				o.Progress(s)
			}
			return interrupted
		}
	}
}

// work is the life of one caller.
func (r *run) work(ctx context.Context, i int, do Caller) {
	// Of its own, as the callers of a service have: a thousand that wait for the end of one would meet at its lock.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := 0
	for {
		due, ok := r.next()
		if !ok {
			return
		}
		s := do(ctx)
		if !s.Start.IsZero() {
			due = s.Start
		}
		r.rec.record(i, s, due, time.Now())
		if s.Err == nil {
			failed = 0
			continue
		}
		// A cluster that is away would be asked millions of times a second.
		failed = min(failed+1, 7)
		if !r.sleep(time.Millisecond << (failed - 1)) {
			return
		}
	}
}

// next waits until a caller may begin its next operation, and returns when that was due.
func (r *run) next() (due time.Time, ok bool) {
	select {
	case <-r.stopped:
		return due, false
	default:
	}
	now := time.Now()
	if r.over(now) {
		return due, false
	}
	warming := now.Before(r.start)
	if r.load.Rate > 0 {
		if warming {
			if due = r.turn(r.start.Add(-r.load.Warmup), r.warming.Add(1)); due.Before(r.start) {
				return due, r.await(due)
			}
		}
		n := r.tickets.Add(1)
		due = r.turn(r.start, n)
		if r.counted(n) || r.over(due) || !r.await(due) {
			r.tickets.Add(-1)
			return due, false
		}
		return due, true
	}
	if warming {
		return now, true
	}
	return now, !r.counted(r.tickets.Add(1))
}

// turn is when the nth operation of an open loop is due.
func (r *run) turn(from time.Time, n int64) time.Time {
	return from.Add(time.Duration(float64(n-1) / r.load.Rate * float64(time.Second)))
}

// counted reports whether the nth operation is beyond the bound.
func (r *run) counted(n int64) bool { return r.load.Count > 0 && n > r.load.Count }

// await waits until t, and reports whether the run goes on; it does not wait where t has passed.
func (r *run) await(t time.Time) bool {
	wait := time.Until(t)
	return wait <= 0 || r.sleep(wait)
}

// sleep reports whether the run goes on.
func (r *run) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.stopped:
		return false
	}
}

// missed is how many operations were due in an open loop and were never begun, since no caller was free, and how long the
// first of them had waited by the end.
func (r *run) missed() (n int64, oldest time.Duration) {
	window, begun := r.rec.window(), r.tickets.Load()
	if r.load.Rate == 0 || window <= 0 {
		return 0, 0
	}
	due := int64(math.Ceil(window.Seconds() * r.load.Rate))
	if r.load.Count > 0 {
		due = min(due, r.load.Count)
	}
	if due <= begun {
		return 0, 0
	}
	return due - begun, window - r.turn(r.start, begun+1).Sub(r.start)
}
