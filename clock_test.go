package headwater_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/liveness"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// life is what came of a minute of two nodes.
type life struct {
	Snapshots []oplog.Index // where they were taken
	Fenced    int
	Failed    int // proposals
	Digest    [16]byte
	Last      uint64        // row
	Waited    time.Duration // a wait of two seconds for what does not come
	Took      time.Duration
}

// TestWallClockJumps is field case 10.4: the wall clock of one node jumps by an hour and by a second, forth and back, under
// load, while that node's registration is watched. The minute passes as one without jumps does: nobody is fenced, no
// proposal fails, no wait ends late, snapshots are taken at the same rows, and the state is the same.
func TestWallClockJumps(t *testing.T) {
	t.Parallel()
	var steady, jumping life
	var still, moved []int64
	synctest.Test(t, func(t *testing.T) { steady, still = minute(t, nil) })
	synctest.Test(t, func(t *testing.T) {
		jumping, moved = minute(t, []time.Duration{time.Hour, -time.Hour, -time.Hour, time.Hour, time.Second, -time.Second, -time.Second, time.Second})
	})
	near := cmp.Comparer(func(a, b oplog.Index) bool { return max(a, b)-min(a, b) <= 5 }) // which of two goroutines is first is not given
	if diff := cmp.Diff(steady, jumping, near); diff != "" {
		t.Errorf("jumps of the wall clock make a difference (-without +with):\n%s", diff)
	}
	if steady.Fenced+steady.Failed > 0 || len(steady.Snapshots) < 10 || steady.Waited != 2*time.Second {
		t.Errorf("without jumps: %+v", steady)
	}
	if slices.IsSorted(moved) || !slices.IsSorted(still) {
		t.Error("the stamps in the log do not show the jumps: the clock did not jump")
	}
}

// minute runs two nodes for a minute; the wall clock of the first makes a jump every few seconds. It returns the stamps in
// the log, too.
func minute(t *testing.T, jumps []time.Duration) (l life, stamps []int64) {
	db, start := oplog.NewMemory(), time.Now()
	offset := time.Duration(0)
	o := headwater.Options{Now: func() time.Time { return time.Now().Add(offset).Round(0) }} // no monotonic reading either
	o.Engine.SnapshotInterval, o.Engine.KeepRows = 50, 1<<30
	o.Engine.Events.Snapshot = func(index oplog.Index, _ int64, _ time.Duration, err error) {
		if err == nil {
			l.Snapshots = append(l.Snapshots, index)
		}
	}
	s, done := node(t, db.Open, o)
	defer done()
	quiet := headwater.Options{}
	quiet.Engine.SnapshotInterval = -1
	other, otherDone := node(t, db.Open, quiet)
	defer otherDone()
	r, err := meta.Propose(t.Context(), s, meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { defer close(watched); watch(t, ctx, other, &l.Fenced) }()
	for tick := range 600 {
		time.Sleep(100 * time.Millisecond)
		if len(jumps) > 0 && tick%50 == 49 {
			offset += jumps[tick/50%len(jumps)]
		}
		commands := []meta.Command{meta.PutKey{Key: fmt.Sprint("k", tick%7), Value: fmt.Append(nil, tick)}}
		if tick%10 == 0 {
			commands = append(commands, meta.RenewNode{Identity: meta.Identity{NodeID: 1, NodeEpoch: r.Epoch}})
		}
		for _, c := range commands {
			if a := s.Propose(t.Context(), meta.Proposal{Command: c})[0]; a.Err != nil {
				l.Failed++
			}
		}
		if tick == 300 {
			began := time.Now()
			short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, _ = s.Wait(short, 1<<40)
			cancel()
			l.Waited = time.Since(began)
		}
	}
	cancel()
	<-watched
	v := s.View()
	l.Digest, l.Last, l.Took = v.State.Digest(), uint64(v.Index), time.Since(start)
	err = s.ReadLog(t.Context(), 1, 0, func(row headwater.LogRow) error {
		for _, p := range row.Proposals {
			stamps = append(stamps, p.Stamp)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, stamps
}

// watch runs the observer of nodes that stand still.
func watch(t *testing.T, ctx context.Context, s *headwater.Store, fenced *int) {
	ob, err := liveness.New(liveness.Cluster{Proposer: s, Nodes: func() (iter.Seq[meta.Node], bool) {
		page, err := s.View().State.Nodes("", 0)
		return slices.Values(page.Items), err == nil
	}}, liveness.Options{TTL: 5 * time.Second, Fenced: func(meta.Node, meta.Answer) { *fenced++ }})
	if err != nil {
		t.Error(err)
		return
	}
	ob.Run(ctx)
}

// wallClock says where the product may ask what time of day it is, and why. Differences of time.Now need no entry: they
// are taken by the monotonic clock.
var wallClock = map[string]string{
	"restore.go":              "the stamp of the first command, for people only",
	"headwater.go":            "stamps, for people only",
	"cmd/headwater/object.go": "deadlines that are given as a distance from now",
	"cmd/headwater/output.go": "shows a stamp",
	"sqllog/postgres/turn.go": "a deadline that has passed, to end a read",
}

// TestWallClockIsReadInFewPlaces fails where code makes a time of day of a time, or a time of a time of day, outside the
// places listed: only so could a jump of the wall clock change what a node does.
func TestWallClockIsReadInFewPlaces(t *testing.T) {
	t.Parallel()
	names := []string{"Unix", "UnixMilli", "UnixMicro", "UnixNano"}
	used := map[string]bool{}
	for _, p := range packages(t) {
		if r := room(p.ImportPath); strings.HasPrefix(r, "internal/") && r != "internal/liveness" || r == "oplog/oplogtest" {
			continue // tests and their tools
		}
		for _, name := range p.GoFiles {
			file := filepath.ToSlash(filepath.Join(room(p.ImportPath), name))
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(names, s.Sel.Name) {
					used[file] = true
				}
				return true
			})
		}
	}
	for file := range used {
		if wallClock[file] == "" {
			t.Errorf("%s reads the time of day: take a difference of time.Now, or list the place with its reason", file)
		}
	}
	for file := range wallClock {
		if !used[file] {
			t.Errorf("%s is listed and does not read the time of day", file)
		}
	}
}
