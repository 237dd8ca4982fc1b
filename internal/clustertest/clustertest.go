// Package clustertest runs nodes on any database under load, while a test does to the database what it likes, and proves
// that nothing that was acknowledged was lost or done twice.
package clustertest

import (
	"context"
	"crypto/rand"
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

// Load is work for nodes while something happens to their database. With HEADWATER_TEST_FULL=1 each attempt must end within
// two seconds of its deadline.
type Load struct {
	Clients  int
	Patience time.Duration // how long an attempt may take
	Every    time.Duration // the pace of each client, for as long as the nodes keep up; 0: the next as soon as the last is answered
	// Strict: the database is well, so every attempt must succeed.
	Strict bool
	// Seen, if set, is told of every attempt that failed, and may be called by several at once.
	Seen func(error)
}

// Run lets clients work at the stores while do happens; each attempt of a client takes at most patience. Then it proves
// that the answers are right and that all nodes agree.
func Run(t testing.TB, stores []*headwater.Store, clients int, patience time.Duration, do func()) {
	t.Helper()
	Load{Clients: clients, Patience: patience}.Run(t, stores, do)
}

// Run lets clients work at the stores while do happens. Then it proves that the answers are right and that all nodes
// agree. It returns how long each command took to its answer, in the order in which they were answered to each client.
func (l Load) Run(t testing.TB, stores []*headwater.Store, do func()) []time.Duration {
	t.Helper()
	before := handedOut(t, stores[0])
	all := make([]*client, l.Clients)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range all {
		c := &client{Load: l, next: 1}
		rand.Read(c.name[:]) // never fails
		all[i] = c
		mine := slices.Concat(stores[i%len(stores):], stores[:i%len(stores)])
		wg.Go(func() { c.run(t, mine, stop) })
	}
	func() {
		defer func() { close(stop); wg.Wait() }() // also where do ends the test
		do()
	}()
	var ids []uint64
	var took []time.Duration
	for _, c := range all {
		ids, took = append(ids, c.ids...), append(took, c.took...)
	}
	slices.Sort(ids)
	for i, id := range ids {
		if id != before+uint64(i+1) {
			t.Fatalf("the ids of the answers are not dense: number %d is %d", i+1, id-before)
		}
	}
	t.Logf("%d objects", len(ids))
	Agree(t, stores)
	return took
}

// handedOut registers the node of the clients where it is not yet, and returns the highest id of an object so far.
func handedOut(t testing.TB, s *headwater.Store) uint64 {
	t.Helper()
	if _, err := meta.Propose(t.Context(), s, meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}}); err != nil {
		t.Fatal(err)
	}
	r := meta.Request{Sequence: 1, Oldest: 1}
	rand.Read(r.Client[:])
	a := s.Propose(t.Context(), meta.Proposal{Request: &r, Command: prepare})[0]
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	return a.Result.(meta.PrepareObjectsResult).FirstObjectID
}

// prepare hands out one id for each time it takes effect, so that the ids of all answers are 1, 2, 3, … exactly if no
// acknowledged command was lost and none applied twice.
var prepare = meta.PrepareObjects{Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}, Count: 1, Deadline: 1}

// client prepares one object after another until it is told to stop.
type client struct {
	Load
	name [16]byte
	next uint64
	ids  []uint64
	took []time.Duration // of each command to its answer
}

// run prepares objects until stop is closed and the last one has an answer, at one store after the other. What has no
// answer is sent again as the same request.
func (c *client) run(t testing.TB, stores []*headwater.Store, stop <-chan struct{}) {
	unanswered := false
	var start time.Time
	pace := make(<-chan time.Time)
	if c.Every > 0 {
		tick := time.NewTicker(c.Every)
		defer tick.Stop()
		pace = tick.C
	}
	for try := 0; ; try++ {
		if !unanswered {
			if !c.wait(pace, stop) {
				return
			}
			start = time.Now()
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.Patience)
		r := meta.Request{Client: c.name, Sequence: c.next, Oldest: c.next}
		asked := time.Now()
		a := stores[try%len(stores)].Propose(ctx, meta.Proposal{Request: &r, Command: prepare})[0]
		cancel()
		if took := time.Since(asked); took > c.Patience+2*time.Second && os.Getenv("HEADWATER_TEST_FULL") != "" {
			t.Errorf("an attempt ended after %v, its deadline was %v", took, c.Patience)
		}
		if a.Err != nil && c.Seen != nil {
			c.Seen(a.Err)
		}
		switch {
		case a.Err != nil && (a.Status == meta.Rejected || c.Strict):
			t.Errorf("request %d: %v", c.next, a.Err)
			return
		case a.Err != nil:
			if unanswered = true; t.Failed() {
				return
			}
			continue
		}
		unanswered = false
		c.ids, c.took = append(c.ids, a.Result.(meta.PrepareObjectsResult).FirstObjectID), append(c.took, time.Since(start))
		c.next++
	}
}

// wait waits for the moment of the next command; false: there is none.
func (c *client) wait(pace <-chan time.Time, stop <-chan struct{}) bool {
	if c.Every == 0 {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	select {
	case <-stop:
		return false
	case <-pace:
		return true
	}
}

// P99 returns the time that 99 of a hundred took at most; 0 of none.
func P99(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*99/100]
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
