package faultlog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
)

// TestTransparent: without rules the wrapper is a log like any other.
func TestTransparent(t *testing.T) {
	oplogtest.TestLog(t, oplogtest.Harness{New: func(testing.TB) oplogtest.Database {
		m := oplog.NewMemory()
		return oplogtest.Database{
			Open: func(testing.TB) oplog.Log { return faultlog.Wrap(m.Open()) },
			Put: func(_ testing.TB, rows ...oplog.Row) {
				for _, r := range rows {
					m.Put(r.Index, r.Payload)
				}
			},
			Drop: func(_ testing.TB, index oplog.Index) { m.Drop(index) },
		}
	}})
}

func cluster(t *testing.T, rules ...faultlog.Rule) *faultlog.Log {
	t.Helper()
	l := faultlog.Wrap(oplog.NewMemory().Open(), rules...)
	t.Cleanup(func() { l.Close() })
	if err := l.Init(t.Context(), []byte("g")); err != nil {
		t.Fatalf("init: %v", err)
	}
	return l
}

func newest(t *testing.T, l oplog.Log) oplog.Index {
	t.Helper()
	n, err := l.Newest(t.Context())
	if err != nil {
		t.Fatalf("newest: %v", err)
	}
	return n
}

func TestBeforeAndAfter(t *testing.T) {
	odd := errors.New("odd")
	l := cluster(t,
		faultlog.Rule{Op: faultlog.Append, Skip: 1, Before: oplog.ErrUnavailable},
		faultlog.Rule{Op: faultlog.Append, Match: func(c faultlog.Call) bool { return c.At == 3 }, After: odd},
	)
	for i, c := range []struct {
		at   oplog.Index
		want error
		then oplog.Index
	}{
		{1, nil, 1},                  // skipped
		{2, oplog.ErrUnavailable, 1}, // failed before
		{2, nil, 2},                  // used up
		{3, odd, 3},                  // done, answer lost
		{3, oplog.ErrConflict, 3},    // used up
	} {
		if err := l.Append(t.Context(), c.at, nil, nil); !errors.Is(err, c.want) {
			t.Errorf("call %d: append at %d: %v, want %v", i, c.at, err, c.want)
		}
		if n := newest(t, l); n != c.then {
			t.Errorf("call %d: newest is %d, want %d", i, n, c.then)
		}
	}
	if n := l.Calls(faultlog.Append); n != 5 {
		t.Errorf("%d appends counted, want 5", n)
	}
}

func TestAlwaysAndClear(t *testing.T) {
	l := cluster(t, faultlog.Rule{Op: faultlog.Read, Times: -1, Before: oplog.ErrUnavailable})
	for range 3 {
		if _, err := l.Read(t.Context(), 0, 1); !errors.Is(err, oplog.ErrUnavailable) {
			t.Errorf("read: %v", err)
		}
	}
	l.Clear()
	if _, err := l.Read(t.Context(), 0, 1); err != nil {
		t.Errorf("read after clear: %v", err)
	}
}

// TestLate: the answer comes first, the row later, and the caller may have reused its buffer by then.
func TestLate(t *testing.T) {
	gate := faultlog.NewGate()
	l := cluster(t, faultlog.Rule{Op: faultlog.Append, Late: gate, After: oplog.ErrUnknown})
	p := []byte("late")
	if err := l.Append(t.Context(), 1, nil, p); !errors.Is(err, oplog.ErrUnknown) {
		t.Fatalf("append: %v", err)
	}
	clear(p)
	if n := newest(t, l); n != 0 {
		t.Errorf("newest is %d before the gate opened", n)
	}
	gate.Open()
	l.Settle()
	rows, err := l.Read(t.Context(), 0, 100)
	if err != nil || len(rows) != 1 || string(rows[0].Payload) != "late" {
		t.Errorf("rows %v, %v", rows, err)
	}
}

func TestHoldAndLinger(t *testing.T) {
	hold, linger := faultlog.NewGate(), faultlog.NewGate()
	l := cluster(t,
		faultlog.Rule{Op: faultlog.Append, Hold: hold, Times: 2},
		faultlog.Rule{Op: faultlog.Append, Linger: linger, Times: 2},
	)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	appendRow := func(ctx context.Context, at oplog.Index) { result <- l.Append(ctx, at, nil, nil) }

	go appendRow(ctx, 1)
	<-hold.Reached()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || !oplog.NotApplied(err) || newest(t, l) != 0 {
		t.Errorf("cancelled at the first gate: %v, newest %d", err, newest(t, l))
	}
	go appendRow(t.Context(), 1)
	<-hold.Reached()
	hold.Open()
	if err := <-result; err != nil || newest(t, l) != 1 {
		t.Errorf("let through the first gate: %v, newest %d", err, newest(t, l))
	}

	ctx, cancel = context.WithCancel(t.Context())
	go appendRow(ctx, 2)
	<-linger.Reached()
	cancel()
	if err := <-result; !errors.Is(err, oplog.ErrUnknown) || !errors.Is(err, context.Canceled) || newest(t, l) != 2 {
		t.Errorf("cancelled at the second gate: %v, newest %d", err, newest(t, l))
	}
	go appendRow(t.Context(), 3)
	<-linger.Reached()
	linger.Open()
	if err := <-result; err != nil || newest(t, l) != 3 {
		t.Errorf("let through the second gate: %v, newest %d", err, newest(t, l))
	}
}

func TestEdits(t *testing.T) {
	l := cluster(t,
		faultlog.Rule{Op: faultlog.Read, EditRows: func(r []oplog.Row) []oplog.Row { return r[:1] }},
		faultlog.Rule{Op: faultlog.Bounds, EditBounds: func(b oplog.Bounds) oplog.Bounds { b.Authoritative = false; return b }},
	)
	for i := oplog.Index(1); i <= 3; i++ {
		if err := l.Append(t.Context(), i, nil, nil); err != nil {
			t.Fatalf("append: %v", err)
		}
	}
	for _, want := range []int{1, 3} {
		if rows, err := l.Read(t.Context(), 0, 100); err != nil || len(rows) != want {
			t.Errorf("read: %d rows, %v; want %d", len(rows), err, want)
		}
	}
	for _, want := range []bool{false, true} {
		if b, err := l.Bounds(t.Context()); err != nil || b.Authoritative != want {
			t.Errorf("bounds: %+v, %v; want authoritative %v", b, err, want)
		}
	}
}

// TestSnapshotOps: writers and readers are under the rules too.
func TestSnapshotOps(t *testing.T) {
	l := cluster(t,
		faultlog.Rule{Op: faultlog.WritePart, Skip: 1, Before: oplog.ErrFull},
		faultlog.Rule{Op: faultlog.CommitSnapshot, After: oplog.ErrUnknown},
		faultlog.Rule{Op: faultlog.ReadPart, Before: oplog.ErrReplaced},
	)
	w, err := l.CreateSnapshot(t.Context(), 0, nil)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	for _, want := range []error{nil, oplog.ErrFull, nil} {
		if err := w.WritePart(t.Context(), []byte("p")); !errors.Is(err, want) {
			t.Errorf("write part: %v, want %v", err, want)
		}
	}
	for _, want := range []error{oplog.ErrUnknown, nil} {
		if err := w.Commit(t.Context()); !errors.Is(err, want) {
			t.Errorf("commit: %v, want %v", err, want)
		}
	}
	r, err := l.OpenSnapshot(t.Context())
	if err != nil || r.Info().Parts != 2 {
		t.Fatalf("open: %+v, %v", r, err)
	}
	for _, want := range []error{oplog.ErrReplaced, nil} {
		if _, err := r.ReadPart(t.Context(), 1); !errors.Is(err, want) {
			t.Errorf("read part: %v, want %v", err, want)
		}
	}
	if err := w.Abort(t.Context()); err != nil {
		t.Errorf("abort: %v", err)
	}
}
