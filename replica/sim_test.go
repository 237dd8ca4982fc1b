package replica

// This file is inside the package because it drives the step types, which are not visible from outside, with neither
// goroutines nor a clock of their own: a seed decides what happens, and the same seed makes the same history, byte for
// byte. It is also the seam for a larger simulation.

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/headwaterdb/headwater/oplog"
)

var seeds = flag.Uint64("seeds", 30, "how many seeds TestSimulation runs")

// chain is a state that remembers which numbers it was given, in order, by a hash.
type chain struct {
	sum   uint64
	count uint64
}

// chainMachine's commands are 8 bytes. Its result is the hash after the command.
func chainMachine() Machine[chain, uint64] {
	return Machine[chain, uint64]{
		Apply: func(s chain, index oplog.Index, commands [][]byte) (chain, []uint64, error) {
			out := make([]uint64, len(commands))
			for i, c := range commands {
				b := binary.LittleEndian.AppendUint64(nil, s.sum)
				b = binary.LittleEndian.AppendUint64(b, uint64(index)<<8|uint64(i))
				s = chain{xxh3.Hash(append(b, c...)), s.count + 1}
				out[i] = s.sum
			}
			return s, out, nil
		},
		Digest: func(s chain) (d Digest) {
			binary.LittleEndian.PutUint64(d[:], s.sum)
			binary.LittleEndian.PutUint64(d[8:], s.count)
			return d
		},
		Encode: func(s chain, w io.Writer) error {
			return binary.Write(w, binary.LittleEndian, [2]uint64{s.sum, s.count})
		},
		Decode: func(r io.Reader) (chain, error) {
			var v [2]uint64
			err := binary.Read(r, binary.LittleEndian, &v)
			return chain{v[0], v[1]}, err
		},
	}
}

// simLog is a node's way to the database. It answers at once; what goes wrong is decided by the seed.
type simLog struct {
	oplog.Log
	w *simWorld
}

var simErrors = []error{oplog.ErrUnavailable, oplog.ErrUnknown, oplog.ErrConflict, oplog.ErrFull}

func (l simLog) Append(ctx context.Context, at oplog.Index, payload []byte) error {
	switch dice := l.w.dice.IntN(100); {
	case l.w.calm:
	case dice < 4: // done, but perhaps not for good
		if l.w.append(ctx, l.Log, at, payload) == nil {
			l.w.hollow[at] = true
		}
		return oplog.ErrNotDurable
	case dice < 8: // done, and the answer lost
		l.w.append(ctx, l.Log, at, payload)
		return oplog.ErrUnknown
	case dice < 16: // not done yet, and nobody knows
		l.w.late = append(l.w.late, func() { l.w.append(ctx, l.Log, at, payload) })
		return oplog.ErrUnknown
	case dice < 24:
		return simErrors[l.w.dice.IntN(len(simErrors))]
	}
	return l.w.append(ctx, l.Log, at, payload)
}

func (l simLog) Read(ctx context.Context, after oplog.Index, maxBytes int) ([]oplog.Row, error) {
	if l.w.chance(8) {
		return nil, oplog.ErrUnavailable
	}
	rows, err := l.Log.Read(ctx, after, maxBytes)
	if len(rows) > 0 && l.w.chance(20) { // an old picture
		rows = rows[:l.w.dice.IntN(len(rows))]
	}
	return rows, err
}

func (l simLog) Bounds(ctx context.Context) (oplog.Bounds, error) {
	if l.w.chance(8) {
		return oplog.Bounds{}, oplog.ErrUnavailable
	}
	return l.Log.Bounds(ctx)
}

// simNode is one life of a node: the steps and, between their start and their end, an append.
type simNode struct {
	r       *Replica[chain, uint64]
	tail    *tailStep[chain, uint64]
	flush   *flushStep
	snap    snapshotter[chain, uint64]
	b       *batch[uint64]
	row     ownRow
	payload []byte
	pending bool // an append has been decided on and not been made
	calls   []*simCall
}

type simCall struct {
	word []byte
	call *call[uint64]
	dead bool // its node crashed: nobody hears the answer
}

// simWorld is the database, the nodes, and everything that ever happened.
type simWorld struct {
	t       *testing.T
	dice    *rand.Rand
	db      *oplog.Memory
	nodes   []*simNode
	late    []func()
	history map[oplog.Index][]byte // every row that was ever there
	hollow  map[oplog.Index]bool   // rows whose append ended in oplog.ErrNotDurable
	calls   []*simCall
	words   uint64
	calm    bool // nothing goes wrong any more
	trace   strings.Builder
}

func (w *simWorld) chance(percent int) bool { return !w.calm && w.dice.IntN(100) < percent }

func (w *simWorld) note(format string, args ...any) { fmt.Fprintf(&w.trace, format+"\n", args...) }

// append appends for real and keeps the row in the history: no index ever holds two rows (invariant 1).
func (w *simWorld) append(ctx context.Context, log oplog.Log, at oplog.Index, payload []byte) error {
	err := log.Append(ctx, at, payload)
	if err == nil {
		if _, twice := w.history[at]; twice {
			w.t.Errorf("row %d was written twice", at)
		}
		w.history[at] = append([]byte(nil), payload...)
		w.note("row %d %x", at, xxh3.Hash(payload))
	}
	return err
}

// boot opens node i anew.
func (w *simWorld) boot(i int) {
	o := Options{SnapshotInterval: 12, KeepRows: 6, RowCommands: 4, QueueCommands: 40}.withDefaults()
	var token Token
	binary.LittleEndian.PutUint64(token[:], w.dice.Uint64())
	for {
		o.World = World{Random: func() [16]byte { return token }}.withDefaults()
		r := prepare[chain, uint64](simLog{w.db.Open(), w}, chainMachine(), o)
		tail, err := r.begin(context.Background())
		if err != nil {
			continue // the dice were against it
		}
		rng := rand.New(rand.NewPCG(w.dice.Uint64(), 1))
		tail.chance = rng
		w.nodes[i] = &simNode{r: r, tail: tail, snap: snapshotter[chain, uint64]{r: r},
			flush: &flushStep{rowCommands: o.RowCommands, rowBytes: o.RowBytes, retry: r.pauses(), chance: rng,
				fair: rng.IntN(2) == 0}}
		w.note("boot %d at %d", i, tail.applied)
		return
	}
}

// act lets one thing happen on one node.
func (w *simWorld) act(i int) {
	n, ctx := w.nodes[i], context.Background()
	switch dice := w.dice.IntN(100); {
	case dice < 25: // a client proposes
		w.words++
		c := &simCall{word: binary.BigEndian.AppendUint64(nil, w.words)}
		c.call = n.r.table.enqueue([][]byte{c.word}, &n.r.o, n.r.maxCommand)
		n.calls, w.calls = append(n.calls, c), append(w.calls, c)
	case dice < 28 && len(n.calls) > 0: // a client gives up
		n.r.table.abandon(n.calls[w.dice.IntN(len(n.calls))].call, context.Canceled)
	case dice < 55:
		w.flushOnce(n)
	case dice < 92:
		if w.chance(50) {
			n.r.table.watch(n.tail.applied)
			n.r.table.watchEnded()
		}
		do := n.r.tailOnce(ctx, n.tail)
		if n.tail.final() {
			w.t.Errorf("node %d: %v: %s", i, n.tail.condition, n.tail.reason)
		}
		w.note("tail %d: %d at %d", i, do.kind, n.tail.applied)
	case dice < 95:
		at, err := n.snap.cycle(ctx, w.chance(10))
		w.note("snapshot %d: %d %v", i, at, err)
	case dice < 96: // the process dies, and starts again
		for _, c := range n.calls {
			c.dead = true
		}
		w.boot(i)
	case dice < 98 && len(w.late) > 0: // a statement arrives that everybody had forgotten
		k := w.dice.IntN(len(w.late))
		f := w.late[k]
		w.late = append(w.late[:k], w.late[k+1:]...)
		f()
	default:
		time.Sleep(time.Duration(w.dice.IntN(300)) * time.Millisecond) // virtual
	}
}

// flushOnce is the flusher's loop body, with everything else between the decision to append and the append.
func (w *simWorld) flushOnce(n *simNode) {
	now := time.Now()
	if n.pending {
		n.pending = false
		err := n.r.log.Append(context.Background(), n.b.slot, n.payload)
		w.note("append at %d: %v", n.b.slot, err)
		n.r.appended(n.flush, n.b, n.row, err, now, 0)
		return
	}
	facts := n.r.table.flushFacts(n.b, now)
	switch do := n.flush.next(facts); do.kind {
	case flushRequeue:
		n.r.table.requeue(n.b)
		n.b = nil
	case flushTake:
		n.b = n.r.table.take(do.number, do.at, n.flush.rowCommands, n.flush.rowBytes-rowOverhead)
		var row RowInfo
		row, n.payload = n.r.encodeRow(n.b, facts)
		n.row = ownRow{row, len(n.payload)}
		n.flush.took(n.b.slot, len(row.Commands), len(n.payload))
		n.pending = true
	case flushAsk:
		n.r.table.ask(n.b.slot)
		n.pending = true
	case flushTurn: // others append in spite of it, which makes it as good as any
		var rows []oplog.Row
		var newest oplog.Index
		err := error(oplog.ErrUnavailable)
		if !w.chance(10) {
			rows, err = n.r.log.Read(context.Background(), facts.applied, 1<<20)
		}
		if err == nil {
			newest, err = n.r.log.Newest(context.Background())
		}
		n.flush.turned(newest, err, now)
		n.r.table.turned(rows, newest)
		w.note("turn: %d rows, newest %d, %v", len(rows), newest, err)
	case flushPass:
		n.flush.passed()
	}
}

// settle lets the faults end and everybody finish.
func (w *simWorld) settle() {
	for _, f := range w.late {
		f()
	}
	w.late, w.calm = nil, true
	for i, n := range w.nodes {
		for range 300 {
			w.flushOnce(n)
			n.wake()
			time.Sleep(20 * time.Millisecond)
		}
		if st := n.r.Status(); st.Queued != 0 || st.InFlight != 0 {
			w.t.Errorf("node %d: never finished: %+v", i, st)
		}
	}
	for _, n := range w.nodes {
		for range 300 {
			n.wake()
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// check replays the history alone and compares everything that was ever said with it.
func (w *simWorld) check() {
	type place struct {
		index  oplog.Index
		at     int
		result uint64
	}
	m, s := chainMachine(), chain{}
	places := map[string][]place{}
	for i := oplog.Index(1); int(i) <= len(w.history); i++ {
		row, err := DecodeRow(i, w.history[i])
		if err != nil {
			w.t.Fatalf("the history is not dense: %v", err)
		}
		var results []uint64
		s, results, _ = m.Apply(s, i, row.Commands)
		for at, c := range row.Commands {
			places[string(c)] = append(places[string(c)], place{i, at, results[at]})
		}
	}
	for i, n := range w.nodes {
		if v := n.r.View(); v.Index != oplog.Index(len(w.history)) || v.State != s {
			w.t.Errorf("node %d has %+v at %d, the history %+v at %d", i, v.State, v.Index, s, len(w.history))
		}
	}
	for _, c := range w.calls {
		p := places[string(c.word)]
		if len(p) > 1 {
			w.t.Errorf("%x stands at %v", c.word, p)
		}
		if c.dead {
			continue
		}
		if c.call.left != 0 {
			w.t.Errorf("%x was never answered", c.word)
			continue
		}
		res := c.call.results[0]
		switch {
		case res.Err == nil && (len(p) != 1 || p[0] != place{res.Index, res.Position, res.Value}):
			w.t.Errorf("%x was answered %+v and stands at %v", c.word, res, p)
		case res.Err == nil && w.hollow[p[0].index]:
			w.t.Errorf("%x was answered as a success and stands in row %d, which is not durable", c.word, p[0].index)
		case res.Err != nil && !errors.Is(res.Err, ErrUnknown) && len(p) > 0:
			w.t.Errorf("%x was answered %v and stands at %v", c.word, res.Err, p)
		}
		w.note("answer %x %+v", c.word, res)
	}
}

// simulate runs one seed and returns its trace.
func simulate(t *testing.T, seed uint64) string {
	w := &simWorld{t: t, dice: rand.New(rand.NewPCG(seed, 0)), db: oplog.NewMemory(), nodes: make([]*simNode, 3),
		history: map[oplog.Index][]byte{}, hollow: map[oplog.Index]bool{}}
	genesis := AppendGenesis(nil, Genesis{ClusterID: ID{1}, Incarnation: 1, Format: Format})
	if err := w.db.Open().Init(context.Background(), genesis); err != nil {
		t.Fatal(err)
	}
	for i := range w.nodes {
		w.boot(i)
	}
	for range 3000 {
		w.act(w.dice.IntN(len(w.nodes)))
	}
	w.settle()
	w.check()
	return w.trace.String()
}

// TestSimulation runs random histories of three nodes with lost answers, late commits, database errors, old pictures,
// snapshots, truncation and crashes, and checks every answer against a replay of all rows that were ever written. A
// failing seed is repeated by -run 'TestSimulation/seed-N$'.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for seed := range *seeds {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
}

// TestSimulationRepeats: the same seed makes the same history, byte for byte.
func TestSimulationRepeats(t *testing.T) {
	t.Parallel()
	var traces [2]string
	for i := range traces {
		synctest.Test(t, func(t *testing.T) { traces[i] = simulate(t, 77) })
	}
	if traces[0] != traces[1] {
		a, b := strings.Split(traces[0], "\n"), strings.Split(traces[1], "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("line %d differs:\n%s\n%s", i, a[i], b[i])
			}
		}
		t.Fatalf("%d lines and %d lines", len(a), len(b))
	}
	if n := strings.Count(traces[0], "\n"); n < 1000 {
		t.Errorf("the trace has %d lines only", n)
	}
}

// wake lets the tailer of n do one thing, as after a hint.
func (n *simNode) wake() {
	n.r.table.watch(n.tail.applied)
	n.r.table.watchEnded()
	n.r.tailOnce(context.Background(), n.tail)
}
