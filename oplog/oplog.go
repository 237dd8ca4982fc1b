// Package oplog is the contract of the ordered log, and a log in memory that keeps it.
//
// A log is a dense sequence of rows, each an opaque payload at an index that its writer chose, and at most one
// current snapshot that stands for all rows up to its index. That is all the engine (package replica) knows of a
// database, and all a database has to offer. The package knows nothing of what the bytes mean; it is not a queue
// and gives out no indexes.
//
// A new implementation is finished when it passes oplogtest.TestLog.
package oplog

import (
	"context"
	"errors"
	"fmt"
)

// Index is the position of a row in the log. Row 0 is the genesis row, written by Init.
type Index uint64

// MaxIndex is the highest index a row can have; an append above it ends in ErrExhausted.
const MaxIndex Index = 1<<55 - 1

// Beginning stands before row 0: Read after it returns row 0 as well. No row has this index. (As a signed 64-bit
// number, as databases have them, it is -1.)
const Beginning Index = 1<<64 - 1

// MaxPayload is the largest payload of a row in bytes; Append of a larger one ends in ErrTooLarge.
const MaxPayload = 8 << 20

// MaxRead is the most rows that one Read returns.
const MaxRead = 4096

// Row is one entry of the log.
type Row struct {
	Index   Index
	Payload []byte // owned by the receiver
}

// MarkSize is the size of the mark of a row in bytes, unless its payload is shorter.
const MarkSize = 8

// Mark returns what tells a row from any other that may stand at its index: the last MarkSize bytes of its payload, all of
// a shorter one. Rows of the engine end with a checksum. The result shares memory with payload.
func Mark(payload []byte) []byte { return payload[max(0, len(payload)-MarkSize):] }

// Bounds is what one consistent look at the log found (one transaction, one moment).
type Bounds struct {
	Empty    bool         // no row is present; Oldest and Newest are then 0
	Oldest   Index        // the lowest row present
	Newest   Index        // the highest row present
	Mark     []byte       // of that row; owned by the receiver
	Snapshot SnapshotInfo // the current snapshot; Snapshot.Parts is 0 where there is none
	// Authoritative is true if the look was made where writes are decided and after every earlier commit was
	// visible: never on a standby or a lagging member. Only such a look may prove that a row is missing.
	Authoritative bool
}

// SnapshotInfo tells of a stored snapshot.
type SnapshotInfo struct {
	Index Index // the last row the snapshot stands for
	Parts int   // how many parts it is stored in, at least 1
	Size  int64 // bytes of all parts
}

// Info tells people what the log is kept in.
type Info struct {
	Backend  string   // for example "sqlite 3.54.1"
	Location string   // without any secret
	Warnings []string // settings that may lose acknowledged rows, and the like; empty when all is well
	// MaxPayload is the largest payload in bytes that Append takes here, and the largest part of a snapshot if it is
	// below MaxPart; 0 means no limit below oplog.MaxPayload.
	MaxPayload int
}

// Log is an ordered log in some database. All methods may be called at once from many goroutines. Every error
// wraps one of the sentinels of this package or the error of the context; an error of Append that NotApplied does
// not vouch for means that the outcome is unknown.
type Log interface {
	// Init creates the tables where they are missing and writes genesis as row 0. Where a cluster is there
	// already it changes nothing and returns ErrExists; of several processes that call it at once exactly one
	// succeeds. Nothing else ever creates a table or a row 0.
	Init(ctx context.Context, genesis []byte) error

	// Append writes payload at index at. It succeeds only while row at-1 is present, is the newest one and ends with mark,
	// all decided in the same instant as the write: so an index whose row was truncated can never be taken
	// again (Truncate keeps the newest row), and nobody writes on after a row that the database has lost and another one
	// has replaced. ErrConflict: the slot was taken, its predecessor is not there or is another one, or
	// (where the log is a Turnstile) another writer has the turn.
	// Whoever appends must have seen row at-1, and mark is its Mark; no bytes ask for none. When ctx ends the statement is not cancelled on the server;
	// the outcome is then unknown. The payload is not kept after the call returns, unless the outcome is unknown.
	// Where the database may show a row before everything that is to keep it has it, an append that does not succeed and
	// may have left such a row ends in ErrNotDurable. While an append is under way its row may be readable already; it is
	// durable only once the append has succeeded.
	Append(ctx context.Context, at Index, mark, payload []byte) error

	// Read returns rows with an index above after (all rows, row 0 too, for Beginning), in ascending order, as many as are there and fit into
	// maxBytes of payload, but at least one if there is one, and at most MaxRead. Where row after+1 was truncated
	// or is not visible yet, the answer starts later or is empty: the caller proves density.
	Read(ctx context.Context, after Index, maxBytes int) ([]Row, error)

	// Newest returns the index of the newest row: no row that was acknowledged before the call is above it.
	Newest(ctx context.Context) (Index, error)

	// Bounds looks at rows and snapshot in one moment. ErrNoCluster where the tables are missing or empty.
	Bounds(ctx context.Context) (Bounds, error)

	// Wait returns nil as soon as the log may hold a row above after, or the end of ctx. It may return early
	// for no reason, and never later than the log's poll interval after such a row became visible.
	Wait(ctx context.Context, after Index) error

	// CreateSnapshot starts to store a snapshot that stands for all rows up to at, the last of which ends with mark, as in
	// Append. The slice is kept.
	CreateSnapshot(ctx context.Context, at Index, mark []byte) (SnapshotWriter, error)

	// OpenSnapshot opens the current snapshot for reading. ErrNoSnapshot where there is none.
	OpenSnapshot(ctx context.Context) (SnapshotReader, error)

	// Truncate deletes, in ascending order and in one transaction, at most limit rows with an index below below;
	// never the newest row, and never one above the index of the stored snapshot, whatever below says. It
	// returns how many it deleted; 0 means that there is nothing left to do.
	Truncate(ctx context.Context, below Index, limit int) (int, error)

	// Info describes the database.
	Info() Info

	// Close releases what the log holds. Calls under way end with ErrClosed or with their own result.
	Close() error
}

// Turnstile is what a Log may be as well: one whose writers, of all processes, can stand in line. It is for liveness
// alone. A turn gives no right that Append rests on, others may append in spite of it, and it may end at any moment; so
// Append is as safe without it. A log has at most one turn at a time.
type Turnstile interface {
	// Turn waits until the writers that stood in line before have had their turns, and returns what Read would return then,
	// and the index of the newest row, so that whoever has the turn need not ask for the rows that it has not seen. The turn ends with the next Append, however that ends, or with PassTurn; or with the connection, the
	// process, or by itself after about half a second, so that nobody keeps the others waiting. ErrNoTurns: there is no
	// line here. After any error there is no turn.
	Turn(ctx context.Context, after Index, maxBytes int) (rows []Row, newest Index, err error)
	// PassTurn ends the turn without an append. It does nothing where there is none.
	PassTurn(ctx context.Context)
}

// Leaper is what a Log must be for its cluster to be restored: one whose row indexes can be raised.
type Leaper interface {
	// Leap writes payload at index to, far above row from, which must be the newest one and end with mark in the same
	// instant; ErrConflict where it is not. It is the one way in which a log gets a hole, and whoever makes it stores a snapshot at to and truncates
	// what is below at once: until then no reader comes past it and no writer appends, unless it is at a member that has not
	// applied the leap yet. Errors are as of Append.
	Leap(ctx context.Context, from, to Index, mark, payload []byte) error
}

// MaxPart is the largest part of a snapshot in bytes.
const MaxPart = 1 << 20

// SnapshotWriter stores one snapshot, part by part, each in a transaction of its own. It is used by one goroutine.
type SnapshotWriter interface {
	// WritePart stores the next part, 1 byte to MaxPart bytes. The slice is not kept.
	WritePart(ctx context.Context, part []byte) error
	// Commit makes the parts the current snapshot, in one small transaction and only over an older one (or
	// none), and sweeps the parts of the one before. ErrConflict: one as new or newer is current, or the log holds
	// rows but not the row at its index, with its mark (a snapshot of a history that the log does not have); nothing changed.
	// After ErrUnknown it may be called again.
	Commit(ctx context.Context) error
	// Abort drops the parts. It does nothing after Commit succeeded, and leaves them to the next commit's sweep after one
	// whose outcome is unknown.
	Abort(ctx context.Context) error
}

// SnapshotReader reads one snapshot. It is used by one goroutine.
type SnapshotReader interface {
	Info() SnapshotInfo
	// ReadPart returns part i, from 0. ErrReplaced: a newer snapshot became current and this one's parts are
	// going; open again.
	ReadPart(ctx context.Context, i int) ([]byte, error)
	Close() error
}

// What Append and the rest end with. Each implementation maps its database's error codes to these by number,
// never by text.
var (
	// ErrConflict: the slot is taken, its predecessor is not there or another one, it is another writer's turn, or a newer snapshot is
	// current. Not applied.
	ErrConflict = errors.New("lost the race for the slot")
	// ErrUnknown: the statement may or may not have taken effect, and may still.
	ErrUnknown = errors.New("outcome unknown")
	// ErrNotDurable is an ErrUnknown that reading the row does not settle: should it be there, then perhaps only on a
	// server whose synchronous standby does not have it, and it goes when that standby is promoted.
	ErrNotDurable = fmt.Errorf("%w: not known to be durable", ErrUnknown)
	// ErrUnavailable: the database cannot be reached or is busy; nothing was applied. Try again later.
	ErrUnavailable = errors.New("database unavailable")
	// ErrFull: there is no room left to store anything. Nothing was applied.
	ErrFull = errors.New("storage full")
	// ErrReadOnly: the database refuses writes. Nothing was applied.
	ErrReadOnly = errors.New("database is read-only")
	// ErrTooLarge: the payload is above what the database takes. Nothing was applied.
	ErrTooLarge = errors.New("too large for the database")
	// ErrDenied: the role lacks a permission. Nothing was applied.
	ErrDenied = errors.New("permission denied")
	// ErrNoCluster: no cluster lives here (tables missing, or neither row nor snapshot in them).
	ErrNoCluster = errors.New("no cluster found")
	// ErrExists: a cluster lives here already.
	ErrExists = errors.New("a cluster exists already")
	// ErrSchema: the database is not one of ours, or its schema is of another version.
	ErrSchema = errors.New("schema invalid")
	// ErrCorrupt: the database says that its own storage is damaged.
	ErrCorrupt = errors.New("database is damaged")
	// ErrSettings: the database is set up so that it must not be used; the text says which setting.
	ErrSettings = errors.New("setting refused")
	// ErrNoSnapshot: there is no snapshot.
	ErrNoSnapshot = errors.New("no snapshot")
	// ErrReplaced: the snapshot being read was replaced by a newer one.
	ErrReplaced = errors.New("snapshot was replaced")
	// ErrExhausted: the index is above MaxIndex. Nothing was applied.
	ErrExhausted = errors.New("index space exhausted")
	// ErrNoTurns: the log has no turnstile, now or ever, or it is switched off. Of Turn only.
	ErrNoTurns = errors.New("no turnstile")
	// ErrClosed: the log was closed. Nothing was applied.
	ErrClosed = errors.New("log is closed")
)

// NotApplied reports whether err vouches that an Append took no effect and never will.
func NotApplied(err error) bool {
	if errors.Is(err, ErrUnknown) {
		return false
	}
	for _, e := range []error{ErrConflict, ErrUnavailable, ErrFull, ErrReadOnly, ErrTooLarge, ErrDenied, ErrNoCluster,
		ErrSchema, ErrCorrupt, ErrSettings, ErrExhausted, ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
