// Package sqllog keeps an oplog.Log in a SQL database, through database/sql.
//
// There is one type, Log, and one value for each database, a Dialect: the texts of its statements side by side, a
// classifier of its errors by number, and hooks for what cannot be said as a text. The package imports no driver and
// knows no database by name; start reading at Dialect, then Log.Append.
//
// Every operation is one statement that commits by itself (but for an append in a turn, which a dialect may have in one
// transaction on the connection that only appends). So there is no transaction to leave open, none that needs a
// second connection of a bounded pool, and none whose first half can commit without its second.
package sqllog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// Param names the value that fills one placeholder of a Statement.
type Param int

// The values that statements are filled with.
const (
	At      Param = iota // index of the row or snapshot that is written
	Before               // At - 1
	Mark                 // what row Before ends with; of a snapshot, what row At ends with
	Payload              // bytes of the row
	After                // rows above this index are read
	Bytes                // byte budget of a read; a statement may ignore it, the log counts too
	Below                // rows below this index may be deleted
	Limit                // most rows to read or delete
	Token                // 16 random bytes that name one attempt to store a snapshot
	Part                 // number of a part, from 0
	Parts                // number of parts
	Size                 // bytes of all parts
	Newest               // index of the newest row a moment ago: no row below it can be the newest any more
	numParams
)

// Statement is one SQL statement with the values of its placeholders, in their order. A value may stand more than once.
type Statement struct {
	Text   string
	Params []Param
}

// values holds what may fill a statement.
type values [numParams]any

func (s Statement) args(v values) []any {
	args := make([]any, len(s.Params))
	for i, p := range s.Params {
		args[i] = v[p]
	}
	return args
}

// Statements are the texts of a dialect. Three tables stand behind them: the log (index, payload); the snapshot table,
// of one row that is there from the creation on (schema version, index, token, number of parts, bytes; 0 parts mean
// that there is none yet); and the parts of snapshots, current or not (token, part, index, data).
type Statements struct {
	// Genesis inserts row 0 with Payload if there is neither a row nor a snapshot. 1 row affected: done, 0: a cluster
	// is there already.
	Genesis Statement
	// Append inserts Payload at At if row Before is there, is the newest and ends with Mark. 1 row affected: done, 0: lost
	// the race.
	// It must exclude truncation: see the dialect's comment for its argument.
	Append Statement
	// Read selects (index, payload) of at most Limit rows above After in ascending order.
	Read Statement
	// Newest selects the index of the newest row, or NULL.
	Newest Statement
	// Bounds selects (oldest index or NULL, newest index or NULL, the last oplog.MarkSize bytes of the newest row or NULL,
	// index, parts, bytes of the snapshot, whether this is where writes are decided) in one moment. The last one is
	// oplog.Bounds.Authoritative: false on a standby.
	Bounds Statement
	// Snapshot selects (index, token, parts, bytes) of the current snapshot.
	Snapshot Statement
	// InsertPart stores a part: Token, Part, At, Payload.
	InsertPart Statement
	// ReadPart selects the data of Part of Token.
	ReadPart Statement
	// Commit makes Token the current snapshot with At, Parts and Size if the current one is older (or there is none),
	// all its parts are there, and the log holds no row or one at At that ends with Mark. 1 row affected: done.
	Commit Statement
	// Sweep deletes at most Limit parts of snapshots that are not current and whose index is at or below the current one's.
	Sweep Statement
	// Abort deletes at most Limit parts of Token unless it is current.
	Abort Statement
	// Truncate deletes, in ascending order, at most Limit rows below Below, never the newest one nor one above the
	// current snapshot's index. One that uses Newest, which is looked up before, needs no look of its own, which may lock.
	Truncate Statement
}

// Dialect is one database as a value.
type Dialect struct {
	Statements Statements

	// CreateTables creates the tables where they are missing, and the one row of the snapshot table. It refuses a
	// database that is not ours (oplog.ErrSchema). Any number of processes may run it at once.
	CreateTables func(ctx context.Context) error

	// Classify reads the driver's error by its number. It is asked only about errors that are not the context's.
	Classify func(err error) Verdict

	// Append executes Statements.Append on a pinned connection, by any means but database/sql's retry, and returns the
	// number of rows inserted. Nil: by ExecContext on the connection, which does not retry.
	Append func(ctx context.Context, conn *sql.Conn, at oplog.Index, mark, payload []byte) (int64, error)

	// Durable returns when the rows that a Read has just found on conn can no longer be lost in a crash of the server. It is
	// for databases that show a commit to others before it is on the disk: a node that applied such a row would hold a
	// history that the database no longer has. An error makes it an unsuccessful Read. Nil: what is shown stays.
	Durable func(ctx context.Context, conn *sql.Conn) error

	// Page is how many rows the first statement of a Read asks for at most, where the driver has to read a result to its end
	// even if it is broken off; the following ones ask for as many as are likely to fit. 0: one statement for all.
	Page int

	// OwnBytes: the driver hands out the bytes of each value in memory of their own, so that they need not be copied.
	OwnBytes bool

	// Replicated: the database may show a row that a synchronous standby does not have, where the wait for it was broken
	// off. An append that is given up without an answer then ends in oplog.ErrNotDurable.
	Replicated bool

	// Turn waits on the pinned connection of the appends until those who stand in line before have had their turns, and
	// returns the rows above after, as Statements.Read does, and the index of the newest row. The next Append on the
	// connection ends the turn, as does PassTurn, whatever comes of them. When ctx ends it gives up. oplog.ErrNoTurns: the
	// database has no line. After any other error the connection is not used again. Nil, with PassTurn: there is none. See oplog.Turnstile.
	Turn     func(ctx context.Context, conn *sql.Conn, after int64, maxBytes int) ([]oplog.Row, oplog.Index, error)
	PassTurn func(ctx context.Context, conn *sql.Conn) error

	// Changed returns a number that differs from the one before whenever another connection has committed in between,
	// where the database has one that is cheaper to read than the newest index. It runs on one pinned connection. Nil:
	// the newest index is looked at.
	Changed func(ctx context.Context, conn *sql.Conn) (int64, error)

	// Listen calls wake whenever the database tells that the log may have grown, or told where it says up to which row,
	// until ctx ends. It runs in a goroutine of the log's. Polling goes on beside it: at its slowest (Config.IdlePoll) from a
	// call of sure(true) to the next of sure(false), by which Listen says whether rows of others are known to be told of. Nil:
	// only polling.
	Listen func(ctx context.Context, wake func(), told func(newest oplog.Index), sure func(bool))
}

// Verdict is what an error of the database means.
type Verdict struct {
	// Err is a sentinel of oplog. Of a write, ErrUnknown says that the number does not tell whether it took effect;
	// every other one vouches that it did not.
	Err error
	// Retry: the statement was not applied and may succeed in a moment. The log tries again for as long as it may.
	Retry bool
	// Drop: the connection must not be used again.
	Drop bool
}

// sentinels are the errors that a driver or a hook may hand through as they are. They are about the connection.
var sentinels = []error{oplog.ErrUnknown, oplog.ErrConflict, oplog.ErrUnavailable, oplog.ErrFull, oplog.ErrReadOnly,
	oplog.ErrTooLarge, oplog.ErrDenied, oplog.ErrNoCluster, oplog.ErrExists, oplog.ErrSchema, oplog.ErrCorrupt,
	oplog.ErrSettings, oplog.ErrNoSnapshot, oplog.ErrReplaced, oplog.ErrExhausted, oplog.ErrClosed}

// verdict classifies err. What no table knows is of unknown outcome, on a connection that is not used again.
func (l *Log) verdict(err error) Verdict {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return Verdict{Err: s, Drop: true}
		}
	}
	unknown := Verdict{Err: oplog.ErrUnknown, Drop: true}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || isContext(err) {
		return unknown
	}
	if v := l.c.Dialect.Classify(err); v.Err != nil {
		return v
	}
	return unknown
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Config is what a Log is made of. DB, Dialect, Poll and LockTimeout are required.
type Config struct {
	DB      *sql.DB // becomes the log's: Close closes it
	Dialect Dialect
	Info    oplog.Info
	// Signal is shared by the logs of this process that are kept in the same tables, so that one need not poll to see
	// what another appended. Nil: one of its own.
	Signal *Signal
	// Poll is the first pause between two looks at the database while waiting for rows, IdlePoll the longest: each look
	// that finds nothing makes the pause half as long again. IdlePoll below Poll means Poll.
	Poll, IdlePoll time.Duration
	// LockTimeout is how long one operation tries again where the database refuses it for the moment.
	LockTimeout time.Duration
	// StatementTimeout ends a statement that gets no answer, and the wait for a connection: the connection is dropped;
	// the outcome of a write is unknown, a read is unavailable. 0: never.
	StatementTimeout time.Duration
	// Grace is how long Append waits for the answer to a statement under way after its caller's context has ended. 0: not.
	Grace time.Duration
}

func (c *Config) validate() error {
	switch {
	case c.DB == nil, c.Dialect.Classify == nil, c.Dialect.CreateTables == nil:
		return fmt.Errorf("open the log: no database or an incomplete dialect: %w", oplog.ErrSettings)
	case c.Poll <= 0:
		return fmt.Errorf("open the log: poll interval of %v, must be above 0: %w", c.Poll, oplog.ErrSettings)
	case c.LockTimeout <= 0:
		return fmt.Errorf("open the log: lock timeout of %v, must be above 0: %w", c.LockTimeout, oplog.ErrSettings)
	}
	if c.Signal == nil {
		c.Signal = NewSignal()
	}
	c.IdlePoll = max(c.IdlePoll, c.Poll)
	return nil
}
