package dbtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Pair is a PostgreSQL server and a standby that replicates it. The standby may be read. It is not for several goroutines
// at once.
type Pair struct {
	Primary, Standby *Postgres

	synchronous bool
}

// NewPair starts a server and a standby, with settings as lines of postgresql.conf for both. Where it is synchronous, a
// commit is answered once the standby has it on its disk, and waits for as long as there is none. Both servers end with the
// test.
func NewPair(t testing.TB, synchronous bool, settings ...string) *Pair {
	t.Helper()
	p := &Pair{synchronous: synchronous}
	// What a standby has not fetched yet is kept for it.
	p.Primary = NewPostgres(t, append([]string{"wal_keep_size = 256MB"}, settings...)...)
	p.Rejoin(t)
	return p
}

// DSN returns a connection string that leads a role to whichever of the two servers takes writes.
func (p *Pair) DSN(role, database string) string {
	return fmt.Sprintf("postgres://%s@%s,%s/%s?sslmode=disable&target_session_attrs=read-write", role, p.Primary.Addr(), p.Standby.Addr(), database)
}

// Failover makes the standby the primary, as somebody does when the primary is lost: the old one must not run. What the
// standby does not have is lost. The new primary is alone and waits for no standby until Rejoin.
func (p *Pair) Failover(t testing.TB) {
	t.Helper()
	if p.Primary.process != nil {
		t.Fatal("fail over: the primary still runs, and there would be two")
	}
	p.Primary, p.Standby = p.Standby, p.Primary
	p.await(t, false)
	p.Primary.Promote(t)
}

// Rejoin makes the server that is not the primary a new standby: what it held is thrown away and copied anew. It keeps
// its address.
func (p *Pair) Rejoin(t testing.TB) {
	t.Helper()
	if p.Standby == nil {
		s := &Postgres{bin: p.Primary.bin, account: p.Primary.account}
		var err error
		if s.dir, err = s.account.folder("standby"); err != nil {
			t.Fatalf("make a standby: %v", err)
		}
		t.Cleanup(s.destroy)
		if s.Port, err = freePort(); err != nil {
			t.Fatalf("make a standby: %v", err)
		}
		p.Standby = s
	}
	if err := p.Standby.follow(t.Context(), p.Primary); err != nil {
		t.Fatalf("make a standby: %v", err)
	}
	p.await(t, p.synchronous)
}

// await has the primary wait for its standby at every commit, or not.
func (p *Pair) await(t testing.TB, yes bool) {
	t.Helper()
	names := "''"
	if yes {
		names = "'*'"
	}
	p.Primary.Configure(t, "synchronous_standby_names = "+names)
}

// follow copies another server's data and starts as its standby.
func (p *Postgres) follow(ctx context.Context, primary *Postgres) error {
	if err := os.RemoveAll(p.data()); err != nil {
		return err
	}
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres", primary.Port)
	if err := p.tool(ctx, "pg_basebackup", "-d", from, "-D", p.data(), "-R", "-c", "fast", "--no-sync"); err != nil {
		return err
	}
	// A standby waits for no standby of its own.
	if err := p.configure([]string{"port = " + strconv.Itoa(p.Port), "synchronous_standby_names = ''"}); err != nil {
		return err
	}
	return p.run()
}

// Promote makes a standby a server of its own that takes writes, and waits until it does.
func (p *Postgres) Promote(t testing.TB) {
	t.Helper()
	if err := p.tool(t.Context(), "pg_ctl", "promote", "-D", p.data(), "-w", "-t", strconv.Itoa(int(patience.Seconds()))); err != nil {
		t.Fatalf("promote a standby: %v", err)
	}
}

// tool runs one of the server's programs as the server's user.
func (p *Postgres) tool(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = p.account.attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
