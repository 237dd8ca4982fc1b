package faultlog

import (
	"bytes"
	"context"
	"fmt"

	"github.com/headwaterdb/headwater/oplog"
)

func failed(c Call, err error) error { return fmt.Errorf("%v at %d: %w", c.Op, c.At, err) }

func notStarted(c Call, err error) error {
	return fmt.Errorf("%v at %d: not started: %w: %w", c.Op, c.At, oplog.ErrUnavailable, err)
}

func unknown(c Call, err error) error {
	return fmt.Errorf("%v at %d: %w: %w", c.Op, c.At, oplog.ErrUnknown, err)
}

// Init is oplog.Log's.
func (l *Log) Init(ctx context.Context, genesis []byte) error {
	genesis = bytes.Clone(genesis)
	return l.run(ctx, Call{Op: Init}, func(ctx context.Context, _ Rule) error { return l.inner.Init(ctx, genesis) })
}

// Append is oplog.Log's.
func (l *Log) Append(ctx context.Context, at oplog.Index, mark, payload []byte) error {
	payload = bytes.Clone(payload)
	return l.run(ctx, Call{Append, at}, func(ctx context.Context, _ Rule) error { return l.inner.Append(ctx, at, mark, payload) })
}

// Read is oplog.Log's.
func (l *Log) Read(ctx context.Context, after oplog.Index, maxBytes int) ([]oplog.Row, error) {
	return value(ctx, l, Call{Read, after}, func(ctx context.Context, r Rule) ([]oplog.Row, error) {
		rows, err := l.inner.Read(ctx, after, maxBytes)
		if err == nil && r.EditRows != nil {
			rows = r.EditRows(rows)
		}
		return rows, err
	})
}

// Newest is oplog.Log's.
func (l *Log) Newest(ctx context.Context) (oplog.Index, error) {
	return value(ctx, l, Call{Op: Newest}, func(ctx context.Context, _ Rule) (oplog.Index, error) { return l.inner.Newest(ctx) })
}

// Bounds is oplog.Log's.
func (l *Log) Bounds(ctx context.Context) (oplog.Bounds, error) {
	return value(ctx, l, Call{Op: Bounds}, func(ctx context.Context, r Rule) (oplog.Bounds, error) {
		b, err := l.inner.Bounds(ctx)
		if err == nil && r.EditBounds != nil {
			b = r.EditBounds(b)
		}
		return b, err
	})
}

// Wait is oplog.Log's.
func (l *Log) Wait(ctx context.Context, after oplog.Index) error {
	return l.run(ctx, Call{Wait, after}, func(ctx context.Context, _ Rule) error { return l.inner.Wait(ctx, after) })
}

// Truncate is oplog.Log's.
func (l *Log) Truncate(ctx context.Context, below oplog.Index, limit int) (int, error) {
	return value(ctx, l, Call{Truncate, below}, func(ctx context.Context, _ Rule) (int, error) {
		return l.inner.Truncate(ctx, below, limit)
	})
}

// Info is oplog.Log's.
func (l *Log) Info() oplog.Info { return l.inner.Info() }

// Close is oplog.Log's. It does not open gates and does not wait for late calls.
func (l *Log) Close() error { return l.inner.Close() }

// CreateSnapshot is oplog.Log's.
func (l *Log) CreateSnapshot(ctx context.Context, at oplog.Index, mark []byte) (oplog.SnapshotWriter, error) {
	return value(ctx, l, Call{CreateSnapshot, at}, func(ctx context.Context, _ Rule) (oplog.SnapshotWriter, error) {
		w, err := l.inner.CreateSnapshot(ctx, at, mark)
		if err != nil {
			return nil, err
		}
		return &writer{l, w, at}, nil
	})
}

// OpenSnapshot is oplog.Log's.
func (l *Log) OpenSnapshot(ctx context.Context) (oplog.SnapshotReader, error) {
	return value(ctx, l, Call{Op: OpenSnapshot}, func(ctx context.Context, _ Rule) (oplog.SnapshotReader, error) {
		r, err := l.inner.OpenSnapshot(ctx)
		if err != nil {
			return nil, err
		}
		return &reader{l, r}, nil
	})
}

type writer struct {
	log   *Log
	inner oplog.SnapshotWriter
	at    oplog.Index
}

func (w *writer) WritePart(ctx context.Context, part []byte) error {
	part = bytes.Clone(part)
	return w.log.run(ctx, Call{WritePart, w.at}, func(ctx context.Context, _ Rule) error { return w.inner.WritePart(ctx, part) })
}

func (w *writer) Commit(ctx context.Context) error {
	return w.log.run(ctx, Call{CommitSnapshot, w.at}, func(ctx context.Context, _ Rule) error { return w.inner.Commit(ctx) })
}

func (w *writer) Abort(ctx context.Context) error {
	return w.log.run(ctx, Call{AbortSnapshot, w.at}, func(ctx context.Context, _ Rule) error { return w.inner.Abort(ctx) })
}

type reader struct {
	log   *Log
	inner oplog.SnapshotReader
}

func (r *reader) Info() oplog.SnapshotInfo { return r.inner.Info() }

func (r *reader) ReadPart(ctx context.Context, i int) ([]byte, error) {
	return value(ctx, r.log, Call{ReadPart, r.Info().Index}, func(ctx context.Context, _ Rule) ([]byte, error) {
		return r.inner.ReadPart(ctx, i)
	})
}

func (r *reader) Close() error { return r.inner.Close() }

// value is run for operations that return more than an error. A late call's value goes nowhere: it is written to a
// variable of its own, never to what the caller got.
func value[T any](ctx context.Context, l *Log, c Call, do func(context.Context, Rule) (T, error)) (T, error) {
	var got, none T
	err := l.run(ctx, c, func(ctx context.Context, r Rule) error {
		v, err := do(ctx, r)
		if r.Late == nil {
			got = v
		}
		return err
	})
	if err != nil {
		return none, err
	}
	return got, nil
}
