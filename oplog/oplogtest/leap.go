package oplogtest

import (
	"testing"

	"github.com/headwaterdb/headwater/oplog"
)

// testLeap: a log whose indexes can be raised raises them from its newest row only, once, and goes on from there; nothing is
// appended in the hole, neither before what is below was truncated nor after.
func testLeap(t *testing.T, db Database) {
	l, late := cluster(t, db, 5), open(t, db)
	up, ok := l.(oplog.Leaper)
	if !ok {
		return // it need not: its clusters cannot be restored
	}
	const to = oplog.Index(1) << 33
	for name, from := range map[string]oplog.Index{"a row below the newest": 4, "a row that is not there": 6} {
		wantErr(t, "leap from "+name, up.Leap(t.Context(), from, to, nil, payload(to)), oplog.ErrConflict)
	}
	wantErr(t, "leap downwards", up.Leap(t.Context(), 5, 5, nil, payload(5)), oplog.ErrConflict)
	wantErr(t, "leap above the last index", up.Leap(t.Context(), 5, oplog.MaxIndex+1, nil, payload(5)), oplog.ErrExhausted)
	if err := up.Leap(t.Context(), 5, to, nil, payload(to)); err != nil {
		t.Fatalf("leap: %v", err)
	}
	wantErr(t, "leap again", up.Leap(t.Context(), 5, to+1, nil, nil), oplog.ErrConflict)
	if newest, err := late.Newest(t.Context()); err != nil || newest != to { // where members apply by and by, it has seen the leap now
		t.Fatalf("newest: %d, %v", newest, err)
	}
	wantErr(t, "append in the hole", late.Append(t.Context(), 6, nil, nil), oplog.ErrConflict)
	wantErr(t, "append below the leap", late.Append(t.Context(), to-1, nil, nil), oplog.ErrConflict)
	commitSnapshot(t, l, to, []byte("s"))
	if n, err := l.Truncate(t.Context(), to, 100); err != nil || n != 6 {
		t.Errorf("truncate below the leap: %d rows, %v; want 6", n, err)
	}
	wantErr(t, "append in the hole after the truncation", late.Append(t.Context(), 6, nil, nil), oplog.ErrConflict)
	appendRows(t, late, to+1, to+3)
	wantRows(t, l, oplog.Beginning, rowsFromTo(to, to+3))
}
