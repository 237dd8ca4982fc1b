package bench_test

import (
	"context"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/bench"
)

// TestProcessor: the processor time is that of what is measured, not of the warm-up. It is not parallel: what other tests use
// would be in it.
func TestProcessor(t *testing.T) {
	const warmup = 300 * time.Millisecond
	begin := time.Now()
	busyFirst := func(ctx context.Context) bench.Sample {
		for time.Since(begin) < warmup-10*time.Millisecond {
		}
		<-ctx.Done() // at the end of what is measured
		return bench.Sample{Err: ctx.Err()}
	}
	r := run(t, t.Context(), bench.Load{Warmup: warmup, Duration: 100 * time.Millisecond}, []bench.Caller{busyFirst}, bench.Options{})
	if p := r.Processor; p == nil || p.Own < 0 || p.Own > warmup.Seconds()/2 || p.Busy+p.Idle+p.Stolen <= 0 {
		t.Errorf("%+v", p)
	}
}
