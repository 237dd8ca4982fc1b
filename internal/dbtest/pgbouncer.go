package dbtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// NewPgBouncer starts a pooler in front of the server, in a mode (session, transaction or statement), with a pool of two
// connections. It returns the DSN of the database postgres through it; it ends with the test.
func NewPgBouncer(t testing.TB, p *Postgres, mode string) (dsn string) {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer" // not everybody's PATH has it
		if _, err := os.Stat(path); err != nil {
			missing(t, "no PgBouncer is installed (Debian package pgbouncer)")
		}
	}
	port, err := freePort()
	if err != nil {
		t.Fatalf("find a port: %v", err)
	}
	dir, err := p.account.folder("pgbouncer")
	if err != nil {
		t.Fatalf("make a folder: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	conf := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
postgres = host=127.0.0.1 port=%d user=postgres dbname=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = 2
max_client_conn = 500
`, p.Port, port, mode)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatalf("configure the pooler: %v", err)
	}
	proc, err := p.account.start(path, filepath.Join(dir, "log"), conf)
	if err != nil {
		t.Fatalf("start the pooler: %v", err)
	}
	t.Cleanup(func() {
		select {
		case <-proc.exited:
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Errorf("the pooler ended by itself: %v: %s", proc.cmd.ProcessState, log[max(0, len(log)-2000):])
		default:
		}
		_ = proc.cmd.Process.Kill()
		<-proc.exited
	})
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := proc.await(patience, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("start the pooler: %v: %s", err, log)
	}
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
}
