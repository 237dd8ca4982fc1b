package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// as returns o for another user.
func as(o mysql.Options, user string) mysql.Options {
	_, rest, _ := strings.Cut(o.DSN, "@")
	o.DSN = "mysql://" + user + "@" + rest
	return o
}

// TestLogWithOddDefaults: the suite on a server whose defaults would lose rows, freeze readers, refuse what has changed
// and break statements off.
func TestLogWithOddDefaults(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t, "--autocommit=0", "--transaction-isolation=SERIALIZABLE", "--innodb-snapshot-isolation=ON",
		"--max-statement-time=0.2", "--log-bin=binlog", "--binlog-format=MIXED", "--sync-binlog=1", "--server-id=1")
	oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
		o := patient(on(m))
		behind := o // whoever looks behind the log must know what he is dealing with
		behind.DSN += "?autocommit=1&max_statement_time=0"
		return database(behind, func(t testing.TB) oplog.Log {
			t.Helper()
			l, err := mysql.Open(t.Context(), o)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return l
		})
	}})
}

// TestRacedStart: eight processes make an empty database a cluster at once.
func TestRacedStart(t *testing.T) {
	t.Parallel()
	clustertest.RacedStart(t, func() string { o := place(t); return o.DSN + " " + o.Prefix })
}

// TestColumns: the types in the catalogue hold every index and every byte.
func TestColumns(t *testing.T) {
	t.Parallel()
	o := place(t)
	cluster(t, o, 0)
	c := session(t, o.DSN)
	for column, want := range map[string]string{"log.idx": "bigint(20)", "log.payload": "longblob", "snapshot.idx": "bigint(20)",
		"snapshot.size": "bigint(20)", "snapshot_part.idx": "bigint(20)", "snapshot_part.data": "longblob", "snapshot_part.token": "varbinary(16)"} {
		table, name, _ := strings.Cut(column, ".")
		got := scan[string](t, c, "SELECT column_type FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? AND column_name = ?",
			o.Prefix+"_"+table, name)
		if got != want {
			t.Errorf("%s is of type %s, want %s", column, got, want)
		}
	}
}

// TestRights: what PrintSQL prepares is enough for a node and for a reader, and neither can do more.
func TestRights(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	o := on(m)
	root := session(t, o.DSN)
	mustExec(t, root, "CREATE USER node, reader, nobody")
	mustExec(t, root, "CREATE USER locked ACCOUNT LOCK")
	mustExec(t, root, "CREATE USER secretive IDENTIFIED BY 's3cret'")
	text, err := mysql.PrintSQL(o, "node", "reader")
	if err != nil {
		t.Fatal(err)
	}
	for statement := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(statement) != "" {
			mustExec(t, root, statement)
		}
	}
	node := cluster(t, as(o, "node"), 3)
	snapshot(t, node, 3)
	if n, err := node.Truncate(t.Context(), 2, 10); n != 2 || err != nil {
		t.Errorf("truncate: %d, %v", n, err)
	}
	beReader(t, as(o, "reader"))
	for user, want := range map[string]error{"nobody": oplog.ErrDenied, "locked": oplog.ErrDenied, "secretive:wr0ng": oplog.ErrDenied,
		"reader": nil} {
		l, err := mysql.Open(t.Context(), as(o, user))
		if !errors.Is(err, want) || strings.Contains(fmt.Sprint(err), "wr0ng") {
			t.Errorf("open as %s: %v, want %v", user, err, want)
		}
		if err == nil {
			if err := l.Append(t.Context(), 4, nil, nil); !errors.Is(err, oplog.ErrDenied) || !oplog.NotApplied(err) {
				t.Errorf("append as %s: %v, want denied", user, err)
			}
			l.Close()
		}
	}
	for _, text := range []string{"DROP TABLE " + o.Prefix + "_log", "CREATE TABLE t (a INT)"} {
		if _, err := session(t, as(o, "node").DSN).ExecContext(t.Context(), text); err == nil {
			t.Errorf("a node may %s", text)
		}
	}
	other := o
	other.DSN = strings.Replace(o.DSN, "/test", "/nosuch", 1)
	if _, err := mysql.Open(t.Context(), other); !errors.Is(err, oplog.ErrNoCluster) {
		t.Errorf("open a database that is not there: %v, want no cluster", err)
	}
}

// beReader opens the log for reading as a user who may do nothing else.
func beReader(t *testing.T, o mysql.Options) {
	t.Helper()
	o.ReadOnly, o.MustExist = true, true
	l := open(t, o)
	if rows, err := l.Read(t.Context(), oplog.Beginning, 1<<20); err != nil || len(rows) != 2 {
		t.Errorf("read: %v, %v", rows, err)
	}
	_, truncated := l.Truncate(t.Context(), 3, 1)
	for what, err := range map[string]error{"append": l.Append(t.Context(), 4, nil, nil), "truncate": truncated} {
		if !errors.Is(err, oplog.ErrReadOnly) {
			t.Errorf("%s: %v, want read-only", what, err)
		}
	}
}

// TestSettings: a server that lies, or that would change what is stored, is refused or told of.
func TestSettings(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t, "--log-bin=binlog", "--binlog-format=ROW", "--sync-binlog=0", "--server-id=1")
	o := on(m)
	root := session(t, o.DSN)
	if w := open(t, o).Info().Warnings; len(w) != 1 || !strings.Contains(w[0], "sync_binlog = 0") {
		t.Errorf("warnings %q, want one of sync_binlog", w)
	}
	for _, refused := range []struct{ variable, bad, good string }{
		{"sql_mode", "'NO_ENGINE_SUBSTITUTION'", "'STRICT_TRANS_TABLES'"},
		{"sql_mode", "'STRICT_ALL_TABLES,EMPTY_STRING_IS_NULL'", "'STRICT_ALL_TABLES'"},
		{"binlog_format", "STATEMENT", "MIXED"},
		{"max_allowed_packet", "32768", "1048576"},
	} {
		mustExec(t, root, "SET GLOBAL "+refused.variable+" = "+refused.bad)
		if _, err := mysql.Open(t.Context(), o); !errors.Is(err, oplog.ErrSettings) || !strings.Contains(err.Error(), refused.variable) {
			t.Errorf("%s = %s: %v, want setting refused", refused.variable, refused.bad, err)
		}
		mustExec(t, root, "SET GLOBAL "+refused.variable+" = "+refused.good)
		open(t, o)
	}
	mustExec(t, root, "SET GLOBAL innodb_flush_log_at_trx_commit = 2, sync_binlog = 1")
	if w := open(t, o).Info().Warnings; !slices.Equal(w, []string{"backend may lose acknowledged rows: innodb_flush_log_at_trx_commit = 2"}) {
		t.Errorf("warnings %q", w)
	}
	o.RequireDurable = true
	if _, err := mysql.Open(t.Context(), o); !errors.Is(err, oplog.ErrSettings) {
		t.Errorf("open where durability is required: %v, want setting refused", err)
	}
	mustExec(t, root, "CREATE TABLE "+o.Prefix+"_log (idx INT PRIMARY KEY, other INT)")
	o.RequireDurable = false
	if err := open(t, o).Init(t.Context(), nil); !errors.Is(err, oplog.ErrSchema) {
		t.Errorf("init over a table of another program: %v, want schema invalid", err)
	}
	mustExec(t, root, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
}

// TestReadOnlyServer: the server becomes read-only and writable again while there is work.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	o := on(m)
	root := session(t, o.DSN)
	mustExec(t, root, "CREATE USER node")
	mustExec(t, root, "GRANT ALL ON test.* TO node")
	l := cluster(t, as(o, "node"), 3)
	for range 2 {
		mustExec(t, root, "SET GLOBAL read_only = ON")
		if err := l.Append(t.Context(), 4, nil, nil); !errors.Is(err, oplog.ErrReadOnly) || !oplog.NotApplied(err) {
			t.Errorf("append: %v, want read-only", err)
		}
		if _, err := l.Truncate(t.Context(), 4, 1); !errors.Is(err, oplog.ErrReadOnly) {
			t.Errorf("truncate: %v, want read-only", err)
		}
		if b, err := l.Bounds(t.Context()); err != nil || b.Authoritative || b.Newest != 3 {
			t.Errorf("bounds %+v, %v; want those of a server that decides nothing", b, err)
		}
		for _, readOnly := range []bool{true, false} { // who only reads asks for others
			o := as(o, "node")
			o.ReadOnly = readOnly
			if w := open(t, o).Info().Warnings; len(w) != 1 || !strings.Contains(w[0], "read-only") {
				t.Errorf("warnings of a log opened now, read-only %t: %q", readOnly, w)
			}
		}
		mustExec(t, root, "SET GLOBAL read_only = OFF")
		if b, err := l.Bounds(t.Context()); err != nil || !b.Authoritative {
			t.Errorf("bounds %+v, %v; want authoritative ones", b, err)
		}
	}
	mustAppend(t, l, 4, "again")
}

// TestLockWaitTimeout: another session holds the snapshot's row. The commit gives up, nothing of it stands, nothing is
// left open, and no row goes that the snapshot would have covered.
func TestLockWaitTimeout(t *testing.T) {
	t.Parallel()
	o := place(t)
	o.StatementTimeout, o.RetryTimeout = 2*time.Second, time.Millisecond // the server waits for a second
	l := cluster(t, o, 5)
	holder := session(t, o.DSN)
	mustExec(t, holder, "BEGIN")
	mustExec(t, holder, "UPDATE "+o.Prefix+"_snapshot SET size = size + 1")
	w, err := l.CreateSnapshot(t.Context(), 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WritePart(t.Context(), []byte("s")); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); !errors.Is(err, oplog.ErrUnavailable) || errors.Is(err, oplog.ErrUnknown) {
		t.Errorf("commit: %v, want unavailable", err)
	}
	if n, err := l.Truncate(t.Context(), 5, 10); n != 0 {
		t.Errorf("truncate without a snapshot: %d rows, %v", n, err)
	}
	open := scan[int](t, holder, "SELECT COUNT(*) FROM information_schema.innodb_trx x JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id WHERE p.info LIKE ?", "%"+o.Prefix+"%")
	if open > 1 { // the one that asks
		t.Errorf("%d transactions are open", open)
	}
	mustExec(t, holder, "ROLLBACK")
	if err := w.Commit(t.Context()); err != nil {
		t.Errorf("commit after the lock went: %v", err)
	}
	if n, err := l.Truncate(t.Context(), 5, 10); n != 5 || err != nil {
		t.Errorf("truncate: %d, %v, want 5 rows", n, err)
	}
}

// TestPacketLimit: a server that takes 1 MiB at most. What is larger is refused before it is sent, and the limit may
// fall while the log is open.
func TestPacketLimit(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t, "--max-allowed-packet=1M")
	o := on(m)
	l := cluster(t, o, 0)
	most := l.Info().MaxPayload
	if most < 1<<20-1<<12 || most >= 1<<20 {
		t.Fatalf("the largest payload is %d, want a little less than 1 MiB", most)
	}
	if err := l.Append(t.Context(), 1, nil, make([]byte, most+1)); !errors.Is(err, oplog.ErrTooLarge) || !oplog.NotApplied(err) {
		t.Errorf("append above the limit: %v, want too large", err)
	}
	whole := bytes.Repeat([]byte{0, 0xff, '\'', '\\'}, most/4)
	mustAppend(t, l, 1, string(whole))
	w, err := l.CreateSnapshot(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WritePart(t.Context(), whole); err != nil {
		t.Errorf("write a part at the limit: %v", err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Errorf("commit: %v", err)
	}
	if rows, err := l.Read(t.Context(), 0, 1); err != nil || len(rows) != 1 || !bytes.Equal(rows[0].Payload, whole) {
		t.Errorf("read back %d rows, %v", len(rows), err)
	}
	root := session(t, o.DSN)
	mustExec(t, root, "SET GLOBAL max_allowed_packet = 262144")
	endSessions(t, root)
	if err := l.Append(t.Context(), 2, nil, whole); !errors.Is(err, oplog.ErrTooLarge) || !oplog.NotApplied(err) {
		t.Errorf("append above the new limit: %v, want too large", err)
	}
	mustAppend(t, l, 2, "small")
}

// endSessions ends all other sessions of the server.
func endSessions(t *testing.T, root *sql.Conn) {
	t.Helper()
	rows, err := root.QueryContext(t.Context(), "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'")
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		_, _ = root.ExecContext(t.Context(), fmt.Sprint("KILL ", id)) // it may have gone
	}
}

// TestFull: the tablespace cannot grow any more. Appends are refused for certain, reads go on.
func TestFull(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t, "--innodb-file-per-table=OFF", "--innodb-data-file-path=ibdata1:12M:autoextend:max:20M")
	l := cluster(t, on(m), 0)
	payload := make([]byte, 1<<20)
	var err error
	at := oplog.Index(1)
	for ; at < 40; at++ {
		if err = l.Append(t.Context(), at, nil, payload); err != nil {
			break
		}
	}
	if !errors.Is(err, oplog.ErrFull) || !oplog.NotApplied(err) {
		t.Fatalf("append %d: %v, want full", at, err)
	}
	if newest, err := l.Newest(t.Context()); err != nil || newest != at-1 {
		t.Errorf("newest %d, %v; want %d", newest, err, at-1)
	}
}

// TestTooManyConnections: the server has no connection left for a while.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	o := on(m)
	root := session(t, o.DSN)
	mustExec(t, root, "CREATE USER node")
	mustExec(t, root, "GRANT ALL ON test.* TO node")
	l := cluster(t, as(o, "node"), 1)
	mustExec(t, root, "SET GLOBAL max_connections = 10")
	var hogs []*sql.Conn
	for {
		c, err := rawDB(t, as(o, "node").DSN).Conn(context.Background())
		if err != nil {
			break
		}
		hogs = append(hogs, c)
	}
	if _, err := mysql.Open(t.Context(), as(o, "node")); !errors.Is(err, oplog.ErrUnavailable) {
		t.Errorf("open: %v, want unavailable", err)
	}
	mustAppend(t, l, 2, "on the connection that it has")
	for _, c := range hogs {
		c.Close()
	}
	mustExec(t, root, "SET GLOBAL max_connections = 100")
	open(t, as(o, "node"))
}
