package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// TestApplyInterrupted: a signal ends apply between batches, and it says how far it got.
func TestApplyInterrupted(t *testing.T) {
	t.Parallel()
	db := "sqlite:" + filepath.Join(t.TempDir(), "int.db")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	in, feed := io.Pipe()
	defer feed.Close()
	answers, out := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- exec(ctx, []string{"apply", "--db", db, "-"}, in, out, &stderr)
		out.Close()
	}()
	if _, err := io.WriteString(feed, put+"\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(answers)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, `"status":"APPLIED"`) {
		t.Fatalf("%q, %v", line, err)
	}
	interrupt()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("wrote %q after the signal, %v", rest, err)
	}
	if got := <-code; got != exitUnavailable || !strings.Contains(stderr.String(), "interrupted after line 1") {
		t.Errorf("exit code %d, said %q", got, stderr.String())
	}
}
