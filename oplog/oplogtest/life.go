package oplogtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/headwaterdb/headwater/oplog"
)

// testNoCluster: before Init every call says so, and none of them creates anything.
func testNoCluster(t *testing.T, db Database) {
	l, other := open(t, db), open(t, db)
	for _, l := range []oplog.Log{l, other, l} {
		eachCall(t, t.Context(), l, func(what string, err error) {
			wantErr(t, what, err, oplog.ErrNoCluster)
			if what == "append" && !oplog.NotApplied(err) {
				t.Errorf("append without a cluster: %v does not vouch that nothing was applied", err)
			}
		})
	}
	if err := other.Init(t.Context(), []byte("g")); err != nil {
		t.Fatalf("init after all that: %v", err)
	}
	wantBounds(t, l, oplog.Bounds{Authoritative: true})
}

func testInit(t *testing.T, db Database) {
	l := open(t, db)
	if err := l.Init(t.Context(), []byte("genesis")); err != nil {
		t.Fatalf("init: %v", err)
	}
	wantErr(t, "second init", l.Init(t.Context(), []byte("other")), oplog.ErrExists)
	wantErr(t, "init by another", open(t, db).Init(t.Context(), []byte("other")), oplog.ErrExists)
	wantBounds(t, l, oplog.Bounds{Authoritative: true})

	wantRows(t, l, oplog.Beginning, []oplog.Row{{Index: 0, Payload: []byte("genesis")}})
	if err := l.Wait(t.Context(), oplog.Beginning); err != nil {
		t.Errorf("wait for row 0: %v", err)
	}

	// A snapshot and truncation take row 0 away, and Init still refuses.
	appendRows(t, l, 1, 3)
	wantRows(t, l, 0, rowsFromTo(1, 3))
	commitSnapshot(t, l, 2, []byte("s"))
	if _, err := l.Truncate(t.Context(), 3, 10); err != nil {
		t.Fatalf("truncate: %v", err)
	}
	wantErr(t, "init of a truncated log", l.Init(t.Context(), []byte("other")), oplog.ErrExists)
	wantRows(t, l, 0, rowsFromTo(3, 3))
}

// testInitBrokenOff: where a process was killed that had created the tables and not written row 0, the next one goes on.
func testInitBrokenOff(t *testing.T, db Database) {
	l := cluster(t, db, 0)
	db.Drop(t, 0)
	if err := open(t, db).Init(t.Context(), []byte("taken up")); err != nil {
		t.Errorf("init where one was broken off: %v", err)
	}
	wantRows(t, l, oplog.Beginning, []oplog.Row{{Index: 0, Payload: []byte("taken up")}})
}

// testInitRaced: of eight that start at once one creates the cluster, and all can use it.
func testInitRaced(t *testing.T, db Database) {
	const n = 8
	logs := make([]oplog.Log, n)
	for i := range logs {
		logs[i] = open(t, db)
	}
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, l := range logs {
		wg.Go(func() {
			<-start
			errs[i] = l.Init(t.Context(), fmt.Appendf(nil, "genesis of %d", i))
		})
	}
	close(start)
	wg.Wait()
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			won++
			rows, err := logs[0].Read(t.Context(), oplog.Beginning, 100)
			if want := fmt.Sprintf("genesis of %d", i); err != nil || len(rows) != 1 || string(rows[0].Payload) != want {
				t.Errorf("row 0 is %v (%v), want %q", rows, err, want)
			}
		case !errors.Is(err, oplog.ErrExists):
			t.Errorf("init by %d: %v", i, err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d created the cluster, want 1", won, n)
	}
	for i, l := range logs {
		if err := l.Append(t.Context(), oplog.Index(i+1), nil, payload(oplog.Index(i+1))); err != nil {
			t.Errorf("append by %d: %v", i, err)
		}
	}
	wantRows(t, logs[0], 0, rowsFromTo(1, n))
}

func testClosed(t *testing.T, db Database) {
	l := cluster(t, db, 2)
	other := db.Open(t)
	if _, err := other.Newest(t.Context()); err != nil {
		t.Fatalf("newest: %v", err)
	}
	w := writeSnapshot(t, other, 1, []byte("s"))
	waiting := make(chan error)
	go func() {
		for ctx := patient(t); ; { // a wait may end early for no reason
			if err := other.Wait(ctx, 2); err != nil {
				waiting <- err
				return
			}
		}
	}()
	if err := other.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	wantErr(t, "wait under way", <-waiting, oplog.ErrClosed)
	if err := other.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	eachCall(t, t.Context(), other, func(what string, err error) { wantErr(t, what, err, oplog.ErrClosed) })
	wantErr(t, "init", other.Init(t.Context(), nil), oplog.ErrClosed)
	wantErr(t, "wait", other.Wait(t.Context(), 0), oplog.ErrClosed)
	wantErr(t, "commit", w.Commit(t.Context()), oplog.ErrClosed)

	appendRows(t, l, 3, 4) // the other log goes on
	wantRows(t, l, 0, rowsFromTo(1, 4))
}

func testReopened(t *testing.T, db Database) {
	l := db.Open(t)
	if err := l.Init(t.Context(), payload(0)); err != nil {
		t.Fatalf("init: %v", err)
	}
	appendRows(t, l, 1, 5)
	commitSnapshot(t, l, 3, []byte("state"))
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	l = open(t, db)
	wantBounds(t, l, oplog.Bounds{Newest: 5, Snapshot: oplog.SnapshotInfo{Index: 3, Parts: 1, Size: 5}, Authoritative: true})
	appendRows(t, l, 6, 6)
	wantRows(t, l, 0, rowsFromTo(1, 6))
	if info := l.Info(); info.Backend == "" || info.Location == "" {
		t.Errorf("info: %+v, want backend and location", info)
	}
}

// testAppendCancelled: a context that has ended starts nothing; one that ends at any moment leaves an honest answer
// and a log that works.
func testAppendCancelled(t *testing.T, db Database) {
	l := cluster(t, db, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := l.Append(ctx, 2, nil, payload(2))
	wantErr(t, "append with an ended context", err, context.Canceled)
	if !oplog.NotApplied(err) {
		t.Errorf("append with an ended context: %v does not vouch that nothing was applied", err)
	}
	eachCall(t, ctx, l, func(what string, err error) {
		if what != "store a snapshot" {
			wantErr(t, what, err, context.Canceled)
		}
	})
	wantRows(t, l, 0, rowsFromTo(1, 1))

	next := oplog.Index(2)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		err := l.Append(ctx, next, nil, payload(next))
		cancel()
		// A normal append at the same slot tells what became of the first: it waits for a statement still under way.
		again := l.Append(t.Context(), next, nil, payload(next))
		switch {
		case err == nil && !errors.Is(again, oplog.ErrConflict):
			t.Fatalf("row %d: appended, and again: %v", next, again)
		case err != nil && oplog.NotApplied(err) && again != nil:
			t.Fatalf("row %d: %v, but the slot was taken: %v", next, err, again)
		case again != nil && !errors.Is(again, oplog.ErrConflict):
			t.Fatalf("row %d after %v: %v", next, err, again)
		}
		next++
	}
	wantRows(t, l, 0, rowsFromTo(1, next-1))
}
