package sqllog_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// fake is a database whose answers are written by the test: what happens between the log and a server is the point.
type fake struct {
	exec  func(ctx context.Context, text string) (int64, error)
	query func(ctx context.Context, text string) (*fakeRows, error)

	mu          sync.Mutex          // guards the rest
	args        []driver.NamedValue // of the newest query
	connections int
	executed    map[string]int
}

func (f *fake) Driver() driver.Driver { return nil }

func (f *fake) Connect(context.Context) (driver.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connections++
	return &fakeConn{f}, nil
}

func (f *fake) count(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.executed[text]++
}

// seen returns how often the statement was executed and how many connections were opened.
func (f *fake) seen(text string) (executed, connections int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.executed[text], f.connections
}

type fakeConn struct{ f *fake }

func (c *fakeConn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("no prepared statements")
}
func (c *fakeConn) Begin() (driver.Tx, error) { return nil, errors.New("no transactions") }
func (c *fakeConn) Close() error              { return nil }

func (c *fakeConn) ExecContext(ctx context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	c.f.count(text)
	n, err := c.f.exec(ctx, text)
	return driver.RowsAffected(n), err
}

func (c *fakeConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	c.f.count(text)
	c.f.mu.Lock()
	c.f.args = args
	c.f.mu.Unlock()
	rows, err := c.f.query(ctx, text)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// fakeRows gives its rows, then the error, or the end where there is none.
type fakeRows struct {
	rows [][]driver.Value
	err  error
}

func (r *fakeRows) Columns() []string {
	if len(r.rows) == 0 {
		return make([]string, 1)
	}
	return make([]string, max(1, len(r.rows[0])))
}
func (r *fakeRows) Close() error { return nil }
func (r *fakeRows) Next(dest []driver.Value) error {
	if len(r.rows) > 0 {
		copy(dest, r.rows[0])
		r.rows = r.rows[1:]
		return nil
	}
	if r.err != nil {
		return r.err
	}
	return io.EOF
}

var (
	errBusy = errors.New("busy")
	errOdd  = errors.New("odd")
	errFull = errors.New("full")
)

// newLog returns a log on a fake whose statements are named by their texts; change edits its configuration.
func newLog(t *testing.T, f *fake, change func(*sqllog.Config)) *sqllog.Log {
	t.Helper()
	f.executed = map[string]int{}
	one := func(text string, p ...sqllog.Param) sqllog.Statement { return sqllog.Statement{Text: text, Params: p} }
	c := sqllog.Config{
		DB: sql.OpenDB(f),
		Dialect: sqllog.Dialect{
			Statements: sqllog.Statements{
				Genesis: one("genesis", sqllog.Payload), Append: one("append", sqllog.At, sqllog.Payload, sqllog.Before),
				Read: one("read", sqllog.After, sqllog.Bytes, sqllog.Limit), Newest: one("newest"), Bounds: one("bounds"),
				Truncate: one("truncate", sqllog.Below, sqllog.Limit),
			},
			CreateTables: func(context.Context) error { return nil },
			Classify: func(err error) sqllog.Verdict {
				switch {
				case errors.Is(err, errBusy):
					return sqllog.Verdict{Err: oplog.ErrUnavailable, Retry: true}
				case errors.Is(err, errFull):
					return sqllog.Verdict{Err: oplog.ErrFull}
				}
				return sqllog.Verdict{}
			},
		},
		Poll: time.Hour, LockTimeout: time.Hour,
	}
	if change != nil {
		change(&c)
	}
	l, err := sqllog.New(c)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
