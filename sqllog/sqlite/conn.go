package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	moderncsqlite "modernc.org/sqlite"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// session is what the connections of one log have in common.
type session struct {
	file     file
	prefix   string
	slice    time.Duration // of the busy timeout, that SQLite waits by itself
	readOnly bool
}

func (s *session) dialect() sqllog.Dialect {
	st := statements(s.prefix)
	return sqllog.Dialect{
		Statements:   st,
		CreateTables: s.createTables,
		Classify:     classify(s.file.path),
		Append: func(ctx context.Context, c *sql.Conn, at oplog.Index, mark, payload []byte) (int64, error) {
			return appendRow(c, st.Append.Text, at, mark, payload)
		},
		Changed: dataVersion,
	}
}

// connector makes connections; create says whether they may create the file.
func (s *session) connector(create bool) driver.Connector {
	mode := "rw"
	switch {
	case s.readOnly:
		mode = "ro"
	case create:
		mode = "rwc"
	}
	// As a file: URI the path may hold any character. _error_rc: no text of another error in the message.
	u := url.URL{Scheme: "file", Path: s.file.path, RawQuery: "mode=" + mode + "&_error_rc=1&_defensive=1&_dqs=0"}
	return &connector{session: s, dsn: u.String(), create: create}
}

type connector struct {
	*session
	dsn    string
	create bool
}

func (c *connector) Driver() driver.Driver { return &moderncsqlite.Driver{} }

// Connect opens a connection and hands it out only when every setting has taken and the file is one of ours.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := moderncsqlite.NewConnector(c.dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", oplog.ErrSettings, err)
	}
	raw, err := base.Connect(ctx)
	if err != nil {
		return nil, err
	}
	cn := &conn{sqliteConn: raw.(sqliteConn), path: c.file.path}
	if err := c.prepare(ctx, cn); err != nil {
		raw.Close()
		return nil, err
	}
	return cn, nil
}

// smallestPage is the size in bytes of the smallest database that is not empty.
const smallestPage = 512

// prepare looks at the file before it changes anything there: another program's file must not even get another mode.
func (c *connector) prepare(ctx context.Context, cn *conn) error {
	var err error
	if cn.id, err = os.Stat(cn.path); err != nil {
		return fmt.Errorf("%w: %w", oplog.ErrUnavailable, err)
	}
	if n := cn.id.Size(); n > 0 && n < smallestPage { // SQLite takes it for empty, and would overwrite it
		return fmt.Errorf("%s is not a database: it has %d bytes: %w", cn.path, n, oplog.ErrSchema)
	}
	settings := c.settings()
	if err := cn.settle(ctx, settings[:1]); err != nil { // the busy timeout: the rest may meet a lock
		return err
	}
	if err := cn.exec(ctx, "BEGIN"); err != nil { // one moment, or a cluster that is being created looks foreign
		return err
	}
	if err := inspect(ctx, cn, c.prefix); err != nil && !(c.create && errors.Is(err, oplog.ErrNoCluster)) {
		return err
	}
	if err := cn.exec(ctx, "COMMIT"); err != nil {
		return err
	}
	return cn.settle(ctx, settings[1:])
}

// setting is a pragma and the value that it must have on each connection.
type setting struct{ name, set, want string }

func (s *session) settings() []setting {
	slice := fmt.Sprint(s.slice.Milliseconds())
	settings := []setting{
		{"busy_timeout", slice, slice},                               // first: the others may meet a lock
		{"journal_mode", "WAL", "wal"}, {"synchronous", "FULL", "2"}, // a commit is on the disk when it is answered
		{"fullfsync", "1", "1"}, {"checkpoint_fullfsync", "1", "1"}, // also where fsync alone does not reach the disk
		{"trusted_schema", "0", "0"}, {"cell_size_check", "1", "1"}, // a file is not to be believed
	}
	if s.file.network != "" {
		settings[1] = setting{"journal_mode", "DELETE", "delete"}
		settings[2] = setting{"synchronous", "EXTRA", "3"} // the deletion of the journal is the commit
	}
	if s.readOnly {
		// The journal's mode belongs to the file, and is the writers' to set; what is committed is read in any. A backup by
		// VACUUM INTO is not in WAL mode.
		settings = slices.Delete(settings, 1, 2)
	}
	return settings
}

// settle makes the settings of a connection and asserts that each has taken.
func (c *conn) settle(ctx context.Context, settings []setting) error {
	for _, p := range settings {
		if p.set != "" {
			if _, err := c.value(ctx, "PRAGMA "+p.name+" = "+p.set); err != nil {
				return fmt.Errorf("set %s: %w", p.name, err)
			}
		}
		got, err := c.value(ctx, "PRAGMA "+p.name)
		if err != nil {
			return fmt.Errorf("read %s: %w", p.name, err)
		}
		if fmt.Sprint(got) != p.want {
			return fmt.Errorf("setting %s is %v instead of %s: %w", p.name, got, p.want, oplog.ErrSettings)
		}
	}
	return nil
}

// sqliteConn is what a connection of the driver offers.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// conn is a connection that knows which file it was opened on. Where the file is replaced, as by a restored backup,
// SQLite would go on writing to the old one, which nobody else sees.
type conn struct {
	sqliteConn
	path   string
	id     os.FileInfo
	append driver.Stmt // prepared by the first append
}

// Unwrap returns the driver's connection; the driver asks for it.
func (c *conn) Unwrap() driver.Conn { return c.sqliteConn }

func (c *conn) Close() error {
	if c.append != nil {
		c.append.Close()
	}
	return c.sqliteConn.Close()
}

// ResetSession is called by database/sql before a connection is used again.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.displaced() {
		return driver.ErrBadConn
	}
	return c.sqliteConn.ResetSession(ctx)
}

// displaced reports whether the path leads to another file than the one that is open, or to none.
func (c *conn) displaced() bool {
	now, err := os.Stat(c.path)
	return err != nil || !os.SameFile(c.id, now)
}

// value runs a query and returns the first column of its first row, nil where there is none.
func (c *conn) value(ctx context.Context, query string, args ...driver.NamedValue) (driver.Value, error) {
	rows, err := c.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	dest := make([]driver.Value, len(rows.Columns()))
	if len(dest) == 0 {
		return nil, nil
	}
	if err := rows.Next(dest); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return dest[0], nil
}

// errDisplaced is the error of a statement that was not sent because its connection's file is not the one at the path.
var errDisplaced = fmt.Errorf("the database file was replaced: %w", oplog.ErrUnavailable)

// appendRow inserts a row by a statement that stays prepared, past database/sql and without a context: the driver would
// interrupt the statement when it ends, and could then not tell whether it had committed.
func appendRow(sc *sql.Conn, text string, at oplog.Index, mark, payload []byte) (inserted int64, err error) {
	var failed error
	err = sc.Raw(func(dc any) error {
		c := dc.(*conn)
		if c.displaced() {
			failed = errDisplaced
			return driver.ErrBadConn
		}
		if c.append == nil {
			if c.append, failed = c.PrepareContext(context.Background(), text); failed != nil {
				return nil
			}
		}
		res, err := c.append.(driver.StmtExecContext).ExecContext(context.Background(), []driver.NamedValue{
			{Ordinal: 1, Value: int64(at)}, {Ordinal: 2, Value: payload}, {Ordinal: 3, Value: int64(at) - 1},
			{Ordinal: 4, Value: mark}, {Ordinal: 5, Value: mark}})
		if err == nil {
			inserted, err = res.RowsAffected()
		}
		if failed = err; failed == nil && c.displaced() {
			failed = fmt.Errorf("the database file was replaced during the append: %w", oplog.ErrUnknown)
			return driver.ErrBadConn
		}
		return nil
	})
	if failed != nil {
		return 0, failed
	}
	return inserted, err
}

// dataVersion reads the counter that changes when another connection, of this process or another, has committed.
func dataVersion(ctx context.Context, sc *sql.Conn) (version int64, err error) {
	var failed error
	err = sc.Raw(func(dc any) error {
		c := dc.(*conn)
		if c.displaced() {
			failed = errDisplaced
			return driver.ErrBadConn
		}
		var v driver.Value
		if v, failed = c.value(ctx, "PRAGMA data_version"); failed == nil {
			version = v.(int64)
		}
		return nil
	})
	if failed != nil {
		return 0, failed
	}
	return version, err
}

// inspect says whether the file is one of ours and holds the tables of prefix: nil, oplog.ErrNoCluster or
// oplog.ErrSchema. It needs a transaction.
func inspect(ctx context.Context, c *conn, prefix string) error {
	app, err := c.value(ctx, "PRAGMA application_id")
	if err != nil {
		return err
	}
	tables, err := c.value(ctx, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	switch {
	case app == int64(0) && tables == int64(0):
		return fmt.Errorf("%w in %s: the file is empty", oplog.ErrNoCluster, c.path)
	case app != int64(applicationID):
		return fmt.Errorf("%s belongs to another program (application id %v instead of %d): %w", c.path, app, applicationID, oplog.ErrSchema)
	}
	ours, err := c.value(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN (?, ?, ?)",
		driver.NamedValue{Ordinal: 1, Value: prefix + "_log"}, driver.NamedValue{Ordinal: 2, Value: prefix + "_snapshot"},
		driver.NamedValue{Ordinal: 3, Value: prefix + "_snapshot_part"})
	switch {
	case err != nil:
		return err
	case ours == int64(0):
		return fmt.Errorf("%w in %s: it has no tables with the prefix %s", oplog.ErrNoCluster, c.path, prefix)
	case ours != int64(3):
		return fmt.Errorf("%s has %v of the 3 tables with the prefix %s: %w", c.path, ours, prefix, oplog.ErrSchema)
	}
	version, err := c.value(ctx, "SELECT version FROM "+prefix+"_snapshot WHERE id = 1")
	switch {
	case err != nil:
		return err
	case version != int64(schemaVersion):
		return fmt.Errorf("the tables with the prefix %s have schema version %v, this program knows %d: %w", prefix, version, schemaVersion, oplog.ErrSchema)
	}
	return nil
}

// createTables creates the file and the tables where they are missing, in one transaction that begins by taking the
// write lock: a process that is killed leaves an empty file or all of it.
func (s *session) createTables(ctx context.Context) error {
	if s.readOnly {
		return oplog.ErrReadOnly
	}
	raw, err := s.connector(true).Connect(ctx)
	if err != nil {
		return err
	}
	c := raw.(*conn)
	defer c.Close() // rolls back what is open
	if err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	switch err := inspect(ctx, c, s.prefix); {
	case err == nil:
		return c.exec(ctx, "ROLLBACK")
	case !errors.Is(err, oplog.ErrNoCluster):
		return err
	}
	text := tables(s.prefix).Replace(schema) + fmt.Sprintf("PRAGMA application_id = %d;", applicationID)
	for _, stmt := range strings.SplitAfter(text, ";") {
		if strings.TrimSpace(stmt) == "" {
			continue
		}
		if err := c.exec(ctx, stmt); err != nil {
			return err
		}
	}
	return c.exec(ctx, "COMMIT")
}

func (c *conn) exec(ctx context.Context, text string) error {
	_, err := c.ExecContext(ctx, text, nil)
	return err
}
