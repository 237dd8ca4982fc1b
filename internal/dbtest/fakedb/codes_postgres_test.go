package fakedb_test

import (
	"errors"
	"testing"

	"github.com/headwaterdb/headwater/internal/dbtest/fakedb"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

func openPostgres(t testing.TB, address string) oplog.Log {
	t.Helper()
	l, err := postgres.Open(t.Context(), postgres.Options{DSN: "postgres://u:p@" + address + "/d?sslmode=disable", Prefix: "p", NoNotify: true})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestPostgresLog: the tables in memory are a log as the contract wants it, as seen through the real dialect.
func TestPostgresLog(t *testing.T) {
	t.Parallel()
	oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
		s := fakedb.NewPostgres(t, fakedb.Options{})
		put, drop, parts := place(s)
		return oplogtest.Database{Open: func(t testing.TB) oplog.Log { return openPostgres(t, s.Addr()) }, Put: put, Drop: drop, Parts: parts}
	}})
}

// postgresCodes are from CockroachDB's pages "Transaction Retry Error Reference" and "Common Errors and Solutions" and its
// package pgcode, YugabyteDB's pages "Transaction error codes in YSQL" and "Transaction retries in YSQL" (an unfamiliar
// error, or one of a commit, must not be taken for a failure), and PostgreSQL's appendix "PostgreSQL Error Codes", which
// Aurora, Cloud SQL and the others share.
var postgresCodes = []code{
	// Rolled back, to be sent again.
	{"CockroachDB", "40001", fakedb.Fault{}, nil, false}, // restart transaction
	{"CockroachDB", "40001", fakedb.Fault{AtCommit: true}, nil, false},
	{"YugabyteDB", "40001", fakedb.Fault{}, nil, false}, // conflicts with a transaction of higher priority
	{"YugabyteDB", "40P01", fakedb.Fault{}, nil, false}, // deadlock
	{"PostgreSQL", "55P03", fakedb.Fault{}, nil, false}, // a lock was not to be had
	{"pooler", "26000", fakedb.Fault{}, nil, false},     // a statement was prepared in another session
	{"YugabyteDB", "25P02", fakedb.Fault{}, nil, false}, // a session in a transaction that has failed

	// Nobody knows.
	{"CockroachDB", "40003", fakedb.Fault{}, oplog.ErrUnknown, true}, // result is ambiguous
	{"CockroachDB", "40003", fakedb.Fault{AtCommit: true}, oplog.ErrUnknown, false},
	{"CockroachDB", "57P01", fakedb.Fault{Fatal: true, AtCommit: true}, oplog.ErrUnknown, true}, // the node drains
	{"CockroachDB", "57P01", fakedb.Fault{}, oplog.ErrUnknown, false},                           // and goes on talking
	{"CockroachDB", "XXUUU", fakedb.Fault{}, oplog.ErrUnknown, false},                           // no code known, also for a command too large
	{"CockroachDB", "XXA00", fakedb.Fault{}, oplog.ErrUnknown, false},                           // committed, but the schema was not changed
	{"CockroachDB", "58C00", fakedb.Fault{}, oplog.ErrUnknown, false},                           // a range is unavailable
	{"CockroachDB", "58C01", fakedb.Fault{}, oplog.ErrUnknown, false},                           // a connection between nodes failed
	{"YugabyteDB", "XX000", fakedb.Fault{AtCommit: true}, oplog.ErrUnknown, false},              // internal: a tablet timed out, and the like
	{"YugabyteDB", "25P03", fakedb.Fault{Fatal: true}, oplog.ErrUnknown, false},
	{"PostgreSQL", "08006", fakedb.Fault{}, oplog.ErrUnknown, true}, // connection_failure
	{"PostgreSQL", "08007", fakedb.Fault{AtCommit: true}, oplog.ErrUnknown, false},
	{"pooler", "08P01", fakedb.Fault{Fatal: true}, oplog.ErrUnknown, false}, // the server ended the connection
	{"PostgreSQL", "57014", fakedb.Fault{}, oplog.ErrUnknown, false},        // cancelled, perhaps while a standby was awaited
	{"Aurora", "57P01", fakedb.Fault{Fatal: true}, oplog.ErrUnknown, false},
	{"Cloud SQL", "57P02", fakedb.Fault{Fatal: true, AtCommit: true}, oplog.ErrUnknown, false}, // crash of another session
	{"Aurora", "", fakedb.Fault{Close: true}, oplog.ErrUnknown, false},                         // failover: the end, without a word
	{"a server of tomorrow", "ZZ123", fakedb.Fault{}, oplog.ErrUnknown, false},

	// Not applied, for this reason.
	{"PostgreSQL", "23505", fakedb.Fault{}, oplog.ErrConflict, false},
	{"Aurora", "25006", fakedb.Fault{}, oplog.ErrReadOnly, false}, // still connected to what is a reader now
	{"CockroachDB", "53200", fakedb.Fault{}, oplog.ErrUnavailable, false},
	{"PostgreSQL", "53100", fakedb.Fault{}, oplog.ErrFull, false},
	{"YugabyteDB", "54000", fakedb.Fault{}, oplog.ErrTooLarge, false},
	{"PostgreSQL", "42501", fakedb.Fault{}, oplog.ErrDenied, false},
	{"PostgreSQL", "XX001", fakedb.Fault{}, oplog.ErrCorrupt, false},
}

func TestPostgresCodes(t *testing.T) {
	t.Parallel()
	testCodes(t, fakedb.NewPostgres, openPostgres, postgresCodes)
}

func TestPostgresDoor(t *testing.T) {
	t.Parallel()
	s := fakedb.NewPostgres(t, fakedb.Options{})
	testDoor(t, s, openPostgres(t, s.Addr()), fakedb.Fault{Text: insert, Code: "57P01", Fatal: true}, "57P03", "53300")
	if n := s.Cancels(); n != 0 {
		t.Errorf("%d requests to cancel: an append is never cancelled", n)
	}
}

func TestPostgresCeiling(t *testing.T) {
	t.Parallel()
	s := fakedb.NewPostgres(t, fakedb.Options{})
	testCeiling(t, s, openPostgres(t, s.Addr()), "54000")
}

// TestPostgresWarning: a success with a warning may be a row that no standby has: unknown, never plain success.
func TestPostgresWarning(t *testing.T) {
	t.Parallel()
	s := fakedb.NewPostgres(t, fakedb.Options{})
	l := openPostgres(t, s.Addr())
	begin := s.Inject(fakedb.Fault{Text: insert, Warn: "01000"})
	if err := l.Init(t.Context(), []byte("genesis")); !errors.Is(err, oplog.ErrNotDurable) || begin.Hits() != 1 {
		t.Errorf("init: %v, want not known to be durable", err)
	}
	if err := l.Init(t.Context(), []byte("again")); !errors.Is(err, oplog.ErrExists) {
		t.Errorf("init again: %v, want that there is a cluster", err)
	}
	w, err := l.CreateSnapshot(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WritePart(t.Context(), []byte("part")); err != nil {
		t.Fatal(err)
	}
	s.Inject(fakedb.Fault{Text: "UPDATE p_snapshot", Warn: "57P01"})
	if err := w.Commit(t.Context()); !errors.Is(err, oplog.ErrNotDurable) {
		t.Errorf("commit: %v, want not known to be durable", err)
	}
	if err := w.Commit(t.Context()); err != nil { // and no warning this time
		t.Errorf("commit again: %v", err)
	}
	s.Inject(fakedb.Fault{Text: insert, Warn: "01000"})
	if err := l.Append(t.Context(), 1, nil, []byte("x")); !errors.Is(err, oplog.ErrUnknown) {
		t.Errorf("append: %v, want unknown", err)
	}
	if got := string(s.Tables().Rows("p")[1]); got != "x" {
		t.Errorf("row 1 is %q", got)
	}
}

func TestPostgresNodes(t *testing.T) {
	t.Parallel()
	testNodes(t, fakedb.NewPostgres, openPostgres, []fakedb.Fault{
		{Code: "40003"}, {Code: "40003", Commit: true}, {Code: "57P01", Fatal: true, AtCommit: true, Commit: true},
		{Code: "08006", Commit: true}, {Code: "40001"},
	})
}

func TestPostgresReads(t *testing.T) {
	t.Parallel()
	s := fakedb.NewPostgres(t, fakedb.Options{})
	testReads(t, s, openPostgres(t, s.Addr()), []fakedb.Fault{{Code: "40001"}, {Code: "XX000"}, {Code: "57P01", Fatal: true},
		{Code: "58C00"}, {Close: true}})
}
