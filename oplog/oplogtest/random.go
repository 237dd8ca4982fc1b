package oplogtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/oplog"
)

// model is a log that anybody can read: two maps and no cleverness.
type model struct {
	rows           map[oplog.Index]string
	oldest, newest oplog.Index
	snapshot       oplog.SnapshotInfo
	parts          []string
}

func (m *model) append(at oplog.Index, mark, p string) error {
	if at == 0 || at != m.newest+1 || !strings.HasSuffix(m.rows[at-1], mark) {
		return oplog.ErrConflict
	}
	m.rows[at], m.newest = p, at
	return nil
}

func (m *model) read(after oplog.Index, maxBytes int) []oplog.Row {
	var rows []oplog.Row
	for i := max(after+1, m.oldest); i <= m.newest; i++ {
		if maxBytes -= len(m.rows[i]); maxBytes < 0 && len(rows) > 0 {
			break
		}
		rows = append(rows, oplog.Row{Index: i, Payload: []byte(m.rows[i])})
	}
	return rows
}

func (m *model) commit(at oplog.Index, mark string, parts []string) error {
	if len(parts) == 0 || at > m.newest || !strings.HasSuffix(m.rows[at], mark) || m.snapshot.Parts > 0 && at <= m.snapshot.Index {
		return oplog.ErrConflict
	}
	m.parts, m.snapshot = parts, oplog.SnapshotInfo{Index: at, Parts: len(parts)}
	for _, p := range parts {
		m.snapshot.Size += int64(len(p))
	}
	return nil
}

func (m *model) truncate(below oplog.Index, limit int) int {
	n := 0
	for m.snapshot.Parts > 0 && n < limit && m.oldest < min(below, m.newest) && m.oldest <= m.snapshot.Index {
		delete(m.rows, m.oldest)
		m.oldest++
		n++
	}
	return n
}

// testRandom drives two logs and the model through the same random life and compares every answer.
func testRandom(t *testing.T, db Database) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	logs := []oplog.Log{cluster(t, db, 0), open(t, db)}
	m := &model{rows: map[oplog.Index]string{0: string(payload(0))}}
	index := func() oplog.Index { return oplog.Index(rnd.Uint64N(uint64(m.newest) + 4)) }
	text := func() string { return fmt.Sprintf("%x", rnd.Uint64())[:rnd.IntN(12)+1] }
	mark := func(at oplog.Index) string { // most often the right one
		if rnd.IntN(6) == 0 {
			return text()
		}
		return string(oplog.Mark([]byte(m.rows[at])))
	}
	for step := 0; step < 400 && !t.Failed(); step++ {
		l := logs[rnd.IntN(2)]
		switch op := rnd.IntN(20); {
		case op < 10:
			at, p := m.newest+1, text()
			if rnd.IntN(3) == 0 {
				at = index()
			}
			before := mark(at - 1)
			err := l.Append(t.Context(), at, []byte(before), []byte(p))
			if want := m.append(at, before, p); !errors.Is(err, want) {
				t.Errorf("step %d: append at %d after %q: %v, want %v", step, at, before, err, want)
			}
		case op < 14:
			after, size := index(), rnd.IntN(40)
			got, err := l.Read(t.Context(), after, size)
			if diff := cmp.Diff(m.read(after, size), got); err != nil || diff != "" {
				t.Errorf("step %d: read after %d, %d bytes: %v (-want +got):\n%s", step, after, size, err, diff)
			}
		case op < 16:
			at := index()
			var parts []string
			for range rnd.IntN(3) {
				parts = append(parts, text())
			}
			randomSnapshot(t, step, l, m, at, mark(at), parts, rnd.IntN(4) > 0)
		case op < 18:
			below, limit := index(), rnd.IntN(10)
			n, err := l.Truncate(t.Context(), below, limit)
			if want := m.truncate(below, limit); err != nil || n != want {
				t.Errorf("step %d: truncate below %d, at most %d: %d, %v; want %d", step, below, limit, n, err, want)
			}
		default:
			wantBounds(t, l, oplog.Bounds{Oldest: m.oldest, Newest: m.newest, Snapshot: m.snapshot, Authoritative: true})
		}
	}
}

func randomSnapshot(t *testing.T, step int, l oplog.Log, m *model, at oplog.Index, mark string, parts []string, commit bool) {
	t.Helper()
	stored := make([][]byte, len(parts))
	for i, p := range parts {
		stored[i] = []byte(p)
	}
	w := markedSnapshot(t, l, at, []byte(mark), stored...)
	if commit {
		err := w.Commit(t.Context())
		if want := m.commit(at, mark, parts); !errors.Is(err, want) {
			t.Errorf("step %d: commit at %d, %q, of %d parts: %v, want %v", step, at, mark, len(parts), err, want)
		}
	}
	if m.snapshot.Parts == 0 {
		return
	}
	var got []string
	for _, p := range readSnapshot(t, l) {
		got = append(got, string(p))
	}
	if diff := cmp.Diff(m.parts, got); diff != "" {
		t.Errorf("step %d: snapshot (-want +got):\n%s", step, diff)
	}
}
