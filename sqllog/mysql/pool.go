package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"

	"github.com/headwaterdb/headwater/oplog"
)

// borrowed takes connections from a pool of the program's. They are used through database/sql's own face, and never go
// back: their sessions are set up for the log.
type borrowed struct{ pool *sql.DB }

func (b *borrowed) idle(n int) int   { return min(n, 2) } // one that appends and one that looks
func (b *borrowed) location() string { return "the program's pool" }

func (b *borrowed) connect(ctx context.Context, settle func(driver.Conn) (look, error)) (driver.Conn, look, error) {
	sc, err := b.pool.Conn(ctx)
	if err != nil {
		return nil, look{}, fmt.Errorf("borrow a connection: %w", unprepared(err))
	}
	c := &loan{conn: sc}
	l, err := settle(c)
	if err != nil {
		_ = c.Close()
		return nil, look{}, err
	}
	return c, l, nil
}

// loan is a connection of a pool as a driver's.
type loan struct{ conn *sql.Conn }

func (l *loan) Prepare(text string) (driver.Stmt, error) {
	return l.PrepareContext(context.Background(), text)
}

func (l *loan) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	st, err := l.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return loanStmt{st}, nil
}

func (l *loan) Begin() (driver.Tx, error) { return nil, errNoTransaction }

// Close has the pool close the connection.
func (l *loan) Close() error {
	_ = l.conn.Raw(func(any) error { return driver.ErrBadConn })
	return nil
}

func (l *loan) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	return l.conn.ExecContext(ctx, text, values(args)...)
}

func (l *loan) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	return lent(l.conn.QueryContext(ctx, text, values(args)...))
}

// loanStmt is a prepared statement of a loan.
type loanStmt struct{ st *sql.Stmt }

func (s loanStmt) Close() error  { return s.st.Close() }
func (s loanStmt) NumInput() int { return -1 }

func (s loanStmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }
func (s loanStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, driver.ErrSkip }

// ExecContext does not retry: a statement of one connection has no other.
func (s loanStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.st.ExecContext(ctx, values(args)...)
}

func (s loanStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return lent(s.st.QueryContext(ctx, values(args)...))
}

func values(args []driver.NamedValue) []any {
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = a.Value
	}
	return all
}

// loanRows are rows of a pool as a driver's.
type loanRows struct {
	rows    *sql.Rows
	columns []string
}

func lent(rows *sql.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	columns, err := rows.Columns()
	if err != nil {
		_ = rows.Close()
		return nil, err
	}
	return loanRows{rows, columns}, nil
}

func (r loanRows) Columns() []string { return r.columns }
func (r loanRows) Close() error      { return r.rows.Close() }

func (r loanRows) Next(dest []driver.Value) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	into := make([]any, len(dest))
	for i := range dest {
		into[i] = (*any)(&dest[i])
	}
	if err := r.rows.Scan(into...); err != nil {
		return fmt.Errorf("%w: %w", oplog.ErrSchema, err)
	}
	return nil
}
