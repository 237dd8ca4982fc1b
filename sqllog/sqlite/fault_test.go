package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
			if err = l.Append(t.Context(), next, payload(next)); err == nil {
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
		if err := l.Append(t.Context(), next, payload(next)); !errors.Is(err, oplog.ErrFull) {
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
	if err := l.Append(t.Context(), next, payload(next)); err != nil {
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

// TestDenied: an ordinary user without the rights is told which is missing, to read or to write.
func TestDenied(t *testing.T) {
	if os.Getuid() != 0 {
		skipOrFail(t, "the test must be root, to become a user without rights")
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "probe")
	copyFile(t, os.Args[0], binary, 0o755)
	for _, c := range []struct {
		name            string
		file, directory os.FileMode // 0: there is no file
		want            string
	}{
		{"file not readable", 0o600, 0o755, "open: permission denied"},
		{"directory not enterable", 0o666, 0o700, "open: permission denied"},
		{"file not writable", 0o644, 0o755, "open: database is read-only"},
		{"file not writable, directory writable", 0o644, 0o777, "open: database is read-only"},
		{"directory not writable", 0o666, 0o755, "open: database is read-only"},
		{"no file, directory not writable", 0, 0o755, "open: permission denied"},
		{"all rights", 0o666, 0o777, "newest: <nil>, append: <nil>, init: a cluster exists already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := filepath.Join(dir, c.name)
			if err := os.Mkdir(home, 0o777); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(home, "x.db")
			if c.file != 0 {
				l := open(t, sqlite.Options{Path: file})
				if err := l.Init(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				l.Close()
				if err := os.Chmod(file, c.file); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(home, c.directory); err != nil {
				t.Fatal(err)
			}
			nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			startBinary(t, binary, nobody, "probe", file).want(c.want)
		})
	}
}

func copyFile(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
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
		err := l.Append(ctx, next, payload)
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
			if err := l.Append(t.Context(), next, payload); err != nil && !errors.Is(err, oplog.ErrConflict) {
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
		if err := one.Append(ctx, 2, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("append: %v", err)
		}
		if err := one.Append(t.Context(), 1, nil); !errors.Is(err, oplog.ErrConflict) {
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
