package headwater_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/api"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// tour is a sequence of commands that shows most rules, and what each must answer.
type tour struct {
	proposals []meta.Proposal
	expected  []any // parsed JSON: what the answer must contain
}

func readTour(t *testing.T) tour {
	t.Helper()
	var tr tour
	for _, line := range readLines(t, "testdata/tour/tour.jsonl") {
		p, err := api.UnmarshalCommand(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		tr.proposals = append(tr.proposals, p)
	}
	for _, line := range readLines(t, "testdata/tour/tour.expected.jsonl") {
		var e any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		tr.expected = append(tr.expected, e)
	}
	if len(tr.proposals) < 60 || len(tr.proposals) != len(tr.expected) {
		t.Fatalf("%d commands and %d expected answers", len(tr.proposals), len(tr.expected))
	}
	return tr
}

func readLines(t *testing.T, file string) (lines [][]byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		lines = append(lines, bytes.Clone(s.Bytes()))
	}
	return lines
}

// check holds one answer against what line i expects.
func (tr tour) check(t *testing.T, i int, a meta.Answer) {
	t.Helper()
	text, err := api.MarshalJSON(api.FromAnswer(a))
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if missing := lacks(got, tr.expected[i], ""); missing != "" {
		t.Errorf("line %d: %s lacks %s", i+1, text, missing)
	}
}

// lacks names the first part of want that got does not contain.
func lacks(got, want any, path string) string {
	object, ok := want.(map[string]any)
	if !ok {
		if got != want {
			return fmt.Sprintf("%s = %v", path, want)
		}
		return ""
	}
	inner, ok := got.(map[string]any)
	if !ok {
		return path
	}
	for k, w := range object {
		if m := lacks(inner[k], w, path+"/"+k); m != "" {
			return m
		}
	}
	return ""
}

// places gives each kind of database a way to open a log in it again and again.
func places(t *testing.T) map[string]func() oplog.Log {
	memory := oplog.NewMemory()
	file := filepath.Join(t.TempDir(), "headwater.db")
	return map[string]func() oplog.Log{
		"memory": memory.Open,
		"sqlite": func() oplog.Log {
			l, err := sqlite.Open(context.Background(), sqlite.Options{Path: file})
			if err != nil {
				t.Fatal(err)
			}
			return l
		},
	}
}

// node opens one more node; the returned function closes it.
func node(t *testing.T, open func() oplog.Log, o headwater.Options) (*headwater.Store, func()) {
	t.Helper()
	log := open()
	if _, err := headwater.Init(t.Context(), log); err != nil && !errors.Is(err, oplog.ErrExists) {
		t.Fatal(err)
	}
	s, err := headwater.Open(t.Context(), log, o)
	if err != nil {
		t.Fatal(err)
	}
	return s, func() {
		if err := errors.Join(s.Close(), log.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestTour runs the tour through one node, and through three nodes that take the lines in turn.
func TestTour(t *testing.T) {
	t.Parallel()
	tr := readTour(t)
	for _, nodes := range []int{1, 3} {
		for name, open := range places(t) {
			t.Run(fmt.Sprintf("%s with %d nodes", name, nodes), func(t *testing.T) {
				var stores []*headwater.Store
				for range nodes {
					s, done := node(t, open, headwater.Options{})
					defer done()
					stores = append(stores, s)
				}
				for i, p := range tr.proposals {
					tr.check(t, i, stores[i%nodes].Propose(t.Context(), p)[0])
				}
				sameDigest(t, stores)
				sound(t, open)
			})
		}
	}
}

// TestTourAtOnce hands the whole tour over in one call: the answers come in the order of the commands.
func TestTourAtOnce(t *testing.T) {
	t.Parallel()
	tr := readTour(t)
	for name, open := range places(t) {
		t.Run(name, func(t *testing.T) {
			s, done := node(t, open, headwater.Options{})
			defer done()
			for i, a := range s.Propose(t.Context(), tr.proposals...) {
				tr.check(t, i, a)
			}
			sound(t, open)
		})
	}
}

// TestTourWithRestarts opens the cluster anew before each line, with snapshots at every few rows so that restarts
// meet snapshots and truncated logs too.
func TestTourWithRestarts(t *testing.T) {
	t.Parallel()
	tr := readTour(t)
	for name, open := range places(t) {
		t.Run(name, func(t *testing.T) {
			o := headwater.Options{}
			o.Engine.SnapshotInterval = 3
			for i, p := range tr.proposals {
				s, done := node(t, open, o)
				tr.check(t, i, s.Propose(t.Context(), p)[0])
				done()
			}
			sound(t, open)
		})
	}
}

// sameDigest proves that all nodes reach the same state.
func sameDigest(t *testing.T, stores []*headwater.Store) {
	t.Helper()
	var first *headwater.View
	for i, s := range stores {
		v, err := s.Linearize(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = v
		}
		if v.Index != first.Index || v.State.Digest() != first.State.Digest() {
			t.Errorf("node %d is at %d with digest %x, node 0 at %d with %x", i, v.Index, v.State.Digest(), first.Index, first.State.Digest())
		}
	}
}

// sound proves by replay that nothing is wrong with the log.
func sound(t *testing.T, open func() oplog.Log) {
	t.Helper()
	log := open()
	defer log.Close()
	report, err := headwater.Check(t.Context(), log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		t.Errorf("check: %q", report.Faults)
	}
	if report.Rows == 0 {
		t.Error("check looked at no row")
	}
}
