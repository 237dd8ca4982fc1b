// Package mysql keeps an oplog.Log in a MariaDB or MySQL database, in a Galera cluster, or in one that speaks their
// protocol.
//
// The tables are PREFIX_log, PREFIX_snapshot and PREFIX_snapshot_part, all InnoDB; Open creates nothing, Init creates
// them where they are missing, and PrintSQL gives the statements to whoever creates them by hand. Every operation is one
// statement that commits by itself, prepared once for each connection. There is no notification in this protocol: rows of
// other nodes are noticed by polling.
//
// An append that was answered is on the server's disk if innodb_flush_log_at_trx_commit is 1, which is told in Info
// where it is not; on a Galera cluster it is also in the queue of every member. On an asynchronous replica that is promoted the newest
// rows may be missing: nodes that had applied them stop and say so, a node that starts afterwards cannot know.
//
// Sessions are set up as they must be whatever the server's defaults are: autocommit, READ COMMITTED, no time limit on
// statements, a causality wait for reads on Galera. A server without strict mode is refused, since it may cut values
// short, and so is one that writes its binary log as statements, since it refuses ours.
//
// Start reading at Open, then statements, which has the argument why a truncated index is never taken again.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// Options say where the log is and how it is used. Only DSN is required, and not by OpenPool.
type Options struct {
	// DSN is a connection string, as mysql://user:password@host:3306/database?tls=true or in the form of the driver
	// (user:password@tcp(host:3306)/database). It may name several hosts (host1:3306,host2:3306), as the members of a
	// Galera cluster: the first that is ready and writable is used, and the next when it is not any more. Parameters are
	// those of the driver (tls, collation, connectionAttributes, …, and any system variable), and ssl-ca, ssl-cert and
	// ssl-key, which name PEM files and turn TLS with verification on. Without tls=true or one of these, nothing is
	// encrypted. It never appears in an error or in Info.
	DSN string
	// Prefix begins the names of the tables, so that several clusters can share a database: a lower-case letter, then up
	// to 39 lower-case letters, digits and underscores. Default "headwater".
	Prefix string
	// PollInterval is how soon a row of another node is looked for; default 5 ms. While nothing comes the pause between
	// two looks grows to IdlePollInterval; default 300 ms, at least PollInterval.
	PollInterval, IdlePollInterval time.Duration
	// ConnectTimeout bounds one attempt to connect to one host; default 5 s. After a failed one the next follows after
	// 50 ms, then after twice as long each time, up to once a second.
	ConnectTimeout time.Duration
	// StatementTimeout is how long a statement may go without an answer before its connection is given up; default 5 s.
	// An append is then of unknown outcome. On the server statements wait at most half of it for a lock, in whole
	// seconds, but at least one.
	StatementTimeout time.Duration
	// RetryTimeout is how long one operation is repeated that the server rolled back because of others (1213, 1205, 1020)
	// before it ends in oplog.ErrUnavailable; default 2 s.
	RetryTimeout time.Duration
	// MaxConnections is the most connections that the log uses at once, at least 2; default 6. One appends, the others
	// are for everything else and open only while they are needed at once.
	MaxConnections int
	// MaxValueBytes is the most bytes that a stored value has, be it a row or a part of a snapshot: for stores that take less
	// than the protocol they speak, as distributed ones do. 64 KiB to 8 MiB; default 8 MiB, and what the server's
	// max_allowed_packet leaves. Rows have
	// at most 1 MiB and parts never more unless a larger row budget is asked for, so most stores need no lower limit. A command that
	// does not fit is refused as too large.
	MaxValueBytes int
	// ReadOnly refuses Init, Append, Truncate and snapshots with oplog.ErrReadOnly. A user that may only SELECT is enough,
	// and so is a replica.
	ReadOnly bool
	// MustExist makes Open fail with oplog.ErrNoCluster where there is no cluster yet. Without it the log can be opened
	// first and created by Init, here or by another process.
	MustExist bool
	// RequireDurable refuses a server that may lose acknowledged rows in a crash (innodb_flush_log_at_trx_commit other
	// than 1, innodb_flush_method nosync), of which Info only warns otherwise.
	RequireDurable bool
	// TiDBPessimistic is your word that every TiDB server has pessimistic-txn.pessimistic-auto-commit = true, which the
	// log cannot read there. Without it an append and a truncation may not exclude each other, so TiDB is refused
	// (oplog.ErrSettings) unless the log is opened for reading.
	TiDBPessimistic bool
}

const (
	defaultPoll = 5 * time.Millisecond
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

// minConnections: one to append, and one for everything else.
const minConnections = 2

func (o Options) validate() error { return o.common().Validate(minConnections) }

// Open opens the log in a database. It neither creates nor changes anything. It fails where no server can be reached
// (oplog.ErrUnavailable), does not let the user in or see the tables (oplog.ErrDenied), is set up so that it must not be
// used (oplog.ErrSettings), holds other tables under these names (oplog.ErrSchema), or has no such database
// (oplog.ErrNoCluster). Logs in the same tables of one process wake each other without asking the server.
func Open(ctx context.Context, o Options) (oplog.Log, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open mysql database: %w", err)
	}
	src, err := parse(o)
	if err != nil {
		return nil, fmt.Errorf("open mysql database: %w", err)
	}
	return open(ctx, o, src)
}

// OpenPool opens the log on a pool of the driver go-sql-driver/mysql that the program has, which stays open when the log
// is closed. The log borrows at most MaxConnections connections, sets their sessions up as it needs them, and has the
// pool close them instead of taking them back. The DSN of the pool must not set interpolateParams, and its MaxOpenConns,
// if set, must leave the log at least two. Of o, DSN and ConnectTimeout are not looked at. Otherwise it is as Open.
func OpenPool(ctx context.Context, pool *sql.DB, o Options) (oplog.Log, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open mysql database: %w", err)
	}
	if most := pool.Stats().MaxOpenConnections; most > 0 && most < 2 {
		return nil, fmt.Errorf("open mysql database: the pool has at most %d connection, 2 are needed: %w", most, oplog.ErrSettings)
	}
	return open(ctx, o, &borrowed{pool: pool})
}

func open(ctx context.Context, o Options, src source) (oplog.Log, error) {
	s := &session{source: src, o: o, texts: statements(o.Prefix)}
	s.db = sql.OpenDB(s)
	s.db.SetMaxOpenConns(o.MaxConnections)
	s.db.SetMaxIdleConns(src.idle(o.MaxConnections))
	log, err := s.start(ctx)
	if err != nil {
		_ = s.db.Close()
		return nil, fmt.Errorf("open mysql database at %s: %w", src.location(), err)
	}
	return log, nil
}

func (s *session) start(ctx context.Context) (oplog.Log, error) {
	looking, cancel := context.WithTimeout(ctx, s.o.ConnectTimeout+s.o.StatementTimeout)
	defer cancel()
	first, err := s.inspect(looking)
	switch {
	case errors.Is(err, oplog.ErrNoCluster) && first.version != "" && !s.o.MustExist: // to be created later
	case err != nil:
		return nil, meaning(err)
	}
	l, err := sqllog.New(sqllog.Config{
		DB: s.db, Dialect: s.dialect(), Signal: signalOf(first.place(s.source.location()) + "\x00" + s.o.Prefix),
		Info: oplog.Info{Backend: first.backend(), Location: s.source.location(), Warnings: first.warnings(s.o),
			MaxPayload: min(s.o.MaxValueBytes, first.packet())},
		Poll: s.o.PollInterval, IdlePoll: s.o.IdlePollInterval, LockTimeout: s.o.RetryTimeout,
		StatementTimeout: s.o.StatementTimeout, Grace: grace,
	})
	if err != nil {
		return nil, err
	}
	if s.o.MustExist { // tables without a row are no cluster yet
		if _, err := l.Bounds(ctx); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	return l, nil
}

// meaning gives an error from before the log is there what a log would.
func meaning(err error) error {
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
var signals sync.Map // place and prefix → *sqllog.Signal

func signalOf(key string) *sqllog.Signal {
	s, _ := signals.LoadOrStore(key, sqllog.NewSignal())
	return s.(*sqllog.Signal)
}
