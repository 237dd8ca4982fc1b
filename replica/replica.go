// Package replica is the engine: it turns proposals into rows of an ordered log, applies every row to a state and
// publishes the result as immutable views.
//
// It knows bytes and indexes only; what a command means is the owner's Machine. It has no idea of SQL, of time of
// day or of the network, and it logs nothing: what happens is told to Events.
package replica

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// Digest is a digest of a state.
type Digest [16]byte

// ID is 16 random bytes that name a cluster.
type ID [16]byte

// Machine is the owner's state machine. S is an immutable state: Apply returns a new one and never changes its
// argument, so that a state can be published, kept and compared for as long as somebody holds it.
type Machine[S, R any] struct {
	// Empty is the state before row 1.
	Empty S
	// Apply computes the state after the row at index, and one result for each command. It is pure. An error means
	// that the row cannot be decoded: the engine halts and keeps the state from before the row. A panic does the same.
	Apply func(s S, index oplog.Index, commands [][]byte) (S, []R, error)
	// Digest returns the digest of s, in constant time.
	Digest func(s S) Digest
	// Encode writes s; Decode reads what Encode wrote and recomputes the digest from it.
	Encode func(s S, w io.Writer) error
	Decode func(r io.Reader) (S, error)
	// Recall returns the result that the command was given earlier, where the state remembers it. The engine asks it
	// for proposals whose row was truncated before this node read it.
	Recall func(s S, command []byte) (R, bool)
}

// Options configure a replica; the zero value works.
type Options struct {
	ClusterID        ID            // refuse any other cluster; zero: take what is there
	QueueCommands    int           // most proposals waiting to be appended; default 65,536
	QueueBytes       int           // most bytes of them; default 64 MiB
	RowCommands      int           // most commands in a row; default and maximum 256
	RowBytes         int           // byte budget of a row; default 1 MiB, maximum 8 MiB; a larger command is alone in its row
	SnapshotInterval int           // rows between snapshots, stretched for large states; default 1024; negative: never
	KeepRows         int           // rows kept below the snapshot; default SnapshotInterval; negative: none
	HaltOnDivergence bool          // halt at the first contradicting digest instead of rebuilding first
	ReadBytes        int           // byte budget of one read while catching up; default 4 MiB
	RetryMin         time.Duration // first pause after a database error; default 20 ms
	RetryMax         time.Duration // longest pause; default 1 s
	Events           Events
}

// Events are told what happens; each may be nil. They are called from the engine's goroutines and must not block
// and must not call the replica.
type Events struct {
	Applied   func(index oplog.Index, commands int) // after the view was published
	Appended  func(index oplog.Index, commands, bytes int, took time.Duration)
	Conflict  func(index oplog.Index)                           // an append lost the race
	Retry     func(what string, err error, pause time.Duration) // a database operation is going to be tried again
	Snapshot  func(index oplog.Index, bytes int64, took time.Duration, err error)
	Truncated func(below oplog.Index, rows int)
	Installed func(index oplog.Index)                             // a snapshot was installed
	StateOf   func(st Status)                                     // Condition changed
	Diverged  func(index oplog.Index, writer string, healed bool) // a row's digest contradicted ours
}

// Condition is what a replica is doing.
type Condition int

// The conditions. Views can be read in all of them.
const (
	CatchingUp Condition = iota // behind the log's newest row as far as known
	Ready
	Gap      // a row is missing and no snapshot covers it: nothing is proposed
	Halted   // a row cannot be passed: nothing is applied or proposed any more
	Diverged // this node's state contradicts the log's writers: as Halted
	Rewound  // the log holds less than this node has applied: as Halted
	Closed
)

// Status is a picture of a replica at one moment.
type Status struct {
	Condition     Condition
	Reason        string      // for all but Ready: one sentence with the values
	At            oplog.Index // the row that the reason is about
	Applied       oplog.Index
	Digest        Digest
	Newest        oplog.Index // the newest index seen in the log
	SnapshotIndex oplog.Index // as stored, at the last look; 0: none
	SnapshotSize  int64
	ClusterID     ID
	Incarnation   uint64
	Queued        int           // proposals waiting to be appended
	InFlight      int           // proposals appended or being appended, not applied yet
	Behind        time.Duration // how long ago the view was last known to hold the newest row; 0 while it is
	Database      string        // the last database error while it lasts, else empty
	HealedFaults  int           // divergences found and healed by rebuilding
}

// Genesis is what row 0 and each snapshot say about the history they belong to.
type Genesis struct {
	ClusterID   ID
	Incarnation uint64 // random; a new one for each restore
	Format      uint64 // of rows and snapshots
}

// Result is what became of one proposed command.
type Result[R any] struct {
	Index    oplog.Index // the row that was applied; for a recalled answer, the index of the installed view
	Position int
	Value    R
	Err      error // nil, or one of the errors below, or the context's error together with one of them
}

// View is one immutable state. It never changes and may be kept.
type View[S any] struct {
	State S
	Index oplog.Index
	next  chan struct{}
}

// Next returns a channel that is closed when a newer view is published or the replica is closed.
func (v *View[S]) Next() <-chan struct{} { return v.next }

// How a proposal or a wait ends other than by a result.
var (
	// ErrUnknown: the command may or may not take effect.
	ErrUnknown = errors.New("outcome unknown")
	// ErrNotApplied: given up before anything was appended; never takes effect.
	ErrNotApplied = errors.New("not applied")
	// ErrOverloaded: the queue is full; never takes effect.
	ErrOverloaded = errors.New("overloaded")
	// ErrTooLarge: the command is above the limit of row or database; never takes effect.
	ErrTooLarge = errors.New("command too large")
	// ErrUnavailable: the database refuses it for now (full, read-only, gap); never takes effect.
	ErrUnavailable = errors.New("database unavailable")
	// ErrHalted: the replica has halted; never takes effect.
	ErrHalted = errors.New("halted")
	// ErrRewound: the log lost rows that this replica had applied.
	ErrRewound = errors.New("log was rewound")
	// ErrWrongCluster: the log belongs to another cluster than expected.
	ErrWrongCluster = errors.New("wrong cluster")
	// ErrFormat: row 0 or the snapshot has a format that this program does not know.
	ErrFormat = errors.New("format too new")
	// ErrClosed: the replica was closed; never takes effect.
	ErrClosed = errors.New("replica is closed")
)

// Init makes log a new cluster with a random id and returns it. oplog.ErrExists where one is there.
func Init(ctx context.Context, log oplog.Log) (Genesis, error) { panic("to be written") }

// Replica is one node's copy of the state. All methods may be called at once from many goroutines.
type Replica[S, R any] struct{}

// Open reads the newest snapshot, starts the engine and returns at once after the first read of the log; the replica
// may still be catching up. It never creates a cluster. The log stays the caller's to close, after Close.
func Open[S, R any](ctx context.Context, log oplog.Log, m Machine[S, R], o Options) (*Replica[S, R], error) {
	panic("to be written")
}

// Propose appends the commands in this order and returns when each has its result. They may land in several rows,
// with other proposals between them. When ctx ends, those not handed to the database are given up (ErrNotApplied)
// and the others end in ErrUnknown. The slices are not kept after an answer other than ErrUnknown. Propose blocks
// until the answers are there and may not be called from Events.
func (r *Replica[S, R]) Propose(ctx context.Context, commands ...[]byte) []Result[R] {
	panic("to be written")
}

// View returns the current view: a pointer load.
func (r *Replica[S, R]) View() *View[S] { panic("to be written") }

// Wait returns the first view at or above index.
func (r *Replica[S, R]) Wait(ctx context.Context, index oplog.Index) (*View[S], error) {
	panic("to be written")
}

// Linearize returns a view that holds every command whose answer was given, anywhere, before the call. Callers that
// come together share one look at the log.
func (r *Replica[S, R]) Linearize(ctx context.Context) (*View[S], error) { panic("to be written") }

// Status tells how the replica stands.
func (r *Replica[S, R]) Status() Status { panic("to be written") }

// Snapshot stores a snapshot of the current view now, whatever the interval, verifies it, truncates, and returns its
// index. If one as new is stored already that one's index is returned.
func (r *Replica[S, R]) Snapshot(ctx context.Context) (oplog.Index, error) { panic("to be written") }

// Close stops the engine, answers every waiter and waits for its goroutines.
func (r *Replica[S, R]) Close() error { panic("to be written") }
