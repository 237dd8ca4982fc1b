// Inside the package, because the pauses are no part of its face.
package sqllog

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// TestGate: eight callers that connect without end while the server is away make at most two attempts in any second once
// it has been away for some, and come through at once when it is back. Field case 14.6.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		var mu sync.Mutex // guards attempts and back
		var attempts []time.Duration
		back := false
		start := time.Now()
		try := func() error {
			mu.Lock()
			defer mu.Unlock()
			attempts = append(attempts, time.Since(start))
			if back {
				return nil
			}
			return errors.New("connection refused")
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for g.Pass(t.Context(), try) != nil {
				}
			})
		}
		time.Sleep(5 * time.Minute)
		mu.Lock()
		back = true
		away := len(attempts)
		mu.Unlock()
		wg.Wait()
		if took := time.Since(start) - 5*time.Minute; took > 2*longestGate {
			t.Errorf("the first came through %v after the server was back", took)
		}
		if away > 5*60+10 {
			t.Errorf("%d attempts in 5 minutes, want at most one a second", away)
		}
		for i := 20; i < away; i++ {
			if attempts[i]-attempts[i-1] < longestGate {
				t.Fatalf("attempts %v and %v are closer than %v", attempts[i-1], attempts[i], longestGate)
			}
		}
	})
}

// TestGateGivenUp: a caller whose time is over is told why the last attempt failed, and an attempt broken off by its
// caller closes nothing for the others.
func TestGateGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = g.Pass(ctx, func() error { return ctx.Err() })
		if _, reason := g.closed(); reason != nil {
			t.Errorf("closed by a caller's end: %v", reason)
		}
		why := errors.New("connection refused")
		for range 10 {
			_ = g.Pass(t.Context(), func() error { return why })
		}
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err := g.Pass(short, func() error { t.Error("tried too soon"); return nil })
		for _, want := range []error{why, oplog.ErrUnavailable, context.DeadlineExceeded} {
			if !errors.Is(err, want) {
				t.Errorf("%v does not say %v", err, want)
			}
		}
	})
}

// TestOneLine: what several attempts said is told in one line, each sentence once, and is still the errors that it was.
func TestOneLine(t *testing.T) {
	t.Parallel()
	err := OneLine(errors.Join(errors.Join(oplog.ErrDenied, oplog.ErrFull), oplog.ErrFull))
	if want := oplog.ErrDenied.Error() + "; " + oplog.ErrFull.Error(); err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if !errors.Is(err, oplog.ErrDenied) || !errors.Is(err, oplog.ErrFull) {
		t.Errorf("%v is not what it was made of", err)
	}
	if OneLine(nil) != nil {
		t.Error("nothing became an error")
	}
}
