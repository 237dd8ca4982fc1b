package sim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// database is a simulated SQL server, at the grain of statements: what is not committed is invisible and blocks others,
// a statement reads what was committed when it began, waits for locks, and reads again what it locked; it may be the
// victim of a deadlock, be killed before or after it committed, or go on without anybody who listens.
//
// The SQL texts of the real dialects are not run here; what they say is written once more, in statement.go, and a Dialect
// can leave out what they must not leave out. That the real texts do say it is shown on real servers (oplogtest and
// the tests of the dialects).
type database struct {
	s        *sched
	g        *group
	d        Dialect
	state    *state
	versions []version // of states, oldest first; the last one is state
	locks    map[int64]*lock
	open     []*tx
	waits    []*waitCall
	down     bool
	full     bool // no room left
	readOnly bool
	slow     time.Duration // what a statement takes at most
	serial   int
	era      int                               // raised whenever every connection is dropped
	commits  func(x *tx, before, after *state) // is told of each commit
}

// version is a state and when it became the committed one.
type version struct {
	at    time.Duration
	state *state
}

// state is what is committed. It is never changed.
type state struct {
	rows  []oplog.Row // ascending
	snap  stored
	parts []part
}

// stored is the one row of the snapshot table.
type stored struct {
	info  oplog.SnapshotInfo
	token [16]byte
}

// part is a row of the table of parts.
type part struct {
	token  [16]byte
	number int
	index  oplog.Index
	data   []byte
}

// find returns the place of the first row at or above i, and whether it is at i.
func (s *state) find(i oplog.Index) (int, bool) {
	return slices.BinarySearchFunc(s.rows, i, func(r oplog.Row, i oplog.Index) int {
		switch {
		case r.Index < i:
			return -1
		case r.Index > i:
			return 1
		}
		return 0
	})
}

func (s *state) has(i oplog.Index) bool { _, found := s.find(i); return found }

// ends reports whether there is a row at i that ends with mark.
func (s *state) ends(i oplog.Index, mark []byte) bool {
	at, found := s.find(i)
	return found && bytes.HasSuffix(s.rows[at].Payload, mark)
}

// newest returns the newest row's index; false: there is no row.
func (s *state) newest() (oplog.Index, bool) {
	if len(s.rows) == 0 {
		return 0, false
	}
	return s.rows[len(s.rows)-1].Index, true
}

// Errors of the simulated server. conn translates them as the error tables of the dialects do.
var (
	errDeadlock  = errors.New("deadlock detected, this transaction was rolled back")
	errKilled    = errors.New("the connection was killed")
	errBusy      = errors.New("lock wait timeout")
	errDuplicate = errors.New("duplicate key")
	errFull      = errors.New("disk full")
	errReadOnly  = errors.New("read-only")
)

// tx is one statement under way, which is a transaction of its own.
type tx struct {
	db      *database
	number  int
	what    string
	node    int
	task    *task
	changes []func(*state)
	held    []*lock
	waits   *lock
	killed  bool
	done    bool            // committed
	look    *gate           // where an append waits after it has looked, before it locks; nil: it does not
	gate    *gate           // where the commit waits; nil: it does not
	pauses  []time.Duration // what the statement does at its next points of rest
}

// lock is a lock on a row, on the row of the snapshot, or on the whole file.
type lock struct {
	key     int64
	holders []claim
	queue   []claim
}

type claim struct {
	x    *tx
	full bool // excludes all others
}

// Keys of locks that are no rows.
const (
	snapshotKey = -1
	fileKey     = -2
	turnKey     = -3
)

func (db *database) begin(what string, node int) *tx {
	db.serial++
	x := &tx{db: db, number: db.serial, what: what, node: node, task: db.s.current}
	db.open = append(db.open, x)
	return x
}

// rest lets time go by in the middle of a statement, or none.
func (x *tx) rest() error {
	if len(x.pauses) > 0 {
		d := x.pauses[0]
		x.pauses = x.pauses[1:]
		x.db.s.sleep(d)
	}
	if x.killed {
		return errKilled
	}
	return nil
}

// lock takes a lock, waiting for as long as it takes, or for at most patience where that is above 0.
func (x *tx) lock(key int64, full bool, patience time.Duration) error {
	if x.killed {
		return errKilled
	}
	l := x.db.locks[key]
	if l == nil {
		l = &lock{key: key}
		x.db.locks[key] = l
	}
	c := claim{x, full}
	if l.grants(c, len(l.queue)) {
		l.hold(c)
		return nil
	}
	for _, b := range l.blockers(c, len(l.queue)) {
		if b.reaches(x, map[*tx]bool{}) {
			return errDeadlock
		}
	}
	l.queue = append(l.queue, c)
	x.waits = l
	until := time.Duration(-1)
	if patience > 0 {
		until = x.db.s.now + patience
	}
	woken := x.db.s.park(ctxRoot, until, nil, nil)
	x.waits = nil
	switch {
	case x.killed:
		return errKilled
	case !woken:
		l.queue = slices.DeleteFunc(l.queue, func(q claim) bool { return q.x == x })
		l.next()
		return errBusy
	}
	return nil
}

// String tells what the lock is on and who has it.
func (l *lock) String() string {
	what := fmt.Sprintf("row %d", l.key)
	switch l.key {
	case snapshotKey:
		what = "the row of the snapshot"
	case fileKey:
		what = "the right to write"
	case turnKey:
		what = "its turn"
	}
	var who []string
	for _, h := range l.holders {
		who = append(who, fmt.Sprintf("%s of node %d", h.x.what, h.x.node))
	}
	return fmt.Sprintf("%s, which is locked by %s", what, strings.Join(who, " and "))
}

// grants reports whether c, at that place of the queue, may have the lock now.
func (l *lock) grants(c claim, place int) bool { return len(l.blockers(c, place)) == 0 }

// blockers are whom c waits for.
func (l *lock) blockers(c claim, place int) (out []*tx) {
	for _, h := range l.holders {
		if h.x != c.x && (h.full || c.full) {
			out = append(out, h.x)
		}
	}
	for _, q := range l.queue[:place] {
		if q.x != c.x && (q.full || c.full) {
			out = append(out, q.x)
		}
	}
	return out
}

func (l *lock) hold(c claim) {
	l.holders = append(l.holders, c)
	c.x.held = append(c.x.held, l)
}

// next gives the lock to whoever may have it now.
func (l *lock) next() {
	for len(l.queue) > 0 && l.grants(l.queue[0], 0) {
		c := l.queue[0]
		l.queue = l.queue[1:]
		l.hold(c)
		c.x.db.s.wake(c.x.task)
	}
}

// reaches reports whether x waits, directly or not, for other.
func (x *tx) reaches(other *tx, seen map[*tx]bool) bool {
	if x == other {
		return true
	}
	if seen[x] || x.waits == nil {
		return false
	}
	seen[x] = true
	l := x.waits
	place := slices.IndexFunc(l.queue, func(q claim) bool { return q.x == x })
	if place < 0 {
		return false
	}
	for _, b := range l.blockers(l.queue[place], place) {
		if b.reaches(other, seen) {
			return true
		}
	}
	return false
}

// end lets go of everything that x holds.
func (x *tx) end() {
	for _, l := range x.held {
		l.holders = slices.DeleteFunc(l.holders, func(h claim) bool { return h.x == x })
	}
	for _, l := range x.held {
		l.next()
		if len(l.holders) == 0 && len(l.queue) == 0 {
			delete(x.db.locks, l.key)
		}
	}
	x.held = nil
	x.db.open = slices.DeleteFunc(x.db.open, func(o *tx) bool { return o == x })
}

// change notes what the statement writes; it becomes visible with the commit.
func (x *tx) change(f func(*state)) { x.changes = append(x.changes, f) }

// commit makes what x wrote visible.
func (x *tx) commit() error {
	x.gate.pass(x.db.s)
	if x.killed {
		return errKilled
	}
	x.done = true
	if len(x.changes) > 0 {
		before := x.db.state
		after := &state{rows: slices.Clone(before.rows), snap: before.snap, parts: slices.Clone(before.parts)}
		for _, f := range x.changes {
			f(after)
		}
		x.db.become(after)
		x.db.commits(x, before, after)
	}
	x.end()
	return nil
}

// keptVersions is how far back a lagging read may look, and a fail-over may lose.
const keptVersions = 256

// become makes st the committed state.
func (db *database) become(st *state) {
	db.state = st
	if len(db.versions) >= 2*keptVersions {
		db.versions = append(db.versions[:0], db.versions[len(db.versions)-keptVersions:]...)
	}
	db.versions = append(db.versions, version{db.s.now, st})
	for _, w := range db.waits {
		w.grown(st)
	}
}

// old is what was committed some time ago.
func (db *database) old(lag time.Duration) *state {
	for i := len(db.versions) - 1; i >= 0; i-- {
		if db.versions[i].at <= db.s.now-lag {
			return db.versions[i].state
		}
	}
	return db.versions[0].state
}

// kill rolls every transaction back that has not committed, and drops every connection.
func (db *database) kill() {
	db.era++
	for _, x := range slices.Clone(db.open) {
		x.kill()
	}
}

func (x *tx) kill() {
	x.killed = true
	if l := x.waits; l != nil {
		l.queue = slices.DeleteFunc(l.queue, func(q claim) bool { return q.x == x })
		l.next()
		x.db.s.wake(x.task)
	}
	x.end()
}
