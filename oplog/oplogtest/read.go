package oplogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/oplog"
)

// testRead: as many rows as fit into the bytes asked for, at least one, none twice, none out of order.
func testRead(t *testing.T, db Database) {
	l := cluster(t, db, 0)
	sizes := []int{len(payload(0)), 10, 0, 20, 5, 100, 1, 0}
	for i, n := range sizes[1:] {
		if err := l.Append(t.Context(), oplog.Index(i+1), nil, repeat('x', n)); err != nil {
			t.Fatalf("append: %v", err)
		}
	}
	for _, c := range []struct {
		after    oplog.Index
		maxBytes int
		want     []oplog.Index
	}{
		{0, 1000, []oplog.Index{1, 2, 3, 4, 5, 6, 7}},
		{3, 1000, []oplog.Index{4, 5, 6, 7}},
		{0, 30, []oplog.Index{1, 2, 3}},
		{0, 29, []oplog.Index{1, 2}},
		{0, 1, []oplog.Index{1}},
		{0, 0, []oplog.Index{1}},
		{0, -1, []oplog.Index{1}},
		{1, 0, []oplog.Index{2}},
		{4, 99, []oplog.Index{5}},
		{5, 1, []oplog.Index{6, 7}},
		{6, 1, []oplog.Index{7}},
		{7, 1000, nil},
		{8, 1000, nil},
		{oplog.MaxIndex, 1000, nil},
		{1 << 63, 1000, nil},
		{oplog.Beginning, 1000, []oplog.Index{0, 1, 2, 3, 4, 5, 6, 7}},
		{oplog.Beginning, 0, []oplog.Index{0}},
	} {
		t.Run(fmt.Sprintf("after %d bytes %d", c.after, c.maxBytes), func(t *testing.T) {
			rows, err := l.Read(t.Context(), c.after, c.maxBytes)
			if err != nil {
				t.Fatalf("read: %v", err)
			}
			var got []oplog.Index
			for _, r := range rows {
				got = append(got, r.Index)
				if len(r.Payload) != sizes[r.Index] {
					t.Errorf("row %d has %d bytes, want %d", r.Index, len(r.Payload), sizes[r.Index])
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("indexes (-want +got):\n%s", diff)
			}
		})
	}
}

func testReadManyRows(t *testing.T, db Database) {
	const n = oplog.MaxRead + 10
	l := cluster(t, db, 0)
	db.Put(t, rowsFromTo(1, n)...)
	rows, err := l.Read(t.Context(), 0, 1<<30)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	if !slices.EqualFunc(rowsFromTo(1, oplog.MaxRead), rows, equalRow) {
		t.Errorf("first read: %d rows, want %d", len(rows), oplog.MaxRead)
	}
	wantRows(t, l, 0, rowsFromTo(1, n))
}

// testReadHole: a row that is missing is shown as missing, never filled or hidden by an error.
func testReadHole(t *testing.T, db Database) {
	l := cluster(t, db, 6)
	db.Drop(t, 3)
	wantRows(t, l, 0, append(rowsFromTo(1, 2), rowsFromTo(4, 6)...))
	wantRows(t, l, 2, rowsFromTo(4, 6))
	wantErr(t, "append into the hole", l.Append(t.Context(), 3, nil, nil), oplog.ErrConflict)
	wantErr(t, "append after the hole", l.Append(t.Context(), 4, nil, nil), oplog.ErrConflict)
	appendRows(t, l, 7, 7)
}

func testBounds(t *testing.T, db Database) {
	l := cluster(t, db, 0)
	wantBounds(t, l, oplog.Bounds{Authoritative: true})
	appendRows(t, l, 1, 8)
	wantBounds(t, l, oplog.Bounds{Newest: 8, Authoritative: true})
	commitSnapshot(t, l, 6, []byte("one"), []byte("two2"))
	s := oplog.SnapshotInfo{Index: 6, Parts: 2, Size: 7}
	wantBounds(t, l, oplog.Bounds{Newest: 8, Snapshot: s, Authoritative: true})
	if n, err := l.Truncate(t.Context(), 4, 100); n != 4 || err != nil {
		t.Errorf("truncate below 4: %d, %v; want 4 rows", n, err)
	}
	wantBounds(t, l, oplog.Bounds{Oldest: 4, Newest: 8, Snapshot: s, Authoritative: true})
	for i := oplog.Index(4); i <= 8; i++ {
		db.Drop(t, i)
	}
	wantBounds(t, l, oplog.Bounds{Empty: true, Snapshot: s, Authoritative: true})
	_, err := l.Newest(t.Context())
	wantErr(t, "newest of no rows", err, oplog.ErrNoCluster)
	wantErr(t, "init beside a snapshot", l.Init(t.Context(), nil), oplog.ErrExists)
}

func testWait(t *testing.T, db Database) {
	l := cluster(t, db, 3)
	other := open(t, db)
	for _, l := range []oplog.Log{l, other} {
		for after := range oplog.Index(3) {
			if err := l.Wait(t.Context(), after); err != nil {
				t.Errorf("wait after %d of 3: %v", after, err)
			}
		}
	}
	for i := oplog.Index(4); i < 12; i++ { // one appends, both wait
		var wg sync.WaitGroup
		for name, l := range map[string]oplog.Log{"one log": l, "the other": other} {
			wg.Go(func() { waitFor(t, name, l, i) })
		}
		by := []oplog.Log{l, other}[i%2]
		appendRows(t, by, i, i)
		wg.Wait()
	}
}

// waitFor waits for row want as the engine does: wait, read, and again where the wait came back early.
func waitFor(t testing.TB, name string, l oplog.Log, want oplog.Index) {
	for {
		if err := l.Wait(patient(t), want-1); err != nil {
			t.Errorf("%s: wait for row %d: %v", name, want, err)
			return
		}
		rows, err := l.Read(t.Context(), want-1, 1)
		if err != nil {
			t.Errorf("%s: read row %d: %v", name, want, err)
			return
		}
		if len(rows) > 0 && rows[0].Index == want {
			return
		}
	}
}

func testWaitEnds(t *testing.T, db Database) {
	l := cluster(t, db, 3)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		for {
			if err := l.Wait(ctx, 3); err != nil { // nil: woken early, which it may
				ended <- err
				return
			}
		}
	}()
	cancel()
	wantErr(t, "wait", <-ended, context.Canceled)
	err := l.Wait(ctx, 3)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("wait with an ended context: %v", err)
	}
}

// testWaitMissesNothing: a reader that only waits and reads sees every row, whatever the timing, and never two views
// that contradict each other.
func testWaitMissesNothing(t *testing.T, db Database) {
	const n = 60
	l := cluster(t, db, 0)
	var wg sync.WaitGroup
	for r := range 3 {
		reader := open(t, db)
		wg.Go(func() {
			for have := oplog.Index(0); have < n; {
				if err := reader.Wait(patient(t), have); err != nil {
					t.Errorf("reader %d: wait after %d: %v", r, have, err)
					return
				}
				rows, err := reader.Read(t.Context(), have, 1<<20)
				if err != nil {
					t.Errorf("reader %d: read after %d: %v", r, have, err)
					return
				}
				for _, row := range rows {
					if row.Index != have+1 || string(row.Payload) != string(payload(row.Index)) {
						t.Errorf("reader %d: row %d (%q) after row %d", r, row.Index, row.Payload, have)
						return
					}
					have = row.Index
				}
			}
		})
	}
	appendRows(t, l, 1, n)
	wg.Wait()
}
