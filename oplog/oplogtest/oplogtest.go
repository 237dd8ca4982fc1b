// Package oplogtest is the suite that every implementation of oplog.Log must pass.
//
// It is the definition of the contract where the contract's comments leave room: a new database is finished when
// TestLog passes on it. The suite opens several logs on one database, as several processes do, and reaches behind the
// log only to damage it.
package oplogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/oplog"
)

// Harness makes databases for the suite.
type Harness struct {
	// New returns a fresh, empty database; it is gone when the test ends.
	New func(t testing.TB) Database
}

// Database is one database under test.
type Database struct {
	// Open opens another log on the database, as another process would. The suite closes it.
	Open func(t testing.TB) oplog.Log
	// Put places rows as a person with access to the tables could, all at once, over what is there. The cluster exists.
	Put func(t testing.TB, rows ...oplog.Row)
	// Drop removes the row at index in the same way.
	Drop func(t testing.TB, index oplog.Index)
	// Parts counts the snapshot parts stored, current or not; nil where parts of a writer at work are not stored.
	Parts func(t testing.TB) int
}

// patience is how long a test waits for what must happen before it calls that a failure. Nothing that works comes near.
const patience = time.Minute

// TestLog runs the suite.
func TestLog(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, db Database)
	}{
		{"NoCluster", testNoCluster},
		{"Init", testInit},
		{"InitBrokenOff", testInitBrokenOff},
		{"InitRaced", testInitRaced},
		{"Append", testAppend},
		{"AppendConflict", testAppendConflict},
		{"AppendMark", testAppendMark},
		{"AppendLimits", testAppendLimits},
		{"AppendAllBytes", testAppendAllBytes},
		{"AppendKeepsNothing", testAppendKeepsNothing},
		{"AppendManyWriters", testAppendManyWriters},
		{"AppendCancelled", testAppendCancelled},
		{"HighIndexes", testHighIndexes},
		{"Read", testRead},
		{"ReadManyRows", testReadManyRows},
		{"ReadHole", testReadHole},
		{"Bounds", testBounds},
		{"Wait", testWait},
		{"WaitEnds", testWaitEnds},
		{"WaitMissesNothing", testWaitMissesNothing},
		{"Snapshot", testSnapshot},
		{"SnapshotParts", testSnapshotParts},
		{"SnapshotConditional", testSnapshotConditional},
		{"SnapshotRaced", testSnapshotRaced},
		{"SnapshotReplaced", testSnapshotReplaced},
		{"SnapshotAborted", testSnapshotAborted},
		{"SnapshotOrphans", testSnapshotOrphans},
		{"Truncate", testTruncate},
		{"Leap", testLeap},
		{"TruncatedSlot", testTruncatedSlot},
		{"Closed", testClosed},
		{"Reopened", testReopened},
		{"Random", testRandom},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, h.New(t))
		})
	}
}

// open opens a log that is closed when the test ends.
func open(t testing.TB, db Database) oplog.Log {
	t.Helper()
	l := db.Open(t)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// cluster opens a log on db and makes db a cluster with rows 0 to newest.
func cluster(t testing.TB, db Database, newest oplog.Index) oplog.Log {
	t.Helper()
	l := open(t, db)
	if err := l.Init(t.Context(), payload(0)); err != nil {
		t.Fatalf("init: %v", err)
	}
	appendRows(t, l, 1, newest)
	return l
}

// payload is the payload of the row at index in tests that need no other.
func payload(index oplog.Index) []byte { return fmt.Appendf(nil, "row %d", index) }

func appendRows(t testing.TB, l oplog.Log, from, to oplog.Index) {
	t.Helper()
	for i := from; i <= to; i++ {
		if err := l.Append(t.Context(), i, nil, payload(i)); err != nil {
			t.Fatalf("append row %d: %v", i, err)
		}
	}
}

func writeSnapshot(t testing.TB, l oplog.Log, at oplog.Index, parts ...[]byte) oplog.SnapshotWriter {
	t.Helper()
	return markedSnapshot(t, l, at, nil, parts...)
}

func markedSnapshot(t testing.TB, l oplog.Log, at oplog.Index, mark []byte, parts ...[]byte) oplog.SnapshotWriter {
	t.Helper()
	w, err := l.CreateSnapshot(t.Context(), at, mark)
	if err != nil {
		t.Fatalf("create a snapshot at %d: %v", at, err)
	}
	for i, p := range parts {
		if err := w.WritePart(t.Context(), p); err != nil {
			t.Fatalf("write part %d of the snapshot at %d: %v", i, at, err)
		}
	}
	return w
}

func commitSnapshot(t testing.TB, l oplog.Log, at oplog.Index, parts ...[]byte) {
	t.Helper()
	if err := writeSnapshot(t, l, at, parts...).Commit(t.Context()); err != nil {
		t.Fatalf("commit the snapshot at %d: %v", at, err)
	}
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// wantRows reads everything above after and compares indexes and payloads.
func wantRows(t testing.TB, l oplog.Log, after oplog.Index, want []oplog.Row) {
	t.Helper()
	if diff := cmp.Diff(want, readAll(t, l, after)); diff != "" {
		t.Errorf("rows after %d (-want +got):\n%s", after, diff)
	}
}

func readAll(t testing.TB, l oplog.Log, after oplog.Index) []oplog.Row {
	t.Helper()
	var all []oplog.Row
	for {
		rows, err := l.Read(t.Context(), after, 1<<20)
		if err != nil {
			t.Fatalf("read after %d: %v", after, err)
		}
		if len(rows) == 0 {
			return all
		}
		all = append(all, rows...)
		after = rows[len(rows)-1].Index
	}
}

func rowsFromTo(from, to oplog.Index) []oplog.Row {
	var rows []oplog.Row
	for i := from; i <= to; i++ {
		rows = append(rows, oplog.Row{Index: i, Payload: payload(i)})
	}
	return rows
}

// wantBounds compares the bounds, and their mark with the row that a read shows.
func wantBounds(t testing.TB, l oplog.Log, want oplog.Bounds) {
	t.Helper()
	if !want.Empty {
		rows, err := l.Read(t.Context(), want.Newest-1, 0)
		if err != nil || len(rows) != 1 || rows[0].Index != want.Newest {
			t.Fatalf("read row %d: %v, %v", want.Newest, rows, err)
		}
		want.Mark = oplog.Mark(rows[0].Payload)
	}
	got, err := l.Bounds(t.Context())
	if err != nil {
		t.Fatalf("bounds: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bounds (-want +got):\n%s", diff)
	}
}

// patient returns a context that ends long after the test should have.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eachCall calls every method that needs the database and hands its error to check.
func eachCall(t testing.TB, ctx context.Context, l oplog.Log, check func(what string, err error)) {
	t.Helper()
	check("append", l.Append(ctx, 1, nil, []byte("x")))
	_, err := l.Read(ctx, 0, 1<<20)
	check("read", err)
	_, err = l.Newest(ctx)
	check("newest", err)
	_, err = l.Bounds(ctx)
	check("bounds", err)
	_, err = l.OpenSnapshot(ctx)
	check("open the snapshot", err)
	_, err = l.Truncate(ctx, 1, 1)
	check("truncate", err)
	w, err := l.CreateSnapshot(ctx, 0, nil)
	if err == nil {
		if err = w.WritePart(ctx, []byte("x")); err == nil {
			err = w.Commit(ctx)
		}
	}
	check("store a snapshot", err)
}

func repeat(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }
