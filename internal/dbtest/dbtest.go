// Package dbtest starts throwaway database servers for tests, from binaries that are installed, and does to them what
// happens to servers: it stops them, kills them and lets them hang. The network in between is package proxy; servers that only pretend are
// package fakedb.
//
// A server keeps its data in a temporary folder, listens on a free port of 127.0.0.1 and is set up as it should be in
// earnest: what is acknowledged is on the disk. It ends with the test, or with the process that started it, however that
// ends. Where there are no binaries the test is skipped with a sentence, or fails if CI is set: nothing is installed here.
// The package knows processes and sockets; it speaks to no server.
//
// Only Unix has such servers; elsewhere the package compiles, and its tests are skipped like those that find no binaries.
//
// Tests that only need a database share one server for the process: see SharedPostgres, and Main, which stops it.
package dbtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// missing ends a test for which there is no server.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format+" (and CI is set, so this test must run)", args...)
	}
	t.Skipf(format, args...)
}

// errNotHere is why there are no servers on this system.
var errNotHere = errors.New("throwaway servers run on Unix only")

// account is whom a server runs as. Servers refuse to run as root.
type account struct {
	name     string
	uid, gid int
	other    bool // not whom this process runs as
}

// unprivileged returns the account for servers: this process's own, or, for root, the first of names that exists.
func unprivileged(names ...string) (account, error) {
	if uid := os.Getuid(); uid != 0 {
		return account{uid: uid, gid: os.Getgid()}, nil
	}
	for _, n := range append(names, "nobody") {
		u, err := user.Lookup(n)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return account{}, fmt.Errorf("look up user %s: %w", n, err)
		}
		return account{name: n, uid: uid, gid: gid, other: true}, nil
	}
	return account{}, fmt.Errorf("servers do not run as root, and there is no user %v or nobody", names)
}

// folder makes a temporary folder that the account owns, in a place that it can enter.
func (a account) folder(name string) (string, error) {
	dir, err := os.MkdirTemp("", "headwater-"+name+"-")
	if err != nil {
		return "", err
	}
	if a.other {
		if err := os.Chown(dir, a.uid, a.gid); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// copyAside copies the data of a server that does not run, as the account, so that the files are its own.
func copyAside(t testing.TB, a account, from, to string) {
	t.Helper()
	copying := exec.Command("cp", "-R", "-p", from, to)
	copying.Dir = filepath.Dir(from)
	copying.SysProcAttr = a.attributes()
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("copy the data of a server: %v: %s", err, out)
	}
}

// freePort finds a port that nobody listens on at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// process is a server process.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has
}

// start starts a server that is killed when this process dies. The kernel ties that to the thread that starts it, so a
// thread is kept for as long as the server runs.
func (a account) start(path, logFile string, args ...string) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir = filepath.Dir(logFile)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = a.attributes()
	dieWithParent(cmd.SysProcAttr)
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(p.exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// await asks again and again, every few milliseconds, until ready says yes, the process ends or patience is over.
func (p *process) await(patience time.Duration, ready func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		if ready() {
			return nil
		}
		select {
		case <-p.exited:
			return errors.New("the server ended")
		case <-end:
			return fmt.Errorf("the server was not ready after %v", patience)
		case <-tick.C:
		}
	}
}

// shared are the servers of this process, stopped by Main.
var shared struct {
	mu    sync.Mutex
	stops []func()
}

func stopLater(stop func()) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.stops = append(shared.stops, stop)
}

// Main runs the tests of a package that uses shared servers and stops the servers; a TestMain ends with
// os.Exit(dbtest.Main(m)).
func Main(m *testing.M) int {
	defer stopShared()
	return m.Run()
}

func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for _, stop := range shared.stops {
		stop()
	}
	shared.stops = nil
}

// Await asks every few milliseconds until done says yes, and fails the test after a minute: what is waited for has no
// signal of its own.
func Await(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !done(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited too long for %s", what)
		}
	}
}
