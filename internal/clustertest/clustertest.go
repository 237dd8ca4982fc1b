// Package clustertest runs nodes on any database under load, while a test does to the database what it likes, and proves
// that nothing that was acknowledged was lost or done twice.
package clustertest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// Rounds is how often a fault happens: quick, or what HEADWATER_ROUNDS says.
func Rounds(t testing.TB, quick int) int {
	t.Helper()
	s := os.Getenv("HEADWATER_ROUNDS")
	if s == "" {
		return quick
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Nodes opens a node on each log, the first of which makes the database a cluster. Nodes and logs are closed when the
// test ends.
func Nodes(t testing.TB, o headwater.Options, logs ...oplog.Log) []*headwater.Store {
	t.Helper()
	var stores []*headwater.Store
	for _, l := range logs {
		if _, err := headwater.Init(t.Context(), l); err != nil && !errors.Is(err, oplog.ErrExists) {
			t.Fatalf("init: %v", err)
		}
		s, err := headwater.Open(t.Context(), l, o)
		if err != nil {
			t.Fatalf("open a node: %v", err)
		}
		t.Cleanup(func() {
			if err := errors.Join(s.Close(), l.Close()); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		stores = append(stores, s)
	}
	return stores
}

// client prepares one object after another until it is told to stop. Each PrepareObjects that takes effect hands out one
// id, so that the ids of all answers are 1, 2, 3, … exactly if no acknowledged command was lost and none applied twice.
type client struct {
	name [16]byte
	next uint64
	ids  []uint64
}

// run prepares objects until stop is closed and the last one has an answer, at one store after the other. What has no
// answer is sent again as the same request.
func (c *client) run(t testing.TB, stores []*headwater.Store, stop <-chan struct{}, patience time.Duration) {
	unanswered := false
	for try := 0; ; try++ {
		if !unanswered {
			select {
			case <-stop:
				return
			default:
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		r := meta.Request{Client: c.name, Sequence: c.next, Oldest: c.next}
		a := stores[try%len(stores)].Propose(ctx, meta.Proposal{Request: &r, Command: meta.PrepareObjects{
			Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}, Count: 1, Deadline: 1}})[0]
		cancel()
		switch {
		case a.Err != nil && a.Status == meta.Rejected:
			t.Errorf("request %d was rejected: %v", c.next, a.Err)
			return
		case a.Err != nil:
			if unanswered = true; t.Failed() {
				return
			}
			continue
		}
		unanswered = false
		c.ids = append(c.ids, a.Result.(meta.PrepareObjectsResult).FirstObjectID)
		c.next++
	}
}

// Run lets clients work at the stores while do happens; each attempt of a client takes at most patience. Then it proves
// that the answers are right and that all nodes agree.
func Run(t testing.TB, stores []*headwater.Store, clients int, patience time.Duration, do func()) {
	t.Helper()
	if _, err := meta.Propose(t.Context(), stores[0], meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}}); err != nil {
		t.Fatal(err)
	}
	all := make([]*client, clients)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range all {
		c := &client{name: [16]byte{15: byte(i + 1)}, next: 1}
		all[i] = c
		mine := slices.Concat(stores[i%len(stores):], stores[:i%len(stores)])
		wg.Go(func() { c.run(t, mine, stop, patience) })
	}
	func() {
		defer func() { close(stop); wg.Wait() }() // also where do ends the test
		do()
	}()
	var ids []uint64
	for _, c := range all {
		ids = append(ids, c.ids...)
	}
	slices.Sort(ids)
	for i, id := range ids {
		if id != uint64(i+1) {
			t.Fatalf("the ids of the answers are not dense: number %d is %d", i+1, id)
		}
	}
	t.Logf("%d objects", len(ids))
	Agree(t, stores)
}

// Agree proves that all nodes, brought up to date, have the same state.
func Agree(t testing.TB, stores []*headwater.Store) {
	t.Helper()
	var newest uint64
	for i, s := range stores {
		v, err := s.Linearize(t.Context())
		if err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
		newest = max(newest, uint64(v.Index))
	}
	var first *headwater.View
	for i, st := range stores {
		v, err := st.Wait(t.Context(), newest)
		if err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
		if first == nil {
			first = v
		}
		if v.Index != first.Index || v.State.Digest() != first.State.Digest() {
			t.Errorf("node %d is at %d with digest %x, node 0 at %d with %x", i, v.Index, v.State.Digest(), first.Index, first.State.Digest())
		}
	}
}

// Await waits until the log has moved on by n rows.
func Await(t testing.TB, s *headwater.Store, n uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Wait(ctx, uint64(s.View().Index)+n); err != nil {
		t.Fatalf("the log does not move on: %v (%+v)", err, s.Status())
	}
}
