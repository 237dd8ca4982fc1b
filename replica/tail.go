package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// The tailer. It alone applies, publishes and answers, and it owns the state.
//
//	own rows, handed over by the flusher ─┐
//	                                      ├→ row n+1 → check → Machine.Apply → publish view → answer own waiters
//	rows read from the log ───────────────┘
//	the stored snapshot (after a gap) ──────→ state and index together → publish view → recall or give up own waiters
//
// What holds at every moment:
//
//  1. Rows are applied strictly in order, n, n+1, n+2; a row is never passed over. What cannot be applied (undecodable,
//     at another index than it says, of another incarnation, an error or a panic of the machine) ends in Halted, with
//     the view from before the row still published.
//  2. The view is stored, then the channel of the one before is closed, then the own waiters are answered. Whoever
//     knows the index, by an answer or by a channel, finds the view.
//  3. State and index change together, by a row or by a snapshot; no half of a row or of a snapshot is ever seen.
//  4. A read that shows nothing proves nothing: it may lag behind. That rows are missing, or are gone that were applied,
//     is concluded only from one look at bounds and snapshot in one moment, and that they are gone only where the look
//     was made where writes are decided.
//  5. Ready is said only after a look at the log that followed the last error, with all that it showed applied.
//
// Wake-ups come from the watcher, a goroutine that does nothing but wait for the log: a wake-up is a hint, and after it
// the tailer reads. If hints stop coming, the look each second finds what was missed.
//
// Roads not taken. Applying own rows from a second read is simpler, and costs a round trip for each. Answering from
// the flusher as soon as the database acknowledged is faster by one apply, and hands out results before anybody can
// see them. Publishing once per page while catching up saves little, since a view is a pointer and a channel, and
// makes waiters wait. Skipping a bad row "because it is ours" forks.

// tail is the tailer's goroutine.
func (r *Replica[S, R]) tail(ctx context.Context, step *tailStep[S, R]) {
	for ctx.Err() == nil {
		do := r.tailOnce(ctx, step)
		switch do.kind {
		case tailStop:
			return
		case tailWait:
			if !step.readDue && r.table.watch(step.applied) { // a read that is only put off needs no wake-up
				signal(r.wakeWatcher)
			}
			r.o.World.Wait(ctx, do.until, r.wakeTailer, nil)
		}
	}
}

// tailOnce decides on the next thing to do and does it, but for waiting.
func (r *Replica[S, R]) tailOnce(ctx context.Context, step *tailStep[S, R]) tailDo {
	facts := r.table.tailFacts(r.o.World.Now())
	if facts.recall {
		r.settle(r.View(), r.table.recalls())
	}
	do := step.next(facts)
	switch do.kind {
	case tailStop:
		r.report(step)
		r.end(step)
	case tailApply:
		r.apply(step)
	case tailRead:
		rows, err := r.log.Read(ctx, step.applied, step.readBytes)
		step.read(rows, err, r.o.World.Now())
		r.failure(ctx, step, "read", err)
	case tailLook:
		bounds, err := r.log.Bounds(ctx)
		now := r.o.World.Now()
		step.looked(bounds, err, now)
		if err == nil && r.table.looked(bounds, r.o.KeepRows, now) {
			signal(r.wakeSnapshotter)
		}
		r.failure(ctx, step, "look", err)
	case tailInspect:
		rows, err := r.log.Read(ctx, step.applied-1, 0) // before row 0 is oplog.Beginning
		err = step.inspected(rows, err, r.o.World.Now())
		r.table.show(step.shown)
		signal(r.wakeFlusher)
		r.failure(ctx, step, "inspect", err)
	case tailInstall:
		r.install(ctx, step)
	case tailRebuild:
		r.heal(ctx, step)
	case tailWait:
		r.report(step)
	}
	return do
}

// watch is the watcher's goroutine: it turns the log's Wait into a wake-up.
func (r *Replica[S, R]) watch(ctx context.Context, retry *retrier) {
	for {
		r.o.World.Wait(ctx, time.Time{}, r.wakeWatcher, nil)
		if ctx.Err() != nil {
			return
		}
		after := r.table.toWatch()
		for failures := 0; ; failures++ {
			err := r.log.Wait(ctx, after)
			if err == nil || ctx.Err() != nil {
				break
			}
			r.table.database("wait", err)
			if !retry.pause(ctx, "wait", err, failures) {
				break
			}
		}
		if ctx.Err() != nil {
			return
		}
		r.table.database("wait", nil)
		r.table.watchEnded()
		signal(r.wakeTailer)
	}
}

// apply applies the next row and publishes what came of it.
func (r *Replica[S, R]) apply(step *tailStep[S, R]) {
	out, ok := step.apply()
	if !ok {
		if step.condition == Diverged {
			r.o.Events.diverged(step.at, step.contradicted.String(), false)
		}
		return
	}
	r.publish(step)
	due, queued := r.table.applied(step.applied, step.digest, step.row, step.newest, &out)
	if queued {
		signal(r.wakeFlusher)
	}
	if due {
		signal(r.wakeSnapshotter)
	}
	r.o.Events.applied(out.index, len(out.results))
}

// install loads the stored snapshot, publishes it, and answers the waiters whose rows it stands for.
func (r *Replica[S, R]) install(ctx context.Context, step *tailStep[S, R]) {
	snap, err := LoadSnapshot(ctx, r.log, r.m)
	ok := step.installed(snap, err, r.o.World.Now())
	r.failure(ctx, step, "install", err)
	if ok {
		r.adopt(step)
		r.o.Events.installed(step.applied)
	}
}

// adopt publishes a state that did not come about by applying the next row.
func (r *Replica[S, R]) adopt(step *tailStep[S, R]) {
	view := r.publish(step)
	r.settle(view, r.table.jumped(step.applied, step.digest, step.row, step.newest))
	signal(r.wakeFlusher)
}

// settle answers waiters whose rows, if there are any, the view's state stands for and nobody here has seen: by what
// the state remembers, and never by a guess.
func (r *Replica[S, R]) settle(view *View[S], waiters []waiting[R]) {
	for _, w := range waiters {
		res := Result[R]{Err: fmt.Errorf("%w: its row was truncated before it was read here", ErrUnknown)}
		if value, known := r.m.recall(view.State, w.command); known && !w.shaky {
			res = Result[R]{Index: view.Index, Value: value}
		}
		r.table.settle(w.entry, res)
	}
}

// heal builds the state anew from the log after a contradiction and lets the step judge.
func (r *Replica[S, R]) heal(ctx context.Context, step *tailStep[S, R]) {
	writer, at := step.contradiction.writer, step.contradiction.row
	built, err := r.rebuild(ctx, step.applied)
	verdict := step.rebuilt(built, err, r.o.World.Now())
	r.failure(ctx, step, "rebuild", err)
	switch verdict {
	case rebuiltHealed:
		r.adopt(step)
		r.o.Events.diverged(at, writer.String(), true)
	case rebuiltDisagree, rebuiltFinal:
		r.o.Events.diverged(at, writer.String(), false)
	}
}

// rebuild computes the state at index upTo from the stored snapshot and the rows present.
func (r *Replica[S, R]) rebuild(ctx context.Context, upTo oplog.Index) (*rebuild[S], error) {
	b := &rebuild[S]{state: r.m.Empty, row: r.genesis.link()}
	snap, err := LoadSnapshot(ctx, r.log, r.m)
	switch {
	case err == nil:
		b.state, b.index, b.row = snap.State, snap.Index, snap.Row
	case !isNoSnapshot(err):
		return nil, err
	}
	b.digest = r.m.Digest(b.state)
	b.ring.put(b.index, b.digest)
	for b.index < upTo {
		rows, err := r.log.Read(ctx, b.index, r.o.ReadBytes)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 || rows[0].Index != b.index+1 {
			return b, nil
		}
		for _, row := range rows {
			if row.Index != b.index+1 || b.index == upTo {
				break
			}
			info, err := DecodeRow(row.Index, row.Payload)
			if err != nil || info.Previous != b.row {
				return b, nil
			}
			next, _, digest, err := r.m.run(b.state, row.Index, info.Commands)
			if err != nil {
				return b, nil
			}
			b.state, b.index, b.digest, b.row = next, row.Index, digest, info.Checksum
			b.ring.put(b.index, digest)
		}
	}
	b.whole = true
	return b, nil
}

// failure reports a database error of the tailer, and that it is over.
func (r *Replica[S, R]) failure(ctx context.Context, step *tailStep[S, R], what string, err error) {
	if ctx.Err() != nil {
		return
	}
	r.table.database("read", err)
	if err != nil {
		at := step.readAt
		if what == "look" || what == "inspect" || what == "install" {
			at = step.lookAt
		}
		r.o.Events.retry(what, err, max(at.Sub(r.o.World.Now()), 0))
	}
	r.report(step)
}

// report carries the step's condition into the status and tells of a change.
func (r *Replica[S, R]) report(step *tailStep[S, R]) {
	changed := r.table.report(step.condition, step.at, step.reason, step.newest, step.current, step.healed)
	if changed {
		r.o.Events.stateOf(r.Status())
		signal(r.wakeFlusher)
	}
}

// end stops the replica for good, with the views still readable.
func (r *Replica[S, R]) end(step *tailStep[S, R]) {
	refusal := fmt.Errorf("%w at index %d: %s", ErrHalted, step.at, step.reason)
	if step.condition == Rewound {
		refusal = fmt.Errorf("%w: %w at index %d: %s", ErrHalted, ErrRewound, step.at, step.reason)
	}
	if r.table.end(refusal) {
		close(r.stopped)
	}
	signal(r.wakeFlusher)
	signal(r.wakeSnapshotter)
}
