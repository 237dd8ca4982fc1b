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

func testAppend(t *testing.T, db Database) {
	l := cluster(t, db, 0)
	other := open(t, db)
	for i := oplog.Index(1); i <= 10; i++ {
		by := l
		if i%3 == 0 {
			by = other
		}
		appendRows(t, by, i, i)
		for name, l := range map[string]oplog.Log{"one log": l, "the other": other} {
			if newest, err := l.Newest(t.Context()); err != nil || newest != i {
				t.Errorf("newest in %s after row %d: %d, %v", name, i, newest, err)
			}
		}
	}
	wantRows(t, other, 0, rowsFromTo(1, 10))
}

// testAppendConflict: only the index after the newest one is open, whoever asks.
func testAppendConflict(t *testing.T, db Database) {
	l := cluster(t, db, 5)
	other := open(t, db)
	for _, l := range []oplog.Log{l, other} {
		for _, at := range []oplog.Index{0, 1, 4, 5, 7, 8, 100, oplog.MaxIndex} {
			err := l.Append(t.Context(), at, nil, []byte("must not be there"))
			wantErr(t, fmt.Sprintf("append at %d of 5", at), err, oplog.ErrConflict)
			if !oplog.NotApplied(err) {
				t.Errorf("append at %d of 5: %v does not vouch that nothing was applied", at, err)
			}
		}
	}
	wantBounds(t, l, oplog.Bounds{Newest: 5, Authoritative: true})
	appendRows(t, other, 6, 6)
	wantRows(t, l, 0, rowsFromTo(1, 6))
}

// testAppendMark: an append, a leap and a snapshot follow on a row that ends as their writer says, and on no other that
// stands at its index.
func testAppendMark(t *testing.T, db Database) {
	l := cluster(t, db, 0)
	long := append(repeat('x', 20000), "the ending"...)
	for i, p := range [][]byte{[]byte("12345678"), []byte("0012345678"), []byte("123"), {}, {0, 255, 0, 255}, long} {
		at := oplog.Index(i + 1)
		if err := l.Append(t.Context(), at, nil, p); err != nil {
			t.Fatalf("append row %d: %v", at, err)
		}
		right := oplog.Mark(p)
		if !bytes.HasSuffix(p, right) || len(right) != min(len(p), oplog.MarkSize) {
			t.Fatalf("mark of %q: %q", p, right)
		}
		wrong := [][]byte{append([]byte("0"), p...), []byte("12345679"), {0}, append(slices.Clone(right), 0), repeat('9', 300)}
		if n := len(right); n > 0 {
			wrong = append(wrong, append(slices.Clone(right[:n-1]), right[n-1]^1), right[:n-1])
		}
		for _, mark := range wrong {
			if bytes.HasSuffix(p, mark) {
				continue
			}
			what := fmt.Sprintf("after %.20q with mark %q", p, mark)
			err := l.Append(t.Context(), at+1, mark, []byte("must not be there"))
			wantErr(t, "append "+what, err, oplog.ErrConflict)
			if !oplog.NotApplied(err) {
				t.Errorf("append %s: %v does not vouch that nothing was applied", what, err)
			}
			if up, ok := l.(oplog.Leaper); ok {
				wantErr(t, "leap "+what, up.Leap(t.Context(), at, at+1000, mark, nil), oplog.ErrConflict)
			}
			w := markedSnapshot(t, l, at, mark, []byte("must not be current"))
			wantErr(t, "commit a snapshot "+what, w.Commit(t.Context()), oplog.ErrConflict)
			if err := w.Abort(t.Context()); err != nil {
				t.Errorf("abort: %v", err)
			}
		}
		wantBounds(t, l, oplog.Bounds{Newest: at, Snapshot: oplog.SnapshotInfo{Index: at - 1, Parts: min(i, 1), Size: int64(min(i, 1))}, Authoritative: true})
		if err := markedSnapshot(t, l, at, right, []byte("s")).Commit(t.Context()); err != nil {
			t.Fatalf("commit a snapshot after %.20q with its mark: %v", p, err)
		}
		if err := l.Append(t.Context(), at+1, right, []byte("follows")); err != nil {
			t.Fatalf("append after %.20q with its mark: %v", p, err)
		}
		db.Drop(t, at+1)
	}
}

func testAppendLimits(t *testing.T, db Database) {
	l := cluster(t, db, 0)
	limit := oplog.MaxPayload
	if m := l.Info().MaxPayload; m > 0 {
		limit = m
	}
	want := []oplog.Row{{Index: 1, Payload: []byte{}}, {Index: 2, Payload: []byte{}}, {Index: 3, Payload: repeat(0xfe, limit)}}
	for i, p := range [][]byte{nil, {}, want[2].Payload} {
		if err := l.Append(t.Context(), oplog.Index(i+1), nil, p); err != nil {
			t.Fatalf("append %d bytes: %v", len(p), err)
		}
	}
	err := l.Append(t.Context(), 4, nil, make([]byte, limit+1))
	wantErr(t, "append above the limit", err, oplog.ErrTooLarge)
	if !oplog.NotApplied(err) {
		t.Errorf("append above the limit: %v does not vouch that nothing was applied", err)
	}
	wantErr(t, "append above the last index", l.Append(t.Context(), oplog.MaxIndex+1, nil, nil), oplog.ErrExhausted)
	wantErr(t, "append at 2^63", l.Append(t.Context(), 1<<63, nil, nil), oplog.ErrExhausted)
	wantErr(t, "init above the limit", open(t, db).Init(t.Context(), make([]byte, oplog.MaxPayload+1)), oplog.ErrTooLarge)

	got := readAll(t, l, 0)
	if !slices.EqualFunc(want, got, equalRow) { // not by cmp, which takes seconds for large values
		t.Errorf("rows differ from those appended (%d rows, want 3)", len(got))
	}
}

// equalRow takes nil and empty payloads for the same.
func equalRow(a, b oplog.Row) bool { return a.Index == b.Index && bytes.Equal(a.Payload, b.Payload) }

func testAppendAllBytes(t *testing.T, db Database) {
	l := cluster(t, db, 0)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	back := slices.Clone(all)
	slices.Reverse(back)
	for i, p := range [][]byte{all, back} {
		if err := l.Append(t.Context(), oplog.Index(i+1), nil, p); err != nil {
			t.Fatalf("append: %v", err)
		}
	}
	wantRows(t, l, 0, []oplog.Row{{Index: 1, Payload: all}, {Index: 2, Payload: back}})
	commitSnapshot(t, l, 2, all, back)
	if diff := cmp.Diff([][]byte{all, back}, readSnapshot(t, l)); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

// testAppendKeepsNothing: the caller may reuse what it handed in, and owns what it got.
func testAppendKeepsNothing(t *testing.T, db Database) {
	l := cluster(t, db, 0)
	p := payload(1)
	if err := l.Append(t.Context(), 1, nil, p); err != nil {
		t.Fatalf("append: %v", err)
	}
	clear(p)
	got := readAll(t, l, 0)
	clear(got[0].Payload)
	wantRows(t, l, 0, rowsFromTo(1, 1))

	part := []byte("part")
	w := writeSnapshot(t, l, 1, part)
	clear(part)
	if err := w.Commit(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
	clear(readSnapshot(t, l)[0])
	if got := readSnapshot(t, l); string(got[0]) != "part" {
		t.Errorf("snapshot is %q after its reader changed what it got", got[0])
	}
}

// testAppendManyWriters: writers that race for every slot leave a dense log in which each acknowledged row stands
// once, at its index, and nothing else.
func testAppendManyWriters(t *testing.T, db Database) {
	const writers, each = 8, 20
	l := cluster(t, db, 0)
	acknowledged := make([]map[oplog.Index]string, writers)
	var wg sync.WaitGroup
	for w := range writers {
		acknowledged[w] = map[oplog.Index]string{}
		mine := open(t, db)
		wg.Go(func() {
			next := oplog.Index(1)
			for n := 0; n < each; {
				p := fmt.Sprintf("writer %d row %d", w, n)
				err := mine.Append(t.Context(), next, nil, []byte(p))
				switch {
				case err == nil:
					acknowledged[w][next] = p
					next++
					n++
				case errors.Is(err, oplog.ErrConflict):
					newest, err := mine.Newest(t.Context())
					if err != nil {
						t.Errorf("writer %d: newest: %v", w, err)
						return
					}
					next = newest + 1
				default:
					t.Errorf("writer %d: append row %d: %v", w, next, err)
					return
				}
			}
		})
	}
	wg.Wait()
	want := make([]oplog.Row, writers*each)
	for i := range want {
		want[i].Index = oplog.Index(i + 1)
	}
	for w, rows := range acknowledged {
		for index, p := range rows {
			if index > writers*each || want[index-1].Payload != nil {
				t.Fatalf("row %d was acknowledged to writer %d: taken or beyond the end", index, w)
			}
			want[index-1].Payload = []byte(p)
		}
	}
	wantRows(t, l, 0, want)
}

// testHighIndexes: the index outgrows 32 bits, floating point and everything up to MaxIndex without a wrap.
func testHighIndexes(t *testing.T, db Database) {
	l := cluster(t, db, 0)
	for _, base := range []oplog.Index{1<<31 - 2, 1<<32 - 2, 1<<53 - 2, oplog.MaxIndex - 10} {
		db.Put(t, oplog.Row{Index: base, Payload: payload(base)})
		appendRows(t, l, base+1, base+10)
		commitSnapshot(t, l, base+5, payload(base))
		if _, err := l.Truncate(t.Context(), base+6, 100); err != nil {
			t.Fatalf("truncate below %d: %v", base+6, err)
		}
		fresh := open(t, db)
		wantBounds(t, fresh, oplog.Bounds{
			Oldest: base + 6, Newest: base + 10, Authoritative: true,
			Snapshot: oplog.SnapshotInfo{Index: base + 5, Parts: 1, Size: int64(len(payload(base)))},
		})
		wantRows(t, fresh, base+5, rowsFromTo(base+6, base+10))
		wantErr(t, "append at a truncated index", fresh.Append(t.Context(), base+3, nil, nil), oplog.ErrConflict)
		if err := fresh.Wait(t.Context(), base+9); err != nil {
			t.Errorf("wait after %d: %v", base+9, err)
		}
	}
	err := l.Append(t.Context(), oplog.MaxIndex+1, nil, nil)
	wantErr(t, "append after the last index", err, oplog.ErrExhausted)
	if !oplog.NotApplied(err) {
		t.Errorf("append after the last index: %v does not vouch that nothing was applied", err)
	}
}
