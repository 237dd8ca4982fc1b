package mysql_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/internal/fieldcase"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// The field cases that hold on any database (see package fieldcase), on MariaDB. HEADWATER_TEST_FULL=1 gives them the
// sizes of docs/field-cases.md.

// caseOn returns tables on the server of o, behind a proxy.
func caseOn(t *testing.T, o mysql.Options, p proxy.Protocol) *fieldcase.Database {
	t.Helper()
	config, err := driver.ParseDSN(native(o.DSN))
	if err != nil {
		t.Fatal(err)
	}
	x := proxy.New(t, p, config.Addr)
	through := o
	through.DSN = strings.Replace(o.DSN, config.Addr, x.Addr(), 1)
	apart := func(o mysql.Options) func(context.Context) (oplog.Log, error) {
		return func(ctx context.Context) (oplog.Log, error) { return mysql.Open(ctx, o) }
	}
	return &fieldcase.Database{Open: apart(through), Direct: apart(o), Proxy: x, Admin: rawDB(t, o.DSN), Log: o.Prefix + "_log",
		Analyze: "ANALYZE TABLE " + o.Prefix + "_log", Bytes: "x'%s'"}
}

// caseHere is caseOn the shared server.
func caseHere(t *testing.T) *fieldcase.Database {
	t.Helper()
	return caseOn(t, patient(place(t)), proxy.MySQL)
}

// patient returns options with which a machine that is busy with other things fails no test.
func patient(o mysql.Options) mysql.Options {
	o.StatementTimeout, o.ConnectTimeout, o.RetryTimeout = time.Minute, time.Minute, time.Minute
	return o
}

// impatient returns tables of a cluster that a patient log has made, for logs whose statements must be answered in time.
func impatient(t *testing.T, o mysql.Options, statement, retry time.Duration) *fieldcase.Database {
	t.Helper()
	d := caseOn(t, o, proxy.MySQL)
	first, err := d.Direct(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Nodes(t, headwater.Options{}, first)
	o.StatementTimeout, o.RetryTimeout = statement, retry
	hasty := caseOn(t, o, proxy.MySQL)
	hasty.Direct = d.Direct
	return hasty
}

func TestCase0101(t *testing.T) {
	t.Parallel()
	fieldcase.DeadlineBeforeAnswer(t, caseHere(t))
}

func TestCase0101Connection(t *testing.T) {
	t.Parallel()
	fieldcase.TimedOutConnection(t, impatient(t, patient(place(t)), 500*time.Millisecond, time.Minute))
}

func TestCase0103(t *testing.T) {
	t.Parallel()
	fieldcase.LostAnswer(t, caseHere(t))
}

// TestCase0301: 12 writers at three nodes of one server, for a minute. What they do to each other on a Galera cluster is in
// TestGalera.
func TestCase0301(t *testing.T) {
	t.Parallel()
	d := caseHere(t)
	var lost atomic.Int64
	fieldcase.Contention(t, d, d.Nodes(t, 3, fieldcase.Races(&lost)), 12, time.Minute, &lost)
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
	fieldcase.BrokenReads(t, caseOn(t, patient(place(t)), proxy.Raw))
}

// TestCase0408: two nodes under load on a server that commits nothing by itself, and lets nobody see what came after his
// first look.
func TestCase0408(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t, "--autocommit=0", "--transaction-isolation=REPEATABLE-READ")
	d := caseOn(t, patient(on(m)), proxy.MySQL)
	d.Admin = rawDB(t, m.DSN("root")+"?autocommit=1")
	var lost atomic.Int64
	stores := d.Nodes(t, 2, fieldcase.Races(&lost))
	fieldcase.Contention(t, d, stores, 6, time.Minute, &lost)
	m.Kill(t) // what was answered was committed
	m.Start(t)
	clustertest.Agree(t, stores)
}

func TestCase0502(t *testing.T) {
	t.Parallel()
	fieldcase.RowBoundaries(t, caseHere(t))
}

func TestCase0504(t *testing.T) {
	t.Parallel()
	fieldcase.HeldSnapshotRow(t, impatient(t, patient(place(t)), 2*time.Second, time.Millisecond)) // the server waits for a second
}

func TestCase0506(t *testing.T) {
	t.Parallel()
	o := patient(place(t))
	o.StatementTimeout = 5 * time.Second
	fieldcase.LongTruncation(t, caseOn(t, o, proxy.MySQL))
}

// TestCase0508: at full size on a server of its own with the buffer pool and the redo log that MariaDB has by default. The
// others make do with less, and such a server is busy writing pages back.
func TestCase0508(t *testing.T) {
	t.Parallel()
	if fullSize() {
		m := dbtest.NewMariaDB(t, "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M")
		fieldcase.LargeSnapshot(t, caseOn(t, patient(on(m)), proxy.MySQL))
		return
	}
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
		o := patient(place(t))
		fieldcase.Backlog(t, caseOn(t, o, proxy.Raw))
		return o.DSN + " " + o.Prefix
	}, func(ctx context.Context, where string) (oplog.Log, error) {
		dsn, prefix, _ := strings.Cut(where, " ")
		return mysql.Open(ctx, patient(mysql.Options{DSN: dsn, Prefix: prefix}))
	})
}

func TestCase0801(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	root := session(t, m.DSN("root"))
	mustExec(t, root, "CREATE USER node")
	mustExec(t, root, "GRANT ALL ON test.* TO node")
	d := caseOn(t, as(patient(on(m)), "node"), proxy.MySQL)
	d.Admin = rawDB(t, m.DSN("root"))
	fieldcase.ReadOnly(t, d, func() { mustExec(t, root, "SET GLOBAL read_only = ON") }, func() { mustExec(t, root, "SET GLOBAL read_only = OFF") })
}
