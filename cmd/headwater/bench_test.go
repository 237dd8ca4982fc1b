package main

import (
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/internal/bench"
)

func TestLatency(t *testing.T) {
	t.Parallel()
	for ms, want := range map[float64]string{0: "-", 0.000123: "123 ns", 0.0123: "12.3 µs", 0.9: "900 µs", 1.234: "1.23 ms",
		345.6: "346 ms", 61234: "61.2 s"} {
		if got := latency(ms); got != want {
			t.Errorf("%v ms: %q, want %q", ms, got, want)
		}
	}
}

// TestLiveIsForTerminals: one line that is written over, gone at the end; nothing where nobody looks.
func TestLiveIsForTerminals(t *testing.T) {
	t.Parallel()
	s := bench.Second{Second: 3, Rate: 1234.5, P50: 0.5, P99: 12, Max: 1500, Errors: 2}
	var out strings.Builder
	l := newLive(&out, true)
	l.tell(s)
	if got := out.String(); !strings.HasSuffix(got, "   3 s  1234 a second  p50 500 µs  p99 12 ms  max 1.5 s  errors 2") || strings.Contains(got, "\n") {
		t.Errorf("%q", got)
	}
	out.Reset()
	l.end()
	if got := out.String(); got != "\r\x1b[K" {
		t.Errorf("at the end %q", got)
	}
	out.Reset()
	l = newLive(&out, false)
	l.tell(s)
	l.end()
	if out.Len() > 0 {
		t.Errorf("no terminal, and %q", out.String())
	}
}
