package fakedb_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/headwaterdb/headwater/internal/dbtest/fakedb"
)

// language is one way to talk to a server: a driver in one of its modes, and the statements as it has them.
type language struct {
	name   string
	start  func(t testing.TB, o fakedb.Options) *fakedb.Server
	open   func(server *fakedb.Server) *sql.DB
	mark   func(n int) string // the n-th placeholder
	number func(err error) string
}

func languages() []language {
	pg := func(mode pgx.QueryExecMode) func(*fakedb.Server) *sql.DB {
		return func(s *fakedb.Server) *sql.DB {
			c, err := pgx.ParseConfig("postgres://u:p@" + s.Addr() + "/d?sslmode=prefer")
			if err != nil {
				panic(err)
			}
			c.DefaultQueryExecMode = mode
			return stdlib.OpenDB(*c)
		}
	}
	my := func(s *fakedb.Server) *sql.DB {
		c := mysql.NewConfig()
		c.Net, c.Addr, c.User, c.Passwd, c.DBName, c.Logger = "tcp", s.Addr(), "u", "p", "d", &mysql.NopLogger{}
		c.MaxAllowedPacket = 0 // asks
		connector, err := mysql.NewConnector(c)
		if err != nil {
			panic(err)
		}
		return sql.OpenDB(connector)
	}
	dollar := func(n int) string { return "$" + strconv.Itoa(n) }
	state := func(err error) string {
		var e *pgconn.PgError
		if errors.As(err, &e) {
			return e.Code
		}
		return ""
	}
	all := []language{{"mysql", fakedb.NewMySQL, my, func(int) string { return "?" }, func(err error) string {
		var e *mysql.MySQLError
		if errors.As(err, &e) {
			return strconv.Itoa(int(e.Number))
		}
		return ""
	}}}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec} {
		all = append(all, language{"postgres, " + mode.String(), fakedb.NewPostgres, pg(mode), dollar, state})
	}
	return all
}

// each runs a test in every language, on a log with row 0.
func each(t *testing.T, test func(t *testing.T, l language, s *fakedb.Server, db *sql.DB)) {
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			s := l.start(t, fakedb.Options{})
			db := l.open(s)
			t.Cleanup(func() { db.Close() })
			if n := affected(t, db, "CREATE TABLE IF NOT EXISTS p_log (idx BIGINT)"); n != 0 {
				t.Errorf("%d rows affected", n)
			}
			if n := affected(t, db, "INSERT INTO p_log (idx, payload) SELECT 0, "+l.mark(1), []byte("genesis")); n != 1 {
				t.Errorf("%d rows affected", n)
			}
			test(t, l, s, db)
		})
	}
}

func affected(t *testing.T, db *sql.DB, text string, args ...any) int64 {
	t.Helper()
	res, err := db.ExecContext(t.Context(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

func (l language) insert() string {
	return "INSERT INTO p_log (idx, payload) SELECT " + l.mark(1) + ", " + l.mark(2) + " FROM p_log p WHERE p.idx = " + l.mark(3)
}

// put appends on a connection, so that the pool does not try again.
func put(ctx context.Context, c *sql.Conn, l language, at int64, payload []byte) error {
	_, err := c.ExecContext(ctx, l.insert(), at, payload, at-1)
	return err
}

// connect takes a connection out of the pool.
func connect(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestValues: values of every kind and size arrive as they were sent, in both directions.
func TestValues(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l language, s *fakedb.Server, db *sql.DB) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		large := make([]byte, 3<<20)
		rand.Read(large)
		payloads := [][]byte{[]byte("genesis"), {}, all, large[:250], large[:251], large[:65535], large[:65536], large}
		for i, p := range payloads[1:] {
			if n := affected(t, db, l.insert(), int64(i+1), p, int64(i)); n != 1 {
				t.Errorf("row %d: %d rows affected", i+1, n)
			}
		}
		if n := affected(t, db, l.insert(), int64(3), []byte("again"), int64(2)); n != 0 {
			t.Errorf("a row that is there: %d rows affected", n)
		}
		rows, err := db.QueryContext(t.Context(), "SELECT idx, payload FROM p_log WHERE idx > "+l.mark(1)+" LIMIT "+l.mark(2), int64(-1), int64(100))
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for i := 0; rows.Next(); i++ {
			var idx int64
			var p []byte
			if err := rows.Scan(&idx, &p); err != nil || idx != int64(i) || !bytes.Equal(p, payloads[i]) {
				t.Errorf("row %d: index %d, %d bytes, %v", i, idx, len(p), err)
			}
			if !bytes.Equal(s.Tables().Rows("p")[idx], payloads[i]) {
				t.Errorf("row %d is another one on the server", i)
			}
		}
		if rows.Err() != nil {
			t.Error(rows.Err())
		}
		var oldest, newest, index, parts, size int64
		var mark []byte
		var writable bool
		err = db.QueryRowContext(t.Context(), "SELECT (SELECT MIN(idx) FROM p_log), (SELECT MAX(idx) FROM p_log), (SELECT RIGHT(payload, 8) FROM p_log ORDER BY idx DESC LIMIT 1), idx, parts, size, 1 FROM p_snapshot WHERE id = 1").
			Scan(&oldest, &newest, &mark, &index, &parts, &size, &writable)
		if err != nil || oldest != 0 || newest != int64(len(payloads)-1) || !bytes.Equal(mark, payloads[newest][max(0, len(payloads[newest])-8):]) || index+parts+size != 0 || !writable {
			t.Errorf("bounds: %d to %d, %x, snapshot %d of %d parts with %d bytes, writable %v, %v", oldest, newest, mark, index, parts, size, writable, err)
		}
		var none sql.NullInt64
		affected(t, db, "CREATE TABLE IF NOT EXISTS empty_log (idx BIGINT)")
		if err := db.QueryRowContext(t.Context(), "SELECT MAX(idx) FROM empty_log").Scan(&none); err != nil || none.Valid {
			t.Errorf("newest of an empty log: %v, %v", none, err)
		}
	})
}

// TestFaults: each fault does what it says, and nothing after it.
func TestFaults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l language, s *fakedb.Server, db *sql.DB) {
		code := "40001"
		if l.name == "mysql" {
			code = "1213"
		}
		at := int64(0)
		for _, c := range []struct {
			name      string
			fault     fakedb.Fault
			code      string
			committed bool
			ended     bool // the connection
			postgres  bool // only there
		}{
			{name: "error", fault: fakedb.Fault{Code: code}, code: code},
			{name: "error after the effect", fault: fakedb.Fault{Code: code, Commit: true}, code: code, committed: true},
			{name: "error at the commit", fault: fakedb.Fault{Code: code, AtCommit: true}, code: code, postgres: true},
			{name: "error at the commit, after it", fault: fakedb.Fault{Code: code, AtCommit: true, Commit: true}, code: code, committed: true, postgres: true},
			{name: "error that ends the session", fault: fakedb.Fault{Code: code, Fatal: true}, code: code, ended: true},
			{name: "the same at the commit", fault: fakedb.Fault{Code: code, Fatal: true, AtCommit: true}, code: code, ended: true, postgres: true},
			{name: "hang up", fault: fakedb.Fault{Close: true}, ended: true},
			{name: "hang up after the effect", fault: fakedb.Fault{Close: true, Commit: true}, committed: true, ended: true},
			{name: "large values", fault: fakedb.Fault{Code: code, Over: 5}, code: code},
		} {
			if c.postgres && l.name == "mysql" {
				continue
			}
			c.fault.Text = "insert into p_log"
			conn := connect(t, db)
			injected := s.Inject(c.fault)
			err := put(t.Context(), conn, l, at+1, []byte("fault"))
			if err == nil || l.number(err) != c.code {
				t.Errorf("%s: %v, want code %q", c.name, err, c.code)
			}
			if string(s.Tables().Rows("p")[at+1]) == "fault" != c.committed {
				t.Errorf("%s: committed is not %v", c.name, c.committed)
			}
			if injected.Hits() != 1 {
				t.Errorf("%s: %d hits", c.name, injected.Hits())
			}
			if c.committed {
				at++
			}
			at++
			if err := put(t.Context(), conn, l, at, []byte("next")); err != nil != c.ended {
				t.Errorf("%s: append on the same connection: %v, want an error: %v", c.name, err, c.ended)
			}
			if c.ended {
				at--
			}
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // MySQL's driver does not know that it is
		}
		conn := connect(t, db)
		s.Inject(fakedb.Fault{Code: code, Text: "insert into p_log", Skip: 1, Every: 3, Times: 2})
		s.Inject(fakedb.Fault{Code: code, Over: 1 << 20, Times: -1})
		var failed []int64
		for i := range int64(12) {
			if put(t.Context(), conn, l, at+1, []byte("x")) != nil {
				failed = append(failed, i)
			} else {
				at++
			}
		}
		if len(failed) != 2 || failed[0] != 3 || failed[1] != 6 {
			t.Errorf("appends %v failed, want 3 and 6", failed)
		}
		s.Clear()
		if err := put(t.Context(), conn, l, at+1, make([]byte, 1<<20)); err != nil {
			t.Errorf("append after all faults were dropped: %v", err)
		}
	})
}

// TestBrokenResult: a result ends in its middle, by an error or by the end of the connection, and the driver says so.
func TestBrokenResult(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l language, s *fakedb.Server, db *sql.DB) {
		conn := connect(t, db)
		for i := range int64(9) {
			if err := put(t.Context(), conn, l, i+1, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		code := "40001"
		if l.name == "mysql" {
			code = "1213"
		}
		for _, f := range []fakedb.Fault{{Code: code}, {Code: code, Fatal: true}, {Close: true}, {}} {
			f.Text, f.Rows = "select idx, payload", 3
			s.Inject(f)
			conn := connect(t, db)
			rows, err := conn.QueryContext(t.Context(), "SELECT idx, payload FROM p_log WHERE idx > "+l.mark(1)+" LIMIT "+l.mark(2), int64(-1), int64(100))
			n := 0
			if err == nil {
				for rows.Next() {
					n++
				}
				err = rows.Err()
				rows.Close()
			}
			broken := f.Code != "" || f.Close
			if broken && (n > 3 || err == nil || l.number(err) != f.Code) || !broken && (n != 10 || err != nil) {
				t.Errorf("%+v: %d rows, %v", f, n, err)
			}
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
	})
}

func TestConnectFaults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l language, s *fakedb.Server, db *sql.DB) {
		code := "53300"
		if l.name == "mysql" {
			code = "1040"
		}
		s.Inject(fakedb.Fault{Connect: true, Code: code, Times: 2})
		for i, want := range []string{code, code, ""} {
			other := l.open(s)
			defer other.Close()
			if err := other.PingContext(t.Context()); l.number(err) != want || (err == nil) != (want == "") {
				t.Errorf("connection %d: %v, want %q", i, err, want)
			}
		}
	})
}

// TestWarning: a warning comes with the answer, which stays a good one.
func TestWarning(t *testing.T) {
	t.Parallel()
	s := fakedb.NewPostgres(t, fakedb.Options{})
	c, err := pgx.ParseConfig("postgres://u@" + s.Addr() + "/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	var warned []string
	c.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { warned = append(warned, n.Code) }
	conn, err := pgx.ConnectConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	s.Inject(fakedb.Fault{Text: "create table", Warn: "01000"})
	if _, err := conn.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS p_log (idx BIGINT)"); err != nil || len(warned) != 1 || warned[0] != "01000" {
		t.Errorf("warnings %v, %v", warned, err)
	}
}

// strict notes what a test would have been told.
type strict struct {
	testing.TB
	told []string
	ends []func()
}

func (s *strict) Cleanup(f func())                  { s.ends = append(s.ends, f) }
func (s *strict) Errorf(format string, args ...any) { s.told = append(s.told, format) }

// TestUnknownStatement: it is refused, and fails the test; so does not a table that is missing.
func TestUnknownStatement(t *testing.T) {
	t.Parallel()
	for _, l := range languages() {
		tb := &strict{TB: t}
		s := l.start(tb, fakedb.Options{})
		db := l.open(s)
		for text, want := range map[string][2]string{"VACUUM FULL": {"42601", "1064"}, "SELECT MAX(idx) FROM p_log": {"42P01", "1146"}} {
			_, err := db.ExecContext(t.Context(), text)
			if got := l.number(err); got != want[0] && got != want[1] {
				t.Errorf("%s: %s: %v, want %v", l.name, text, err, want)
			}
		}
		db.Close()
		for _, f := range tb.ends {
			f()
		}
		if len(tb.told) != 1 || !strings.Contains(tb.told[0], "unknown statement") {
			t.Errorf("%s: the test was told %q", l.name, tb.told)
		}
	}
}

// TestCancel: a request to cancel is counted, and nothing else.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := fakedb.NewPostgres(t, fakedb.Options{})
	c, err := pgx.Connect(t.Context(), "postgres://u@"+s.Addr()+"/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if err := c.PgConn().CancelRequest(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Ping(t.Context()); err != nil || s.Cancels() != 1 {
		t.Errorf("%d requests, %v", s.Cancels(), err)
	}
}
