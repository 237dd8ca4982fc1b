//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is the user that the program runs as where the tests run as root, for whom no file is read-only.
const nobody = 65534

// as runs the program as a process of a user to whom file permissions apply.
func as(t *testing.T, bin string, args ...string) result {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd := osexec.Command(bin, args...)
	cmd.Env = []string{"HOME=/", "PATH=" + os.Getenv("PATH"), "GORACE=" + gorace}
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &out, &stderr
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	err := cmd.Run()
	var exit *osexec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{code: cmd.ProcessState.ExitCode(), out: out.String(), err: stderr.String()}
}

// openFolder is a temporary folder that every user can enter and write to, with the program in it.
func openFolder(t *testing.T) (dir, bin string) {
	t.Helper()
	dir = t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	from, err := osexec.LookPath("headwater")
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	bin = filepath.Join(dir, "headwater")
	out, err := os.OpenFile(bin, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	return dir, bin
}

// TestReadOnlyFile: a file that may be read but not written is read, and everything else is refused and says why.
func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	dir, bin := openFolder(t)
	file := filepath.Join(dir, "ro.db")
	db := "sqlite:" + file
	if got := run(t, []byte(put), "apply", "--db", db, "-"); got.code != exitDone {
		t.Fatal(got.err)
	}
	if err := os.Chmod(file, 0o444); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"status"}, {"key", "get", "a"}, {"log"}, {"export"}, {"check"}} {
		if got := as(t, bin, append(args, "--db", db)...); got.code != exitDone {
			t.Errorf("%v: exit code %d: %s", args, got.code, got.err)
		}
	}
	for _, args := range [][]string{{"key", "put", "a", "b"}, {"snapshot"}, {"init"}, {"apply", "-"}, {"serve", "--listen", "127.0.0.1:0"}} {
		got := as(t, bin, append(args, "--db", db)...)
		if got.code != exitUnavailable || !strings.Contains(got.err, "read-only") {
			t.Errorf("%v: exit code %d: %s", args, got.code, got.err)
		}
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the file was changed")
	}
}

// TestUnwritableFolder: where no file can be made none is, and the reason is told.
func TestUnwritableFolder(t *testing.T) {
	t.Parallel()
	dir, bin := openFolder(t)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o777) })
	for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"init"}} {
		got := as(t, bin, append(args, "--db", "sqlite:"+filepath.Join(dir, "new.db"))...)
		if got.code != exitUnavailable || !strings.Contains(got.err, "headwater: open database: ") {
			t.Errorf("%v: exit code %d: %s", args, got.code, got.err)
		}
	}
}

// TestOutputThatFails: a full disk behind standard output is no success.
func TestOutputThatFails(t *testing.T) {
	t.Parallel()
	db := "sqlite:" + filepath.Join(t.TempDir(), "out.db")
	var stderr bytes.Buffer
	code := exec(t.Context(), []string{"apply", "--db", db, "-"}, strings.NewReader(put), failingWriter{}, &stderr)
	if code != exitUnavailable || !strings.Contains(stderr.String(), "write answers: no space") {
		t.Errorf("apply: exit code %d: %s", code, stderr.String())
	}
	for _, args := range [][]string{{"export"}, {"key", "list", "-o", "json"}, {"key", "list"}, {"status"}, {"status", "-o", "json"}, {"log"}} {
		stderr.Reset()
		code := exec(t.Context(), append(args, "--db", db), nil, failingWriter{}, &stderr)
		if code != exitUnavailable {
			t.Errorf("%v: exit code %d: %s", args, code, stderr.String())
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }
