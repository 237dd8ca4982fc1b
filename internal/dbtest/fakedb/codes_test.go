package fakedb_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"

	"github.com/headwaterdb/headwater/internal/dbtest/fakedb"
	"github.com/headwaterdb/headwater/oplog"
)

// code is an answer that a database is documented to give, and what an append must make of it.
type code struct {
	who, number string
	fault       fakedb.Fault // how it is sent, beside the number
	// want is the class: the sentinel that Append ends with. Nil: none, because the server has rolled the statement back
	// and it is sent again. ErrUnknown is tried with and without the statement's having taken effect.
	want error
	// full: the run has the size of the field case also where the others are quick.
	full bool
}

func (c code) name(effect bool) string {
	name := c.who + " " + c.number
	for _, p := range []struct {
		set  bool
		what string
	}{{c.fault.AtCommit, ", at the commit"}, {c.fault.Fatal, ", fatal"}, {c.fault.Close, ", hangs up"}, {effect, ", in effect"}} {
		if p.set {
			name += p.what
		}
	}
	return name
}

// insert begins the append of both dialects, on the tables of prefix p.
const insert = "insert into p_log (idx, payload) select"

// testCodes runs each code through Append. Field case 01.5: two nodes append, every tenth statement is answered with the
// code, and in the end each payload is in the log once.
func testCodes(t *testing.T, start func(testing.TB, fakedb.Options) *fakedb.Server, open func(testing.TB, string) oplog.Log, codes []code) {
	for _, c := range codes {
		committed := []bool{false}
		if errors.Is(c.want, oplog.ErrUnknown) {
			committed = append(committed, true)
		}
		for _, effect := range committed {
			t.Run(c.name(effect), func(t *testing.T) {
				f := c.fault
				f.Text, f.Code, f.Every, f.Times, f.Commit = insert, c.number, 10, -1, effect
				r := &run{server: start(t, fakedb.Options{}), open: open, want: c.want, appends: size(c.full)}
				r.check(t, f)
			})
		}
	}
}

// run is two nodes that append to one log.
type run struct {
	server  *fakedb.Server
	open    func(testing.TB, string) oplog.Log
	want    error
	appends int

	mu    sync.Mutex // guards the rest
	seen  int        // errors of the class wanted
	other []error    // of another, lost races aside
	done  map[string]int64
}

// appends is the number of rows that the field case has.
const appends = 500

// size is the number of rows of a run: quick, unless it is to be full, or HEADWATER_ROUNDS asks for full sizes.
func size(full bool) int {
	if full || os.Getenv("HEADWATER_ROUNDS") != "" {
		return appends
	}
	return appends / 5
}

func (r *run) check(t *testing.T, f fakedb.Fault) {
	first := r.open(t, r.server.Addr())
	if err := first.Init(t.Context(), []byte("genesis")); err != nil {
		t.Fatalf("init: %v", err)
	}
	second := r.open(t, r.server.Addr())
	injected := r.server.Inject(f)
	r.done = map[string]int64{}
	var nodes sync.WaitGroup
	for name, l := range map[string]oplog.Log{"a": first, "b": second} {
		nodes.Go(func() { r.write(t, l, name) })
	}
	nodes.Wait()

	hits := injected.Hits()
	switch {
	case hits < r.appends/10:
		t.Errorf("%d answers with the code", hits)
	case r.want == nil && r.seen > 0, r.want != nil && r.seen != hits && !errors.Is(r.want, oplog.ErrConflict):
		t.Errorf("%d appends ended with %v, of %d answers with the code", r.seen, r.want, hits)
	case errors.Is(r.want, oplog.ErrConflict) && r.seen < hits:
		t.Errorf("%d appends ended as lost races, of %d answers with the code", r.seen, hits)
	case len(r.other) > 0:
		t.Errorf("%d appends ended otherwise, the first with: %v", len(r.other), r.other[0])
	}
	rows := r.server.Tables().Rows("p")
	if len(rows) != r.appends+1 || len(r.done) != r.appends {
		t.Errorf("%d rows and %d acknowledged, want %d", len(rows)-1, len(r.done), r.appends)
	}
	at := map[string]int64{}
	for idx, payload := range rows {
		if there, twice := at[string(payload)]; twice {
			t.Errorf("%q is in the log twice, at %d and %d", payload, there, idx)
		}
		at[string(payload)] = idx
	}
	for payload, idx := range r.done {
		if at[payload] != idx {
			t.Errorf("%q was acknowledged at %d and is at %d", payload, idx, at[payload])
		}
	}
}

// write appends as the engine does: it tries higher after a lost race, the same slot again where the log shows that
// nothing is there, and finds out by reading where the outcome is unknown.
func (r *run) write(t *testing.T, l oplog.Log, name string) {
	last := oplog.Index(0) // the newest row that this node knows
	for i := range r.appends / 2 {
		payload := fmt.Sprintf("%s %d", name, i)
		for tries := 0; ; tries++ {
			at := last + 1
			err := l.Append(t.Context(), at, nil, []byte(payload))
			r.note(err)
			if err == nil {
				last = at
				r.acknowledge(payload, at)
				break
			}
			if tries > 200 {
				t.Errorf("append %q: no end: %v", payload, err)
				return
			}
			rows, rerr := l.Read(t.Context(), last, math.MaxInt)
			if rerr != nil {
				t.Errorf("read after %d: %v", last, rerr)
				return
			}
			mine := oplog.Index(0)
			for _, row := range rows {
				last = row.Index
				if string(row.Payload) == payload {
					mine = row.Index
				}
			}
			if mine == 0 {
				continue
			}
			if oplog.NotApplied(err) {
				t.Errorf("append %q at %d: %v, but it is there", payload, at, err)
			}
			r.acknowledge(payload, mine)
			break
		}
	}
}

func (r *run) acknowledge(payload string, at oplog.Index) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[payload] = int64(at)
}

// note counts how an append ended.
func (r *run) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
	case r.want != nil && errors.Is(err, r.want) && oplog.NotApplied(err) == !errors.Is(r.want, oplog.ErrUnknown):
		r.seen++
	case !errors.Is(err, oplog.ErrConflict):
		r.other = append(r.other, err)
	}
}

// testDoor: what a server says to whoever wants in means that nothing was sent, and is over when the server says so.
func testDoor(t *testing.T, s *fakedb.Server, l oplog.Log, hangUp fakedb.Fault, codes ...string) {
	if err := l.Init(t.Context(), []byte("genesis")); err != nil {
		t.Fatalf("init: %v", err)
	}
	at := oplog.Index(1)
	for _, number := range codes {
		s.Inject(hangUp)
		if err := l.Append(t.Context(), at, nil, []byte("x")); !errors.Is(err, oplog.ErrUnknown) {
			t.Errorf("append to a server that hangs up: %v, want unknown", err)
		}
		door := s.Inject(fakedb.Fault{Connect: true, Code: number, Times: 2})
		for door.Hits() < 2 {
			if err := l.Append(t.Context(), at, nil, []byte("x")); !errors.Is(err, oplog.ErrUnavailable) || !oplog.NotApplied(err) {
				t.Errorf("%s: append: %v, want unavailable", number, err)
				break
			}
		}
		if err := l.Append(t.Context(), at, nil, []byte("y")); err != nil {
			t.Errorf("%s: append when all is well again: %v", number, err)
		}
		if got := string(s.Tables().Rows("p")[int64(at)]); got != "y" {
			t.Errorf("%s: row %d is %q", number, at, got)
		}
		at++
	}
}

// testReads: a result that breaks off is never taken for a whole one, whatever broke it. Field case 04.5. What is worth a
// second try has it; the rest says that the database is not there.
func testReads(t *testing.T, s *fakedb.Server, l oplog.Log, faults []fakedb.Fault) {
	const rows = 40
	if err := l.Init(t.Context(), []byte("genesis")); err != nil {
		t.Fatalf("init: %v", err)
	}
	for i := range oplog.Index(rows) {
		if err := l.Append(t.Context(), i+1, nil, []byte("x")); err != nil {
			t.Fatalf("append row %d: %v", i+1, err)
		}
	}
	for _, f := range faults {
		for _, sent := range []int{0, 1, 7} {
			f.Text, f.Rows, f.Every, f.Times = "select idx, payload", sent, 2, 5
			injected := s.Inject(f)
			for injected.Hits() < 5 {
				found, err := l.Read(t.Context(), 0, math.MaxInt)
				if err == nil && len(found) != rows || err != nil && !errors.Is(err, oplog.ErrUnavailable) {
					t.Errorf("%+v: %d rows, %v", f, len(found), err)
					break
				}
			}
			s.Clear()
		}
	}
}

// testCeiling: a server that refuses values from 6 MB on, as distributed stores do. Field case 12.4: a state of 20 MB is
// stored as a snapshot all the same, because its parts are smaller; a row above the limit is refused for certain.
func testCeiling(t *testing.T, s *fakedb.Server, l oplog.Log, number string) {
	const state, parts = 20 << 20, 20
	s.Inject(fakedb.Fault{Over: 6 << 20, Code: number, Times: -1})
	if err := l.Init(t.Context(), []byte("genesis")); err != nil {
		t.Fatalf("init: %v", err)
	}
	if err := l.Append(t.Context(), 1, nil, make([]byte, 6<<20)); !errors.Is(err, oplog.ErrTooLarge) || !oplog.NotApplied(err) {
		t.Errorf("append 6 MB: %v, want too large", err)
	}
	if err := l.Append(t.Context(), 1, nil, []byte("small")); err != nil {
		t.Errorf("append afterwards: %v", err)
	}
	w, err := l.CreateSnapshot(t.Context(), 1, nil)
	if err != nil {
		t.Fatalf("create a snapshot: %v", err)
	}
	for i := range parts {
		part := make([]byte, state/parts)
		part[0] = byte(i)
		if err := w.WritePart(t.Context(), part); err != nil {
			t.Fatalf("write part %d: %v", i, err)
		}
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
	b, err := l.Bounds(t.Context())
	if err != nil || b.Snapshot != (oplog.SnapshotInfo{Index: 1, Parts: parts, Size: state}) {
		t.Errorf("bounds: %+v, %v", b, err)
	}
}

// place lets the conformance suite reach behind a log.
func place(s *fakedb.Server) (put func(testing.TB, ...oplog.Row), drop func(testing.TB, oplog.Index), parts func(testing.TB) int) {
	put = func(_ testing.TB, rows ...oplog.Row) {
		all := map[int64][]byte{}
		for _, r := range rows {
			all[int64(r.Index)] = r.Payload
		}
		s.Tables().Put("p", all)
	}
	drop = func(_ testing.TB, index oplog.Index) { s.Tables().Drop("p", int64(index)) }
	return put, drop, func(testing.TB) int { return s.Tables().Parts("p") }
}
