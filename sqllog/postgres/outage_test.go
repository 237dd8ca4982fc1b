package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// awayFor is how long a database is away: 2 s, or a minute at full size.
func awayFor() time.Duration {
	if full {
		return time.Minute
	}
	return 2 * time.Second
}

// TestAwayUnderLoad: while the server is away proposals end with their contexts and leave nothing in the queue, reads
// answer from the view, and everything goes on by itself. Field case 14.6.
func TestAwayUnderLoad(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	s := nodes(t, 1, on(p), headwater.Options{})[0]
	mustPut(t, s, "before")
	p.Kill(t)
	away, cancel := context.WithTimeout(t.Context(), awayFor())
	defer cancel()
	for away.Err() == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := put(ctx, s, "away"); err == nil {
			t.Error("a proposal without a server succeeded")
		}
		cancel()
		if _, ok := s.View().State.Key("before"); !ok {
			t.Fatal("the view is gone")
		}
		if st := s.Status(); st.Queued != 0 {
			t.Fatalf("%d proposals whose callers left are queued", st.Queued)
		}
	}
	p.Start(t)
	mustPut(t, s, "after")
}

// TestNoSlots: the server has no connection left to give. A node tries a few times a second at most, and goes on when there
// are some again. Field case 14.6.
func TestNoSlots(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t, "max_connections = 10", "superuser_reserved_connections = 0", "max_wal_senders = 0")
	x := proxy.New(t, proxy.Postgres, p.Addr())
	o := on(p)
	o.DSN = strings.Replace(o.DSN, p.Addr(), x.Addr(), 1)
	s := nodes(t, 1, o, headwater.Options{})[0]
	mustPut(t, s, "before")
	admin := session(t, p.DSN("postgres", "postgres"))
	x.Refuse(true)
	x.Cut()
	awaitTrue(t, admin, "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	var taken []*pgx.Conn
	for len(taken) < 20 {
		c, err := pgx.Connect(t.Context(), p.DSN("postgres", "postgres"))
		if err != nil {
			break
		}
		defer c.Close(context.Background())
		taken = append(taken, c)
	}
	before := x.Accepted()
	x.Refuse(false)
	ctx, cancel := context.WithTimeout(t.Context(), awayFor())
	defer cancel()
	if err := put(ctx, s, "during"); err == nil {
		t.Error("a proposal without a connection succeeded")
	}
	if n, most := x.Accepted()-before, 5*int(awayFor()/time.Second); n > most {
		t.Errorf("%d attempts to connect, want at most %d", n, most)
	}
	for _, c := range taken {
		_ = c.Close(t.Context())
	}
	mustPut(t, s, "after")
}

// TestReadOnlyNode: the server becomes read-only under a node and its sessions are ended; proposals fail or wait, reads go
// on, and the node goes on when it is writable. Field case 08.1.
func TestReadOnlyNode(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	s := nodes(t, 1, on(p), headwater.Options{})[0]
	mustPut(t, s, "before")
	admin := session(t, p.DSN("postgres", "postgres"))
	mustExec(t, admin, "ALTER DATABASE postgres SET default_transaction_read_only = on")
	endAll(t, admin)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := put(ctx, s, "read-only"); err == nil {
			t.Error("a proposal to a read-only server succeeded")
		}
		cancel()
	}
	if _, ok := s.View().State.Key("before"); !ok {
		t.Error("the view is gone")
	}
	mustExec(t, admin, "SET default_transaction_read_only = off")
	mustExec(t, admin, "ALTER DATABASE postgres RESET default_transaction_read_only")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for put(ctx, s, "after") != nil && ctx.Err() == nil { // "read-only" is an answer until a new connection finds otherwise
	}
	if ctx.Err() != nil {
		t.Errorf("the node does not go on: %+v", s.Status())
	}
}

// TestKilledThenScarce: a node through a kill, an outage and a server with two connections to give. Field case 14.6.
func TestKilledThenScarce(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	x := proxy.New(t, proxy.Postgres, p.Addr())
	admin := func(t testing.TB, text string) {
		t.Helper()
		c := session(t, p.DSN("postgres", "postgres"))
		mustExec(t, c, text)
	}
	admin(t, "CREATE ROLE node LOGIN")
	admin(t, "GRANT CREATE ON SCHEMA public TO node")
	o := postgres.Options{DSN: strings.Replace(p.DSN("node", "postgres"), p.Addr(), x.Addr(), 1), Prefix: dbtest.Prefix()}
	clustertest.Outage{
		Open: func(t testing.TB) oplog.Log { return openNode(t, o) }, Accepted: x.Accepted,
		Scarce: func(t testing.TB) { admin(t, "ALTER ROLE node CONNECTION LIMIT 2") },
		Kill:   p.Kill, Restart: p.Start,
		Plenty: func(t testing.TB) { admin(t, "ALTER ROLE node CONNECTION LIMIT -1") },
	}.Run(t)
}
