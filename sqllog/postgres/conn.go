package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// session is what the connections of one log have in common. It is their driver.Connector.
type session struct {
	source        source
	names         names
	append        string   // the text of the append
	polite        string   // the same, while nobody has the turn
	turns         bool     // writers may stand in line
	waits         []string // the texts by which they do, and read behind them
	read          string
	blunt         atomic.Bool // the last append was of unknown outcome, or the last wait for a turn failed: append without asking whose turn it is
	stood         atomic.Bool // has had a turn, so there are others: append only while nobody has it
	readOnly      bool
	allowFsyncOff bool
	statement     time.Duration // timeout
	db            *sql.DB       // made of this connector

	age    atomic.Int64  // grows when connections of now are most likely of no use any more: see conn.expire
	token  string        // tells own notifications from those of others
	told   chan struct{} // capacity 1: something is to be told to the other nodes
	newest atomic.Uint64 // the row that is to be told
	asked  chan struct{} // capacity 1: a notification is to be sent to prove that they arrive
}

func newSession(o Options, src source) *session {
	n := names{o.Schema, o.Prefix}
	token := make([]byte, 8)
	rand.Read(token) // never fails
	return &session{source: src, names: n, append: statements(n).Append.Text, polite: politeText(n), read: statements(n).Read.Text, waits: turnTexts(n, src.owned()), turns: o.Turnstile, readOnly: o.ReadOnly, allowFsyncOff: o.AllowFsyncOff,
		statement: o.StatementTimeout, token: hex.EncodeToString(token), told: make(chan struct{}, 1), asked: make(chan struct{}, 1)}
}

func (s *session) dialect(notify bool) sqllog.Dialect {
	d := sqllog.Dialect{Statements: statements(s.names), CreateTables: s.createTables, Classify: classify, Append: s.appendRow, Replicated: true, OwnBytes: true}
	if notify {
		d.Listen = s.listen
	}
	if s.turns {
		d.Turn, d.PassTurn = s.waitTurn, s.passTurn
	}
	return d
}

// Driver is driver.Connector's.
func (s *session) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// Connect is driver.Connector's. It hands out a connection only when its settings are as they must be.
func (s *session) Connect(ctx context.Context) (driver.Conn, error) {
	age := s.age.Load()
	raw, err := s.source.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	l, err := s.settle(ctx, raw.Conn())
	if err != nil {
		closeNow(raw.Conn())
		_ = raw.Close()
		return nil, err
	}
	return &conn{Conn: raw, session: s, age: age, found: l, mode: s.modeOf(raw.Conn(), l)}, nil
}

// closeNow closes a connection without waiting for the network.
func closeNow(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// look is what was found about a server and a session when it was opened.
type look struct {
	server     string // the version of PostgreSQL that it is like
	version    string // what it says of itself
	pid        uint32 // of the process that answered
	recovery   bool   // a standby
	readOnly   string // transaction_read_only
	fsync      string
	fullPages  string // full_page_writes
	commit     string // synchronous_commit
	standbys   string // synchronous_standby_names
	minMessage string // client_min_messages
	pooled     bool   // the process that answered is not the one that was logged in to
}

// lookText asks for everything at once; what a server does not have is empty.
const lookText = `SELECT current_setting('server_version'), pg_backend_pid(), pg_is_in_recovery(),
	coalesce(current_setting('transaction_read_only', true), ''), coalesce(current_setting('fsync', true), ''),
	coalesce(current_setting('full_page_writes', true), ''), coalesce(current_setting('synchronous_commit', true), ''),
	coalesce(current_setting('synchronous_standby_names', true), ''), coalesce(current_setting('client_min_messages', true), ''),
	version()`

func (l *look) fields() []any {
	return []any{&l.server, &l.pid, &l.recovery, &l.readOnly, &l.fsync, &l.fullPages, &l.commit, &l.standbys, &l.minMessage, &l.version}
}

// settle looks at a new session and sets what may be set and is not as it must be.
func (s *session) settle(ctx context.Context, c *pgx.Conn) (l look, err error) {
	err = c.QueryRow(ctx, lookText, pgx.QueryExecModeExec).Scan(l.fields()...)
	if err != nil {
		return l, fmt.Errorf("look at the settings: %w", err)
	}
	l.pooled = l.pid != c.PgConn().PID()
	if l.fsync == "off" && !s.allowFsyncOff {
		return l, fmt.Errorf("the server runs with fsync = off, so that acknowledged rows are lost when its machine fails: %w", oplog.ErrSettings)
	}
	if !s.source.owned() || l.pooled {
		return l, l.fit()
	}
	// Set once for each connection, which costs no append anything; so neither a role nor a reload can change them.
	settings := []string{"default_transaction_isolation = 'read committed'",
		fmt.Sprintf("statement_timeout = %d", (s.statement * 4 / 5).Milliseconds()), "lock_timeout = 0",
		"client_min_messages = warning", // a warning may say that a row was not replicated
		fmt.Sprintf("idle_in_transaction_session_timeout = %d", turnPatience.Milliseconds())}
	settings = append(settings, l.kind().settings()...)
	if l.weakCommit() || l.commit == "local" || l.commit == "remote_write" {
		settings = append(settings, "synchronous_commit = on")
	}
	return l, set(ctx, c, settings)
}

// set makes settings of a session.
func set(ctx context.Context, c *pgx.Conn, settings []string) error {
	if len(settings) == 0 {
		return nil
	}
	if _, err := c.PgConn().Exec(ctx, "SET "+strings.Join(settings, "; SET ")).ReadAll(); err != nil {
		return fmt.Errorf("make the settings: %w", err)
	}
	return nil
}

// weakCommit reports whether a commit may be answered before it is safe.
func (l look) weakCommit() bool {
	return l.commit == "off" || l.standbys != "" && (l.commit == "local" || l.commit == "remote_write")
}

// fit refuses a session whose settings are wrong and not ours to change.
func (l look) fit() error {
	switch {
	case l.weakCommit():
		return fmt.Errorf("synchronous_commit is %s, so that acknowledged rows may be lost, and the session is shared and cannot be changed (ALTER ROLE … SET synchronous_commit = on): %w", l.commit, oplog.ErrSettings)
	case l.minMessage == "error":
		return fmt.Errorf("client_min_messages is error, which hides warnings that a row was not replicated, and the session is shared and cannot be changed (ALTER ROLE … SET client_min_messages = warning): %w", oplog.ErrSettings)
	}
	return nil
}

// warnings are what people should know of the server, also those who only read: they ask for others.
func (l look) warnings() (w []string) {
	if l.fsync == "off" {
		w = append(w, "backend may lose acknowledged rows: fsync = off")
	}
	if l.fullPages == "off" {
		w = append(w, "backend may be damaged when its machine fails: full_page_writes = off")
	}
	switch {
	case l.recovery:
		w = append(w, "the server is a standby: nothing can be written until it is promoted")
	case l.readOnly == "on":
		w = append(w, "the server or the role is read-only: default_transaction_read_only = on")
	}
	return w
}

// conn is a connection of database/sql that knows when it must not be used any more. An append makes it its own: from
// then on it has a wire and nothing else works.
type conn struct {
	*stdlib.Conn
	session  *session
	age      int64
	found    look
	mode     pgx.QueryExecMode // how statements are sent
	wire     *wire
	used     time.Time // when a statement ended last; zero: never
	returned bool      // to the pool it was borrowed from, by makeWire
}

// A connection that was idle for longer is asked for a sign of life before it is used, and has as long to give one.
const idleTrust = time.Second

// ResetSession is called by database/sql before a connection is used again. One that has been idle may be dead without
// knowing it; then the next is taken, without the caller's noticing.
func (c *conn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	if !c.used.IsZero() && time.Since(c.used) > idleTrust {
		ctx, cancel := context.WithTimeout(ctx, idleTrust)
		defer cancel()
		if c.Conn.Conn().Ping(ctx) != nil {
			return driver.ErrBadConn
		}
	}
	return c.Conn.ResetSession(ctx)
}

// IsValid is called by database/sql before a connection is put back.
func (c *conn) IsValid() bool {
	return c.wire == nil && !c.returned && c.age == c.session.age.Load() && !c.Conn.Conn().IsClosed()
}

// Close is driver.Conn's.
func (c *conn) Close() error {
	if c.wire != nil {
		c.wire.close()
	}
	if c.returned {
		return nil
	}
	return c.Conn.Close()
}

// QueryContext is driver.QueryerContext's.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	defer c.watch(ctx)()
	rows, err := c.Conn.QueryContext(ctx, query, c.withMode(args))
	return rows, c.judge(err)
}

// ExecContext is driver.ExecerContext's. All that writes comes through here.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.session.readOnly {
		return nil, oplog.ErrReadOnly
	}
	defer c.watch(ctx)()
	notes := c.Conn.Conn().PgConn().CustomData()
	delete(notes, warnedKey)
	res, err := c.Conn.ExecContext(ctx, query, c.withMode(args))
	if warned, ok := notes[warnedKey].(error); ok && err == nil {
		err = warned
	}
	return res, c.judge(err)
}

// warnedKey names, in the notes that the driver keeps for us with each connection, the error that the server's last
// warning makes of a success.
const warnedKey = "headwater: warned"

// noteWarning is the driver's OnNotice, for the connections that we open.
func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warnedKey] = warned(n.Message, n.Code)
	}
}

// modeOf says how statements are sent over a connection. On a session that is ours alone the server keeps them under
// names, with their plans: to plan one takes longer than to execute it. On any other, and where the connection string says
// that none is kept, each is described once for each connection and then sent in one message each time, without a name,
// whatever mode the pool prefers.
func (s *session) modeOf(c *pgx.Conn, l look) pgx.QueryExecMode {
	if s.source.owned() && !l.pooled && c.Config().StatementCacheCapacity > 0 { // of a copy, which is made once
		return pgx.QueryExecModeCacheStatement
	}
	return pgx.QueryExecModeCacheDescribe
}

func (c *conn) withMode(args []driver.NamedValue) []driver.NamedValue {
	return append([]driver.NamedValue{{Value: c.mode}}, args...)
}

// judge draws from an error of the server what it says of connections: a pool's that must not be used again is closed,
// because given back it would come again; and where the server ends sessions or has become read-only, none of the others
// is any better.
func (c *conn) judge(err error) error {
	if err == nil {
		return nil
	}
	switch v := classify(err); {
	case v.Err == oplog.ErrReadOnly, strings.HasPrefix(state(err), "57P"):
		c.expire()
		fallthrough
	case v.Drop && !c.session.source.owned():
		closeNow(c.Conn.Conn())
	}
	return err
}

// expire has the connections that are as old as this one or older not used again.
func (c *conn) expire() { c.session.age.CompareAndSwap(c.age, c.age+1) }

// watch notes a statement that went without an answer for so long that whatever else idles on the same network is most
// likely dead as well.
func (c *conn) watch(ctx context.Context) func() {
	start := time.Now()
	return func() {
		c.used = time.Now()
		if ctx.Err() != nil && time.Since(start) >= c.session.silence() {
			c.expire()
		}
	}
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
	var ours, version int
	tables := []any{s.names.qualified("log"), s.names.qualified("snapshot"), s.names.qualified("snapshot_part")}
	err = sc.QueryRowContext(ctx, "SELECT count(to_regclass(t)) FROM (VALUES ($1::text), ($2::text), ($3::text)) AS v (t)", tables...).Scan(&ours)
	switch {
	case err != nil:
		return l, fmt.Errorf("look for the tables: %w", err)
	case ours == 0, ours != len(tables) && l.kind().piecemeal():
		return l, fmt.Errorf("%w: there are no tables %s", oplog.ErrNoCluster, s.names.qualified("…"))
	case ours != len(tables):
		return l, fmt.Errorf("%d of the 3 tables %s are there: %w", ours, s.names.qualified("…"), oplog.ErrSchema)
	}
	err = sc.QueryRowContext(ctx, s.names.fill("SELECT version FROM {snapshot} WHERE id = 1")).Scan(&version)
	switch {
	case errors.Is(err, sql.ErrNoRows) && l.kind().piecemeal():
		return l, fmt.Errorf("%w: the tables %s are not all there yet", oplog.ErrNoCluster, s.names.qualified("…"))
	case errors.Is(err, sql.ErrNoRows), err == nil && version != schemaVersion:
		return l, fmt.Errorf("the tables %s have schema version %d, this program knows %d: %w", s.names.qualified("…"), version, schemaVersion, oplog.ErrSchema)
	case err != nil:
		return l, fmt.Errorf("look at the schema version: %w", err)
	}
	return l, nil
}

// raced are the codes with which creating what another transaction creates at the same moment fails.
var raced = map[string]bool{"23505": true, "42P07": true, "42710": true, "40001": true, "40P01": true, "XX000": true}

// createTables creates the tables where they are missing. A role that may not create any finds those that are there.
func (s *session) createTables(ctx context.Context) error {
	if s.readOnly {
		return oplog.ErrReadOnly
	}
	for tries := 0; ; tries++ {
		found, err := s.inspect(ctx)
		if !errors.Is(err, oplog.ErrNoCluster) {
			return err
		}
		for _, text := range schemas[found.kind()] {
			if err = s.script(ctx, s.names.fill(text)); err != nil {
				break
			}
		}
		if err == nil || !raced[state(err)] || tries == 10 {
			return err
		}
	}
}

// script runs several statements as one message and one transaction.
func (s *session) script(ctx context.Context, text string) error {
	sc, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer sc.Close()
	var failed error
	err = sc.Raw(func(dc any) error {
		_, failed = dc.(*conn).Conn.Conn().PgConn().Exec(ctx, text).ReadAll()
		return nil
	})
	return errors.Join(failed, err)
}
