// Package replica is the engine: it turns proposals into rows of an ordered log, applies every row to a state and
// publishes the result as immutable views.
//
// It knows bytes and indexes only; what a command means is the owner's Machine. It has no idea of SQL, of time of
// day or of the network, and it logs nothing: what happens is told to Events.
//
// The engine is a ring with one direction, and each station has a file: propose.go (the queue and the waiters) →
// flush.go (one append of many commands) → the log → tail.go (apply, in order) → view.go (publish) → the answer.
// snapshot.go keeps the log short beside it, row.go and snapfile.go hold the stored forms. What each station decides is
// in a step type without goroutine, clock or I/O (flushstep.go, tailstep.go with apply.go, snapstep.go); what the
// goroutines around the steps need of time, waiting and chance comes from a World (world.go), so that a simulation can
// repeat all of it by a seed. Start reading at the heads of flush.go and tail.go.
//
// There is no promise of stability for this package before v1: programs use package headwater.
package replica

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
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
	// The bytes of the commands are never changed afterwards and may be kept, together with the row that they are part of.
	Apply func(s S, index oplog.Index, commands [][]byte) (S, []R, error)
	// Digest returns the digest of s, in constant time.
	Digest func(s S) Digest
	// Encode writes s; Decode reads what Encode wrote and recomputes the digest from it.
	Encode func(s S, w io.Writer) error
	Decode func(r io.Reader) (S, error)
	// Recall returns the result that the command was given earlier, where the state remembers it. The engine asks it
	// for proposals whose row was truncated before this node read it. It may be nil: nothing is remembered.
	Recall func(s S, command []byte) (R, bool)
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
func Init(ctx context.Context, log oplog.Log) (Genesis, error) {
	g := Genesis{ClusterID: ID(randomBytes()), Incarnation: newIncarnation(), Format: Format}
	if err := log.Init(ctx, AppendGenesis(nil, g)); err != nil {
		return Genesis{}, fmt.Errorf("write row 0: %w", err)
	}
	return g, nil
}

// newIncarnation draws the name of a history, which is not zero.
func newIncarnation() (i uint64) {
	for i == 0 {
		seed := randomBytes()
		i = binary.LittleEndian.Uint64(seed[:])
	}
	return i
}

// randomBytes draws what names a cluster, an incarnation or a writer.
func randomBytes() (b [16]byte) {
	rand.Read(b[:]) // never fails
	return b
}

// validate refuses a machine with a function missing.
func (m *Machine[S, R]) validate() error {
	if m.Apply == nil || m.Digest == nil || m.Encode == nil || m.Decode == nil {
		return errors.New("the machine must have Apply, Digest, Encode and Decode")
	}
	return nil
}

// recall asks the machine what became of a command; a machine without memory knows nothing, nor does one that panics.
func (m *Machine[S, R]) recall(s S, command []byte) (value R, known bool) {
	if m.Recall == nil {
		return value, false
	}
	defer func() {
		if recover() != nil {
			known = false
		}
	}()
	return m.Recall(s, command)
}

// Replica is one node's copy of the state. All methods may be called at once from many goroutines.
type Replica[S, R any] struct {
	log        oplog.Log
	turnstile  oplog.Turnstile // the log, where it is one
	m          Machine[S, R]
	o          Options
	genesis    Genesis
	token      Token
	maxCommand int // largest command that fits into a row here, in bytes

	view  atomic.Pointer[View[S]]
	table table[R]

	// Each of these has capacity 1 and one receiver; sending never blocks.
	wakeFlusher     chan struct{}
	wakeTailer      chan struct{}
	wakeSnapshotter chan struct{}
	wakeLooker      chan struct{}
	wakeWatcher     chan struct{}

	stopped chan struct{} // closed when nothing will be applied any more: halted or closed
	cancel  context.CancelFunc
	running crew
	closing sync.Once
	closed  chan struct{} // closed when the first Close is done
}

// Open reads the newest snapshot, starts the engine and returns at once after the first read of the log; the replica
// may still be catching up. It never creates a cluster. The log stays the caller's to close, after Close.
//
// It fails where there is no cluster (oplog.ErrNoCluster), where it is another one than Options expect
// (ErrWrongCluster), where row 0 or the snapshot is of a format that this program does not know (ErrFormat) or is
// damaged (ErrUndecodable), and with what the database says where it cannot be read; ctx bounds that and nothing after it.
// A bad row above the snapshot does not fail it: the replica is open then, and halted.
func Open[S, R any](ctx context.Context, log oplog.Log, m Machine[S, R], o Options) (*Replica[S, R], error) {
	o = o.withDefaults()
	if err := errors.Join(o.validate(), m.validate()); err != nil {
		return nil, fmt.Errorf("open replica: %w", err)
	}
	r := prepare(log, m, o)
	if r.maxCommand < 1 {
		return nil, fmt.Errorf("open replica: %w: the database takes payloads of %d bytes only", oplog.ErrSettings, log.Info().MaxPayload)
	}
	tail, err := r.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("open replica: %w", err)
	}
	r.start(tail)
	return r, nil
}

// prepare returns a replica that knows nothing yet.
func prepare[S, R any](log oplog.Log, m Machine[S, R], o Options) *Replica[S, R] {
	maxRow := MaxRowBytes
	if most := log.Info().MaxPayload; most > 0 {
		maxRow = min(maxRow, most)
	}
	o.RowBytes = min(o.RowBytes, maxRow)
	turnstile, _ := log.(oplog.Turnstile)
	return &Replica[S, R]{
		log: log, turnstile: turnstile, m: m, o: o, token: Token(o.World.Random()), maxCommand: maxRow - rowOverhead - commandOverhead,
		wakeFlusher: make(chan struct{}, 1), wakeTailer: make(chan struct{}, 1), wakeSnapshotter: make(chan struct{}, 1),
		wakeLooker: make(chan struct{}, 1), wakeWatcher: make(chan struct{}, 1),
		stopped: make(chan struct{}),
		closed:  make(chan struct{}),
	}
}

// begin finds out what history is stored, builds the state to begin with and applies the first page of rows.
func (r *Replica[S, R]) begin(ctx context.Context) (*tailStep[S, R], error) {
	bounds, err := r.log.Bounds(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the log: %w", err)
	}
	tail := &tailStep[S, R]{
		m: r.m, token: r.token, haltAtOnce: r.o.HaltOnDivergence, readBytes: r.o.ReadBytes, retry: r.pauses(),
		chance: r.chance(), handed: map[oplog.Index]ownRow{}, contradictors: map[Token]oplog.Index{},
	}
	snap, err := r.base(ctx, bounds)
	if err != nil {
		return nil, err
	}
	r.genesis, tail.genesis = snap.Genesis, snap.Genesis
	if want := r.o.ClusterID; want != (ID{}) && want != r.genesis.ClusterID {
		return nil, fmt.Errorf("%w: expected %s, found %s", ErrWrongCluster, want, r.genesis.ClusterID)
	}
	if snap.Index > bounds.Newest { // somebody stored it since that look, which therefore says nothing about its rows
		if bounds, err = r.log.Bounds(ctx); err != nil {
			return nil, fmt.Errorf("look at the log: %w", err)
		}
	}
	now := r.o.World.Now()
	tail.current = now
	tail.set(snap.State, snap.Index, snap.Digest, snap.Row)
	tail.behind()
	tail.looked(bounds, nil, now)
	r.table.init(now, r.o.World.Step)
	r.table.status = Status{ClusterID: r.genesis.ClusterID, Incarnation: r.genesis.Incarnation}
	r.table.meter = snapMeter{interval: oplog.Index(r.o.SnapshotInterval)}
	r.table.stored(bounds.Snapshot)
	r.adopt(tail)
	rows, err := r.log.Read(ctx, tail.applied, tail.readBytes)
	if err != nil {
		return nil, fmt.Errorf("read after row %d: %w", tail.applied, err)
	}
	tail.read(rows, nil, now)
	for tail.next(tailFacts{now: now}).kind == tailApply {
		r.apply(tail)
	}
	r.report(tail)
	return tail, nil
}

// base returns the stored snapshot, or the state before row 1.
func (r *Replica[S, R]) base(ctx context.Context, bounds oplog.Bounds) (*Snapshot[S], error) {
	if bounds.Snapshot.Parts > 0 {
		return LoadSnapshot(ctx, r.log, r.m)
	}
	if bounds.Empty {
		return nil, oplog.ErrNoCluster
	}
	if bounds.Oldest > 0 {
		return nil, fmt.Errorf("%w: row 0 is missing and there is no snapshot (rows %d to %d are present)",
			oplog.ErrCorrupt, bounds.Oldest, bounds.Newest)
	}
	g, err := ReadGenesis(ctx, r.log)
	if errors.Is(err, oplog.ErrCorrupt) { // or truncated since that look, by somebody who stored the first snapshot
		if again, bad := r.log.Bounds(ctx); bad == nil && again.Snapshot.Parts > 0 {
			return LoadSnapshot(ctx, r.log, r.m)
		}
	}
	if err != nil {
		return nil, err
	}
	return &Snapshot[S]{Genesis: g, Row: g.link(), State: r.m.Empty, Digest: r.m.Digest(r.m.Empty)}, nil
}

// ReadGenesis reads what row 0 says. Where row 0 was truncated the error wraps oplog.ErrCorrupt; the snapshot says it
// then.
func ReadGenesis(ctx context.Context, log oplog.Log) (Genesis, error) {
	rows, err := log.Read(ctx, oplog.Beginning, 0)
	if err != nil {
		return Genesis{}, fmt.Errorf("read row 0: %w", err)
	}
	if len(rows) == 0 || rows[0].Index != 0 {
		return Genesis{}, fmt.Errorf("read row 0: %w: it is not there", oplog.ErrCorrupt)
	}
	return DecodeGenesis(rows[0].Payload)
}

func (r *Replica[S, R]) pauses() pauses { return pauses{r.o.RetryMin, r.o.RetryMax} }

// chance returns a source of chance for one goroutine.
func (r *Replica[S, R]) chance() *mrand.Rand {
	seed := r.o.World.Random()
	return mrand.New(mrand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])))
}

// start starts the goroutines; Close waits for them.
func (r *Replica[S, R]) start(tail *tailStep[S, R]) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	flush := &flushStep{rowCommands: r.o.RowCommands, rowBytes: r.o.RowBytes, retry: r.pauses(), chance: r.chance(), fair: r.turnstile != nil}
	retrier := func() *retrier { return &retrier{&r.o.World, r.pauses(), r.chance(), &r.o.Events} }
	watching, snapshotting := retrier(), retrier()
	r.running.start(&r.o.World,
		func() { r.flush(ctx, flush) },
		func() { r.tail(ctx, tail) },
		func() { r.watch(ctx, watching) },
		func() { r.looker(ctx) },
		func() { r.snapshots(ctx, snapshotting) },
	)
}

// Close stops the engine, answers every waiter and waits for its goroutines. What is queued ends in ErrClosed; what
// was handed to the database and not applied here ends in ErrUnknown together with ErrClosed. Views stay readable. It
// may be called more than once; each call returns when the replica is closed. It never fails.
func (r *Replica[S, R]) Close() error {
	first := false
	r.closing.Do(func() { first = true })
	if !first { // waits in its world, which it could not within the Once
		r.o.World.Wait(context.Background(), time.Time{}, r.closed, nil)
		return nil
	}
	defer close(r.closed)
	r.table.close()
	r.cancel()
	signal(r.wakeFlusher)
	r.o.World.Wait(context.Background(), time.Time{}, r.running.gone, nil)
	if r.table.end(ErrClosed) {
		close(r.stopped)
	}
	close(r.View().next)
	if st, changed := r.table.closed(r.o.World.Now()); changed {
		r.o.Events.stateOf(st)
	}
	return nil
}
