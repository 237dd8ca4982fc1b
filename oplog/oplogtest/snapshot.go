package oplogtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/oplog"
)

func openSnapshot(t testing.TB, l oplog.Log) oplog.SnapshotReader {
	t.Helper()
	r, err := l.OpenSnapshot(t.Context())
	if err != nil {
		t.Fatalf("open the snapshot: %v", err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close the snapshot: %v", err)
		}
	})
	return r
}

func readSnapshot(t testing.TB, l oplog.Log) [][]byte {
	t.Helper()
	r := openSnapshot(t, l)
	var parts [][]byte
	for i := range r.Info().Parts {
		p, err := r.ReadPart(t.Context(), i)
		if err != nil {
			t.Fatalf("read part %d: %v", i, err)
		}
		parts = append(parts, p)
	}
	return parts
}

func testSnapshot(t *testing.T, db Database) {
	l := cluster(t, db, 10)
	_, err := l.OpenSnapshot(t.Context())
	wantErr(t, "open no snapshot", err, oplog.ErrNoSnapshot)
	w := writeSnapshot(t, l, 4, []byte("half of it"))
	_, err = open(t, db).OpenSnapshot(t.Context())
	wantErr(t, "open a snapshot at work", err, oplog.ErrNoSnapshot)
	for _, what := range []string{"commit", "commit again"} {
		if err := w.Commit(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantErr(t, "write a part after commit", w.WritePart(t.Context(), []byte("x")), oplog.ErrConflict)
	if err := w.Abort(t.Context()); err != nil {
		t.Errorf("abort after commit: %v", err)
	}
	r := openSnapshot(t, open(t, db))
	if diff := cmp.Diff(oplog.SnapshotInfo{Index: 4, Parts: 1, Size: 10}, r.Info()); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	for _, i := range []int{-1, 1, 2} {
		if p, err := r.ReadPart(t.Context(), i); err == nil {
			t.Errorf("part %d of 1 is there: %q", i, p)
		}
	}
	commitSnapshot(t, l, 10, []byte("newer"), []byte("and "), []byte("longer"))
	if diff := cmp.Diff([][]byte{[]byte("newer"), []byte("and "), []byte("longer")}, readSnapshot(t, l)); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	wantRows(t, l, 0, rowsFromTo(1, 10)) // no row goes by itself
}

func testSnapshotParts(t *testing.T, db Database) {
	l := cluster(t, db, 1)
	w := writeSnapshot(t, l, 1, repeat(0xff, oplog.MaxPart), []byte{0}, repeat(0, oplog.MaxPart))
	for _, n := range []int{0, oplog.MaxPart + 1} {
		wantErr(t, fmt.Sprintf("part of %d bytes", n), w.WritePart(t.Context(), make([]byte, n)), oplog.ErrTooLarge)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
	want := [][]byte{repeat(0xff, oplog.MaxPart), {0}, repeat(0, oplog.MaxPart)}
	if !slices.EqualFunc(want, readSnapshot(t, l), bytes.Equal) {
		t.Error("parts differ from those written")
	}
	_, err := l.CreateSnapshot(t.Context(), oplog.MaxIndex+1, nil)
	wantErr(t, "snapshot above the last index", err, oplog.ErrExhausted)
}

// testSnapshotConditional: only a newer snapshot of a history that the log has becomes current.
func testSnapshotConditional(t *testing.T, db Database) {
	l := cluster(t, db, 10)
	early := writeSnapshot(t, l, 3, []byte("early"))
	same := writeSnapshot(t, open(t, db), 5, []byte("same"))
	empty := writeSnapshot(t, l, 9)
	commitSnapshot(t, l, 5, []byte("current"))
	for name, w := range map[string]oplog.SnapshotWriter{"older": early, "as new": same, "without parts": empty,
		"older and whole":            writeSnapshot(t, l, 3, []byte("late")), // nothing of it was swept
		"as new and whole":           writeSnapshot(t, l, 5, []byte("late")),
		"of rows that are not there": writeSnapshot(t, l, 11, []byte("future"))} {
		wantErr(t, "commit a snapshot "+name, w.Commit(t.Context()), oplog.ErrConflict)
		if err := w.Abort(t.Context()); err != nil {
			t.Errorf("abort a snapshot %s: %v", name, err)
		}
	}
	if got := readSnapshot(t, l); len(got) != 1 || string(got[0]) != "current" {
		t.Errorf("snapshot is %q, want the current one", got)
	}
	commitSnapshot(t, l, 10, []byte("newest"))
	if got := readSnapshot(t, l); len(got) != 1 || string(got[0]) != "newest" {
		t.Errorf("snapshot is %q, want the newest one", got)
	}
}

// testSnapshotRaced: whatever the order of commits, the index never goes down and the newest one stays.
func testSnapshotRaced(t *testing.T, db Database) {
	const n = 6
	l := cluster(t, db, n)
	var wg sync.WaitGroup
	for i := oplog.Index(1); i <= n; i++ {
		w := writeSnapshot(t, open(t, db), i, payload(i), payload(i+100))
		wg.Go(func() {
			if err := w.Commit(t.Context()); err != nil && !errors.Is(err, oplog.ErrConflict) {
				t.Errorf("commit at %d: %v", i, err)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	last := oplog.Index(0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		b, err := l.Bounds(t.Context())
		if err != nil {
			t.Fatalf("bounds: %v", err)
		}
		if b.Snapshot.Index < last {
			t.Errorf("snapshot index went from %d to %d", last, b.Snapshot.Index)
		}
		last = b.Snapshot.Index
	}
	if diff := cmp.Diff([][]byte{payload(n), payload(n + 100)}, readSnapshot(t, l)); last != n || diff != "" {
		t.Errorf("snapshot at %d, want %d (-want +got):\n%s", last, n, diff)
	}
	if db.Parts != nil {
		commitSnapshotAfterRow(t, l, n+1)
		if got := db.Parts(t); got != 1 {
			t.Errorf("%d parts are stored, want the one of the current snapshot", got)
		}
	}
}

func commitSnapshotAfterRow(t testing.TB, l oplog.Log, index oplog.Index) {
	t.Helper()
	appendRows(t, l, index, index)
	commitSnapshot(t, l, index, []byte("last"))
}

func testSnapshotReplaced(t *testing.T, db Database) {
	l := cluster(t, db, 4)
	commitSnapshot(t, l, 2, []byte("a"), []byte("b"))
	r := openSnapshot(t, open(t, db))
	if _, err := r.ReadPart(t.Context(), 0); err != nil {
		t.Fatalf("read part 0: %v", err)
	}
	commitSnapshot(t, l, 4, []byte("c"), []byte("d"))
	_, err := r.ReadPart(t.Context(), 1)
	wantErr(t, "read a part of the replaced snapshot", err, oplog.ErrReplaced)
	if diff := cmp.Diff([][]byte{[]byte("c"), []byte("d")}, readSnapshot(t, l)); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

func testSnapshotAborted(t *testing.T, db Database) {
	l := cluster(t, db, 4)
	commitSnapshot(t, l, 1, []byte("kept"))
	w := writeSnapshot(t, l, 3, []byte("a"), []byte("b"))
	for range 2 {
		if err := w.Abort(t.Context()); err != nil {
			t.Errorf("abort: %v", err)
		}
	}
	if db.Parts != nil && db.Parts(t) != 1 {
		t.Errorf("%d parts are stored after the abort, want 1", db.Parts(t))
	}
	wantErr(t, "commit after abort", w.Commit(t.Context()), oplog.ErrConflict)
	if got := readSnapshot(t, l); len(got) != 1 || string(got[0]) != "kept" {
		t.Errorf("snapshot is %q, want the one from before", got)
	}
}

// testSnapshotOrphans: what a writer that died left behind goes with a later commit at or above its index; what a
// writer still at work on a newer snapshot has stored stays.
func testSnapshotOrphans(t *testing.T, db Database) {
	l, other := cluster(t, db, 9), open(t, db)
	writeSnapshot(t, other, 3, []byte("dead"), []byte("dead"))
	writeSnapshot(t, other, 5, []byte("dead"), []byte("dead"))
	working := writeSnapshot(t, other, 8, []byte("w1"), []byte("w2"))
	late := writeSnapshot(t, other, 6, []byte("w3"))
	commitSnapshot(t, l, 6, []byte("current"))
	if db.Parts != nil && db.Parts(t) != 3 {
		t.Errorf("%d parts are stored, want the current one and two of the writer at work", db.Parts(t))
	}
	if err := late.WritePart(t.Context(), []byte("w4")); err == nil { // too late, but it may try
		wantErr(t, "commit of one as old as the current one", late.Commit(t.Context()), oplog.ErrConflict)
	}
	if err := working.WritePart(t.Context(), []byte("w3")); err != nil {
		t.Fatalf("write another part: %v", err)
	}
	if err := working.Commit(t.Context()); err != nil {
		t.Fatalf("commit of the writer at work: %v", err)
	}
	if diff := cmp.Diff([][]byte{[]byte("w1"), []byte("w2"), []byte("w3")}, readSnapshot(t, l)); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if db.Parts != nil && db.Parts(t) != 3 {
		t.Errorf("%d parts are stored, want the three of the current snapshot", db.Parts(t))
	}
}

// testTruncate: never without a snapshot, never above it, never the newest row, never more than asked for, always
// from below.
func testTruncate(t *testing.T, db Database) {
	l := cluster(t, db, 10)
	truncate := func(below oplog.Index, limit, want int) {
		t.Helper()
		if n, err := l.Truncate(t.Context(), below, limit); err != nil || n != want {
			t.Errorf("truncate below %d, at most %d: %d, %v; want %d", below, limit, n, err, want)
		}
	}
	truncate(10, 100, 0) // no snapshot
	commitSnapshot(t, l, 7, []byte("s"))
	truncate(0, 100, 0)
	truncate(9, 0, 0)
	truncate(9, -1, 0)
	truncate(2, 100, 2)
	wantRows(t, l, 0, rowsFromTo(2, 10))
	truncate(100, 3, 3)
	wantRows(t, l, 0, rowsFromTo(5, 10))
	truncate(oplog.MaxIndex, 100, 3)
	wantRows(t, l, 0, rowsFromTo(8, 10))
	truncate(1<<64-1, 100, 0) // row 8 is above the snapshot
	commitSnapshot(t, l, 10, []byte("s"))
	truncate(100, 100, 2)
	wantRows(t, l, 0, rowsFromTo(10, 10))
	truncate(100, 100, 0) // the newest row stays
	appendRows(t, l, 11, 11)
	wantRows(t, l, 0, rowsFromTo(10, 11))
}

// testTruncatedSlot: a writer that slept while the log was truncated finds no slot that it knew, only the next one.
func testTruncatedSlot(t *testing.T, db Database) {
	l, slow := cluster(t, db, 12), open(t, db)
	if newest, err := slow.Newest(t.Context()); err != nil || newest != 12 {
		t.Fatalf("newest: %d, %v", newest, err)
	}
	commitSnapshot(t, l, 12, []byte("s"))
	for {
		n, err := l.Truncate(t.Context(), 12, 5)
		if err != nil {
			t.Fatalf("truncate: %v", err)
		}
		for at := range oplog.Index(13) {
			wantErr(t, fmt.Sprintf("append at %d", at), slow.Append(t.Context(), at, nil, []byte("fork")), oplog.ErrConflict)
		}
		if n == 0 || t.Failed() { // a log that takes a truncated slot has something to truncate for ever
			break
		}
	}
	appendRows(t, slow, 13, 13)
	wantRows(t, l, 0, rowsFromTo(12, 13))
}
