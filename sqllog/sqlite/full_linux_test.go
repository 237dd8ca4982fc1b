package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// smallDisk mounts a file system of that many bytes.
func smallDisk(t testing.TB, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(size)); err != nil {
		skipOrFail(t, fmt.Sprintf("a small file system cannot be mounted here (root is needed): %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// TestDiskFull: field case 16.1. Appends end in "storage full", for certain; reads go on; nothing acknowledged is lost;
// with room again the same log works, and so does one opened afresh.
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, 4<<20)
	reserve := filepath.Join(dir, "reserve")
	if err := os.WriteFile(reserve, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.db")
	l := open(t, sqlite.Options{Path: path})
	closed := false
	defer func() {
		if !closed {
			l.Close()
		}
	}()
	if err := l.Init(t.Context(), []byte("genesis")); err != nil {
		t.Fatalf("init: %v", err)
	}
	payload := func(i oplog.Index) []byte { return fmt.Appendf(make([]byte, 40_000), "row %d", i) }
	want := map[oplog.Index]string{0: "genesis"}
	next := oplog.Index(1)
	fill := func() (err error) {
		for ; err == nil && next < 1000; next++ {
			if err = l.Append(t.Context(), next, nil, payload(next)); err == nil {
				want[next] = string(payload(next))
			}
		}
		next--
		return err
	}
	if err := fill(); !errors.Is(err, oplog.ErrFull) || !oplog.NotApplied(err) {
		t.Fatalf("append row %d to a full disk: %v, want storage full", next, err)
	}
	for range 20 {
		if err := l.Append(t.Context(), next, nil, payload(next)); !errors.Is(err, oplog.ErrFull) {
			t.Errorf("append again to a full disk: %v", err)
		}
	}
	if diff := cmp.Diff(want, dense(t, l)); diff != "" {
		t.Errorf("rows on a full disk differ from those acknowledged")
	}
	if err := cycle(l, next-1, func(oplog.Index) {}); err != nil && !errors.Is(err, oplog.ErrFull) {
		t.Errorf("snapshot on a full disk: %v", err)
	}

	if err := os.Remove(reserve); err != nil {
		t.Fatal(err)
	}
	full := next
	if err := l.Append(t.Context(), next, nil, payload(next)); err != nil {
		t.Fatalf("append with room again: %v", err)
	}
	want[next] = string(payload(next))
	next++
	if err := fill(); !errors.Is(err, oplog.ErrFull) || next <= full+3 {
		t.Errorf("full again at row %d after %d: %v", next, full, err)
	}
	closed = true
	if err := l.Close(); err != nil {
		t.Errorf("close on a full disk: %v", err)
	}
	again := open(t, sqlite.Options{Path: path, MustExist: true})
	defer again.Close()
	got := dense(t, again)
	for index, p := range want {
		if b, _ := again.Bounds(t.Context()); got[index] != p && index > b.Snapshot.Index {
			t.Errorf("acknowledged row %d is not there after a restart", index)
		}
	}
}
