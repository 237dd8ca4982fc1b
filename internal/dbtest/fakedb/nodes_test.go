package fakedb_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/dbtest/fakedb"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// testNodes is field case 01.5 from the top: two nodes, 500 proposals without a request, every tenth append answered as
// the fault says. The engine finds out from the log what became of each, so every proposal is answered applied, and
// stands in one row.
func testNodes(t *testing.T, start func(testing.TB, fakedb.Options) *fakedb.Server, open func(testing.TB, string) oplog.Log, faults []fakedb.Fault) {
	for _, f := range faults {
		f.Text, f.Every, f.Times = insert, 10, -1
		t.Run(fmt.Sprintf("%q, in effect %v", f.Code, f.Commit), func(t *testing.T) {
			s := start(t, fakedb.Options{})
			logs := []oplog.Log{open(t, s.Addr()), open(t, s.Addr())}
			if _, err := headwater.Init(t.Context(), logs[0]); err != nil {
				t.Fatalf("init: %v", err)
			}
			stores := make([]*headwater.Store, len(logs))
			for i, l := range logs {
				store, err := headwater.Open(t.Context(), l, headwater.Options{})
				if err != nil {
					t.Fatalf("open node %d: %v", i, err)
				}
				t.Cleanup(func() {
					if err := store.Close(); err != nil {
						t.Errorf("close node %d: %v", i, err)
					}
				})
				stores[i] = store
			}
			injected := s.Inject(f)
			var nodes sync.WaitGroup
			for i, store := range stores {
				nodes.Go(func() { proposeAll(t, store, i) })
			}
			nodes.Wait()
			if injected.Hits() < appends/20 { // proposals share rows
				t.Errorf("%d hits", injected.Hits())
			}
			s.Clear()
			checkNodes(t, stores)
		})
	}
}

func proposeAll(t *testing.T, store *headwater.Store, node int) {
	for i := range appends / 2 {
		answers := store.Propose(t.Context(), meta.Proposal{Command: meta.PutKey{Key: fmt.Sprintf("%d/%d", node, i), Value: []byte("v"), IfAbsent: true}})
		if a := answers[0]; a.Err != nil || a.Status != meta.Applied {
			t.Errorf("node %d, proposal %d: %v %v, want applied", node, i, a.Status, a.Err)
			return
		}
	}
}

// checkNodes: every key is in one row of the log, and the nodes agree.
func checkNodes(t *testing.T, stores []*headwater.Store) {
	t.Helper()
	rows := map[string]int{}
	err := stores[0].ReadLog(t.Context(), 0, 0, func(r headwater.LogRow) error {
		for _, p := range r.Proposals {
			rows[p.Command.(meta.PutKey).Key]++
		}
		return nil
	})
	if err != nil || len(rows) != appends {
		t.Errorf("%d keys in the log, want %d; %v", len(rows), appends, err)
	}
	for key, n := range rows {
		if n != 1 {
			t.Errorf("%s stands in %d rows", key, n)
		}
	}
	checkAgree(t, stores, appends)
}

// checkAgree: the nodes have the same state, with all keys in it.
func checkAgree(t *testing.T, stores []*headwater.Store, keys int) {
	t.Helper()
	var views []*headwater.View
	for i, store := range stores {
		v, err := store.Linearize(t.Context())
		if err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
		views = append(views, v)
	}
	// The second look may have met a row that arrived after the first.
	v, err := stores[0].Wait(t.Context(), uint64(views[1].Index))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := v, views[1]; a.Index != b.Index || a.State.Digest() != b.State.Digest() {
		t.Errorf("the nodes are at %d and %d with digests %x and %x", a.Index, b.Index, a.State.Digest(), b.State.Digest())
	}
	if n := v.State.Counts().Keys; int(n) != keys {
		t.Errorf("%d keys, want %d", n, keys)
	}
}
