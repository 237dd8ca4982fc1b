package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestRetriesDoNotFloodTheLog: an hour without a database, at three retries a second, of three kinds.
func TestRetriesDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(0, 0)
	r := newRetryLog(slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return now })
	gone := errors.New("gone")
	first := 0
	for range 3 * 3600 {
		for _, what := range []string{"append", "read", "wait"} {
			r.tell(what, gone, time.Second)
		}
		if first == 0 {
			first = strings.Count(out.String(), "\n")
		}
		now = now.Add(time.Second / 3)
	}
	lines := strings.Count(out.String(), "\n")
	if most := 3 * int(time.Hour/retryLogInterval); first != 3 || lines > most || lines < most*9/10 {
		t.Errorf("%d lines at once, want 3; %d in an hour, want at most %d and hardly fewer", first, lines, most)
	}
	if !strings.Contains(out.String(), "untold=14") && !strings.Contains(out.String(), "untold=15") {
		t.Error("the log does not say how many it left out")
	}
}
