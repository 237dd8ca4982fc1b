package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// The flusher. It alone appends.
//
//	queue → take ≤256 commands → Append at the slot after the last row seen ─┬ acknowledged → row handed to the tailer
//	  ↑                                                                      ├ lost         → wait until the slot was seen
//	  └───────────────── back to the front, for a new slot ←─────────────────┘ unknown      → the same bytes, same slot
//
// What holds at every moment:
//
//  1. One append is under way at a time, so the order of the queue is the order of the rows.
//  2. It appends at n+1 only after row n was seen: applied by the tailer, or acknowledged to the flusher itself. In
//     the second case it need not wait for the tailer, up to maxAhead rows. It says which row n it saw, by what that ends
//     with: where the database has lost it and holds another one in its place, the append is refused.
//  3. A batch is appended under its number at one slot only, with the same bytes every time. Its commands go to
//     another slot only once that slot is known to hold another row, or the database has vouched that no statement
//     took effect. A statement that arrives late therefore meets its slot taken, or its predecessor truncated.
//  4. The flusher never answers that something was applied. It hands the acknowledged row over and forgets it; the
//     tailer applies it when it is the next one, publishes, and answers. So it makes no difference whether an
//     acknowledgement arrived, got lost and the row was read from the log instead, or a snapshot jumped over it. Only
//     while the append is under way does an answer wait for its end, because that may say that the row may yet go (a
//     synchronous standby does not have it): its waiters are then told that the outcome is unknown.
//  5. Whether a batch's slot was seen and whether the batch was answered are read under one lock, in which the tailer
//     changed both: a slot that was seen and a batch that was not answered means that the row is another's.
//
// Group commit comes by itself: whatever gathers while an append is under way makes the next row, and an idle flusher
// appends the moment something is queued. On busy cores it lets goroutines that are ready to run go first: rows hold more, and
// with 16 to 1024 callers an eighth to a third more commands go through.
//
// Where the log is an oplog.Turnstile, a flusher that lost a race stands in line before the next append, and goes on to
// do so until it finds in its turn that nobody else has appended. In its turn it first waits for the tailer to have applied
// the newest row: a turn does not change what rule 2 demands. An append in a turn may be lost as any other.
//
// Roads not taken. A linger of some milliseconds before an append gathers more commands per row; it makes the idle
// case slow to help a busy case that gathers anyway. Several appends under way at once would hide the database's
// latency, but the second could land where the first did not, and order, density and the resolution of lost answers
// all rest on there being one. Cancelling the statement when a caller gives up does not make it not happen. Reading
// the slot back after an unknown outcome, as a special case, is what the tailer does anyhow.

// appendPatience bounds one append. After it the outcome is unknown and the statement is sent again.
const appendPatience = 10 * time.Second

// flush is the flusher's goroutine.
func (r *Replica[S, R]) flush(ctx context.Context, step *flushStep) {
	var b *batch[R]
	var row RowInfo
	var payload []byte
	for {
		facts := r.table.flushFacts(b, r.o.World.Now())
		doubted := step.phase == flushUnsure
		do := step.next(facts)
		if doubted && step.phase == flushFree {
			r.table.database("append", nil) // the log has answered what the append did not
		}
		switch do.kind {
		case flushStop:
			r.passTurn(step)
			return
		case flushTurn:
			r.takeTurn(ctx, step, facts.applied)
		case flushPass:
			r.passTurn(step)
		case flushWait:
			r.o.World.Wait(ctx, do.until, r.wakeFlusher, nil)
		case flushRequeue:
			r.table.requeue(b)
			b = nil
		case flushTake:
			runtime.Gosched() // whoever is ready to propose comes first, and into this row; on an idle machine that is nobody
			b = r.table.take(do.number, do.at, step.rowCommands, step.rowBytes-rowOverhead)
			if b == nil {
				continue // all of it was given up in between
			}
			row, payload = r.encodeRow(b, facts, step.last(facts))
			step.took(&row, len(payload))
			r.append(ctx, step, b, step.mark(facts), row, payload)
		case flushAsk:
			r.append(ctx, step, b, step.mark(facts), row, payload)
		}
	}
}

// takeTurn waits for a turn in the log, and hands the rows above applied that come with it to the tailer.
func (r *Replica[S, R]) takeTurn(ctx context.Context, step *flushStep, applied oplog.Index) {
	r.table.lineUp()
	waiting, cancel := r.o.World.Timeout(ctx, turnPatience)
	rows, newest, err := r.turnstile.Turn(waiting, applied, r.o.ReadBytes)
	cancel()
	step.turned(newest, err, r.o.World.Now())
	r.table.turned(rows, newest)
	signal(r.wakeTailer)
}

// passTurn ends a turn that is not used, or whose append may not have reached the database.
func (r *Replica[S, R]) passTurn(step *flushStep) {
	if !step.turn {
		return
	}
	step.passed()
	ctx, cancel := r.o.World.Timeout(context.Background(), turnHold)
	defer cancel()
	r.turnstile.PassTurn(ctx)
}

// encodeRow makes the row and its payload of b, to follow on a row with the checksum previous. The row's commands share memory with the payload and no longer with
// the callers' slices, so that the machine may keep them.
func (r *Replica[S, R]) encodeRow(b *batch[R], f flushFacts, previous uint64) (RowInfo, []byte) {
	row := RowInfo{
		Index: b.slot, Incarnation: r.genesis.Incarnation, Previous: previous, Writer: r.token, Batch: b.number,
		Seen: f.applied, SeenDigest: f.digest, Commands: b.commands,
	}
	size := rowOverhead
	for _, c := range b.commands {
		size += len(c) + commandOverhead
	}
	payload := AppendRow(make([]byte, 0, size), &row)
	row.Commands = make([][]byte, len(b.commands))
	end := len(payload) - sumSize
	row.Checksum = binary.BigEndian.Uint64(payload[end:])
	for i := len(b.commands) - 1; i >= 0; i-- {
		n := len(b.commands[i])
		row.Commands[i] = payload[end-n : end : end]
		end -= n + uvarintSize(n)
	}
	b.commands = nil
	return row, payload
}

// append sends the batch in hand, to follow on a row that ends with mark, and deals with how that ended.
func (r *Replica[S, R]) append(ctx context.Context, step *flushStep, b *batch[R], mark []byte, row RowInfo, payload []byte) {
	r.table.ask(b.slot)
	start := r.o.World.Now()
	asking, cancel := r.o.World.Timeout(ctx, appendPatience)
	err := r.log.Append(asking, b.slot, mark, payload)
	cancel()
	if err != nil && !errors.Is(err, oplog.ErrConflict) { // it may not have come so far as to end the turn
		r.passTurn(step)
	}
	now := r.o.World.Now()
	r.appended(step, b, ownRow{row, len(payload)}, err, now, now.Sub(start))
}

// appended deals with the end of an append that took that long.
func (r *Replica[S, R]) appended(step *flushStep, b *batch[R], row ownRow, err error, now time.Time, took time.Duration) {
	verdict, failure := step.appended(err, now)
	switch verdict {
	case verdictLanded:
		r.table.landed(b, row)
		r.o.Events.appended(b.slot, len(row.row.Commands), row.bytes, took)
	case verdictUnsure:
		r.table.unsure(b, err)
		r.o.Events.retry("append", err, step.until.Sub(now))
	case verdictLost:
		r.table.requeue(b)
		r.o.Events.conflict(b.slot)
	case verdictAgain:
		r.table.requeue(b)
		r.o.Events.retry("append", err, max(step.until.Sub(now), 0))
	case verdictRefused:
		r.table.fail(b, failure)
	}
	r.table.database("append", err)
	signal(r.wakeTailer) // its row came, or somebody else's did
}

// flushFacts gathers what the flusher's next decision depends on.
func (t *table[R]) flushFacts(b *batch[R], now time.Time) flushFacts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return flushFacts{
		now:      now,
		applied:  t.status.Applied,
		digest:   t.status.Digest,
		row:      t.row,
		shown:    t.shown,
		newest:   t.status.Newest,
		queued:   t.queuedLive > 0,
		held:     t.held,
		stopped:  t.ended != nil || t.closing,
		resolved: b != nil && (b.resolved || b.recall),
	}
}
