package fakedb_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/internal/dbtest/fakedb"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

func openMySQL(t testing.TB, address string) oplog.Log {
	t.Helper()
	l, err := mysql.Open(t.Context(), mysql.Options{DSN: "mysql://u:p@" + address + "/d", Prefix: "p", TiDBPessimistic: true})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestMySQLLog: the tables in memory are a log as the contract wants it, as seen through the real dialect.
func TestMySQLLog(t *testing.T) {
	t.Parallel()
	oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
		s := fakedb.NewMySQL(t, fakedb.Options{})
		put, drop, parts := place(s)
		return oplogtest.Database{Open: func(t testing.TB) oplog.Log { return openMySQL(t, s.Addr()) }, Put: put, Drop: drop, Parts: parts}
	}})
}

// mysqlCodes are from TiDB's page "Error Codes and Troubleshooting", AWS's page "Why did I get a read only error after an
// Amazon Aurora DB cluster failed over?", and MySQL's "Server Error Message Reference".
var mysqlCodes = []code{
	// Rolled back, to be sent again.
	{"TiDB", "8002", fakedb.Fault{}, nil, false}, // a commit conflict after SELECT … FOR UPDATE; safe to repeat
	{"TiDB", "8005", fakedb.Fault{}, nil, false}, // write conflict
	{"TiDB", "8022", fakedb.Fault{}, nil, false}, // the commit failed and was rolled back; safe to repeat
	{"TiDB", "8027", fakedb.Fault{}, nil, false}, // the server's schema is outdated
	{"TiDB", "8028", fakedb.Fault{}, nil, false}, // the schema changed meanwhile; safe to repeat
	{"TiDB", "9007", fakedb.Fault{}, nil, false}, // write conflict in TiKV
	{"TiDB", "1205", fakedb.Fault{}, nil, false},
	{"TiDB", "1213", fakedb.Fault{}, nil, false},
	{"MySQL group", "3101", fakedb.Fault{}, nil, false}, // certification failed
	{"Galera", "1047", fakedb.Fault{}, nil, false},      // the member is not in the primary component

	// Nobody knows.
	{"TiDB", "1105", fakedb.Fault{}, oplog.ErrUnknown, false},
	{"TiDB", "9001", fakedb.Fault{}, oplog.ErrUnknown, false},              // PD timed out
	{"TiDB", "9002", fakedb.Fault{}, oplog.ErrUnknown, false},              // TiKV timed out
	{"TiDB", "9003", fakedb.Fault{}, oplog.ErrUnknown, false},              // TiKV is busy
	{"TiDB", "9005", fakedb.Fault{}, oplog.ErrUnknown, true},               // a region is unavailable
	{"TiDB", "", fakedb.Fault{Close: true}, oplog.ErrUnknown, true},        // result undetermined: it ends the connection without a word
	{"Aurora", "1053", fakedb.Fault{Close: true}, oplog.ErrUnknown, false}, // the server shuts down
	{"Cloud SQL", "1317", fakedb.Fault{}, oplog.ErrUnknown, false},         // interrupted
	{"Galera", "1180", fakedb.Fault{}, oplog.ErrUnknown, false},            // an error during the commit
	{"MariaDB", "1927", fakedb.Fault{Close: true}, oplog.ErrUnknown, false},
	{"a server of tomorrow", "9999", fakedb.Fault{}, oplog.ErrUnknown, false},

	// Not applied, for this reason.
	{"MySQL", "1062", fakedb.Fault{}, oplog.ErrConflict, false},
	{"TiDB", "8004", fakedb.Fault{}, oplog.ErrTooLarge, false},   // the transaction is too large
	{"TiDB", "8025", fakedb.Fault{}, oplog.ErrTooLarge, false},   // an entry is too large
	{"Aurora", "1290", fakedb.Fault{}, oplog.ErrReadOnly, false}, // still connected to what is a reader now
	{"Cloud SQL", "1836", fakedb.Fault{}, oplog.ErrReadOnly, false},
	{"MySQL", "1792", fakedb.Fault{}, oplog.ErrReadOnly, false},
	{"TiDB", "8001", fakedb.Fault{}, oplog.ErrUnavailable, false}, // above the memory of a statement
	{"MySQL", "1114", fakedb.Fault{}, oplog.ErrFull, false},
	{"MySQL", "1142", fakedb.Fault{}, oplog.ErrDenied, false},
	{"MariaDB", "1712", fakedb.Fault{}, oplog.ErrCorrupt, false},
}

func TestMySQLCodes(t *testing.T) {
	t.Parallel()
	testCodes(t, fakedb.NewMySQL, openMySQL, mysqlCodes)
}

func TestMySQLDoor(t *testing.T) {
	t.Parallel()
	s := fakedb.NewMySQL(t, fakedb.Options{})
	testDoor(t, s, openMySQL(t, s.Addr()), fakedb.Fault{Text: insert, Close: true}, "1040", "1203", "1129")
}

func TestMySQLCeiling(t *testing.T) {
	t.Parallel()
	s := fakedb.NewMySQL(t, fakedb.Options{Version: "8.0.11-TiDB-v8.5.0"})
	testCeiling(t, s, openMySQL(t, s.Addr()), "8025")
}

func TestMySQLNodes(t *testing.T) {
	t.Parallel()
	testNodes(t, fakedb.NewMySQL, openMySQL, []fakedb.Fault{
		{Code: "9005"}, {Code: "9005", Commit: true}, {Close: true, Commit: true}, {Code: "9007"},
	})
}

func TestMySQLReads(t *testing.T) {
	t.Parallel()
	s := fakedb.NewMySQL(t, fakedb.Options{})
	testReads(t, s, openMySQL(t, s.Addr()), []fakedb.Fault{{Code: "1213"}, {Code: "9005"}, {Code: "1105"}, {Code: "1053", Close: true},
		{Close: true}})
}

// TestTiDBNeedsAWord opens logs on what says that it is TiDB. Its autocommit statements are optimistic by default, so that
// an append and a truncation may not exclude each other: without the operator's word nothing is written there.
func TestTiDBNeedsAWord(t *testing.T) {
	t.Parallel()
	s := fakedb.NewMySQL(t, fakedb.Options{Version: "8.0.11-TiDB-v8.5.0"})
	o := mysql.Options{DSN: "mysql://u:p@" + s.Addr() + "/d", Prefix: "p"}
	if l, err := mysql.Open(t.Context(), o); !errors.Is(err, oplog.ErrSettings) || !strings.Contains(err.Error(), "pessimistic-auto-commit") {
		if err == nil {
			l.Close()
		}
		t.Errorf("TiDB without a word ends in %v, want a refusal that names the setting", err)
	}
	o.TiDBPessimistic = true
	l, err := mysql.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Init(t.Context(), []byte("genesis")); err != nil {
		t.Error(err)
	}
	l.Close()
	o.TiDBPessimistic, o.ReadOnly = false, true
	if l, err = mysql.Open(t.Context(), o); err != nil {
		t.Fatalf("for reading: %v", err)
	}
	l.Close()
}
