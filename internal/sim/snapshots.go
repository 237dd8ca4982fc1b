package sim

import (
	"bytes"
	"context"
	"fmt"

	"github.com/headwaterdb/headwater/oplog"
)

// snapWriter stores a snapshot as package sqllog does: parts under a token of their own, then one conditional update.
type snapWriter struct {
	c         *conn
	info      oplog.SnapshotInfo
	mark      []byte
	token     [16]byte
	ended     bool
	committed bool
	doubted   bool
}

// CreateSnapshot is oplog.Log's.
func (c *conn) CreateSnapshot(_ context.Context, at oplog.Index, mark []byte) (oplog.SnapshotWriter, error) {
	if c.dead() {
		return nil, oplog.ErrClosed
	}
	return &snapWriter{c: c, info: oplog.SnapshotInfo{Index: at}, mark: mark, token: c.w.s.random()}, nil
}

// WritePart is oplog.SnapshotWriter's.
func (w *snapWriter) WritePart(ctx context.Context, data []byte) error {
	if err := oplog.CheckPart(len(data)); err != nil {
		return err
	}
	if w.ended {
		return oplog.ErrConflict
	}
	p := part{w.token, w.info.Parts, w.info.Index, bytes.Clone(data)}
	if _, err := w.c.call(ctx, opPart, w.info.Index, func(x *tx, _ *plan) (any, error) { return nil, x.insertPart(w.c.w.rot(p)) }); err != nil {
		return fmt.Errorf("write part %d of the snapshot at %d: %w", p.number, p.index, err)
	}
	w.info.Parts++
	w.info.Size += int64(len(data))
	return nil
}

// Commit is oplog.SnapshotWriter's.
func (w *snapWriter) Commit(ctx context.Context) error {
	if w.committed {
		return nil
	}
	if w.info.Parts == 0 {
		return oplog.ErrConflict
	}
	info := w.info
	res, err := w.c.call(ctx, opCommit, info.Index, func(x *tx, _ *plan) (any, error) { return x.commitSnapshot(w.token, info, w.mark) })
	if err == nil && res.(int) == 0 {
		err = w.refused(ctx)
	}
	if err != nil {
		w.doubted = w.doubted || !oplog.NotApplied(err)
		return fmt.Errorf("commit the snapshot at %d: %w", info.Index, err)
	}
	w.committed, w.ended = true, true
	_, _ = w.c.call(ctx, opSweep, info.Index, func(x *tx, _ *plan) (any, error) { return nil, x.sweep(nil) })
	return nil
}

// refused tells why a commit changed nothing: nil if it had succeeded before, unheard.
func (w *snapWriter) refused(ctx context.Context) error {
	now, err := w.c.snapshotRow(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w: refused, but not known why: %w", oplog.ErrConflict, err)
	case now.info.Parts > 0 && now.token == w.token:
		return nil
	}
	return oplog.ErrConflict
}

// Abort is oplog.SnapshotWriter's.
func (w *snapWriter) Abort(ctx context.Context) error {
	if w.committed {
		return nil
	}
	w.ended = true
	if w.doubted {
		return nil
	}
	_, err := w.c.call(ctx, opSweep, w.info.Index, func(x *tx, _ *plan) (any, error) { return nil, x.sweep(&w.token) })
	return err
}

// snapshotRow reads the row of the snapshot table.
func (c *conn) snapshotRow(ctx context.Context) (stored, error) {
	res, err := c.call(ctx, opOpenSnapshot, 0, func(x *tx, p *plan) (any, error) { return x.view(p).snap, x.commit() })
	if err != nil {
		return stored{}, err
	}
	return res.(stored), nil
}

// OpenSnapshot is oplog.Log's.
func (c *conn) OpenSnapshot(ctx context.Context) (oplog.SnapshotReader, error) {
	row, err := c.snapshotRow(ctx)
	if err == nil && row.info.Parts == 0 {
		err = oplog.ErrNoSnapshot
	}
	if err != nil {
		return nil, fmt.Errorf("open the snapshot: %w", err)
	}
	return &snapReader{c, row}, nil
}

type snapReader struct {
	c   *conn
	row stored
}

// Info is oplog.SnapshotReader's.
func (r *snapReader) Info() oplog.SnapshotInfo { return r.row.info }

// ReadPart is oplog.SnapshotReader's.
func (r *snapReader) ReadPart(ctx context.Context, i int) ([]byte, error) {
	res, err := r.c.call(ctx, opReadPart, r.row.info.Index, func(x *tx, p *plan) (any, error) {
		st := x.db.state
		for _, p := range st.parts {
			if p.token == r.row.token && p.number == i {
				return bytes.Clone(p.data), x.commit()
			}
		}
		if err := x.commit(); err != nil {
			return nil, err
		}
		if st.snap.token != r.row.token {
			return nil, oplog.ErrReplaced
		}
		return nil, fmt.Errorf("the part is gone although the snapshot is current: %w", oplog.ErrCorrupt)
	})
	if err != nil {
		return nil, fmt.Errorf("read part %d of the snapshot at %d: %w", i, r.row.info.Index, err)
	}
	return res.([]byte), nil
}

// Close is oplog.SnapshotReader's.
func (r *snapReader) Close() error { return nil }
