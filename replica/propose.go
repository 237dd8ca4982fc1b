package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// What Propose promises, and what keeps the promise:
//
//   - At most once. A command stands in no row, or in one; never in two by the engine's doing. A batch is appended
//     again only at the slot where it was tried, byte for byte, or after that slot is known to hold another row.
//   - In order. The commands of one call, and of calls that follow one another, are appended in that order: the queue
//     is first in, first out, one append is under way at a time, and a batch that lost its slot goes back to the front.
//   - Answered after apply. The view that contains the command is published before its result is delivered.
//   - Never a guess. A caller that gives up is told ErrNotApplied while the command was not handed to the database, or
//     after the database vouched that it took no effect; after that ErrUnknown, whatever seems likely.
//   - One refused command never sinks the others of its call or row.
//   - Bounded. Beyond QueueCommands or QueueBytes a call is refused at once as a whole, also when the database has
//     been away for an hour.

// entry is one proposed command on its way to an answer.
type entry[R any] struct {
	command []byte
	call    *call[R]
	at      int       // its place in the call
	batch   *batch[R] // nil while it is queued
	done    bool      // answered or abandoned
}

// call is one call of Propose.
type call[R any] struct {
	results []Result[R]
	entries []entry[R]
	left    int           // entries without an answer
	done    chan struct{} // closed when left reaches 0

	// Of a call with one command, the room for both, made with it.
	result [1]Result[R]
	entry  [1]entry[R]
}

// batch is what the flusher tries to append as one row. From the moment it is made its commands count as handed to
// the database.
type batch[R any] struct {
	number   uint64 // in the row; a new one for each content
	slot     oplog.Index
	entries  []*entry[R]
	commands [][]byte // the callers' own slices; the flusher copies them once, into the payload
	resolved bool     // its entries have been answered or queued again: its fate is known
	doubted  bool     // an append of it ended without saying what it did
	jumped   bool     // an install went past its slot while an append of it was under way
	recall   bool     // and that append may have landed: the tailer is to ask the state
	shaky    bool     // an append of it ended in oplog.ErrNotDurable: that its row is there is no success
	read     []R      // the results of its row, which was read while an append of it was under way; not nil then
}

// ownRow is a row of ours that the database has acknowledged, on its way from the flusher to the tailer.
type ownRow struct {
	row   RowInfo
	bytes int
}

// table is what callers, flusher, tailer and snapshotter share, behind the one mutex of the engine. Nothing in it
// waits, and nothing in it calls out while the mutex is held.
type table[R any] struct {
	mu lock

	front       []*entry[R] // came back from a lost slot; goes before queue
	queue       []*entry[R]
	head        int // queue[:head] is used up
	queuedLive  int // entries in front and queue that still want an answer
	queuedDead  int
	queuedBytes int

	batches   []*batch[R] // all that are not resolved, oldest first; few
	inFlight  int         // unanswered entries in them
	handed    []ownRow    // acknowledged, for the tailer
	asking    oplog.Index // the slot of the append under way; 0: none
	suspected bool        // the log seems to hold less than was applied
	inLine    bool        // the flusher waits for a turn
	found     []oplog.Row // what came with the turn, for the tailer
	nudged    bool        // an append met something that the tailer will find by a read
	watching  bool        // the watcher waits, or is about to
	watched   oplog.Index // for rows above this one
	woken     bool        // its last wait is over

	refusal error // why proposals are refused; nil: they are not
	ended   error // why waits end; nil: they go on
	held    bool  // the flusher must not append: a gap
	closing bool
	status  Status
	row     uint64 // checksum of the row that was applied last
	shown   []byte // what it ends with in the log, where it is damaged there
	faults  faults
	current time.Time // when the view was last known to hold the newest row
	meter   snapMeter
	forced  []*snapCall

	look *lookup // the next look at the log's newest index; nobody has started it yet
}

// init makes t the table of a replica that is being opened. step is called whenever the mutex was held.
func (t *table[R]) init(now time.Time, step func()) {
	t.current, t.mu.step = now, step
}

// enqueue takes the commands of one call, or refuses all of them.
func (t *table[R]) enqueue(commands [][]byte, o *Options, maxCommand int) *call[R] {
	c := &call[R]{left: len(commands), done: make(chan struct{})}
	c.results, c.entries = c.result[:], c.entry[:]
	if len(commands) != 1 {
		c.results, c.entries = make([]Result[R], len(commands)), make([]entry[R], len(commands))
	}
	bytes := 0
	for i, b := range commands {
		c.entries[i] = entry[R]{command: b, call: c, at: i}
		bytes += len(b)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	refusal := t.refusal
	if refusal == nil && (t.queuedLive+len(commands) > o.QueueCommands || t.queuedBytes+bytes > o.QueueBytes) {
		refusal = fmt.Errorf("%w: %d commands of %d bytes wait already, allowed are %d of %d",
			ErrOverloaded, t.queuedLive, t.queuedBytes, o.QueueCommands, o.QueueBytes)
	}
	for i := range c.entries {
		e := &c.entries[i]
		switch {
		case refusal != nil:
			t.answer(e, Result[R]{Err: refusal})
		case len(e.command) > maxCommand:
			t.answer(e, Result[R]{Err: fmt.Errorf("%w: %d bytes, allowed are %d", ErrTooLarge, len(e.command), maxCommand)})
		default:
			t.queue = append(t.queue, e)
			t.count(e, 1)
		}
	}
	if c.left == 0 && len(commands) == 0 {
		close(c.done)
	}
	return c
}

// count adds e to what is queued, or takes it away.
func (t *table[R]) count(e *entry[R], sign int) {
	t.queuedLive += sign
	t.queuedBytes += sign * len(e.command)
}

// answer gives e its result, unless it has one.
func (t *table[R]) answer(e *entry[R], res Result[R]) {
	if e.done {
		return
	}
	e.done, e.command = true, nil
	if e.batch != nil {
		t.inFlight--
	}
	e.call.results[e.at] = res
	if e.call.left--; e.call.left == 0 {
		close(e.call.done)
	}
}

// abandon answers what is left of a call whose context ended. What is already in a row that may land stays there.
func (t *table[R]) abandon(c *call[R], cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range c.entries {
		e := &c.entries[i]
		if e.done {
			continue
		}
		if e.batch != nil {
			t.answer(e, Result[R]{Err: fmt.Errorf("%w: row %d may hold it: %w", ErrUnknown, e.batch.slot, cause)})
			continue
		}
		t.count(e, -1)
		t.queuedDead++
		t.answer(e, Result[R]{Err: fmt.Errorf("%w: %w%s", ErrNotApplied, cause, t.faults.hindrance())})
	}
	t.sweep()
}

// sweep forgets abandoned entries once they are the larger part, so that callers that keep giving up while the
// database is away do not fill the memory.
func (t *table[R]) sweep() {
	if t.queuedDead < 1024 || t.queuedDead < t.queuedLive {
		return
	}
	live := make([]*entry[R], 0, t.queuedLive)
	for _, e := range t.queue[t.head:] {
		if !e.done {
			live = append(live, e)
		}
	}
	t.queue, t.head = live, 0
	t.queuedDead = 0
	for _, e := range t.front {
		if e.done {
			t.queuedDead++
		}
	}
}

// next returns the first entry that is queued without taking it, or nil.
func (t *table[R]) next() *entry[R] {
	for len(t.front) > 0 {
		if e := t.front[0]; !e.done {
			return e
		}
		t.drop()
	}
	for t.head < len(t.queue) {
		if e := t.queue[t.head]; !e.done {
			return e
		}
		t.drop()
	}
	return nil
}

// drop takes the first entry, live or dead, off the queue.
func (t *table[R]) drop() {
	var e *entry[R]
	if len(t.front) > 0 {
		e, t.front[0] = t.front[0], nil
		t.front = t.front[1:]
	} else {
		e, t.queue[t.head] = t.queue[t.head], nil
		if t.head++; t.head == len(t.queue) {
			t.queue, t.head = t.queue[:0], 0
		} else if t.head >= 1024 && t.head > len(t.queue)/2 {
			n := copy(t.queue, t.queue[t.head:])
			clear(t.queue[n:])
			t.queue, t.head = t.queue[:n], 0
		}
	}
	if e.done {
		t.queuedDead--
	} else {
		t.count(e, -1)
	}
}

// take makes the batch of that number for that slot of the first queued commands: at most commands of them, and at
// most bytes together, unless the first one alone is larger. It returns nil where nothing is queued. The commands
// count as handed to the database from here on, not from the start of the statement, so that no caller can give one
// up as never applied while it is being encoded.
func (t *table[R]) take(number uint64, slot oplog.Index, commands, bytes int) *batch[R] {
	t.mu.Lock()
	defer t.mu.Unlock()
	room := min(commands, t.queuedLive+t.queuedDead)
	b := &batch[R]{number: number, slot: slot, entries: make([]*entry[R], 0, room), commands: make([][]byte, 0, room)}
	for size := 0; len(b.entries) < commands; {
		e := t.next()
		if e == nil {
			break
		}
		size += len(e.command) + commandOverhead
		if size > bytes && len(b.entries) > 0 {
			break
		}
		t.drop()
		e.batch = b
		b.entries = append(b.entries, e)
		b.commands = append(b.commands, e.command)
	}
	if len(b.entries) == 0 {
		return nil
	}
	t.batches = append(t.batches, b)
	t.asking = slot
	t.inFlight += len(b.entries)
	return b
}

// ask notes the slot of the append that is about to start.
func (t *table[R]) ask(slot oplog.Index) {
	t.mu.Lock()
	t.asking = slot
	t.mu.Unlock()
}

// lineUp notes that the flusher waits for a turn, which brings rows.
func (t *table[R]) lineUp() {
	t.mu.Lock()
	t.inLine = true
	t.mu.Unlock()
}

// turned notes that the wait has ended, and hands what came with the turn to the tailer: rows in order, of one moment
// when newest was the newest one.
func (t *table[R]) turned(rows []oplog.Row, newest oplog.Index) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inLine, t.found = false, rows
	t.nudged = t.nudged || len(rows) == 0 && newest > t.status.Applied
}

// landed hands an acknowledged row of ours to the tailer.
func (t *table[R]) landed(b *batch[R], row ownRow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking, b.recall, b.shaky = 0, b.jumped, false
	t.deliver(b)
	t.handed = append(t.handed, row)
	t.status.Newest = max(t.status.Newest, row.row.Index)
}

// unsure notes that an append ended without saying what became of it.
func (t *table[R]) unsure(b *batch[R], err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking, t.nudged = 0, true
	b.doubted, b.recall = true, b.jumped
	b.shaky = b.shaky || errors.Is(err, oplog.ErrNotDurable)
	t.deliver(b)
}

// deliver answers the waiters of b, if its row was read while the append was under way that has ended now.
func (t *table[R]) deliver(b *batch[R]) {
	if b.read != nil && !b.resolved {
		t.answerRow(b, b.read)
	}
}

// answerRow answers the waiters of b, whose row was applied with these results. The row is in the log of the server that
// was read; where that is not enough for a success the waiters are not told of one.
func (t *table[R]) answerRow(b *batch[R], results []R) {
	t.forget(b)
	for i, e := range b.entries {
		res := Result[R]{Index: b.slot, Position: i, Value: results[i]}
		if b.shaky {
			res = Result[R]{Err: fmt.Errorf("%w: row %d: %w", ErrUnknown, b.slot, oplog.ErrNotDurable)}
		}
		t.answer(e, res)
	}
}

// requeue puts what is still wanted of b back to the front: b is known not to have taken effect, for ever.
func (t *table[R]) requeue(b *batch[R]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking, t.nudged = 0, true
	t.deliver(b)
	if b.resolved {
		return
	}
	t.forget(b)
	var back []*entry[R]
	for _, e := range b.entries {
		if !e.done {
			e.batch = nil
			t.inFlight--
			t.count(e, 1)
			back = append(back, e)
		}
	}
	t.front = append(back, t.front...)
	if t.refusal != nil {
		t.failQueued(t.refusal)
	}
}

// fail answers everything of b with err: b is known not to have taken effect, for ever.
func (t *table[R]) fail(b *batch[R], err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking = 0
	t.deliver(b)
	if b.resolved {
		return
	}
	t.forget(b)
	for _, e := range b.entries {
		t.answer(e, Result[R]{Err: err})
	}
}

// forget takes b out of the batches that may land.
func (t *table[R]) forget(b *batch[R]) {
	b.resolved = true
	t.batches = slices.DeleteFunc(t.batches, func(c *batch[R]) bool { return c == b })
}

// failQueued answers everything that was not handed to the database.
func (t *table[R]) failQueued(err error) {
	for e := t.next(); e != nil; e = t.next() {
		t.drop()
		t.answer(e, Result[R]{Err: err})
	}
}

// failInFlight answers everything that may have landed.
func (t *table[R]) failInFlight(err error) {
	for _, b := range slices.Clone(t.batches) {
		for _, e := range b.entries {
			t.answer(e, Result[R]{Err: err})
		}
		t.forget(b)
	}
}

// Propose appends the commands in this order and returns when each has its result. They may land in several rows,
// with other proposals between them. When ctx ends, those not handed to the database are given up (ErrNotApplied)
// and the others end in ErrUnknown. The slices are not kept after an answer other than ErrUnknown. Propose blocks
// until the answers are there and may not be called from Events.
//
// A call is queued as a whole or, where the queue's bounds leave no room for it, refused as a whole with
// ErrOverloaded.
func (r *Replica[S, R]) Propose(ctx context.Context, commands ...[]byte) []Result[R] {
	if err := ctx.Err(); err != nil {
		results := make([]Result[R], len(commands))
		for i := range results {
			results[i].Err = fmt.Errorf("%w: %w", ErrNotApplied, err)
		}
		return results
	}
	c := r.table.enqueue(commands, &r.o, r.maxCommand)
	signal(r.wakeFlusher)
	if !r.o.World.Wait(ctx, time.Time{}, c.done, nil) {
		r.table.abandon(c, ctx.Err())
	}
	return c.results
}

// signal wakes whoever waits on a channel of capacity 1, or leaves word.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
