//go:build unix

package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// stop suspends the child and returns when it stands still.
func (c *child) stop() {
	c.t.Helper()
	c.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		c.t.Fatalf("child did not stop: %v, %v", status, err)
	}
}

// TestTruncatedSlotSuspended: hazard 1. A process is suspended after it chose its slot; the log is truncated beyond
// it; the process goes on and must not take the slot.
func TestTruncatedSlotSuspended(t *testing.T) {
	for _, place := range []string{"before it asks for the lock", "while it asks for the lock"} {
		t.Run(place, func(t *testing.T) {
			l, path := cluster(t, 8)
			var c *child
			if place == "before it asks for the lock" {
				c = start(t, "slot", path, "wait")
				c.want("chosen 9")
				c.stop()
			} else {
				tx := lock(t, path)
				c = start(t, "slot", path, "go")
				c.want("chosen 9")
				c.stop() // wherever in its append it is: it cannot have the lock
				if err := tx.Rollback(); err != nil {
					t.Fatalf("release the lock: %v", err)
				}
			}
			appendRows(t, l, 9, 12)
			if err := cycle(l, 12, func(oplog.Index) {}); err != nil {
				t.Fatalf("snapshot and truncate: %v", err)
			}
			if b, err := l.Bounds(t.Context()); err != nil || b.Oldest != 12 {
				t.Fatalf("bounds %+v, %v: slot 9 is not free, the test shows nothing", b, err)
			}
			if place == "before it asks for the lock" {
				c.say("go") // it reads this when it is resumed
			}
			c.signal(syscall.SIGCONT)
			c.want("conflict")
			if diff := cmp.Diff(map[oplog.Index]string{12: "row 12"}, dense(t, l)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func lock(t testing.TB, path string) *sql.Tx {
	t.Helper()
	tx, err := rawDB(t, path).Begin() // IMMEDIATE
	if err != nil {
		t.Fatalf("take the write lock: %v", err)
	}
	return tx
}

// TestSuspendedWithLock: a process is suspended inside its append, with the write lock. Others can read; their appends
// wait, say that they cannot, and go on afterwards.
func TestSuspendedWithLock(t *testing.T) {
	_, path := cluster(t, 3)
	l := open(t, sqlite.Options{Path: path, BusyTimeout: 250 * time.Millisecond})
	defer l.Close()
	c := start(t, "lock", path, "4")
	c.want("locked")
	c.stop()

	err := l.Append(t.Context(), 4, nil, []byte("mine"))
	if !errors.Is(err, oplog.ErrUnavailable) || !oplog.NotApplied(err) {
		t.Errorf("append beside a suspended writer: %v, want unavailable", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = l.Append(ctx, 4, nil, []byte("mine"))
	if !errors.Is(err, context.DeadlineExceeded) || !oplog.NotApplied(err) {
		t.Errorf("append with a deadline beside a suspended writer: %v, want a definite end", err)
	}
	if newest, err := l.Newest(t.Context()); err != nil || newest != 3 {
		t.Errorf("newest beside a suspended writer: %d, %v", newest, err)
	}

	if err := l.Init(t.Context(), []byte("other")); !errors.Is(err, oplog.ErrExists) {
		t.Errorf("init beside a suspended writer: %v, want to be told that a cluster is there", err)
	}

	patient := open(t, sqlite.Options{Path: path, BusyTimeout: time.Minute})
	defer patient.Close()
	waiting := make(chan error)
	go func() { waiting <- patient.Append(t.Context(), 5, nil, []byte("mine")) }()
	c.say("go")
	c.signal(syscall.SIGCONT)
	c.want("committed")
	// Row 5 came while row 4 was uncommitted, or after: either way it was judged against row 4.
	if err := <-waiting; err != nil {
		t.Errorf("append that waited for the suspended writer: %v", err)
	}
	want := map[oplog.Index]string{0: "genesis", 1: "row 1", 2: "row 2", 3: "row 3", 4: "slow", 5: "mine"}
	if diff := cmp.Diff(want, dense(t, l)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
