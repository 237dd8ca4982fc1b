package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headwaterdb/headwater/internal/bench"
	"github.com/headwaterdb/headwater/meta"
)

var oneOp = []string{"work"}

// takes makes n callers whose operations take so long each.
func takes(n int, d time.Duration) []bench.Caller {
	callers := make([]bench.Caller, n)
	for i := range callers {
		callers[i] = func(context.Context) bench.Sample {
			time.Sleep(d)
			return bench.Sample{}
		}
	}
	return callers
}

func run(t *testing.T, ctx context.Context, l bench.Load, callers []bench.Caller, o bench.Options) *bench.Result {
	t.Helper()
	r, err := bench.Run(ctx, l, oneOp, callers, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// near reports whether a latency is as wanted, to the three digits that are kept.
func near(got, wantMs float64) bool { return got >= wantMs*0.999 && got <= wantMs*1.002 }

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seconds []bench.Second
		r := run(t, t.Context(), bench.Load{Duration: 3 * time.Second}, takes(4, 30*time.Millisecond),
			bench.Options{Progress: func(s bench.Second) { seconds = append(seconds, s) }})
		// In 3 s each caller does 100 operations. The last of them ends at the very end.
		if r.All.Count != 400 || r.Seconds != 3 || r.All.Errors != 0 || r.Missed != 0 || r.Interrupted {
			t.Errorf("%+v, %v s, interrupted: %v", r.All, r.Seconds, r.Interrupted)
		}
		for _, got := range []float64{r.All.Min, r.All.Mean, r.All.P50, r.All.P99, r.All.Max} {
			if !near(got, 30) {
				t.Errorf("latencies %+v, want 30 ms", r.All)
			}
		}
		var sum int64
		for i, s := range seconds {
			sum += s.Count
			if s.Second != i+1 || !near(s.P50, 30) {
				t.Errorf("second %+v", s)
			}
		}
		if len(seconds) < 3 || sum != 400 {
			t.Errorf("%d seconds with %d operations", len(seconds), sum)
		}
		for i, n := range r.PerCaller {
			if n != 100 {
				t.Errorf("caller %d: %d operations", i, n)
			}
		}
	})
}

// TestUnderWayAtTheEnd: an operation that is under way at the end is waited for; its latency counts, its end does not
// raise the rate.
func TestUnderWayAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, t.Context(), bench.Load{Duration: time.Second}, takes(1, 700*time.Millisecond), bench.Options{})
		if r.All.Count != 2 || r.All.Rate != 1 || r.Seconds != 1 || r.WithDrain < 1.39 || r.WithDrain > 1.41 {
			t.Errorf("%+v in %v s, with drain %v s: want two operations, one of them in time", r.All, r.Seconds, r.WithDrain)
		}
	})
}

// TestOpenLoop: when callers are too slow for the rate, latencies grow by the time that operations waited for a caller.
func TestOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, t.Context(), bench.Load{Duration: time.Second, Rate: 100}, takes(10, 20*time.Millisecond), bench.Options{})
		if r.All.Count != 100 || !near(r.All.Max, 20) || r.Missed != 0 {
			t.Errorf("with callers enough: %+v, %d missed; want 100 operations of 20 ms", r.All, r.Missed)
		}
		// One caller does 50 a second where 100 are due: the last one it begins was due after half a second.
		r = run(t, t.Context(), bench.Load{Duration: time.Second, Rate: 100}, takes(1, 20*time.Millisecond), bench.Options{})
		if op := r.Operations[0]; op.Count != 50 || !near(op.Max, 510) || !near(op.Min, 20) || r.Missed != 50 {
			t.Errorf("with one caller: %+v, %d missed; want 50 operations of 20 to 510 ms, and 50 missed", op, r.Missed)
		}
		// The others had waited for up to half a second when it ended.
		if r.All.Count != 50 || !near(r.All.Max, 510) || !near(r.All.Min, 0.5) || r.All.P50 < 245 || r.All.P50 > 260 {
			t.Errorf("with one caller: %+v; want 50 operations, and the latencies of 100", r.All)
		}
	})
}

// TestStallAtTheEnd: operations that were due while the system was away until the end, and never begun, are in the
// percentiles with what they had waited.
func TestStallAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		stalling := func(ctx context.Context) bench.Sample {
			time.Sleep(time.Millisecond)
			if time.Since(begin) < 2*time.Second {
				return bench.Sample{}
			}
			<-ctx.Done()
			return bench.Sample{Err: ctx.Err()}
		}
		r := run(t, t.Context(), bench.Load{Duration: 4 * time.Second, Rate: 200, Grace: 2 * time.Second},
			[]bench.Caller{stalling, stalling}, bench.Options{})
		if r.Missed < 390 || r.Missed > 400 || r.All.P99 < 1900 || r.Operations[0].Max > 10 || r.All.Errors != 2 {
			t.Errorf("%d missed, all %+v, those that ended %+v; want half of them missed and a p99 of nearly 2 s", r.Missed, r.All, r.Operations[0])
		}
		checkTimeline(t, r)
	})
}

// checkTimeline wants seconds that make up what was measured.
func checkTimeline(t *testing.T, r *bench.Result) {
	t.Helper()
	sum := 0.0
	for i, s := range r.Timeline {
		if s.Second != i+1 || s.Seconds <= 0 || s.Seconds > 1 {
			t.Errorf("second %+v", s)
		}
		sum += s.Seconds
	}
	if sum > r.Seconds+1e-9 || r.WithDrain < r.Seconds {
		t.Errorf("the seconds are %v in all, of %v measured, %v with what was under way", sum, r.Seconds, r.WithDrain)
	}
}

// TestSlowOpenLoop: what is measured is as long as asked for, also where nothing is due towards its end.
func TestSlowOpenLoop(t *testing.T) {
	for rate, want := range map[float64]int64{1: 5, 0.4: 2, 0.1: 1} {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, t.Context(), bench.Load{Duration: 5 * time.Second, Rate: rate}, takes(3, time.Millisecond), bench.Options{})
			if r.Seconds != 5 || r.All.Count != want || r.All.Rate != float64(want)/5 || r.Missed != 0 || r.Interrupted {
				t.Errorf("%v a second: %v s, %+v, %d missed, interrupted: %v", rate, r.Seconds, r.All, r.Missed, r.Interrupted)
			}
			checkTimeline(t, r)
		})
	}
}

// TestWarmupDoesNotCount towards a bound, nor in an open loop: what began in it is not measured although it ends later.
func TestWarmupDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, l := range []bench.Load{{Count: 100}, {Count: 100, Rate: 1000}, {Duration: time.Second, Rate: 100}} {
			l.Warmup = 995 * time.Millisecond
			r := run(t, t.Context(), l, takes(16, 10*time.Millisecond), bench.Options{})
			if r.All.Count != 100 || r.Missed != 0 {
				t.Errorf("%+v: %+v, %d missed, want 100", l, r.All, r.Missed)
			}
		}
	})
}

func TestWarmup(t *testing.T) {
	for _, rate := range []float64{0, 10} {
		synctest.Test(t, func(t *testing.T) {
			var done atomic.Int64
			callers := takes(1, 100*time.Millisecond)
			slow := callers[0]
			callers[0] = func(ctx context.Context) bench.Sample {
				defer done.Add(1)
				if done.Load() < 10 {
					return slow(ctx)
				}
				return takes(1, 50*time.Millisecond)[0](ctx)
			}
			r := run(t, t.Context(), bench.Load{Warmup: time.Second, Duration: time.Second, Rate: rate}, callers, bench.Options{})
			want := int64(20)
			if rate > 0 {
				want = 10
			}
			if done.Load() != want+10 || r.All.Count != want || !near(r.All.P50, 50) || !near(r.All.Max, 50) {
				t.Errorf("rate %v: %d operations done, %+v measured", rate, done.Load(), r.All)
			}
		})
	}
}

func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, l := range []bench.Load{{Count: 101}, {Count: 101, Rate: 1000}, {Count: 101, Duration: time.Hour}} {
			r := run(t, t.Context(), l, takes(7, time.Millisecond), bench.Options{})
			if r.All.Count != 101 || r.Missed != 0 || r.Interrupted {
				t.Errorf("%+v: %+v, %d missed", l, r.All, r.Missed)
			}
		}
	})
}

func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		r := run(t, ctx, bench.Load{Duration: time.Hour}, takes(2, 100*time.Millisecond), bench.Options{})
		if !r.Interrupted || r.All.Count != 6 || r.All.Rate != 16 || r.All.Errors != 0 {
			t.Errorf("%+v, interrupted: %v; want 6 operations, 4 of them in 0.25 s", r.All, r.Interrupted)
		}
	})
}

// TestGrace: what is under way too long after the end is cancelled, and counted as that.
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) bench.Sample {
			<-ctx.Done()
			return bench.Sample{Err: ctx.Err()}
		}
		begin := time.Now()
		r := run(t, t.Context(), bench.Load{Duration: time.Second, Grace: 3 * time.Second}, []bench.Caller{hang}, bench.Options{})
		if took := time.Since(begin); took != 4*time.Second {
			t.Errorf("took %v, want 4 s", took)
		}
		if len(r.Errors) != 1 || r.Errors[0].Code != "cancelled" || r.Errors[0].Count != 1 || r.All.Count != 0 {
			t.Errorf("errors %+v, %+v", r.Errors, r.All)
		}
	})
}

// TestInterruptInGrace: what is under way is given up at once, and the measurement is whole.
func TestInterruptInGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) bench.Sample {
			<-ctx.Done()
			return bench.Sample{Err: ctx.Err()}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		r := run(t, ctx, bench.Load{Duration: time.Second, Grace: time.Hour}, []bench.Caller{hang}, bench.Options{})
		if took := time.Since(begin); took != 2*time.Second || r.Interrupted || r.Seconds != 1 || r.All.Errors != 1 {
			t.Errorf("took %v, measured %v s, interrupted: %v, %+v", took, r.Seconds, r.Interrupted, r.All)
		}
		checkTimeline(t, r)
	})
}

// TestInterruptInWarmup: nothing was measured, and nothing is told that was.
func TestInterruptInWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rate := range []float64{0, 100} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			r := run(t, ctx, bench.Load{Warmup: time.Minute, Duration: time.Minute, Rate: rate}, takes(2, time.Millisecond), bench.Options{})
			cancel()
			text, err := json.Marshal(r)
			if err != nil || !r.Interrupted || r.Seconds != 0 || r.WithDrain != 0 || r.All.Count != 0 || r.Missed != 0 || bytes.Contains(text, []byte("null")) {
				t.Errorf("%s, %v", text, err)
			}
		}
	})
}

// TestOnlyFailures: a kind of operation that never succeeded is told of.
func TestOnlyFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		caller := func(context.Context) bench.Sample {
			n++
			time.Sleep(time.Millisecond)
			if n%2 == 0 {
				return bench.Sample{Op: 1, Err: meta.ErrHalted}
			}
			return bench.Sample{}
		}
		r, err := bench.Run(t.Context(), bench.Load{Count: 10}, []string{"find", "commit", "trim"}, []bench.Caller{caller}, bench.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Operations) != 2 || r.Operations[0].Count != 5 || r.Operations[1].Op != "commit" || r.Operations[1].Errors != 5 || r.All.Errors != 5 {
			t.Errorf("%+v, all %+v", r.Operations, r.All)
		}
	})
}

func TestErrorsAreCountedByCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := []error{&meta.Error{Code: meta.CodeStreamNotOpen, Message: "first", Inner: -1}, fmt.Errorf("append: %w", meta.ErrOutcomeUnknown),
			nil, errors.New("what is this?"), &meta.Error{Code: meta.CodeStreamNotOpen, Message: "second", Inner: -1}}
		i := 0
		caller := func(context.Context) bench.Sample {
			i++
			time.Sleep(time.Millisecond)
			return bench.Sample{Err: errs[i-1]}
		}
		r := run(t, t.Context(), bench.Load{Count: int64(len(errs))}, []bench.Caller{caller}, bench.Options{})
		want := []bench.ErrorCount{
			{Op: "work", Code: "STREAM_NOT_OPEN", Count: 2, Example: "STREAM_NOT_OPEN: first"},
			{Op: "work", Code: "other", Count: 1, Example: "what is this?"},
			{Op: "work", Code: "outcome unknown", Count: 1, Example: "append: outcome unknown"},
		}
		if fmt.Sprint(r.Errors) != fmt.Sprint(want) || r.All.Count != 1 || r.All.Errors != 4 || r.Operations[0].Errors != 4 {
			t.Errorf("errors %+v, want %+v; %+v", r.Errors, want, r.All)
		}
	})
}

// TestFailuresAreNotHammered: a cluster that refuses everything at once is asked less and less often.
func TestFailuresAreNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := func(context.Context) bench.Sample { return bench.Sample{Err: meta.ErrHalted} }
		r := run(t, t.Context(), bench.Load{Duration: 10 * time.Second}, []bench.Caller{fail}, bench.Options{})
		if n := r.All.Errors; n < 100 || n > 200 {
			t.Errorf("asked %d times in 10 s", n)
		}
	})
}

// TestOwnStart: an operation may say when what is measured began.
func TestOwnStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := func(context.Context) bench.Sample {
			time.Sleep(time.Second)
			s := bench.Sample{Start: time.Now()}
			time.Sleep(10 * time.Millisecond)
			return s
		}
		if r := run(t, t.Context(), bench.Load{Count: 3}, []bench.Caller{caller}, bench.Options{}); !near(r.All.Max, 10) {
			t.Errorf("%+v, want 10 ms", r.All)
		}
	})
}

func TestBadLoad(t *testing.T) {
	t.Parallel()
	for _, l := range []bench.Load{{Duration: -1}, {Warmup: -1}, {Grace: -1}, {Count: -1}, {Rate: -1}, {Rate: 1e10}, {Rate: math.NaN()}, {Rate: math.Inf(1)}} {
		if _, err := bench.Run(t.Context(), l, oneOp, takes(1, 0), bench.Options{}); err == nil {
			t.Errorf("%+v was taken", l)
		}
	}
}
