package history_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/history"
	"github.com/headwaterdb/headwater/meta"
)

// draw draws a command that may or may not make sense at the moment.
func (w *world) draw(r *rand.Rand, n int) meta.Command {
	who := identity(1+r.Uint64N(3), 1+r.Uint64N(3))
	if at, ok := w.state.Node(who.NodeID); ok && r.IntN(4) > 0 {
		who.NodeEpoch = at.Epoch
	}
	other := 1 + who.NodeID%3
	key := fmt.Sprintf("g%d/%c", r.IntN(2), 'a'+r.IntN(2))
	id := 1 + r.Uint64N(2)
	s, _ := w.state.Stream(id)
	if r.IntN(3) > 0 && s.Epoch > 0 {
		who = s.Owner
	}
	switch r.IntN(16) {
	case 0:
		return node(who.NodeID, n)
	case 1:
		return meta.FenceNode{NodeID: other, Epoch: 1 + r.Uint64N(3), Rescuer: who}
	case 2:
		return meta.CreateStream{Identity: who, Name: fmt.Sprintf("s%d", r.IntN(4))}
	case 3, 4:
		return meta.OpenStream{Identity: who, StreamID: id}
	case 5:
		return meta.CloseStream{Identity: who, OnBehalfOf: []uint64{0, 0, other}[r.IntN(3)], StreamID: id, Epoch: s.Epoch}
	case 6:
		return meta.TrimStream{Identity: who, StreamID: id, Epoch: s.Epoch, StartOffset: s.StartOffset + r.Uint64N(3)}
	case 7:
		return meta.RecordTransfer{Identity: who, StreamID: id, Epoch: s.Epoch, Boundary: s.EndOffset + r.Uint64N(3)}
	case 8:
		return meta.PrepareObjects{Identity: who, Count: 1 + r.Uint64N(3), Deadline: 1}
	case 9, 10:
		c := w.state.Counts()
		start := s.EndOffset - min(s.EndOffset, r.Uint64N(3)/2)
		return commit(who, 1+r.Uint64N(c.PreparedObjects+c.CommittedObjects+1), id, s.Epoch, start, start+1+r.Uint64N(2))
	case 11:
		return meta.DeleteKey{Key: key, IfVersion: w.version(key)}
	case 12:
		return meta.Atomic{Commands: []meta.Command{meta.CheckKey{Key: key, IfVersion: max(w.version(key), 1)}, put(key, fmt.Sprint(n))}}
	case 13:
		return meta.PutKey{Key: key, Value: fmt.Append(nil, n), IfAbsent: true}
	case 14:
		return meta.PutKey{Key: key, Value: fmt.Append(nil, n), IfVersion: w.version(key)}
	}
	return put(key, fmt.Sprint(n/3))
}

// ask draws a linearizable read.
func (w *world) ask(r *rand.Rand) history.Read {
	return linearizable([]history.Read{{Keys: "g0/"}, {Keys: "g1/"}, {Streams: "s0"}, {Streams: "s1"}, {Nodes: true}}[r.IntN(5)])
}

// random makes a right history of n calls: up to five are under way, get rows in any order, now and then in several, and
// are answered, or never.
func random(t testing.TB, seed uint64, n int) *world {
	w, r := newWorld(t), rand.New(rand.NewPCG(seed, 0))
	for i := range uint64(3) {
		w.must(0, node(1+i, 1000))
	}
	for i := range 2 {
		w.must(0, meta.CreateStream{Identity: identity(1, 1), Name: fmt.Sprintf("s%d", i)})
	}
	var waiting []uint64 // called
	session := 1
	for i := range n {
		id := w.call(session, w.draw(r, i))
		if waiting = append(waiting, id); len(waiting) < 5 {
			session++
			continue
		}
		at := r.IntN(len(waiting))
		id = waiting[at]
		waiting = append(waiting[:at], waiting[at+1:]...)
		session = w.ops[id-1].Session
		switch r.IntN(20) {
		case 0: // lost
		case 1: // done, and nobody is told
			w.row(id)
		case 2:
			w.row(id)
			w.row(id)
			w.ret(id)
		default:
			w.row(id)
			w.ret(id)
		}
		if r.IntN(3) == 0 {
			w.read(50, w.head(), w.ask(r))
		}
		if r.IntN(5) == 0 {
			q := w.ask(r)
			q.Freshness = history.Local
			w.read(51, r.Uint64N(w.head()+1), q)
		}
	}
	return w
}

// TestRandomHistories: what a correct cluster does is found to be right, whatever the order; and where one answer is
// bent, that is found. There are 10, or as many as HEADWATER_ROUNDS says.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HEADWATER_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(clustertest.Rounds(t, 10)) {
		w := random(t, seed+i, 120)
		if r := history.Check(w.history(), 0); !r.OK() {
			t.Fatalf("HEADWATER_TEST_SEED=%d: a right history has faults %q", seed+i, r.Faults)
		}
		r := rand.New(rand.NewPCG(seed+i, 1))
		what := w.bend(r)
		if r := history.Check(w.history(), 0); r.OK() {
			t.Fatalf("HEADWATER_TEST_SEED=%d: not found: %s", seed+i, what)
		}
	}
}

// bend makes one thing wrong, and says what.
func (w *world) bend(r *rand.Rand) string {
	for {
		op := &w.ops[r.IntN(len(w.ops))]
		was := op.String()
		switch {
		case op.Outcome != history.Answered:
			continue
		case op.Read != nil && len(op.Read.Got) > 0:
			op.Read.Got = op.Read.Got[1:]
		case op.Read != nil:
			op.Read.Got = []meta.Record{meta.Key{Key: "g0/z"}}
		case r.IntN(3) == 0:
			op.Outcome = history.Failed
		case op.Answer.Err != nil:
			op.Answer.Err, op.Answer.Status = nil, meta.Applied
		case r.IntN(2) == 0:
			op.Answer.Index = op.Answer.FirstIndex - 1 // a later one could be that of an installed snapshot
		default:
			op.Answer = rejected(meta.CodeStreamNotClosed, op.Answer)
		}
		return was + "\nbecame " + op.String()
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	w := random(t, 5, 100)
	w.ops[3].Outcome, w.ops[3].Return, w.ops[3].Error = history.Failed, w.tick(), "not applied"
	w.read(60, w.head(), history.Read{Freshness: history.AtLeast, AtLeast: 3, Slices: 1})
	w.read(60, w.head(), history.Read{Freshness: history.Local, Status: true})
	stale := w.read(60, 3, linearizable(history.Read{Nodes: true}))
	dir := t.TempDir()
	report := history.Check(w.history(), 0)
	if report.OK() || !strings.Contains(strings.Join(report.Faults, "\n"), stale.String()) {
		t.Fatalf("faults %q", report.Faults)
	}
	if err := history.Save(dir, w.history(), report); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(dir, "nodes.html")); err != nil || st.Size() == 0 {
		t.Errorf("no picture of the nodes: %v", err)
	}
	loaded, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var before, after bytes.Buffer
	if err := history.Write(&before, w.history()); err != nil {
		t.Fatal(err)
	}
	if err := history.Write(&after, loaded); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.String(), after.String()); diff != "" {
		t.Errorf("written and read (-before +after):\n%s", diff)
	}
	again := history.Check(loaded, 0)
	if diff := cmp.Diff(report.Faults, again.Faults); diff != "" {
		t.Errorf("judged again (-before +after):\n%s", diff)
	}
	if a, b := report.String(), again.String(); a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`:  "read line 1 of a history",
		`{}`: "neither a seed, nor an operation, nor a row",
		`{"seed": 1} {"op": {"id": 2, "read": {}}}`:              "line 2 of a history: operation 2 is the 1th",
		`{"op": {"id": 1}}`:                                      "a command or a read",
		`{"op": {"id": 1, "command": {}}}`:                       "INVALID_ARGUMENT",
		`{"op": {"id": 1, "read": {"got": [{"nothing": 1}]}}}`:   "nothing",
		`{"op": {"id": 1, "read": {}, "answer": {"x": 1}}}`:      "x",
		`{"row": {"Index": 1, "Proposals": [{"putKey": true}]}}`: "unexpected token true",
	} {
		if _, err := history.ReadFrom(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
}
