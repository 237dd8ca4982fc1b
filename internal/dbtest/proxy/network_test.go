package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// proposals is how many a run over a bad network has, in all: HEADWATER_ROUNDS, for the full size 10000, or the quick 600.
func proposals(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("HEADWATER_ROUNDS"))
	if err != nil && os.Getenv("HEADWATER_ROUNDS") != "" {
		t.Fatal(err)
	}
	return max(n, 600)
}

// testNetwork: hazards 2 and 3, field cases 01.1 and 01.3. Two nodes, each over a network that loses the answer of a
// committed append, delays it past the end of the caller's patience, loses the append, or loses the connection and brings
// the append much later. Every proposal has a request and is repeated until it has an answer; none is lost, none has two
// effects (each key is written only if it is absent), none is answered wrongly.
func testNetwork(t *testing.T, protocol proxy.Protocol, address string, open func(t testing.TB, address string) oplog.Log) {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	total := proposals(t)
	var stores []*headwater.Store
	var networks []*proxy.Proxy
	for range 2 {
		x := proxy.New(t, protocol, address)
		l := open(t, x.Addr())
		if _, err := headwater.Init(t.Context(), l); err != nil && !errors.Is(err, oplog.ErrExists) {
			t.Fatalf("init: %v", err)
		}
		store, err := headwater.Open(t.Context(), l, headwater.Options{})
		if err != nil {
			t.Fatalf("open a node: %v", err)
		}
		t.Cleanup(func() { _ = store.Close() })
		stores, networks = append(stores, store), append(networks, x)
	}
	var nodes sync.WaitGroup
	var all []*lossy
	for i := range stores {
		n := &lossy{store: stores[i], network: networks[i], rng: rand.New(rand.NewPCG(seed, uint64(i))), client: [16]byte{byte(i + 1)}}
		nodes.Go(func() { n.propose(t, total/2) })
		all = append(all, n)
	}
	nodes.Wait()
	if t.Failed() {
		return
	}
	for kind := range all[0].hits {
		if n := all[0].hits[kind] + all[1].hits[kind]; n < total/100 {
			t.Errorf("fault %d of spoil hit %d appends of %d", kind, n, total)
		}
	}
	checkAgree(t, stores, total)
	if report, err := headwater.Check(t.Context(), open(t, address), nil); err != nil {
		t.Errorf("check the log: %+v, %v", report, err)
	}
}

// lossy is a node with its network.
type lossy struct {
	store   *headwater.Store
	network *proxy.Proxy
	rng     *rand.Rand
	client  [16]byte
	late    []*proxy.Gate // of appends that are to arrive some time
	hits    [5]int        // of each kind of fault
}

func (n *lossy) propose(t *testing.T, count int) {
	for i := range count {
		p := meta.Proposal{
			Request: &meta.Request{Client: n.client, Sequence: uint64(i + 1), Oldest: uint64(i + 1)},
			Command: meta.PutKey{Key: fmt.Sprintf("%d/%d", n.client[0], i), Value: []byte("v"), IfAbsent: true},
		}
		ctx, done := n.spoil(t.Context())
		a := n.store.Propose(ctx, p)[0]
		done()
		first := true
		for tries := 0; a.Err != nil; tries++ {
			if unknown := errors.Is(a.Err, meta.ErrOutcomeUnknown) || errors.Is(a.Err, context.Canceled); !unknown || tries == 10 {
				t.Errorf("proposal %d of node %d: %v", i, n.client[0], a.Err)
				return
			}
			first = false
			a = n.store.Propose(t.Context(), p)[0]
		}
		if a.Status != meta.Applied && (first || a.Status != meta.Redundant) {
			t.Errorf("proposal %d of node %d: %v", i, n.client[0], a.Status)
		}
		if len(n.late) > 0 && n.rng.IntN(4) == 0 { // what was held since one of the last proposals arrives
			n.late[0].Open()
			n.late = n.late[1:]
		}
	}
	for _, gate := range n.late {
		gate.Open()
	}
}

// spoil does something to the next append, or nothing. The context ends where the caller loses patience; done must be
// called after the call.
func (n *lossy) spoil(parent context.Context) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(parent)
	gate := proxy.NewGate()
	rules := []proxy.Rule{proxy.LoseAnswer(insertInto), proxy.LoseStatement(insertInto), proxy.AbandonStatement(insertInto, gate),
		proxy.HoldAnswer(insertInto, gate), proxy.HoldStatement(insertInto, gate)}
	kind := n.rng.IntN(4 * len(rules))
	if kind >= len(rules) {
		return ctx, cancel
	}
	trap := n.network.Add(rules[kind])
	end := func() {
		cancel()
		n.network.Clear()
		n.hits[kind] += trap.Hits()
	}
	switch {
	case rules[kind].Hold == nil:
		return ctx, end
	case rules[kind].Cut:
		n.late = append(n.late, gate)
		return ctx, end
	}
	var patience sync.WaitGroup
	patience.Go(func() {
		select {
		case <-trap.Sprung():
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { end(); gate.Open(); patience.Wait() }
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
