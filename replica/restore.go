package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/headwaterdb/headwater/oplog"
)

// Restored is what Restore did.
type Restored struct {
	Genesis Genesis     // of the history that began
	From    oplog.Index // the newest row of the history that ended
	To      oplog.Index // the first row of the new one, and the index of its snapshot
}

// Restore begins a new history of the cluster in log, with the state that is there: after a database was set back to an
// older state, so that nothing of the history that was lost is taken for something of this one. The new history has another
// incarnation, and its first row is leap above the newest one there is. change makes the state that it begins with, as of
// the index before that row, and first is the command of the row, which is applied to it. No node may be running; one that is halts.
//
//	row at From+leap, of the new incarnation → snapshot at it, of the changed state → the rows below go
//
// A crash in between leaves a cluster on which no node gets past From, and Restore, called again, goes on with the row that
// is there. The log must be an oplog.Leaper.
func Restore[S, R any](ctx context.Context, log oplog.Log, m Machine[S, R], leap oplog.Index, change func(s S, index oplog.Index) (S, error), first []byte) (Restored, error) {
	up, ok := log.(oplog.Leaper)
	if !ok {
		return Restored{}, errors.New("restore: the indexes of this log cannot be raised")
	}
	r := prepare(log, m, Options{}.withDefaults())
	old, err := r.head(ctx)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	done := Restored{From: old.Index}
	row, err := r.leap(ctx, up, old, leap, first, &done)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	state, err := change(old.State, done.To-1)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: change the state at index %d: %w", old.Index, err)
	}
	state, _, _, err = r.m.run(state, done.To, [][]byte{first})
	if err != nil {
		return Restored{}, fmt.Errorf("restore: apply row %d: %w", done.To, err)
	}
	r.genesis = done.Genesis
	s := snapshotter[S, R]{r: r}
	if _, err := s.store(ctx, &View[S]{Index: done.To, row: row, State: state}); err != nil {
		return Restored{}, fmt.Errorf("restore: store the snapshot at index %d: %w", done.To, err)
	}
	for {
		n, err := log.Truncate(ctx, done.To, truncateRows)
		if err != nil {
			return Restored{}, fmt.Errorf("restore: truncate below index %d: %w", done.To, err)
		}
		if n == 0 {
			return done, nil
		}
	}
}

// head builds the state at the newest row that follows on what is stored.
func (r *Replica[S, R]) head(ctx context.Context) (*Snapshot[S], error) {
	bounds, err := r.log.Bounds(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the log: %w", err)
	}
	base, err := r.base(ctx, bounds)
	if err != nil {
		return nil, err
	}
	r.genesis = base.Genesis
	newest := max(bounds.Newest, base.Index)
	built, err := r.rebuild(ctx, newest)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	if built.index < newest {
		if info, ok := r.begun(ctx, newest, base.Genesis, built.index, built.digest); !ok {
			return nil, fmt.Errorf("%w: row %d is missing or unreadable, and the newest is %d: headwater check says more", ErrUndecodable, built.index+1, newest)
		} else {
			base.Genesis.Incarnation = info.Incarnation
		}
	}
	return &Snapshot[S]{Index: built.index, Genesis: base.Genesis, Row: built.row, Digest: built.digest, State: built.state}, nil
}

// begun returns the row at newest where it is one that an earlier Restore has left, from the state at from.
func (r *Replica[S, R]) begun(ctx context.Context, newest oplog.Index, g Genesis, from oplog.Index, digest Digest) (RowInfo, bool) {
	rows, err := r.log.Read(ctx, newest-1, r.o.ReadBytes)
	if err != nil || len(rows) == 0 {
		return RowInfo{}, false
	}
	info, err := DecodeRow(newest, rows[0].Payload)
	return info, err == nil && info.Incarnation != g.Incarnation && info.Seen == from && info.SeenDigest == digest && newest > from+1
}

// leap writes the first row of the new history, unless it is there already, and returns its checksum.
func (r *Replica[S, R]) leap(ctx context.Context, up oplog.Leaper, old *Snapshot[S], leap oplog.Index, first []byte, done *Restored) (uint64, error) {
	bounds, err := r.log.Bounds(ctx)
	if err != nil {
		return 0, fmt.Errorf("look at the log: %w", err)
	}
	done.Genesis = old.Genesis
	if bounds.Newest > old.Index { // left by an earlier one
		done.To = bounds.Newest
		return checksumOf(bounds.Mark), nil
	}
	done.To = old.Index + leap
	done.Genesis.Incarnation = newIncarnation()
	row := RowInfo{Index: done.To, Incarnation: done.Genesis.Incarnation, Previous: old.Row, Writer: r.token, Batch: 1, Seen: old.Index,
		SeenDigest: old.Digest, Commands: [][]byte{first}}
	payload := AppendRow(nil, &row)
	return Checksum(payload), up.Leap(ctx, old.Index, done.To, mark(old.Row), payload)
}
