//go:build unix

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
