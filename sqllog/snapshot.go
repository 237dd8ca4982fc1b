package sqllog

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// sweepLimit is how many parts one statement deletes: a writer waits for it no longer than for the writing of a part.
// sweepRest is the longest pause between two of them.
const (
	sweepLimit = 4
	sweepRest  = 100 * time.Millisecond
)

// snapshotRow is the one row of the snapshot table.
type snapshotRow struct {
	info  oplog.SnapshotInfo
	token []byte
}

func (l *Log) snapshotRow(ctx context.Context) (snapshotRow, error) {
	var row snapshotRow
	var index int64
	found := false
	err := l.query(ctx, l.c.Dialect.Statements.Snapshot, values{}, func(rows *sql.Rows) error {
		if found = rows.Next(); found {
			return rows.Scan(&index, &row.token, &row.info.Parts, &row.info.Size)
		}
		return nil
	})
	row.info.Index = oplog.Index(index)
	if err == nil && !found {
		err = oplog.ErrNoCluster
	}
	return row, err
}

// CreateSnapshot is oplog.Log's.
func (l *Log) CreateSnapshot(ctx context.Context, at oplog.Index, mark []byte) (oplog.SnapshotWriter, error) {
	if at > oplog.MaxIndex {
		return nil, fmt.Errorf("create a snapshot at %d: %w", at, oplog.ErrExhausted)
	}
	if err := l.enter(ctx); err != nil {
		return nil, fmt.Errorf("create a snapshot at %d: %w", at, notStarted(writes, err))
	}
	defer l.leave()
	w := &writer{log: l, info: oplog.SnapshotInfo{Index: at}, mark: notNil(mark), token: make([]byte, 16)}
	rand.Read(w.token) // never fails
	return w, nil
}

// writer stores a snapshot under a token of its own, so that writers do not meet until they commit.
//
// What a writer leaves behind when it dies is swept by a later commit: one at index n deletes all parts of snapshots
// at or below n but its own. That never takes a part from a writer that could still win, because a commit at or below
// the current index is refused for good; a part of a snapshot above n stays, dead or alive, until a commit reaches its
// index, and one will, since no snapshot is ahead of the log. No clock and no life sign is needed.
type writer struct {
	log       *Log
	info      oplog.SnapshotInfo
	mark      []byte // of the last row that it stands for
	token     []byte
	ended     bool // committed or aborted
	committed bool
	doubted   bool // a Commit ended without saying what it did, and may yet take effect
}

func (w *writer) WritePart(ctx context.Context, part []byte) error {
	if err := oplog.CheckPart(len(part)); err != nil {
		return err
	}
	if w.ended {
		return fmt.Errorf("write a part of the snapshot at %d: committed or aborted already: %w", w.info.Index, oplog.ErrConflict)
	}
	v := values{Token: w.token, Part: int64(w.info.Parts), At: int64(w.info.Index), Payload: part}
	if _, err := w.log.exec(ctx, w.log.c.Dialect.Statements.InsertPart, v); err != nil {
		return fmt.Errorf("write part %d (%d bytes) of the snapshot at %d: %w", w.info.Parts, len(part), w.info.Index, err)
	}
	w.info.Parts++
	w.info.Size += int64(len(part))
	return nil
}

func (w *writer) Commit(ctx context.Context) error {
	if w.committed {
		return nil
	}
	if w.info.Parts == 0 {
		return fmt.Errorf("commit the snapshot at %d: it has no parts: %w", w.info.Index, oplog.ErrConflict)
	}
	v := values{Token: w.token, At: int64(w.info.Index), Mark: w.mark, Parts: int64(w.info.Parts), Size: w.info.Size, Limit: int64(sweepLimit)}
	n, err := w.log.exec(ctx, w.log.c.Dialect.Statements.Commit, v)
	if err == nil && n == 0 {
		err = w.refused(ctx)
	}
	if err != nil {
		w.doubted = w.doubted || !oplog.NotApplied(err)
		return fmt.Errorf("commit the snapshot at %d: %w", w.info.Index, err)
	}
	w.committed, w.ended = true, true
	// The snapshot stands whatever becomes of the sweep; what it leaves, the next commit's sweep takes.
	_ = w.log.sweep(ctx, w.log.c.Dialect.Statements.Sweep, v)
	return nil
}

// refused tells why Commit changed nothing: nil if it had succeeded before, unheard.
func (w *writer) refused(ctx context.Context) error {
	row, err := w.log.snapshotRow(ctx)
	switch {
	case err != nil && !errors.Is(err, oplog.ErrNoCluster):
		return fmt.Errorf("%w: refused, but not known why: %w", oplog.ErrConflict, err)
	case err != nil:
		return err
	case row.info.Parts > 0 && string(row.token) == string(w.token):
		return nil
	case row.info.Parts > 0 && row.info.Index >= w.info.Index:
		return fmt.Errorf("the one at %d is current: %w", row.info.Index, oplog.ErrConflict)
	}
	return fmt.Errorf("the log has no such row at that index, or parts are gone: %w", oplog.ErrConflict)
}

func (w *writer) Abort(ctx context.Context) error {
	if w.committed {
		return nil
	}
	w.ended = true
	if w.doubted {
		// The commit may be under way on the server. Neither statement would see what the other does, and the current
		// snapshot would be without its parts. If it is not to be current, a later commit's sweep takes them.
		return nil
	}
	v := values{Token: w.token, Limit: int64(sweepLimit)}
	if err := w.log.sweep(ctx, w.log.c.Dialect.Statements.Abort, v); err != nil {
		return fmt.Errorf("abort the snapshot at %d: %w", w.info.Index, err)
	}
	w.info.Parts, w.info.Size = 0, 0
	return nil
}

// sweep runs a deleting statement until it finds nothing more to delete, with pauses three times as long as the statements take.
func (l *Log) sweep(ctx context.Context, s Statement, v values) error {
	for {
		start := time.Now()
		n, err := l.exec(ctx, s, v)
		if err != nil || n == 0 {
			return err
		}
		rest := time.NewTimer(min(3*time.Since(start), sweepRest))
		select {
		case <-rest.C:
		case <-ctx.Done():
		case <-l.life.Done():
		}
		rest.Stop()
	}
}

// OpenSnapshot is oplog.Log's.
func (l *Log) OpenSnapshot(ctx context.Context) (oplog.SnapshotReader, error) {
	row, err := l.snapshotRow(ctx)
	if err == nil && row.info.Parts == 0 {
		err = oplog.ErrNoSnapshot
	}
	if err != nil {
		return nil, fmt.Errorf("open the snapshot: %w", err)
	}
	return &reader{log: l, row: row}, nil
}

// reader holds no connection between two parts, so it may be forgotten.
type reader struct {
	log *Log
	row snapshotRow
}

func (r *reader) Info() oplog.SnapshotInfo { return r.row.info }

func (r *reader) ReadPart(ctx context.Context, i int) ([]byte, error) {
	if i < 0 || i >= r.row.info.Parts {
		return nil, fmt.Errorf("read part %d of a snapshot of %d parts: %w", i, r.row.info.Parts, oplog.ErrNoSnapshot)
	}
	var data []byte
	found := false
	v := values{Token: r.row.token, Part: int64(i)}
	err := r.log.query(ctx, r.log.c.Dialect.Statements.ReadPart, v, func(rows *sql.Rows) error {
		if found = rows.Next(); found {
			return rows.Scan(&data)
		}
		return nil
	})
	if err == nil && !found {
		err = r.missing(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read part %d of the snapshot at %d: %w", i, r.row.info.Index, err)
	}
	return data, nil
}

// missing tells why a part is not there.
func (r *reader) missing(ctx context.Context) error {
	now, err := r.log.snapshotRow(ctx)
	switch {
	case err != nil:
		return err
	case string(now.token) != string(r.row.token):
		return fmt.Errorf("the one at %d is current: %w", now.info.Index, oplog.ErrReplaced)
	}
	return fmt.Errorf("the part is gone although the snapshot is current: %w", oplog.ErrCorrupt)
}

func (r *reader) Close() error { return nil }
