// Package postgres keeps an oplog.Log in a PostgreSQL database, or in one that speaks its protocol.
//
// The tables are PREFIX_log, PREFIX_snapshot and PREFIX_snapshot_part; Open creates nothing, Init creates them where they
// are missing, and PrintSQL gives the statements to whoever creates them by hand. Every operation is one statement that
// commits by itself: no session state, no transaction over several messages, and where sessions are shared no named
// prepared statement. So a pooler in transaction or statement mode may stand in between, and rows of other nodes are then
// noticed by polling. The exception is an append in a turn (Options.Turnstile, see turn.go), on a session of its own that
// no pooler shares.
//
// An append that was answered is on the server's disk, and on the synchronous standbys if there are any. On an
// asynchronous standby that is promoted the newest rows may be missing: nodes that had applied them stop and say so, a
// node that starts afterwards cannot know. Settings that lie about this are set where a session may set them
// (synchronous_commit), refused otherwise (fsync=off), or told in Info.
//
// The driver is pgx, because it is the one that is maintained, and because it hands out the connection itself: appends
// do not run through the driver but speak the protocol on a connection of their own (see wire). Thus nothing tries an
// append again by itself, nothing cancels it on the server when somebody gives up, and a warning of the server that
// comes with a success is seen. Everything else runs through pgx's adapter for database/sql.
//
// Start reading at Open, then statements, which has the argument why a truncated index is never taken again.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// Options say where the log is and how it is used. Only DSN is required, and not by OpenPool.
type Options struct {
	// DSN is a connection string, as postgres://user:password@host:5432/database?sslmode=verify-full or as key=value
	// pairs, with the parameters of libpq (several hosts, target_session_attrs, sslrootcert, passfile, …); what it leaves
	// out comes from the environment (PGHOST, PGPASSWORD, …). It never appears in an error or in Info. Without sslmode,
	// TLS is used where the server offers it, and not verified: say sslmode=verify-full on any network that is not yours.
	DSN string
	// Prefix begins the names of the tables, so that several clusters can share a database: a lower-case letter, then up
	// to 39 lower-case letters, digits and underscores. Default "headwater".
	Prefix string
	// Schema holds the tables; it must exist. Spelled as Prefix. Default: the first of the role's search_path.
	Schema string
	// PollInterval is how soon a row of another node is looked for; default 10 ms. While nothing comes the pause between
	// two looks grows to IdlePollInterval; default 300 ms, at least PollInterval. Where notifications arrive the pause is
	// always IdlePollInterval: it is then the time that a lost notification costs.
	PollInterval, IdlePollInterval time.Duration
	// NoNotify turns notifications off: none is sent when rows were appended, none is listened for. It saves a
	// connection. It need not be set for a pooler: where notifications do not arrive that is noticed.
	NoNotify bool
	// Turnstile has writers that lost a race stand in line, so that of many nodes that append all the time each has its
	// share and none waits for long; without it they try again by chance, and now and then one node has nearly all rows. It
	// is as safe with as without, and costs nothing where nobody else appends. All nodes should have it or none: those without do
	// not give way. Through a pooler that shares sessions there is no line.
	Turnstile bool
	// ConnectTimeout bounds one attempt to connect; default 5 s. After a failed one the next follows after 50 ms, then
	// after twice as long each time, up to once a second.
	ConnectTimeout time.Duration
	// StatementTimeout is how long a statement may go without an answer before its connection is given up; default 5 s.
	// An append is then of unknown outcome. On the server statements end after four fifths of it, except while they wait
	// for a synchronous standby, which nothing but the standby (or an administrator) ends. Through a pooler, and on the
	// pool of a program, the server's own statement_timeout stays as it is.
	StatementTimeout time.Duration
	// RetryTimeout is how long one operation is repeated that the server rolled back because of others (40001, 40P01,
	// 55P03) before it ends in oplog.ErrUnavailable; default 2 s.
	RetryTimeout time.Duration
	// MaxConnections is the most connections that the log uses at once, at least 3; default 6. One appends, one listens
	// (unless NoNotify), the others are for everything else and open only while they are needed at once.
	MaxConnections int
	// MaxValueBytes is the most bytes that a stored value has, be it a row or a part of a snapshot: for stores that take less
	// than the protocol they speak, as distributed ones do. 64 KiB to 8 MiB; default 8 MiB. Rows have
	// at most 1 MiB and parts never more unless a larger row budget is asked for, so most stores need no lower limit. A command that
	// does not fit is refused as too large.
	MaxValueBytes int
	// ReadOnly refuses Init, Append, Truncate and snapshots with oplog.ErrReadOnly. A role that may only SELECT is enough,
	// and so is a standby.
	ReadOnly bool
	// MustExist makes Open fail with oplog.ErrNoCluster where there is no cluster yet. Without it the log can be opened
	// first and created by Init, here or by another process.
	MustExist bool
	// AllowFsyncOff opens a server that runs with fsync=off, which is refused otherwise: after a crash of its machine
	// acknowledged rows are missing or the database is damaged. For tests that throw the data away.
	AllowFsyncOff bool
}

const (
	defaultPoll = 10 * time.Millisecond
	grace       = 100 * time.Millisecond // how long an append whose caller gave up may still bring its answer
)

// common are the options that every server has.
func (o *Options) common() sqllog.ServerOptions {
	return sqllog.ServerOptions{Prefix: &o.Prefix, PollInterval: &o.PollInterval, IdlePollInterval: &o.IdlePollInterval,
		ConnectTimeout: &o.ConnectTimeout, StatementTimeout: &o.StatementTimeout, RetryTimeout: &o.RetryTimeout,
		MaxConnections: &o.MaxConnections, MaxValueBytes: &o.MaxValueBytes}
}

func (o Options) withDefaults() Options {
	o.common().SetDefaults(defaultPoll)
	return o
}

// minConnections: one to append, one to listen, and one for everything else.
const minConnections = 3

func (o Options) validate() error {
	if err := o.validateNames(); err != nil {
		return err
	}
	return o.common().Validate(minConnections)
}

func (o Options) validateNames() error {
	if err := sqllog.CheckName("prefix", o.Prefix); err != nil || o.Schema == "" {
		return err
	}
	return sqllog.CheckName("schema", o.Schema)
}

// Open opens the log in a database. It neither creates nor changes anything. It fails where the server cannot be reached
// (oplog.ErrUnavailable), does not let the role in or see the tables (oplog.ErrDenied), is set up so that acknowledged
// rows may be lost (oplog.ErrSettings), holds other tables under these names (oplog.ErrSchema), or has no such database
// (oplog.ErrNoCluster). Logs in the same tables of one process wake each other without asking the server.
func Open(ctx context.Context, o Options) (oplog.Log, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open postgres database: %w", err)
	}
	config, err := parse(o.DSN)
	if err != nil {
		return nil, fmt.Errorf("open postgres database: %w", err)
	}
	s := newSession(o, &direct{config: prepareConfig(config, o)})
	return s.open(ctx, o)
}

// OpenPool opens the log on a pool that the program has, which stays open when the log is closed. The log takes two
// connections out of the pool for good, to append and to listen (one where NoNotify is set), and borrows at most
// MaxConnections-2 others, each for as long as it is busy. Neither the sessions nor the pool are changed, so
// synchronous_commit must be on for the role; and what notices a server that is gone (the dialer's keep-alive) is the
// program's, as is the server's warning that a new cluster's first row, or a snapshot, is on no standby yet (OnNotice; that
// of an append is seen). Of o, DSN and ConnectTimeout are not looked at. Otherwise it is as Open.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, o Options) (oplog.Log, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open postgres database: %w", err)
	}
	s := newSession(o, &borrowed{pool: pool})
	return s.open(ctx, o)
}

// open makes the log of a session.
func (s *session) open(ctx context.Context, o Options) (oplog.Log, error) {
	s.db = sql.OpenDB(s)
	others := o.MaxConnections - 1
	if o.NoNotify {
		others++
	}
	s.db.SetMaxOpenConns(others)
	s.db.SetMaxIdleConns(s.source.idle(others))
	log, err := s.start(ctx, o)
	if err != nil {
		_ = s.db.Close()
		return nil, fmt.Errorf("open postgres database at %s: %w", s.source.location(), err)
	}
	return log, nil
}

func (s *session) start(ctx context.Context, o Options) (oplog.Log, error) {
	looking, cancel := context.WithTimeout(ctx, o.ConnectTimeout+o.StatementTimeout)
	defer cancel()
	first, err := s.inspect(looking)
	switch {
	case errors.Is(err, oplog.ErrNoCluster) && first.server != "" && !o.MustExist: // to be created later
	case err != nil:
		return nil, s.meaning(ctx, err)
	}
	c := sqllog.Config{
		DB: s.db, Dialect: s.dialect(!o.NoNotify && first.kind().notifies()), Signal: signalOf(s.source.location() + "\x00" + s.names.qualified("")),
		Info: oplog.Info{Backend: first.backend(), Location: s.source.location(), Warnings: first.warnings(), MaxPayload: o.MaxValueBytes},
		Poll: o.PollInterval, IdlePoll: o.IdlePollInterval, LockTimeout: o.RetryTimeout,
		StatementTimeout: o.StatementTimeout, Grace: grace,
	}
	l, err := sqllog.New(c)
	if err != nil {
		return nil, err
	}
	if o.MustExist { // tables without a row are no cluster yet
		if _, err := l.Bounds(ctx); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	return l, nil
}

// meaning gives an error from before the log is there what a log would.
func (s *session) meaning(ctx context.Context, err error) error {
	for _, known := range []error{oplog.ErrSettings, oplog.ErrSchema, oplog.ErrNoCluster, oplog.ErrUnavailable} {
		if errors.Is(err, known) {
			return err
		}
	}
	v := classify(err)
	if v.Err == oplog.ErrUnknown { // nothing was written
		v.Err = oplog.ErrUnavailable
	}
	return fmt.Errorf("%w: %w", v.Err, err)
}

// signals are the wake-up signals of the tables in use in this process. An entry stays for the life of the process: it
// is small, and a log may be opened again.
var signals sync.Map // location and table → *sqllog.Signal

func signalOf(key string) *sqllog.Signal {
	s, _ := signals.LoadOrStore(key, sqllog.NewSignal())
	return s.(*sqllog.Signal)
}
