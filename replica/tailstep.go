package replica

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

const (
	// lookEvery is how often the log's bounds are looked at while nothing else happens, and while a row is missing.
	lookEvery = time.Second
	// deferRead is how long a read waits for an append of ours that is under way at the very next slot: most often its
	// row is what there would be to read, and it is about to be handed over. It waits as long for a turn, which brings rows.
	deferRead = 5 * time.Millisecond
	// freeReads is how many reads in a row may bring nothing before the next wake-up is followed by a pause.
	freeReads = 2
	// fullPage is a number of rows from which on a read is repeated at once, since there may well be more.
	fullPage = 64
)

// tailStep decides what the tailer does, and owns the state. It has no goroutine, no clock and does no I/O, but for
// calling the machine, which is pure; time comes in as values and chance from the source it is given.
type tailStep[S, R any] struct {
	m          Machine[S, R]
	genesis    Genesis
	token      Token // of this replica
	haltAtOnce bool  // Options.HaltOnDivergence
	readBytes  int
	retry      pauses
	chance     *rand.Rand

	state   S
	applied oplog.Index
	digest  Digest
	row     uint64 // checksum of the row applied last
	last    rowID  // of that row; zero: not known
	shown   []byte // what that row ends with in the log, where it is damaged there; nil: with its checksum
	ring    ring

	handed map[oplog.Index]ownRow // acknowledged rows of ours above applied
	page   []oplog.Row            // read, not applied yet
	newest oplog.Index            // the newest row known to be in the log
	stored oplog.SnapshotInfo     // at the last look

	readDue  bool
	readAt   time.Time // no read before this moment
	deferred bool      // readDue only for what our own append under way may bring
	lookDue  bool
	lookAt   time.Time // a look at this moment at the latest
	install  bool      // the stored snapshot is to be installed
	inspect  bool      // the row applied last ends with something else in the log

	errs     int  // database errors in a row
	idle     int  // reads in a row that brought nothing
	lagging  int  // reads in a row that did not show a row known to be there
	missing  int  // reads in a row that showed rows above the next one but not that one
	lateLook int  // looks in a row that found rows that were not applied
	certain  bool // newest was learned by a look after the last error
	headless bool // the row applied last is the newest and is not there: nothing can be appended after it

	contradiction *contradiction
	contradictors map[Token]oplog.Index // writers that contradicted a state that a rebuild confirmed, and where
	contradicted  Token                 // the last writer that did
	healed        int

	condition Condition
	reason    string
	at        oplog.Index
	current   time.Time // when the state was last known to hold the newest row
}

// contradiction is a row that says that its writer had another state than ours.
type contradiction struct {
	row    oplog.Index
	seen   oplog.Index
	writer Token
	tries  int
}

type tailKind int

const (
	tailWait    tailKind = iota // for a signal, or until the moment given
	tailApply                   // call apply
	tailRead                    // read after the index applied, and call read
	tailLook                    // look at the bounds, and call looked
	tailInspect                 // read the row applied last, and call inspected
	tailInstall                 // load the stored snapshot, and call installed
	tailRebuild                 // build the state at applied anew from the log, and call rebuilt
	tailStop                    // the condition is final
)

// tailDo is what the shell is told to do.
type tailDo struct {
	kind  tailKind
	until time.Time // for tailWait
}

// tailFacts is what others have for the tailer.
type tailFacts struct {
	now       time.Time
	handed    []ownRow    // acknowledged since the last time
	asking    oplog.Index // the slot of our append under way; 0: none
	inLine    bool        // the flusher waits for a turn, which brings what there is to read
	found     []oplog.Row // what came with a turn: as good as a read
	nudged    bool        // an append met something that a read will show
	recall    bool        // an append that an install jumped over may have landed
	suspected bool        // the log seems to hold less than was applied
	woken     bool        // the log may hold a row above applied
}

// final reports whether the tailer has stopped for good.
func (s *tailStep[S, R]) final() bool {
	return s.condition == Halted || s.condition == Diverged || s.condition == Rewound
}

// next decides what to do now.
func (s *tailStep[S, R]) next(f tailFacts) tailDo {
	for _, h := range f.handed {
		if h.row.Index > s.applied {
			s.handed[h.row.Index] = h
			s.newest = max(s.newest, h.row.Index)
		}
	}
	if f.woken || f.nudged {
		if !s.readDue && s.idle >= freeReads { // wake-ups without anything to read must not become a rush
			s.readAt = later(s.readAt, f.now.Add(s.retry.after(s.idle-freeReads, s.chance)))
		}
		s.readDue = true
		if (f.asking == s.applied+1 || f.inLine) && s.readAt.Before(f.now) {
			s.readAt, s.deferred = f.now.Add(deferRead), true
		} else if f.nudged && s.errs == 0 {
			s.readAt = f.now
		}
	}
	if len(f.found) > 0 && !s.final() {
		s.read(f.found, nil, f.now)
		s.readDue = s.readDue || s.newest > s.page[len(s.page)-1].Index
	}
	s.lookDue = s.lookDue || f.suspected
	switch {
	case s.final():
		return tailDo{kind: tailStop}
	case s.contradiction != nil && !f.now.Before(s.readAt):
		return tailDo{kind: tailRebuild}
	case s.contradiction != nil:
		return tailDo{kind: tailWait, until: s.readAt}
	case s.inspect:
		return tailDo{kind: tailInspect}
	case s.install:
		return tailDo{kind: tailInstall}
	case s.lookDue && s.errs == 0, !f.now.Before(s.lookAt):
		return tailDo{kind: tailLook}
	case s.hasNext(f.now):
		return tailDo{kind: tailApply}
	case s.lookDue && s.errs == 0: // hasNext found a hole
		return tailDo{kind: tailLook}
	case s.readDue && !f.now.Before(s.readAt):
		return tailDo{kind: tailRead}
	}
	s.rest(f.now)
	until := s.lookAt
	if s.readDue && s.readAt.Before(until) {
		until = s.readAt
	}
	return tailDo{kind: tailWait, until: until}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// hasNext reports whether the row after the applied one is at hand. Rows at or below it are dropped on the way: a
// read may overlap what was handed over or installed.
func (s *tailStep[S, R]) hasNext(now time.Time) bool {
	if _, ok := s.handed[s.applied+1]; ok {
		return true
	}
	for len(s.page) > 0 && s.page[0].Index <= s.applied {
		s.page = s.page[1:]
	}
	if len(s.page) == 0 {
		return false
	}
	if s.page[0].Index == s.applied+1 {
		return true
	}
	// The next row is not there and a later one is. Whoever wrote the later one had seen this one, so it was truncated,
	// or removed by hand, or this read is not of one moment. A look will tell which.
	s.page = nil
	s.missing++
	s.lookDue, s.readDue = true, true
	s.readAt = now.Add(s.retry.after(s.missing-1, s.chance))
	return false
}

// rest is called when there is nothing to do: what was known to be in the log has been applied.
func (s *tailStep[S, R]) rest(now time.Time) {
	if s.certain && s.newest <= s.applied && s.missing == 0 && !s.headless {
		s.lateLook = 0
		s.current = now
		s.become(Ready, 0, "")
	}
}

// become changes the condition, unless it is final.
func (s *tailStep[S, R]) become(c Condition, at oplog.Index, reason string) {
	if !s.final() {
		s.condition, s.at, s.reason = c, at, reason
	}
}

// behind makes the condition CatchingUp.
func (s *tailStep[S, R]) behind() {
	reason := fmt.Sprintf("row %d is applied, and row %d is the newest known in the log", s.applied, max(s.newest, s.applied))
	if s.newest <= s.applied {
		reason = fmt.Sprintf("row %d is applied, and the end of the log has to be looked up", s.applied)
	}
	s.become(CatchingUp, s.applied+1, reason)
}

// read tells what a read after applied brought.
func (s *tailStep[S, R]) read(rows []oplog.Row, err error, now time.Time) {
	if err != nil {
		s.failed(now)
		s.readDue, s.readAt = true, now.Add(s.retry.after(s.errs-1, s.chance))
		return
	}
	s.errs = 0
	s.readDue, s.deferred = false, false
	if !s.certain {
		s.lookDue = true // after an error, only a look says where the end is
	}
	if len(rows) == 0 {
		s.idle++
		if s.newest > s.applied && s.missing == 0 {
			// A row is known to be there and this server does not show it: it lags behind. Ask again, and look.
			s.lagging++
			s.readDue, s.readAt = true, now.Add(s.retry.after(s.lagging-1, s.chance))
		}
		return
	}
	s.idle = 0
	size := 0
	for i := range rows {
		size += len(rows[i].Payload)
	}
	s.page = rows
	s.newest = max(s.newest, rows[len(rows)-1].Index)
	if len(rows) >= fullPage || size >= s.readBytes/4 {
		s.readDue = true
		if s.condition == Ready {
			s.behind()
		}
	}
}

// failed notes a database error.
func (s *tailStep[S, R]) failed(now time.Time) {
	s.errs++
	s.certain = false
	s.lookAt = now.Add(lookEvery)
	if s.condition == Ready && now.Sub(s.current) >= staleAfter {
		s.behind()
	}
}

// looked tells what a look at the bounds found. It was started after everything up to applied had been applied.
func (s *tailStep[S, R]) looked(b oplog.Bounds, err error, now time.Time) {
	s.lookDue = false
	s.lookAt = now.Add(lookEvery)
	if err != nil {
		s.failed(now)
		s.lookDue = true
		s.lookAt = now.Add(s.retry.after(s.errs-1, s.chance))
		return
	}
	s.errs = 0
	s.certain = true
	s.stored = b.Snapshot
	covered := b.Snapshot.Parts > 0 && b.Snapshot.Index > s.applied
	if b.Authoritative {
		// What was known of rows above may be of a history that is gone; the rows that we hold are another matter.
		if b.Newest < s.applied && !covered && b.Snapshot.Index < s.applied {
			s.newest = max(b.Newest, b.Snapshot.Index)
			s.become(Rewound, s.applied, fmt.Sprintf("row %d was applied here, and the log holds rows only up to %d "+
				"(snapshot at %d): the database lost acknowledged rows", s.applied, b.Newest, b.Snapshot.Index))
			return
		}
		if !b.Empty && b.Newest == s.applied && !bytes.Equal(b.Mark, s.mark()) {
			s.inspect, s.certain = true, false
			return
		}
		s.newest = max(b.Newest, b.Snapshot.Index, s.applied)
	} else {
		s.newest = max(s.newest, b.Newest, b.Snapshot.Index)
	}
	truncated := b.Empty || b.Oldest > s.applied+1
	s.headless = b.Authoritative && s.newest == s.applied && (b.Empty || b.Newest < s.applied)
	switch {
	case s.headless:
		s.become(Gap, s.applied, fmt.Sprintf("row %d, which the snapshot at %d stands for, must be kept as the newest row and is "+
			"missing: nothing can be appended after it", s.applied, b.Snapshot.Index))
	case s.newest <= s.applied:
		s.missing, s.lagging, s.lateLook = 0, 0, 0
		s.current = now
		if s.condition == Gap {
			s.behind()
		}
	case covered && (truncated || s.missing > 0):
		s.install = true
	case truncated || s.missing > 1:
		s.become(Gap, s.applied+1, fmt.Sprintf("row %d is missing: the log holds rows %d to %d and the snapshot at %d does not "+
			"cover it; waiting for the row or a newer snapshot", s.applied+1, b.Oldest, b.Newest, b.Snapshot.Index))
		s.readDue = true
		s.readAt = now.Add(s.retry.after(s.missing, s.chance))
	default:
		s.readDue = true
		if s.lateLook++; s.lateLook > 1 && s.condition != Gap {
			s.behind()
		}
	}
}

// mark is what the row applied last ends with in the log, as far as is known.
func (s *tailStep[S, R]) mark() []byte {
	if s.shown != nil {
		return s.shown
	}
	return mark(s.row)
}

// inspected tells what a read of the row applied last brought, which a look has found to end with something else than the
// one that was applied here. Another row there means that the database has lost this one. A row that cannot be read and
// does not say that it is another one was damaged where it lies: whoever has it goes on, and appends after what it is now.
// The error says so.
func (s *tailStep[S, R]) inspected(rows []oplog.Row, err error, now time.Time) error {
	s.inspect, s.lookDue = false, true
	if err != nil || len(rows) == 0 || rows[0].Index != s.applied {
		s.failed(now)
		s.lookAt = now.Add(s.retry.after(s.errs-1, s.chance))
		return err
	}
	payload := rows[0].Payload
	id, bad := inspectRow(s.applied, payload)
	switch ends := oplog.Mark(payload); {
	case bytes.Equal(ends, mark(s.row)):
		s.shown = nil // it is as it should be, or is so again
		return nil
	case bad != nil && (id == rowID{} || s.last == rowID{} || id == s.last):
		s.shown = bytes.Clone(ends)
		return fmt.Errorf("the row applied last is damaged in the log: %w", bad)
	default:
		s.become(Rewound, s.applied, fmt.Sprintf("row %d ends with %x in the log, and the one that was applied here with %x: "+
			"the database lost acknowledged rows, and others stand in their place", s.applied, ends, s.mark()))
		return nil
	}
}

// installed tells how loading the stored snapshot went.
func (s *tailStep[S, R]) installed(snap *Snapshot[S], err error, now time.Time) bool {
	s.install = false
	if err != nil {
		s.failed(now)
		s.lookDue, s.lookAt = true, now.Add(s.retry.after(s.errs-1, s.chance))
		s.become(Gap, s.applied+1, fmt.Sprintf("row %d is missing and the snapshot that covers it cannot be installed: %v",
			s.applied+1, err))
		return false
	}
	switch {
	case snap.Genesis.ClusterID != s.genesis.ClusterID:
		s.become(Halted, snap.Index, fmt.Sprintf("the snapshot at index %d is of cluster %s, this is cluster %s",
			snap.Index, snap.Genesis.ClusterID, s.genesis.ClusterID))
		return false
	case snap.Genesis.Incarnation != s.genesis.Incarnation:
		s.become(Rewound, snap.Index, fmt.Sprintf("the snapshot at index %d is of incarnation %016x and this node is of %016x: "+
			"the cluster was restored; start again", snap.Index, snap.Genesis.Incarnation, s.genesis.Incarnation))
		return false
	case snap.Index <= s.applied:
		s.lookDue = true // the row may be there by now
		return false
	}
	s.errs = 0
	s.set(snap.State, snap.Index, snap.Digest, snap.Row)
	s.behind()
	return true
}

// set makes state the state, whatever it was before: the one at index, after a row with that checksum.
func (s *tailStep[S, R]) set(state S, index oplog.Index, digest Digest, row uint64) {
	s.state, s.applied, s.digest, s.row, s.last, s.shown = state, index, digest, row, rowID{}, nil
	s.ring = ring{}
	s.ring.put(index, digest)
	s.newest = max(s.newest, index)
	for i := range s.handed {
		if i <= index {
			delete(s.handed, i)
		}
	}
	s.missing, s.lagging = 0, 0
	s.readDue, s.readAt = true, time.Time{}
}

// ring remembers the digests of the last 1024 states that were ours.
type ring struct {
	entries [1024]ringEntry
}

type ringEntry struct {
	known  bool
	index  oplog.Index
	digest Digest
}

func (r *ring) put(i oplog.Index, d Digest) {
	r.entries[int(i%1024)] = ringEntry{true, i, d}
}

func (r *ring) get(i oplog.Index) (ringEntry, bool) {
	e := r.entries[int(i%1024)]
	return e, e.known && e.index == i
}
