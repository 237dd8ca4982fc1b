//go:build unix

package sqlite_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

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
