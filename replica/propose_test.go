package replica_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// TestPropose: results come in the order of the commands, with the row and the place in it, and the view has them.
func TestPropose(t *testing.T) {
	t.Parallel()
	r := open(t, cluster(t).Open(), replica.Options{})
	got := r.Propose(t.Context(), []byte("a"), []byte("b"), []byte("c"))
	want := []replica.Result[answer]{
		{Index: 1, Position: 0, Value: answer{Count: 1, Index: 1}},
		{Index: 1, Position: 1, Value: answer{Count: 2, Index: 1}},
		{Index: 1, Position: 2, Value: answer{Count: 3, Index: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, r.View().State.all()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if res := propose(t, r, "d"); res.Index != 2 {
		t.Errorf("second row at %d", res.Index)
	}
}

// TestManyNodes: three replicas on one log propose as fast as they can; every command is applied exactly once, the
// rows are dense, and all agree.
func TestManyNodes(t *testing.T) {
	t.Parallel()
	db := cluster(t)
	const nodes, callers, each = 3, 8, 150
	var rs []*node
	for range nodes {
		rs = append(rs, open(t, db.Open(), replica.Options{SnapshotInterval: 64}))
	}
	var wg sync.WaitGroup
	for n, r := range rs {
		for c := range callers {
			wg.Go(func() {
				for i := range each {
					res := r.Propose(t.Context(), fmt.Appendf(nil, "%d-%d-%d", n, c, i))[0]
					if res.Err != nil {
						t.Errorf("propose: %v", res.Err)
						return
					}
					if v := r.View(); v.Index < res.Index {
						t.Errorf("answered at index %d, the view has %d", res.Index, v.Index)
					}
				}
			})
		}
	}
	wg.Wait()
	var newest oplog.Index
	for _, r := range rs {
		newest = max(newest, r.View().Index)
	}
	first := wait(t, rs[0], newest).State
	if first.count != nodes*callers*each {
		t.Errorf("%d commands applied, %d proposed", first.count, nodes*callers*each)
	}
	seen := map[string]int{}
	for _, w := range first.all() {
		if seen[w]++; seen[w] > 1 {
			t.Errorf("%q applied %d times", w, seen[w])
		}
	}
	for n, r := range rs[1:] {
		if got := wait(t, r, newest).State; got.digest != first.digest {
			t.Errorf("node %d has another digest at index %d", n+1, newest)
		}
	}
}
