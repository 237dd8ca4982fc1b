package dbtest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// PostgresEnv names the environment variable whose DSN replaces the shared throwaway server. Its role needs the right to
// create tables.
const PostgresEnv = "HEADWATER_TEST_POSTGRES"

// patience is how long a server may take to start or stop.
const patience = time.Minute

// Postgres is a throwaway PostgreSQL server. Its administrator is "postgres" and is let in without a password, as is
// everybody but the role "secretive", which must have one. It is not for several goroutines at once.
type Postgres struct {
	Port int

	bin     string
	dir     string
	account account
	process *process // nil while it does not run
}

// postgresBin finds the newest installed server.
func postgresBin() (string, error) {
	if !canRun {
		return "", errNotHere
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	version := func(path string) int { n, _ := strconv.Atoi(strings.Split(path, "/")[4]); return n }
	sort.Slice(found, func(i, j int) bool { return version(found[i]) > version(found[j]) })
	if len(found) > 0 {
		return filepath.Dir(found[0]), nil
	}
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		return "", errors.New("no PostgreSQL server is installed (Debian package postgresql)")
	}
	return filepath.Dir(initdb), nil
}

// NewPostgres starts a server of the test's own, with settings as lines of postgresql.conf. It ends with the test.
func NewPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	bin, err := postgresBin()
	if err != nil {
		missing(t, "%v", err)
	}
	p, err := newPostgres(bin, settings)
	if err != nil {
		t.Fatalf("start a PostgreSQL server: %v", err)
	}
	t.Cleanup(p.destroy)
	return p
}

// StartPostgres is NewPostgres for a program that is no test, and uses no other server of this package. What it started
// and left ends with stop.
func StartPostgres(settings ...string) (p *Postgres, stop func(), err error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, nil, err
	}
	if p, err = newPostgres(bin, settings); err != nil {
		stopShared()
		return nil, nil, fmt.Errorf("start a PostgreSQL server: %w", err)
	}
	return p, func() {
		p.destroy()
		stopShared()
	}, nil
}

// sharedPostgres is started by the first test that asks.
var sharedPostgres = sync.OnceValues(func() (*Postgres, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	p, err := newPostgres(bin, nil)
	if err == nil {
		stopLater(p.destroy)
	}
	return p, err
})

// SharedPostgres returns the DSN of a database on the server that all tests of this process share; TestMain must end in
// Main. Tests keep apart by table prefixes: see Prefix.
func SharedPostgres(t testing.TB) (dsn string) {
	t.Helper()
	if dsn := os.Getenv(PostgresEnv); dsn != "" {
		return dsn
	}
	if _, err := postgresBin(); err != nil {
		missing(t, "%v, and %s is not set", err, PostgresEnv)
	}
	p, err := sharedPostgres()
	if err != nil {
		t.Fatalf("start a PostgreSQL server: %v", err)
	}
	return p.DSN("postgres", "postgres")
}

// postgresTemplate is a folder with data as initdb makes them, which takes a second; a copy takes a tenth.
var postgresTemplate = sync.OnceValues(func() (string, error) {
	bin, err := postgresBin()
	if err != nil {
		return "", err
	}
	a, err := unprivileged("postgres")
	if err != nil {
		return "", err
	}
	dir, err := a.folder("initdb")
	if err != nil {
		return "", err
	}
	stopLater(func() { _ = os.RemoveAll(dir) })
	// Only these first files are written without waiting for the disk; the servers run with fsync.
	init := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync", "--no-instructions", "--wal-segsize=4")
	init.Dir = dir
	init.SysProcAttr = a.attributes()
	if out, err := init.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	return filepath.Join(dir, "data"), nil
})

func newPostgres(bin string, settings []string) (p *Postgres, err error) {
	template, err := postgresTemplate()
	if err != nil {
		return nil, err
	}
	p = &Postgres{bin: bin}
	if p.account, err = unprivileged("postgres"); err != nil {
		return nil, err
	}
	if p.dir, err = p.account.folder("postgres"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.destroy()
		}
	}()
	// As the account, so that the files are its own.
	copying := exec.Command("cp", "-R", "-p", template, p.data())
	copying.Dir = p.dir
	copying.SysProcAttr = p.account.attributes()
	if out, err := copying.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the data of a new server: %w: %s", err, out)
	}
	hba := "host all secretive 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all all trust\n" +
		"host replication all 127.0.0.1/32 trust\n"
	if err := os.WriteFile(filepath.Join(p.data(), "pg_hba.conf"), []byte(hba), 0o600); err != nil {
		return nil, err
	}
	if p.Port, err = freePort(); err != nil {
		return nil, err
	}
	conf := append([]string{"listen_addresses = '127.0.0.1'", "port = " + strconv.Itoa(p.Port), "unix_socket_directories = ''",
		"max_connections = 200", "shared_buffers = 32MB", "fsync = on", "synchronous_commit = on", "full_page_writes = on",
		"autovacuum_naptime = 10s", "log_line_prefix = '%m [%p] %q%u@%d '"}, settings...)
	if err := p.configure(conf); err != nil {
		return nil, err
	}
	return p, p.run()
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// configure adds lines to postgresql.conf; the last one of a name counts.
func (p *Postgres) configure(lines []string) error {
	f, err := os.OpenFile(filepath.Join(p.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// DSN returns the connection string for a role in a database.
func (p *Postgres) DSN(role, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", role, p.Addr(), database)
}

// Addr is the server's host and port.
func (p *Postgres) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)) }

// Dir is a folder that the server can enter and write to.
func (p *Postgres) Dir() string { return p.dir }

// Uid is the user that the server runs as.
func (p *Postgres) Uid() int { return p.account.uid }

// Configure adds lines to postgresql.conf and has the running server read it.
func (p *Postgres) Configure(t testing.TB, lines ...string) {
	t.Helper()
	if err := p.configure(lines); err != nil {
		t.Fatalf("configure the server: %v", err)
	}
	p.send(t, syscall.SIGHUP)
}

// Start starts a server that was stopped or killed, and waits until it takes connections.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	if err := p.run(); err != nil {
		t.Fatalf("start the server again: %v", err)
	}
}

func (p *Postgres) run() (err error) {
	p.process, err = p.account.start(filepath.Join(p.bin, "postgres"), filepath.Join(p.dir, "log"), "-D", p.data())
	if err != nil {
		return err
	}
	if err := p.process.await(patience, p.ready); err != nil {
		log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
		return fmt.Errorf("%w: %s", err, log)
	}
	return nil
}

// ready looks for the state in the eighth line of the server's own file.
func (p *Postgres) ready() bool {
	f, err := os.Open(filepath.Join(p.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for i := 1; lines.Scan(); i++ {
		if i == 1 && lines.Text() != strconv.Itoa(p.process.cmd.Process.Pid) {
			return false // left behind by one that was killed
		}
		if i == 8 {
			return strings.TrimSpace(lines.Text()) == "ready" || strings.TrimSpace(lines.Text()) == "standby"
		}
	}
	return false
}

// Stop shuts the server down as a restart does: sessions are ended (57P01), nothing is lost.
func (p *Postgres) Stop(t testing.TB) { t.Helper(); p.end(t, syscall.SIGINT) }

// Kill kills the server and all its sessions with -9; what was acknowledged is recovered by Start.
func (p *Postgres) Kill(t testing.TB) { t.Helper(); p.end(t, syscall.SIGKILL) }

func (p *Postgres) end(t testing.TB, s syscall.Signal) {
	t.Helper()
	children := childrenOf(p.process.cmd.Process.Pid)
	p.send(t, s)
	defer awaitGone(t, children) // they hold the shared memory, and the next one would not start
	select {
	case <-p.process.exited:
	case <-time.After(patience):
		t.Fatalf("the server did not end after %v", s)
	}
	p.process = nil
}

// Save stops the server, copies its data aside, as a backup does, and starts it again.
func (p *Postgres) Save(t testing.TB) {
	t.Helper()
	p.Stop(t)
	copyAside(t, p.account, p.data(), filepath.Join(p.dir, "saved"))
	p.Start(t)
}

// Load stops the server, puts back what Save kept, and starts it again.
func (p *Postgres) Load(t testing.TB) {
	t.Helper()
	p.Stop(t)
	if err := os.RemoveAll(p.data()); err != nil {
		t.Fatalf("remove the data: %v", err)
	}
	copyAside(t, p.account, filepath.Join(p.dir, "saved"), p.data())
	p.Start(t)
}

// Pause stops the server and its sessions (SIGSTOP): connections stay and nothing answers. Resume lets them go on.
func (p *Postgres) Pause(t testing.TB) { t.Helper(); p.send(t, sigStop) }

// Resume is the end of Pause.
func (p *Postgres) Resume(t testing.TB) { t.Helper(); p.send(t, sigCont) }

// send sends a signal to the server; those that hit all of it go to its sessions too, each of which leads a group of its
// own.
func (p *Postgres) send(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.signal(s); err != nil {
		t.Fatalf("send %v to the server: %v", s, err)
	}
}

func (p *Postgres) signal(s syscall.Signal) error {
	if p.process == nil {
		return errors.New("it does not run")
	}
	var children []int
	if s == syscall.SIGKILL || s == sigStop || s == sigCont {
		children = childrenOf(p.process.cmd.Process.Pid)
	}
	err := p.process.signal(s)
	for _, pid := range children {
		_ = kill(pid, s) // it may have ended by itself
	}
	return err
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		data, err := os.ReadFile(s)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(data), ") ") // the name before may hold anything
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(s))); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// awaitGone waits until processes have ended, whether somebody has asked for their exit codes or not.
func awaitGone(t testing.TB, pids []int) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for _, pid := range pids {
		for {
			data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
			if _, rest, _ := strings.Cut(string(data), ") "); err != nil || strings.HasPrefix(rest, "Z") {
				break
			}
			select {
			case <-tick.C:
			case <-end:
				t.Fatalf("process %d of the server does not end", pid)
			}
		}
	}
}

// destroy ends the server and removes what it left.
func (p *Postgres) destroy() {
	if p.process != nil {
		_ = p.signal(sigCont)
		_ = p.signal(syscall.SIGQUIT) // at once, without a checkpoint
		select {
		case <-p.process.exited:
		case <-time.After(5 * time.Second):
			_ = p.signal(syscall.SIGKILL)
			<-p.process.exited
		}
		p.process = nil
	}
	_ = os.RemoveAll(p.dir)
}
