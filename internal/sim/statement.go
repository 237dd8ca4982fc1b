package sim

import (
	"slices"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// Dialect says how a simulated database runs the statements of the log. The zero value is wrong in every way that it
// names; Dialects holds the right ones.
type Dialect struct {
	Name string
	// OneWriter: a writing statement has the only write lock of the whole file before it reads anything, as on SQLite.
	OneWriter bool
	// Append looks, in what was committed when it began, whether the predecessor is there and is the newest row.
	Append AppendText
	// SharedLock: the append's lock on its predecessor is shared (PostgreSQL), so that appends meet at the key only.
	SharedLock bool
	// Unconditional: a snapshot becomes the current one whatever is there, which it must not.
	Unconditional bool
	// Unmarked: appends and snapshots do not ask what the row that they follow on ends with, which they must.
	Unmarked bool
	// Turns: the log is a turnstile.
	Turns bool
	// Lag: reads may be served by a member that is behind.
	Lag bool
}

// asked is what a statement that is given mark asks the row before to end with.
func (d *Dialect) asked(mark []byte) []byte {
	if d.Unmarked {
		return nil
	}
	return mark
}

// AppendText is how careful the append is.
type AppendText int

// The ways to append, from none too careful to right.
const (
	AppendPlain   AppendText = iota // INSERT … VALUES
	AppendChecked                   // inserts only where the predecessor is there, and locks nothing
	AppendLocked                    // locks the predecessor before it inserts
)

// Dialects are the databases that seeds choose from.
var Dialects = []Dialect{
	{Name: "sqlite", OneWriter: true, Append: AppendChecked},
	{Name: "postgres", Append: AppendLocked, SharedLock: true},
	{Name: "postgres with turns", Append: AppendLocked, SharedLock: true, Turns: true},
	{Name: "postgres with a standby read", Append: AppendLocked, SharedLock: true, Lag: true},
	{Name: "mariadb", Append: AppendLocked},
}

// busyTimeout is how long a statement waits for the file's write lock.
const busyTimeout = 5 * time.Second

// write begins a writing statement.
func (x *tx) write() error {
	switch {
	case x.db.readOnly:
		return errReadOnly
	case x.db.d.OneWriter:
		return x.lock(fileKey, true, busyTimeout)
	}
	return nil
}

// appendRow is the append: it returns how many rows it inserted.
func (x *tx) appendRow(at oplog.Index, mark, payload []byte) (int, error) {
	if err := x.write(); err != nil {
		return 0, err
	}
	d, began := x.db.d, x.db.state
	if newest, ok := began.newest(); d.Append >= AppendChecked && (!ok || newest != at-1 || !began.ends(at-1, d.asked(mark))) {
		return 0, x.commit()
	}
	x.look.pass(x.db.s)
	if err := x.rest(); err != nil {
		return 0, err
	}
	if d.Append == AppendLocked {
		if err := x.lock(int64(at-1), !d.SharedLock, 0); err != nil {
			return 0, err
		}
		if !x.db.state.has(at - 1) { // deleted by whoever was waited for
			return 0, x.commit()
		}
	}
	if err := x.rest(); err != nil {
		return 0, err
	}
	if err := x.lock(int64(at), true, 0); err != nil { // the unique check waits for whoever inserts or deletes the key
		return 0, err
	}
	switch {
	case x.db.state.has(at):
		return 0, errDuplicate
	case x.db.full:
		return 0, errFull
	}
	x.change(func(s *state) {
		i, _ := s.find(at)
		s.rows = slices.Insert(s.rows, i, oplog.Row{Index: at, Payload: payload})
	})
	if err := x.rest(); err != nil {
		return 0, err
	}
	return 1, x.commit()
}

// truncate deletes at most limit rows below below, in ascending order.
func (x *tx) truncate(below oplog.Index, limit int) (int, error) {
	if err := x.write(); err != nil {
		return 0, err
	}
	began := x.db.state
	newest, ok := began.newest()
	if !ok || began.snap.info.Parts == 0 {
		return 0, x.commit()
	}
	below = min(below, newest, began.snap.info.Index+1)
	var victims []oplog.Index
	for _, r := range began.rows {
		if r.Index < below && len(victims) < limit {
			victims = append(victims, r.Index)
		}
	}
	n := 0
	for _, i := range victims {
		if err := x.lock(int64(i), true, 0); err != nil {
			return 0, err
		}
		if !x.db.state.has(i) {
			continue // another truncation was faster
		}
		n++
		x.change(func(s *state) {
			if at, found := s.find(i); found {
				s.rows = slices.Delete(s.rows, at, at+1)
			}
		})
		if n <= 3 {
			if err := x.rest(); err != nil {
				return 0, err
			}
		}
	}
	if err := x.rest(); err != nil {
		return 0, err
	}
	return n, x.commit()
}

// insertPart stores a part of a snapshot.
func (x *tx) insertPart(p part) error {
	if err := x.write(); err != nil {
		return err
	}
	if x.db.full {
		return errFull
	}
	x.change(func(s *state) { s.parts = append(s.parts, p) })
	if err := x.rest(); err != nil {
		return err
	}
	return x.commit()
}

// commitSnapshot makes the parts of token the current snapshot: it returns how many rows it changed.
func (x *tx) commitSnapshot(token [16]byte, info oplog.SnapshotInfo, mark []byte) (int, error) {
	if err := x.write(); err != nil {
		return 0, err
	}
	if err := x.lock(snapshotKey, true, 0); err != nil {
		return 0, err
	}
	now := x.db.state
	have := 0
	for _, p := range now.parts {
		if p.token == token {
			have++
		}
	}
	older := now.snap.info.Parts == 0 || now.snap.info.Index < info.Index
	if have != info.Parts || !older && !x.db.d.Unconditional || len(now.rows) > 0 && !now.ends(info.Index, x.db.d.asked(mark)) {
		return 0, x.commit()
	}
	x.change(func(s *state) { s.snap = stored{info, token} })
	if err := x.rest(); err != nil {
		return 0, err
	}
	return 1, x.commit()
}

// sweep deletes parts of snapshots that are not current: those at or below the current index, or those of token.
func (x *tx) sweep(token *[16]byte) error {
	if err := x.write(); err != nil {
		return err
	}
	now := x.db.state
	if now.snap.info.Parts == 0 && token == nil {
		return x.commit()
	}
	dead := func(p part) bool {
		if p.token == now.snap.token {
			return false
		}
		return token == nil && p.index <= now.snap.info.Index || token != nil && p.token == *token
	}
	if slices.ContainsFunc(now.parts, dead) {
		x.change(func(s *state) { s.parts = slices.DeleteFunc(s.parts, dead) })
	}
	if err := x.rest(); err != nil {
		return err
	}
	return x.commit()
}
