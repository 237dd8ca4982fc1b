package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// skipOrFail ends a test that this machine cannot run; where CI is set that is a failure.
func skipOrFail(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// TestCancelledAppends: field cases 13.7 and 01.1. Contexts that end before the call, never, or after up to 3 ms, leave
// honest answers and a log that works: afterwards every normal append succeeds.
func TestCancelledAppends(t *testing.T) {
	l, _ := cluster(t, 0)
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	counts := map[string]int{}
	next := oplog.Index(1)
	for n := range soak(1000, 10_000) {
		payload := fmt.Appendf(nil, "cancelled %d", n)
		limit := time.Duration(rnd.IntN(3000)) * time.Microsecond
		switch n % 10 { // the two ends that need no luck with a machine's timers
		case 0:
			limit = 0
		case 1:
			limit = time.Hour
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := l.Append(ctx, next, nil, payload)
		cancel()
		newest, lookErr := l.Newest(t.Context())
		if lookErr != nil {
			t.Fatalf("seed %d: newest after %v: %v", seed, err, lookErr)
		}
		there := newest == next
		switch {
		case err == nil && there:
			counts["appended"]++
		case err != nil && oplog.NotApplied(err) && !there && errors.Is(err, context.DeadlineExceeded):
			counts["given up"]++
		case errors.Is(err, oplog.ErrUnknown) && errors.Is(err, context.DeadlineExceeded):
			counts["unknown"]++
		default:
			t.Fatalf("seed %d: append row %d: %v, and the row is there: %v", seed, next, err, there)
		}
		if !there { // whatever it was, the slot is open or taken by that very row
			if err := l.Append(t.Context(), next, nil, payload); err != nil && !errors.Is(err, oplog.ErrConflict) {
				t.Fatalf("seed %d: append row %d again: %v", seed, next, err)
			}
		}
		next++
	}
	if counts["appended"] == 0 || counts["given up"] == 0 {
		t.Errorf("seed %d: %v: not every end was met", seed, counts)
	}
	appendRows(t, l, next, next+oplog.Index(soak(100, 1000)))
	dense(t, l)
}

// TestNoLeak: field case 16.4. Logs that are opened and closed, waits and appends that are given up and connections
// that are lost leave neither goroutines nor open files.
func TestNoLeak(t *testing.T) {
	l, path := cluster(t, 1)
	round := func() {
		one := open(t, sqlite.Options{Path: path})
		defer one.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- one.Wait(ctx, 1) }()
		cancel()
		<-ended
		if err := one.Append(ctx, 2, nil, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("append: %v", err)
		}
		if err := one.Append(t.Context(), 1, nil, nil); !errors.Is(err, oplog.ErrConflict) {
			t.Fatalf("append: %v", err)
		}
	}
	count := func() (goroutines, files int) {
		return runtime.NumGoroutine(), len(entries(t, "/proc/self/fd"))
	}
	round()
	goroutines, files := count()
	for range soak(50, 1000) {
		round()
	}
	g, f := count()
	for patience := 0; g > goroutines && patience < 1000; patience++ { // database/sql ends its openers after Close
		runtime.Gosched()
		g, f = count()
	}
	if g > goroutines+2 || f > files+2 {
		t.Errorf("goroutines went from %d to %d, open files from %d to %d", goroutines, g, files, f)
	}
	if _, err := l.Newest(t.Context()); err != nil {
		t.Errorf("newest: %v", err)
	}
}
