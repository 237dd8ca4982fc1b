package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/internal/fieldcase"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// The field cases that hold on any database (see package fieldcase), on PostgreSQL. HEADWATER_TEST_FULL=1 gives them the
// sizes of docs/field-cases.md.

// caseOn returns tables on the server of o, behind a proxy.
func caseOn(t *testing.T, o postgres.Options, p proxy.Protocol) *fieldcase.Database {
	t.Helper()
	config, err := pgx.ParseConfig(o.DSN)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("%s:%d", config.Host, config.Port)
	x := proxy.New(t, p, addr)
	through := o
	through.DSN = strings.Replace(o.DSN, addr, x.Addr(), 1)
	admin := stdlib.OpenDB(*config)
	t.Cleanup(func() { admin.Close() })
	apart := func(o postgres.Options) func(context.Context) (oplog.Log, error) {
		return func(ctx context.Context) (oplog.Log, error) {
			postgres.Apart()
			return postgres.Open(ctx, o)
		}
	}
	return &fieldcase.Database{Open: apart(through), Direct: apart(o), Proxy: x, Admin: admin, Log: o.Prefix + "_log",
		Analyze: "ANALYZE " + o.Prefix + "_log", Bytes: `'\x%s'::bytea`}
}

// caseHere is caseOn the shared server.
func caseHere(t *testing.T) *fieldcase.Database {
	t.Helper()
	return caseOn(t, place(t), proxy.Postgres)
}

// impatient returns tables of a cluster that a patient log has made, for logs whose statements must be answered in time.
func impatient(t *testing.T, o postgres.Options, statement, retry time.Duration) *fieldcase.Database {
	t.Helper()
	d := caseOn(t, o, proxy.Postgres)
	first, err := d.Direct(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Nodes(t, headwater.Options{}, first)
	o.StatementTimeout, o.RetryTimeout = statement, retry
	hasty := caseOn(t, o, proxy.Postgres)
	hasty.Direct = d.Direct
	return hasty
}

func TestCase0101(t *testing.T) {
	t.Parallel()
	fieldcase.DeadlineBeforeAnswer(t, caseHere(t))
}

func TestCase0101Connection(t *testing.T) {
	t.Parallel()
	fieldcase.TimedOutConnection(t, impatient(t, place(t), 500*time.Millisecond, time.Minute))
}

func TestCase0103(t *testing.T) {
	t.Parallel()
	fieldcase.LostAnswer(t, caseHere(t))
}

// TestCase0304: the role of the nodes has SERIALIZABLE as its default; 16 proposers on 2 nodes for two minutes.
func TestCase0304(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	admin := session(t, p.DSN("postgres", "postgres"))
	mustExec(t, admin, "CREATE ROLE node LOGIN SUPERUSER")
	mustExec(t, admin, "ALTER ROLE node SET default_transaction_isolation = serializable")
	for _, turnstile := range []bool{false, true} {
		o := patient(p.DSN("node", "postgres"))
		o.Turnstile = turnstile
		d := caseOn(t, o, proxy.Postgres)
		var lost atomic.Int64
		fieldcase.Contention(t, d, d.Nodes(t, 2, fieldcase.Races(&lost)), 16, 2*time.Minute, &lost)
	}
}

func TestCase0401(t *testing.T) {
	t.Parallel()
	fieldcase.UncommittedSlot(t, caseHere(t))
}

func TestCase0403(t *testing.T) {
	t.Parallel()
	fieldcase.MissingRow(t, caseHere(t))
}

func TestCase0405(t *testing.T) {
	t.Parallel()
	fieldcase.BrokenReads(t, caseOn(t, place(t), proxy.Raw))
}

func TestCase0502(t *testing.T) {
	t.Parallel()
	fieldcase.RowBoundaries(t, caseHere(t))
}

func TestCase0504(t *testing.T) {
	t.Parallel()
	fieldcase.HeldSnapshotRow(t, impatient(t, place(t), time.Second, time.Millisecond))
}

func TestCase0506(t *testing.T) {
	t.Parallel()
	o := place(t)
	o.StatementTimeout = 5 * time.Second
	fieldcase.LongTruncation(t, caseOn(t, o, proxy.Postgres))
}

func TestCase0508(t *testing.T) {
	t.Parallel()
	fieldcase.LargeSnapshot(t, caseHere(t))
}

func TestCase0601(t *testing.T) {
	t.Parallel()
	fieldcase.Laggard(t, caseHere(t))
}

func TestCase0603(t *testing.T) {
	t.Parallel()
	fieldcase.RowsBelow(t, caseHere(t))
}

func TestCase0605(t *testing.T) {
	t.Parallel()
	fieldcase.ReadBacklog(t, func() string {
		o := place(t)
		fieldcase.Backlog(t, caseOn(t, o, proxy.Raw))
		return o.DSN + " " + o.Prefix
	}, func(ctx context.Context, where string) (oplog.Log, error) {
		dsn, prefix, _ := strings.Cut(where, " ")
		o := patient(dsn)
		o.Prefix = prefix
		return postgres.Open(ctx, o)
	})
}

func TestCase0801(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	admin := session(t, p.DSN("postgres", "postgres"))
	d := caseOn(t, on(p), proxy.Postgres)
	fieldcase.ReadOnly(t, d, func() {
		mustExec(t, admin, "ALTER DATABASE postgres SET default_transaction_read_only = on")
		endAll(t, admin)
	}, func() {
		mustExec(t, admin, "SET default_transaction_read_only = off")
		mustExec(t, admin, "ALTER DATABASE postgres RESET default_transaction_read_only")
	})
}
