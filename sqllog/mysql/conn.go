package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// session is what the connections of one log have in common. It is their driver.Connector.
type session struct {
	source source
	o      Options
	texts  sqllog.Statements
	db     *sql.DB      // made of this connector
	age    atomic.Int64 // of the network: connections from an earlier one are not used again
	galera atomic.Bool  // the last connection led to a member of a Galera cluster
}

// firstPage is how many rows a reading statement asks for at first. The driver has to read a result to its end before
// the connection is of use again, so one that is broken off must not have much left.
const firstPage = 16

func (s *session) dialect() sqllog.Dialect {
	return sqllog.Dialect{Statements: s.texts, CreateTables: s.createTables, Classify: classify, Append: s.appendRow, Durable: durable, Page: firstPage}
}

// appendRow executes the append. On a member of a Galera cluster that has not applied row at-1 yet, an append that its
// caller may well make finds no predecessor. So one that inserted nothing there waits, by a reading statement, until all
// that was committed before is there, and is made again if row at-1 is the newest then.
func (s *session) appendRow(ctx context.Context, sc *sql.Conn, at oplog.Index, mark, payload []byte) (int64, error) {
	st := &s.texts
	insert := func() (int64, error) {
		res, err := sc.ExecContext(ctx, st.Append.Text, int64(at), payload, int64(at)-1, int64(at)-1, mark, mark)
		if err != nil {
			return 0, err
		}
		return res.RowsAffected()
	}
	n, err := insert()
	if err != nil || n > 0 || !s.galera.Load() {
		return n, err
	}
	var newest sql.NullInt64
	if err := sc.QueryRowContext(ctx, st.Newest.Text).Scan(&newest); err != nil || !newest.Valid || newest.Int64 != int64(at)-1 {
		return 0, nil // nothing was inserted, whatever has become of the look
	}
	return insert()
}

// Driver is driver.Connector's.
func (s *session) Driver() driver.Driver { return &mysql.MySQLDriver{} }

// Connect is driver.Connector's. It hands out a connection only when its settings are as they must be.
func (s *session) Connect(ctx context.Context) (driver.Conn, error) {
	age := s.age.Load()
	raw, l, err := s.source.connect(ctx, func(c driver.Conn) (look, error) { return s.settle(ctx, c) })
	if err != nil {
		return nil, err
	}
	s.galera.Store(l.galera())
	return &conn{raw: raw, session: s, age: age, found: l, prepared: map[string]driver.Stmt{}}, nil
}

// conn is a connection of database/sql. It prepares each text once and keeps it; there are no more than there are
// statements.
type conn struct {
	raw      driver.Conn
	session  *session
	age      int64
	found    look
	prepared map[string]driver.Stmt
}

var errNoTransaction = errors.New("the log needs no transaction")

// Prepare is driver.Conn's.
func (c *conn) Prepare(query string) (driver.Stmt, error) { return c.raw.Prepare(query) }

// Begin is driver.Conn's; nobody calls it.
func (c *conn) Begin() (driver.Tx, error) { return nil, errNoTransaction }

// Close is driver.Conn's. The prepared statements go with the session.
func (c *conn) Close() error { return c.raw.Close() }

// ResetSession is called by database/sql before a connection is used again. A connection that has been idle may be dead
// without knowing it.
func (c *conn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	if r, ok := c.raw.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// IsValid is called by database/sql before a connection is put back.
func (c *conn) IsValid() bool {
	if c.age != c.session.age.Load() {
		return false
	}
	v, ok := c.raw.(driver.Validator)
	return !ok || v.IsValid()
}

// ExecContext is driver.ExecerContext's. All that writes comes through here.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.session.o.ReadOnly {
		return nil, oplog.ErrReadOnly
	}
	for _, a := range args { // the server may have been set up anew since the log was opened
		if b, ok := a.Value.([]byte); ok && len(b) > c.found.packet() {
			return nil, fmt.Errorf("%d bytes, the server takes at most %d (max_allowed_packet): %w", len(b), c.found.packet(), oplog.ErrTooLarge)
		}
	}
	// The connection that appends stays with the log, so nobody else asks whether the server has closed it, or whether another
	// one has shown that the way to it is dead. Asked before something is sent, that is no reason to doubt the outcome.
	if err := c.ResetSession(ctx); err != nil {
		return nil, unsent(err)
	}
	defer c.watch(ctx)()
	st, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	res, err := st.(driver.StmtExecContext).ExecContext(ctx, args)
	return res, unsent(err)
}

// QueryContext is driver.QueryerContext's.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	defer c.watch(ctx)()
	st, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := st.(driver.StmtQueryContext).QueryContext(ctx, args)
	return rows, unsent(err)
}

func (c *conn) stmt(ctx context.Context, query string) (driver.Stmt, error) {
	if st, ok := c.prepared[query]; ok {
		return st, nil
	}
	st, err := c.raw.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, unprepared(err)
	}
	c.prepared[query] = st
	return st, nil
}

// watch notes a statement that went without an answer for so long that whatever else idles on the same network is most
// likely dead as well.
func (c *conn) watch(ctx context.Context) func() {
	start := time.Now()
	return func() {
		if ctx.Err() != nil && time.Since(start) >= c.session.o.StatementTimeout*9/10 {
			c.session.age.CompareAndSwap(c.age, c.age+1)
		}
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// query runs a text without values and returns the rows, for the talk before a connection is handed out.
func query(ctx context.Context, c driver.Conn, text string) (all [][]driver.Value, err error) {
	rows, err := c.(driver.QueryerContext).QueryContext(ctx, text, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for {
		row := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		for i, v := range row { // the driver's buffer is used again
			if b, ok := v.([]byte); ok {
				row[i] = string(b)
			}
		}
		all = append(all, row)
	}
}

func exec(ctx context.Context, c driver.Conn, text string) error {
	_, err := c.(driver.ExecerContext).ExecContext(ctx, text, nil)
	return err
}

// inspect says what the first connection found, and whether the tables are there: nil, oplog.ErrNoCluster or
// oplog.ErrSchema.
func (s *session) inspect(ctx context.Context) (l look, err error) {
	sc, err := s.db.Conn(ctx)
	if err != nil {
		return l, err
	}
	defer sc.Close()
	if err := sc.Raw(func(dc any) error { l = dc.(*conn).found; return nil }); err != nil {
		return l, err
	}
	var version int
	err = sc.QueryRowContext(ctx, fill(s.o.Prefix, "SELECT version FROM {snapshot} WHERE id = 1")).Scan(&version)
	switch {
	case errors.Is(err, sql.ErrNoRows), err != nil && classify(err).Err == oplog.ErrNoCluster:
		return l, fmt.Errorf("%w: there are no tables with the prefix %s", oplog.ErrNoCluster, s.o.Prefix)
	case err != nil:
		return l, fmt.Errorf("look at the schema version: %w", err)
	case version != schemaVersion:
		return l, fmt.Errorf("the tables with the prefix %s have schema version %d, this program knows %d: %w", s.o.Prefix, version, schemaVersion, oplog.ErrSchema)
	}
	return l, s.fit(ctx, sc)
}

// fit refuses tables that are not as ours are.
func (s *session) fit(ctx context.Context, sc *sql.Conn) error {
	for _, text := range []string{"SELECT idx, payload FROM {log} WHERE idx < 0", "SELECT token, part, idx, data FROM {snapshot_part} WHERE idx < 0",
		"SELECT id, version, idx, token, parts, size FROM {snapshot} WHERE id = 1"} {
		rows, err := sc.QueryContext(ctx, fill(s.o.Prefix, text))
		if err == nil {
			err = errors.Join(rows.Close(), rows.Err())
		}
		if err != nil && classify(err).Err == oplog.ErrNoCluster {
			return fmt.Errorf("not all of the 3 tables with the prefix %s are there: %w", s.o.Prefix, oplog.ErrSchema)
		} else if err != nil {
			return fmt.Errorf("look at the tables: %w", err)
		}
	}
	var foreign int
	err := sc.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()
		AND table_name IN (?, ?, ?) AND LOWER(engine) <> 'innodb'`, fill(s.o.Prefix, "{log}"), fill(s.o.Prefix, "{snapshot}"),
		fill(s.o.Prefix, "{snapshot_part}")).Scan(&foreign)
	switch {
	case err != nil:
		return fmt.Errorf("look at the engine of the tables: %w", err)
	case foreign > 0:
		return fmt.Errorf("%d of the tables with the prefix %s are not of the engine InnoDB: %w", foreign, s.o.Prefix, oplog.ErrSchema)
	}
	return nil
}

// createTables creates the tables where they are missing. A user that may not create any finds those that are there.
func (s *session) createTables(ctx context.Context) error {
	if s.o.ReadOnly {
		return oplog.ErrReadOnly
	}
	if _, err := s.inspect(ctx); !errors.Is(err, oplog.ErrNoCluster) {
		return err
	}
	sc, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer sc.Close()
	for i, text := range schema {
		if i == len(schema)-1 { // the row that says that they are ours: not into tables that are not
			if err := s.fit(ctx, sc); err != nil {
				return err
			}
		}
		if err := sc.Raw(func(dc any) error { return exec(ctx, dc.(*conn).raw, fill(s.o.Prefix, text)) }); err != nil {
			return err
		}
	}
	return nil
}

// packet is the largest value in bytes that the server takes from this connection.
func (l look) packet() int {
	n, err := strconv.Atoi(l.values["max_allowed_packet"])
	if err != nil {
		return oplog.MaxPayload
	}
	return n - packetMargin
}
