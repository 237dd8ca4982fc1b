package liveness_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/internal/liveness"
	"github.com/headwaterdb/headwater/meta"
)

const ttl = 10 * time.Second

// table is a cluster of nodes in memory that applies fences as the rules do.
type table struct {
	mu     sync.Mutex
	nodes  map[uint64]meta.Node
	stale  bool
	fences []meta.FenceNode // those that were proposed
	before func()           // called before a fence is applied
}

func newTable(ids ...uint64) *table {
	t := &table{nodes: map[uint64]meta.Node{}}
	for _, id := range ids {
		t.nodes[id] = meta.Node{ID: id, Epoch: 1, Renewals: 1, Registered: true}
	}
	return t
}

func (t *table) Nodes() (iter.Seq[meta.Node], bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]meta.Node, 0, len(t.nodes))
	for _, n := range t.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b meta.Node) int { return int(a.ID) - int(b.ID) })
	return slices.Values(all), !t.stale
}

func (t *table) change(id uint64, f func(n *meta.Node)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	f(&n)
	t.nodes[id] = n
}

func (t *table) renew(id uint64) { t.change(id, func(n *meta.Node) { n.Renewals++ }) }

func (t *table) Propose(_ context.Context, proposals ...meta.Proposal) []meta.Answer {
	answers := make([]meta.Answer, len(proposals))
	for i, p := range proposals {
		f := p.Command.(meta.FenceNode)
		if t.before != nil {
			t.before()
		}
		t.mu.Lock()
		t.fences = append(t.fences, f)
		n := t.nodes[f.NodeID]
		if f.Renewals != n.Renewals || f.Epoch != n.Epoch {
			answers[i] = meta.Answer{Status: meta.Rejected, Err: &meta.Error{Code: meta.CodeNodeAlive, Inner: -1}}
		} else {
			n.Fenced = true
			t.nodes[f.NodeID] = n
			answers[i] = meta.Answer{Status: meta.Applied}
		}
		t.mu.Unlock()
	}
	return answers
}

func (t *table) fenced() (ids []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, n := range t.nodes {
		if n.Fenced {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// watch runs an observer over c in a bubble of virtual time.
func watch(t *testing.T, c *table, story func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ob, err := liveness.New(liveness.Cluster{Nodes: c.Nodes, Proposer: c}, liveness.Options{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { ob.Run(ctx); close(done) }()
		story()
		cancel()
		<-done
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestDeadNodeIsFencedAndLiveOneIsNot(t *testing.T) {
	c := newTable(1, 2)
	watch(t, c, func() {
		for range 9 {
			c.renew(1)
			pass(time.Second)
		}
		if got := c.fenced(); got != nil {
			t.Errorf("fenced before the time-to-live had passed: %v", got)
		}
		for range 21 {
			c.renew(1)
			pass(time.Second)
		}
		if diff := cmp.Diff([]uint64{2}, c.fenced()); diff != "" {
			t.Errorf("fenced (-want +got):\n%s", diff)
		}
	})
	want := []meta.FenceNode{{NodeID: 2, Epoch: 1, Renewals: 1}}
	if diff := cmp.Diff(want, c.fences); diff != "" {
		t.Errorf("proposed (-want +got):\n%s", diff)
	}
}

// A renewal that lands between the observer's look and its fence wins, and the node has its full time again.
func TestRenewalBeforeTheFenceWins(t *testing.T) {
	c := newTable(1)
	late := true
	c.before = func() {
		if late {
			late = false
			c.renew(1)
		}
	}
	watch(t, c, func() {
		pass(ttl + 5*time.Second)
		if got := c.fenced(); got != nil {
			t.Errorf("fenced although it had renewed: %v", got)
		}
		pass(ttl)
		if diff := cmp.Diff([]uint64{1}, c.fenced()); diff != "" {
			t.Errorf("fenced in the end (-want +got):\n%s", diff)
		}
	})
}

// While the view is not current nobody's renewals can be seen: an outage of the database fences no one, and after it
// everyone has the full time again.
func TestNoTimePassesWhileTheViewIsStale(t *testing.T) {
	c := newTable(1, 2)
	watch(t, c, func() {
		pass(ttl / 2)
		c.mu.Lock()
		c.stale = true
		c.mu.Unlock()
		pass(20 * ttl)
		c.mu.Lock()
		c.stale = false
		c.mu.Unlock()
		pass(ttl - time.Second)
		if got := c.fenced(); got != nil {
			t.Errorf("fenced %v for an outage", got)
		}
		c.renew(1)
		pass(3 * time.Second)
		if diff := cmp.Diff([]uint64{2}, c.fenced()); diff != "" {
			t.Errorf("fenced after the outage (-want +got):\n%s", diff)
		}
	})
}

// An observer that was itself suspended judges nobody by the time it slept through.
func TestPausedObserverStartsAnew(t *testing.T) {
	c := newTable(1)
	ob, err := liveness.New(liveness.Cluster{Nodes: c.Nodes, Proposer: c}, liveness.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ob.Look(t.Context(), now)
	now = now.Add(time.Hour)
	ob.Look(t.Context(), now)
	if got := c.fenced(); got != nil {
		t.Fatalf("fenced %v after a pause of the observer", got)
	}
	for range 10 {
		now = now.Add(ttl / 10)
		ob.Look(t.Context(), now)
	}
	if diff := cmp.Diff([]uint64{1}, c.fenced()); diff != "" {
		t.Errorf("fenced once the time had passed (-want +got):\n%s", diff)
	}
}

func TestRegisteringAgainIsASignOfLife(t *testing.T) {
	c := newTable(1)
	watch(t, c, func() {
		pass(ttl - 2*time.Second)
		c.change(1, func(n *meta.Node) { n.Epoch = 2 }) // the counter starts at 1 again
		pass(ttl - 2*time.Second)
		if got := c.fenced(); got != nil {
			t.Errorf("fenced %v although it had registered again", got)
		}
	})
}

func TestFencedAndUnregisteredNodesAreLeftAlone(t *testing.T) {
	c := newTable(1, 2)
	c.change(1, func(n *meta.Node) { n.Fenced = true })
	c.change(2, func(n *meta.Node) { n.Registered = false })
	watch(t, c, func() { pass(5 * ttl) })
	if len(c.fences) != 0 {
		t.Errorf("proposed %v", c.fences)
	}
}

func TestFencedIsTold(t *testing.T) {
	c := newTable(7)
	var told []uint64
	ob, err := liveness.New(liveness.Cluster{Nodes: c.Nodes, Proposer: c}, liveness.Options{TTL: ttl,
		Fenced: func(n meta.Node, a meta.Answer) {
			if a.Status == meta.Applied {
				told = append(told, n.ID)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for range 11 {
		ob.Look(t.Context(), now)
		now = now.Add(ttl / 10)
	}
	if diff := cmp.Diff([]uint64{7}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestTooShortATimeIsRefused(t *testing.T) {
	if _, err := liveness.New(liveness.Cluster{}, liveness.Options{TTL: time.Millisecond}); err == nil {
		t.Error("a time-to-live of 1 ms was taken")
	}
}
