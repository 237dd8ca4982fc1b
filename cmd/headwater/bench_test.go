package main

import (
	"encoding/json"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headwaterdb/headwater/internal/bench"
)

// TestBenchIsInterrupted: Ctrl-C ends a measurement early, and what was measured is told.
func TestBenchIsInterrupted(t *testing.T) {
	path, err := osexec.LookPath("headwater") // the test binary under the program's name
	if err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(t.TempDir(), "profile") // a pipe, opened for writing when the measurement begins
	if err := syscall.Mkfifo(profile, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(path, "bench", "--db", "sqlite:"+filepath.Join(t.TempDir(), "b.db"), "--work", "puts", "--keys", "10",
		"--callers", "2", "--duration", "1h", "--warmup", "0", "--cpuprofile", profile, "-o", "json")
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begun, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer begun.Close()
	go io.Copy(io.Discard, begun)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var r benchReport
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%v: %q", err, out.String())
	}
	if !r.Result.Interrupted || r.Settings.Duration != 3600 || r.Result.All.Errors != 0 {
		t.Errorf("interrupted: %v, settings %+v, %+v", r.Result.Interrupted, r.Settings, r.Result.All)
	}
}

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
