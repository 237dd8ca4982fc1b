package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/meta"
)

// gate is a store whose calls of Propose stand still until they are let go, one after another.
type gate struct {
	stub
	arrived chan []meta.Proposal
	answer  chan func([]meta.Proposal) []meta.Answer
}

func newGate() *gate {
	g := &gate{arrived: make(chan []meta.Proposal, 100), answer: make(chan func([]meta.Proposal) []meta.Answer)}
	g.stub.propose = func(ctx context.Context, ps ...meta.Proposal) []meta.Answer {
		g.arrived <- ps
		select {
		case f := <-g.answer:
			return f(ps)
		case <-ctx.Done():
			return all(meta.ErrOutcomeUnknown)(ps)
		}
	}
	return g
}

func applied(ps []meta.Proposal) []meta.Answer { return appliedAt(5, len(ps)) }

// unrefused ends the test at the first answer that is an error.
func unrefused(t *testing.T, answers []meta.Answer) {
	t.Helper()
	for _, a := range answers {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

// calls lets n goroutines propose one put each, and returns their answers when all have one.
func calls(ctx context.Context, c *client.Client, n int) (answers func() []meta.Answer) {
	out := make([]meta.Answer, n)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() { out[i] = c.Propose(ctx, put(fmt.Sprint(i)))[0] })
	}
	return func() []meta.Answer {
		wg.Wait()
		return out
	}
}

// await waits until so many calls of c wait for a request.
func await(t *testing.T, c *client.Client, n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if client.Waiting(c) == n {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("%d calls wait, want %d", client.Waiting(c), n)
		}
	}
}

// TestGathering: what comes while requests are under way shares the next one; each command has its own answer.
func TestGathering(t *testing.T) {
	t.Parallel()
	g := newGate()
	_, addr := serve(t, g)
	c := open(t, client.Options{Endpoints: []string{addr}, Gather: 1})
	first := calls(t.Context(), c, 1)
	if ps := <-g.arrived; len(ps) != 1 {
		t.Fatalf("a call alone went with %d commands", len(ps))
	}
	rest := calls(t.Context(), c, 50)
	await(t, c, 50)
	g.answer <- applied
	if a := first()[0]; a.Err != nil || a.Index != 5 {
		t.Errorf("first: %+v", a)
	}
	ps := <-g.arrived
	if len(ps) != 50 {
		t.Fatalf("%d commands in the next request, want 50", len(ps))
	}
	g.answer <- func(ps []meta.Proposal) []meta.Answer { // refuses the put of 7
		out := appliedAt(6, len(ps))
		for i, p := range ps {
			if p.Command.(meta.PutKey).Key == "7" {
				out[i] = meta.Answer{Status: meta.Rejected, Index: 6, Err: &meta.Error{Code: meta.CodeKeyExists, Inner: -1}}
			}
		}
		return out
	}
	at := map[string]int{}
	for i, p := range ps {
		at[p.Command.(meta.PutKey).Key] = i
	}
	for i, a := range rest() {
		switch {
		case i == 7 && meta.CodeOf(a.Err) != meta.CodeKeyExists:
			t.Errorf("the refused one: %+v", a)
		case i != 7 && (a.Err != nil || a.Position != at[fmt.Sprint(i)]):
			t.Errorf("put %d at %d: %+v", i, at[fmt.Sprint(i)], a)
		}
	}
}

// TestRequestsUnderWayAreBounded, and each call goes at once while there is room.
func TestRequestsUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	g := newGate()
	_, addr := serve(t, g)
	c := open(t, client.Options{Endpoints: []string{addr}, Gather: 3})
	var done []func() []meta.Answer
	for range 3 {
		done = append(done, calls(t.Context(), c, 1))
		<-g.arrived // without any answer before
	}
	done = append(done, calls(t.Context(), c, 4))
	await(t, c, 4)
	for range 4 {
		g.answer <- applied
	}
	if ps := <-g.arrived; len(ps) != 4 {
		t.Errorf("%d commands in the fourth request, want 4", len(ps))
	}
	for _, d := range done {
		unrefused(t, d())
	}
}

// TestGivingUpAGatheredCall: a call ends with its own context. One that no request has taken along is never sent, one that
// is under way has an unknown outcome, and the others of its request have theirs.
func TestGivingUpAGatheredCall(t *testing.T) {
	t.Parallel()
	g := newGate()
	_, addr := serve(t, g)
	c := open(t, client.Options{Endpoints: []string{addr}, Gather: 1})
	under, cancelUnder := context.WithCancel(t.Context())
	first := calls(under, c, 1)
	<-g.arrived
	queued, cancelQueued := context.WithCancel(t.Context())
	given, kept := calls(queued, c, 2), calls(t.Context(), c, 1)
	await(t, c, 3)
	cancelQueued()
	for _, a := range given() {
		if !errors.Is(a.Err, meta.ErrNotApplied) || !errors.Is(a.Err, context.Canceled) {
			t.Errorf("given up while it waited: %v", a.Err)
		}
	}
	cancelUnder()
	var unknown *meta.UnknownError
	if a := first()[0]; !errors.As(a.Err, &unknown) || !errors.Is(a.Err, context.Canceled) {
		t.Errorf("given up under way: %v", a.Err)
	}
	g.answer <- applied
	if ps := <-g.arrived; len(ps) != 1 || ps[0].Command.(meta.PutKey).Key != "0" {
		t.Errorf("the next request has %v, want the call that is still waited for", ps)
	}
	g.answer <- applied
	unrefused(t, kept())
}

// TestBytesOfACallThatWasGivenUp may be changed by the caller at once, whatever is still sent.
func TestBytesOfACallThatWasGivenUp(t *testing.T) {
	t.Parallel()
	s := newScript()
	_, addr := serve(t, s)
	c := open(t, client.Options{Endpoints: []string{addr}, Gather: 1})
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*5*time.Microsecond)
		value := []byte("before")
		c.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: "k", Value: value}})
		copy(value, "after!") // under the race detector this is what fails
		cancel()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ps := range s.calls {
		for _, p := range ps {
			if v := string(p.Command.(meta.PutKey).Value); v != "before" {
				t.Fatalf("%q was sent", v)
			}
		}
	}
}

// TestGatheredRetriesKeepTheirRequests: what was refused for now goes again under its number, together with what came
// meanwhile, and what was answered does not.
func TestGatheredRetriesKeepTheirRequests(t *testing.T) {
	t.Parallel()
	g := newGate()
	_, addr := serve(t, g)
	c := open(t, client.Options{Endpoints: []string{addr}, Gather: 1})
	two := make(chan []meta.Answer, 1)
	go func() { two <- c.Propose(t.Context(), put("a"), put("b")) }()
	sent := <-g.arrived
	other := calls(t.Context(), c, 1)
	await(t, c, 1)
	g.answer <- func(ps []meta.Proposal) []meta.Answer {
		return []meta.Answer{appliedAt(5, 1)[0], {Err: meta.ErrOverloaded}}
	}
	again := <-g.arrived
	if len(again) != 2 || *again[0].Request != *sent[1].Request || again[1].Command.(meta.PutKey).Key != "0" {
		t.Errorf("sent again: %+v, first %+v", again, sent)
	}
	g.answer <- applied
	unrefused(t, append(<-two, other()...))
}

// TestCallsStayWhole: a call's commands go in one request and in their order; one that fills a request goes alone.
func TestCallsStayWhole(t *testing.T) {
	t.Parallel()
	g := newGate()
	_, addr := serve(t, g)
	c := open(t, client.Options{Endpoints: []string{addr}, Gather: 1})
	first := calls(t.Context(), c, 1)
	<-g.arrived
	many := func(prefix string, n int) []meta.Proposal {
		ps := make([]meta.Proposal, n)
		for i := range ps {
			ps[i] = put(fmt.Sprintf("%s%d", prefix, i))
		}
		return ps
	}
	done := make(chan []meta.Answer, 3)
	for i, n := range []int{600, 600, 300} {
		go func() { done <- c.Propose(t.Context(), many(fmt.Sprint("abc"[i:i+1]), n)...) }()
		await(t, c, i+1)
	}
	g.answer <- applied
	first()
	for _, want := range []int{600, 900} {
		ps := <-g.arrived
		if len(ps) != want {
			t.Errorf("%d commands in a request, want %d", len(ps), want)
		}
		next := map[byte]int{}
		for _, p := range ps {
			key := p.Command.(meta.PutKey).Key
			if key != fmt.Sprintf("%c%d", key[0], next[key[0]]) {
				t.Fatalf("%s comes after %d others of its call", key, next[key[0]])
			}
			next[key[0]]++
		}
		g.answer <- applied
	}
	for range 3 {
		unrefused(t, <-done)
	}
	// More than fits in one request is sent one request after another, as without gathering.
	go func() { done <- c.Propose(t.Context(), many("d", 1500)...) }()
	for _, want := range []int{1000, 500} {
		if ps := <-g.arrived; len(ps) != want {
			t.Errorf("%d commands, want %d", len(ps), want)
		}
		g.answer <- applied
	}
	<-done
}

// TestCloseEndsGatheredCalls: those under way with an unknown outcome, those that wait without having been sent.
func TestCloseEndsGatheredCalls(t *testing.T) {
	t.Parallel()
	g := newGate()
	_, addr := serve(t, g)
	c := open(t, client.Options{Endpoints: []string{addr}, Gather: 1})
	first := calls(t.Context(), c, 1)
	<-g.arrived
	waiting := calls(t.Context(), c, 3)
	await(t, c, 3)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if a := first()[0]; !errors.Is(a.Err, meta.ErrOutcomeUnknown) {
		t.Errorf("under way: %v", a.Err)
	}
	for _, a := range append(waiting(), c.Propose(t.Context(), put("late"))...) {
		if !errors.Is(a.Err, meta.ErrClosed) || errors.Is(a.Err, meta.ErrOutcomeUnknown) {
			t.Errorf("waiting, or late: %v", a.Err)
		}
	}
	if _, err := client.Open(t.Context(), client.Options{Endpoints: []string{addr}, Gather: -1}); err == nil {
		t.Error("Gather -1 was taken")
	}
}

// TestGatheredCommandsAreExact: many goroutines prepare objects, some give up at any moment. Every id is handed out once,
// and no more ids than there were commands that may have taken effect.
func TestGatheredCommandsAreExact(t *testing.T) {
	t.Parallel()
	store := openStore(t, newLog(t))
	_, addr := serve(t, store)
	c := open(t, client.Options{Endpoints: []string{addr}, Gather: 2})
	me, err := meta.Propose(t.Context(), c, meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	id := meta.Identity{NodeID: 1, NodeEpoch: me.Epoch}
	var unknown atomic.Uint64
	var ids sync.Map
	var acknowledged atomic.Uint64
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for i := range 25 {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if (g+i)%4 == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(g*i)*10*time.Microsecond)
				}
				r, err := meta.Propose(ctx, c, meta.PrepareObjects{Identity: id, Count: 1, Deadline: 1 << 40})
				cancel()
				switch {
				case errors.Is(err, meta.ErrOutcomeUnknown):
					unknown.Add(1)
				case errors.Is(err, meta.ErrNotApplied):
				case err != nil:
					t.Error(err)
				default:
					acknowledged.Add(1)
					if _, twice := ids.LoadOrStore(r.FirstObjectID, true); twice {
						t.Errorf("object %d was handed out twice", r.FirstObjectID)
					}
				}
			}
		})
	}
	wg.Wait()
	if _, _, err := c.Reading(client.Read{Linearizable: true}).Counts(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, err := store.Linearize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := v.State.Counts().PreparedObjects
	if got < acknowledged.Load() || got > acknowledged.Load()+unknown.Load() {
		t.Errorf("%d objects; %d were acknowledged, %d have an unknown outcome", got, acknowledged.Load(), unknown.Load())
	}
}
