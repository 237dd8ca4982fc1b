package replica

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// String names the condition in the words of the status.
func (c Condition) String() string {
	switch c {
	case CatchingUp:
		return "catching up"
	case Ready:
		return "ready"
	case Gap:
		return "gap"
	case Halted:
		return "halted"
	case Diverged:
		return "diverged"
	case Rewound:
		return "rewound"
	case Closed:
		return "closed"
	}
	return fmt.Sprintf("condition %d", int(c))
}

// Status tells how the replica stands.
func (r *Replica[S, R]) Status() Status {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return r.table.picture(r.o.World.Now())
}

// staleAfter is how long the last proof that the view holds the newest row may be ago before a node does not call itself
// ready any more: some looks have failed by then, or one waits for an answer of a server that has gone without a goodbye.
const staleAfter = 3 * lookEvery

// picture completes the status as of now.
func (t *table[R]) picture(now time.Time) Status {
	s := t.status
	s.Queued, s.InFlight = t.queuedLive, t.inFlight
	for _, err := range []string{t.faults.read, t.faults.append, t.faults.wait, t.faults.snapshot} {
		if err != "" {
			s.Database = err
			break
		}
	}
	age := max(now.Sub(t.current), 0)
	if s.Condition == Ready && age >= staleAfter {
		s.Condition, s.At = CatchingUp, s.Applied+1
		s.Reason = fmt.Sprintf("row %d is applied, and for %v nothing has told whether it is the newest", s.Applied, age.Round(time.Second))
	}
	if s.Condition != Ready || t.faults.read != "" {
		s.Behind = age
	}
	return s
}

// faults are the last database errors of each goroutine, while they last.
type faults struct {
	read, append, wait, snapshot string

	passing bool // append says that the database could not be reached or was busy: nothing that lasts
}

// hindrance says what kept proposals from being appended, for those who waited in vain; nothing where nothing did.
func (f faults) hindrance() string {
	for _, err := range []string{f.append, f.read} {
		if err != "" {
			return " (" + err + ")"
		}
	}
	return ""
}

// database notes how an operation on the database ended. A lost race is no fault of the database.
func (t *table[R]) database(what string, err error) {
	text := ""
	if err != nil && !isConflict(err) {
		text = what + ": " + err.Error()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch what {
	case "append":
		t.faults.append, t.faults.passing = text, errors.Is(err, oplog.ErrUnavailable)
	case "wait":
		t.faults.wait = text
	case "snapshot":
		t.faults.snapshot = text
	default:
		t.faults.read = text
		if text == "" && t.faults.passing && t.queuedLive == 0 && len(t.batches) == 0 {
			t.faults.append = "" // whoever waited for it has left, and the database answers
		}
	}
}

// tailFacts takes what has come for the tailer.
func (t *table[R]) tailFacts(now time.Time) tailFacts {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := tailFacts{now: now, handed: t.handed, asking: t.asking, inLine: t.inLine, found: t.found, nudged: t.nudged}
	for _, b := range t.batches {
		f.recall = f.recall || b.recall
	}
	f.suspected = t.suspected
	f.woken = t.woken && t.watched >= t.status.Applied
	t.handed, t.found, t.nudged, t.suspected, t.woken = nil, nil, false, false, false
	return f
}

// watch notes that the watcher is to wait for rows above after. It reports false while it waits already.
func (t *table[R]) watch(after oplog.Index) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watching {
		return false
	}
	t.watching, t.watched = true, after
	return true
}

// toWatch returns after which row the watcher is to wait.
func (t *table[R]) toWatch() oplog.Index {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watched
}

// watchEnded notes that the wait is over: the log may hold such a row.
func (t *table[R]) watchEnded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watching, t.woken = false, true
}

// recalls takes the waiters whose rows were jumped over while they were being appended.
func (t *table[R]) recalls() (out []waiting[R]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range slices.Clone(t.batches) {
		if b.recall {
			out = t.waiters(b, out)
		}
	}
	return out
}

// waiters forgets b and appends those who still wait for it to out.
func (t *table[R]) waiters(b *batch[R], out []waiting[R]) []waiting[R] {
	t.forget(b)
	for _, e := range b.entries {
		if !e.done {
			out = append(out, waiting[R]{e, e.command, b.shaky})
		}
	}
	return out
}

// applied notes that a row was applied and its view published, and answers its waiters where it is ours. It tells
// whether a snapshot is due and whether the flusher may have something to do. Index, answers and the end of the batch
// change under one lock: the flusher relies on it.
func (t *table[R]) applied(index oplog.Index, digest Digest, row uint64, newest oplog.Index, out *applied[R]) (due, wake bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wake = t.queuedLive > 0 || len(t.batches) > 0
	t.status.Applied, t.status.Digest, t.row, t.shown, t.status.Newest = index, digest, row, nil, newest
	own := slices.IndexFunc(t.batches, func(b *batch[R]) bool { return b.number == out.batch && b.slot == index })
	if out.batch != 0 && own >= 0 {
		if b := t.batches[own]; b.slot == t.asking { // what the append will say is waited for: see oplog.ErrNotDurable
			b.read = out.results
		} else {
			t.answerRow(b, out.results)
		}
	}
	return t.meter.row(index, out.bytes, out.batch != 0), wake
}

// show takes what the row applied last ends with in the log, where it is damaged there.
func (t *table[R]) show(ending []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shown = ending
}

// waiting is an entry whose row was jumped over, with what it proposed.
type waiting[R any] struct {
	entry   *entry[R]
	command []byte
	shaky   bool // the row is no success, should it be there
}

// jumped notes that the state was replaced by one at index, and takes the waiters whose rows may be among those that
// were jumped over. They are the caller's to settle. A batch that is being appended for the first time is left alone:
// most likely it will turn out to have lost its slot long ago, and then it only has to be queued again.
func (t *table[R]) jumped(index oplog.Index, digest Digest, row uint64, newest oplog.Index) []waiting[R] {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.status.Applied
	t.status.Applied, t.status.Digest, t.row, t.shown, t.status.Newest = index, digest, row, nil, newest
	t.meter.jump(index)
	var out []waiting[R]
	for _, b := range slices.Clone(t.batches) {
		switch {
		case b.slot <= from || b.slot > index:
		case b.slot == t.asking && !b.doubted:
			b.jumped = true
		default:
			out = t.waiters(b, out)
		}
	}
	return out
}

// settle answers one waiter.
func (t *table[R]) settle(e *entry[R], res Result[R]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer(e, res)
}

// stored notes the stored snapshot, and reports whether one is due.
func (t *table[R]) stored(info oplog.SnapshotInfo) (due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if info.Parts > 0 && info.Index >= t.status.SnapshotIndex {
		t.status.SnapshotIndex, t.status.SnapshotSize = info.Index, info.Size
	}
	return t.meter.stored(info)
}

// looked notes a look at the log, and reports whether the snapshotter has something to do.
func (t *table[R]) looked(b oplog.Bounds, keep int, now time.Time) bool {
	due := t.stored(b.Snapshot)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meter.leftover(b, keep, now) || due
}

// report notes the tailer's condition. In a gap everything queued is refused: none of it can be appended before the
// gap is closed, and that may take somebody's hand.
func (t *table[R]) report(c Condition, at oplog.Index, reason string, newest oplog.Index, current time.Time, healed int) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.status
	changed = s.Condition != c && s.Condition != Closed
	if s.Condition == Closed {
		return false
	}
	s.Condition, s.At, s.Reason = c, at, reason
	s.Newest, s.HealedFaults = newest, healed
	t.current = current
	if t.ended != nil || t.closing {
		return changed
	}
	t.held, t.refusal = c == Gap, nil
	if t.held {
		t.refusal = fmt.Errorf("%w: gap at index %d: %s", ErrUnavailable, at, reason)
		t.failQueued(t.refusal)
	}
	return changed
}

// end refuses and fails everything from now on. It reports false where it was called before.
func (t *table[R]) end(refusal error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.ended == nil
	if first {
		t.ended = refusal
	}
	t.refusal = refusal
	t.failQueued(refusal)
	t.failInFlight(fmt.Errorf("%w: %w", ErrUnknown, refusal))
	return first
}

// endedBy returns why waits end.
func (t *table[R]) endedBy() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// close refuses proposals from now on, and answers those that were not handed to the database.
func (t *table[R]) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closing, t.refusal = true, ErrClosed
	t.failQueued(ErrClosed)
}

// closed makes Closed the condition. It reports false where it was before.
func (t *table[R]) closed(now time.Time) (Status, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := t.status.Condition != Closed
	t.status.Condition, t.status.At, t.status.Reason = Closed, 0, ""
	return t.picture(now), changed
}
