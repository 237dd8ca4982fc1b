//go:build unix

package headwater_test

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/oplog"
)

// suspendSelf stops this process until another one lets it go on.
func suspendSelf() {
	// The other threads run on for a moment after Kill has returned. The caller must not.
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGCONT)
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-goOn
}

// TestSuspendedProposer stops a process (SIGSTOP) in the middle of an append, after it chose its slot and before it
// holds the database's write lock. Meanwhile another node writes on, snapshots, and truncates the log down to its newest
// row, so that the slot is free again. Let go on, the process must not take it: its command goes in at the head, once.
func TestSuspendedProposer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "headwater.db")
	clients := firstNode(t, file)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd, out, err := startChild(ctx, childPlan{file: file, keepRows: -1, interval: 1 << 20, dieIn: faultlog.Append, dieAt: 3, stop: true}, clients)
	if err != nil {
		t.Fatal(err)
	}
	var stopped syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &stopped, syscall.WUNTRACED, nil); err != nil || !stopped.Stopped() {
		t.Fatalf("the process should have stopped: %v, status %v", err, stopped)
	}

	o := headwater.Options{}
	o.Engine.SnapshotInterval, o.Engine.KeepRows = -1, -1
	open := func() oplog.Log { return openSQLite(t, file) }
	s, done := node(t, open, o)
	v, err := s.Linearize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chosen := uint64(v.Index) + 1 // by the process that is stopped
	for i := range 20 {
		if a := s.Propose(t.Context(), put(i))[0]; a.Err != nil || a.Index != chosen+uint64(i) {
			t.Fatalf("command %d: %+v", i, a)
		}
	}
	if _, err := s.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := open()
	defer log.Close()
	if b, err := log.Bounds(t.Context()); err != nil || b.Oldest <= oplog.Index(chosen) {
		t.Fatalf("the chosen slot %d should be truncated: rows %d to %d, %v", chosen, b.Oldest, b.Newest, err)
	}

	// Let go on, the process writes behind what was written meanwhile; then it has shown what it does.
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(ctx, chosen+80); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := readAcks(out, clients, func() {}); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if rows, err := log.Read(t.Context(), oplog.Beginning, 0); err != nil || rows[0].Index <= oplog.Index(chosen) {
		t.Fatalf("the truncated slot %d was taken again: %v, %v", chosen, rows, err)
	}
	done()
	finish(t, file, clients, -1)
}
