package dbtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// MySQLEnv names the environment variable whose DSN (of the driver's form or mysql://…) replaces the shared throwaway
// server. Its user needs the right to create tables.
const MySQLEnv = "HEADWATER_TEST_MYSQL"

// MariaDB is a throwaway MariaDB server, alone or as a member of a Galera cluster. Its administrator is "root" without a
// password, its database "test". It is not for several goroutines at once.
type MariaDB struct {
	Port int

	bins    mariaBins
	dir     string
	account account
	args    []string // of the server
	process *process // nil while it does not run
}

// mariaBins are the installed programs.
type mariaBins struct{ server, install string }

func findMariaDB() (b mariaBins, err error) {
	if !canRun {
		return b, errNotHere
	}
	b.server, err = lookPath("mariadbd", "/usr/sbin")
	if err == nil {
		b.install, err = lookPath("mariadb-install-db", "/usr/bin")
	}
	if err != nil {
		return b, errors.New("no MariaDB server is installed (Debian package mariadb-server)")
	}
	return b, nil
}

// lookPath finds a program in PATH or in dir: servers are often in a folder that only root has in its PATH.
func lookPath(name, dir string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	return exec.LookPath(filepath.Join(dir, name))
}

// NewMariaDB starts a server of the test's own, with more options of mariadbd, as "--max-allowed-packet=1M". It ends with
// the test.
func NewMariaDB(t testing.TB, options ...string) *MariaDB {
	t.Helper()
	bins, err := findMariaDB()
	if err != nil {
		missing(t, "%v", err)
	}
	m, err := newMariaDB(bins)
	if err == nil {
		t.Cleanup(m.destroy)
		m.args = options
		err = m.run(nil)
	}
	if err != nil {
		t.Fatalf("start a MariaDB server: %v", err)
	}
	return m
}

// sharedMariaDB is started by the first test that asks.
var sharedMariaDB = sync.OnceValues(func() (*MariaDB, error) {
	bins, err := findMariaDB()
	if err != nil {
		return nil, err
	}
	m, err := newMariaDB(bins)
	if err != nil {
		return nil, err
	}
	stopLater(m.destroy)
	return m, m.run(nil)
})

// SharedMySQL returns the DSN of a database on the server that all tests of this process share; TestMain must end in
// Main. Tests keep apart by table prefixes: see Prefix.
func SharedMySQL(t testing.TB) (dsn string) {
	t.Helper()
	if dsn := os.Getenv(MySQLEnv); dsn != "" {
		return dsn
	}
	if _, err := findMariaDB(); err != nil {
		missing(t, "%v, and %s is not set", err, MySQLEnv)
	}
	m, err := sharedMariaDB()
	if err != nil {
		t.Fatalf("start a MariaDB server: %v", err)
	}
	return m.DSN("root")
}

// mariaTemplate is a folder with data as mariadb-install-db makes them, which takes seconds; a copy takes a moment.
var mariaTemplate = sync.OnceValues(func() (string, error) {
	bins, err := findMariaDB()
	if err != nil {
		return "", err
	}
	a, err := unprivileged("mysql")
	if err != nil {
		return "", err
	}
	dir, err := a.folder("mariadb")
	if err != nil {
		return "", err
	}
	stopLater(func() { _ = os.RemoveAll(dir) })
	data := filepath.Join(dir, "data")
	install := exec.Command(bins.install, "--no-defaults", "--datadir="+data, "--tmpdir="+dir, "--auth-root-authentication-method=normal",
		"--skip-name-resolve", "--skip-test-db", "--innodb-log-file-size="+redoSize, "--innodb-flush-log-at-trx-commit=0")
	install.Dir = dir
	install.SysProcAttr = a.attributes()
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	// The database "test" is a folder and no more.
	test := exec.Command("mkdir", "-m", "700", filepath.Join(data, "test"))
	test.SysProcAttr = a.attributes()
	if out, err := test.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make the database: %w: %s", err, out)
	}
	return data, nil
})

// redoSize is what all servers write their redo log into: four of the largest rows.
const redoSize = "32M"

// newMariaDB makes the files of a server that does not run yet.
func newMariaDB(bins mariaBins) (*MariaDB, error) {
	template, err := mariaTemplate()
	if err != nil {
		return nil, err
	}
	return copyMariaDB(bins, template)
}

// copyMariaDB makes the files of a server that begins with the data of template.
func copyMariaDB(bins mariaBins, template string) (m *MariaDB, err error) {
	m = &MariaDB{bins: bins}
	if m.account, err = unprivileged("mysql"); err != nil {
		return nil, err
	}
	if m.dir, err = m.account.folder("mariadb"); err != nil {
		return nil, err
	}
	copying := exec.Command("cp", "-R", "-p", template, m.data())
	copying.Dir = m.dir
	copying.SysProcAttr = m.account.attributes()
	out, err := copying.CombinedOutput()
	if err == nil {
		m.Port, err = freePort()
	}
	if err != nil {
		m.destroy()
		return nil, fmt.Errorf("copy the data of a new server: %w: %s", err, out)
	}
	return m, nil
}

func (m *MariaDB) data() string { return filepath.Join(m.dir, "data") }

// DSN returns the connection string for a user without a password.
func (m *MariaDB) DSN(user string) string { return "mysql://" + user + "@" + m.Addr() + "/test" }

// Addr is the server's host and port.
func (m *MariaDB) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Port)) }

// Dir is a folder that the server can enter and write to.
func (m *MariaDB) Dir() string { return m.dir }

// Uid is the user that the server runs as.
func (m *MariaDB) Uid() int { return m.account.uid }

// Log is what the server has written so far.
func (m *MariaDB) Log() string {
	log, _ := os.ReadFile(filepath.Join(m.dir, "log"))
	return string(log)
}

// Start starts a server that was stopped or killed, with more options for this time, and waits until it takes connections.
func (m *MariaDB) Start(t testing.TB, options ...string) {
	t.Helper()
	if err := m.run(options); err != nil {
		t.Fatalf("start the server again: %v", err)
	}
}

// Restart starts the server anew, whether it still runs or has ended by itself.
func (m *MariaDB) Restart(t testing.TB) {
	t.Helper()
	_ = m.process.signal(syscall.SIGKILL) // it may have ended
	if err := m.ended(); err != nil {
		t.Fatal(err)
	}
	m.Start(t)
}

func (m *MariaDB) run(more []string) (err error) {
	args := []string{"--no-defaults", "--datadir=" + m.data(), "--socket=" + filepath.Join(m.dir, "socket"), "--pid-file=" + filepath.Join(m.dir, "pid"), "--tmpdir=" + m.dir,
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(m.Port), "--skip-name-resolve", "--max-connections=300",
		"--innodb-buffer-pool-size=32M", "--innodb-log-file-size=" + redoSize, "--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=ON",
		"--performance-schema=OFF", "--key-buffer-size=1M", "--aria-pagecache-buffer-size=1M", "--thread-cache-size=16"}
	args = append(append(args, m.args...), more...)
	before := len(m.Log())
	m.process, err = m.account.start(m.bins.server, filepath.Join(m.dir, "log"), args...)
	if err != nil {
		return err
	}
	if err := m.process.await(patience, m.ready); err != nil {
		return fmt.Errorf("%w: %s", err, m.Log()[before:])
	}
	return nil
}

// ready reports whether the server greets: it listens before it does.
func (m *MariaDB) ready() bool {
	c, err := net.DialTimeout("tcp", m.Addr(), time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	greeting := make([]byte, 5) // three bytes of length, a number, the version of the protocol
	n, err := c.Read(greeting)
	return err == nil && n == len(greeting) && greeting[4] == 10
}

// Stop shuts the server down as a restart does: sessions are ended, nothing is lost.
func (m *MariaDB) Stop(t testing.TB) { t.Helper(); m.end(t, syscall.SIGTERM) }

// Kill kills the server with -9; what was acknowledged is recovered by Start.
func (m *MariaDB) Kill(t testing.TB) { t.Helper(); m.end(t, syscall.SIGKILL) }

func (m *MariaDB) end(t testing.TB, s syscall.Signal) {
	t.Helper()
	m.send(t, s)
	if err := m.ended(); err != nil {
		t.Fatalf("%v after %v", err, s)
	}
}

func (m *MariaDB) ended() error {
	select {
	case <-m.process.exited:
		m.process = nil
		return nil
	case <-time.After(patience):
		return errors.New("the server did not end")
	}
}

// Save stops the server, copies its data aside, as a backup does, and starts it again.
func (m *MariaDB) Save(t testing.TB) {
	t.Helper()
	m.Stop(t)
	copyAside(t, m.account, m.data(), filepath.Join(m.dir, "saved"))
	m.Start(t)
}

// Load stops the server, puts back what Save kept, and starts it again.
func (m *MariaDB) Load(t testing.TB) {
	t.Helper()
	m.Stop(t)
	if err := os.RemoveAll(m.data()); err != nil {
		t.Fatalf("remove the data: %v", err)
	}
	copyAside(t, m.account, filepath.Join(m.dir, "saved"), m.data())
	m.Start(t)
}

// Pause stops the server (SIGSTOP): connections stay and nothing answers. Resume lets it go on.
func (m *MariaDB) Pause(t testing.TB) { t.Helper(); m.send(t, sigStop) }

// Resume is the end of Pause.
func (m *MariaDB) Resume(t testing.TB) { t.Helper(); m.send(t, sigCont) }

func (m *MariaDB) send(t testing.TB, s syscall.Signal) {
	t.Helper()
	if m.process == nil {
		t.Fatalf("send %v to the server: it does not run", s)
	}
	if err := m.process.signal(s); err != nil {
		t.Fatalf("send %v to the server: %v", s, err)
	}
}

// destroy ends the server and removes what it left.
func (m *MariaDB) destroy() {
	if m.process != nil {
		_ = m.process.signal(syscall.SIGKILL) // also one that stands still
		<-m.process.exited
		m.process = nil
	}
	_ = os.RemoveAll(m.dir)
}
