package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/session"
)

// cluster is a log with one node: the judge of what the session hands out.
type cluster struct {
	t     *testing.T
	state *meta.State
	index uint64
}

func newCluster(t *testing.T) *cluster { return &cluster{t: t, state: meta.NewState()} }

func (c *cluster) apply(proposals ...meta.Proposal) []meta.Answer {
	c.t.Helper()
	commands := make([][]byte, len(proposals))
	for i, p := range proposals {
		b, err := meta.AppendProposal(nil, p)
		if err != nil {
			c.t.Fatalf("encode %+v: %v", p, err)
		}
		commands[i] = b
	}
	c.index++
	s, answers, err := c.state.Apply(c.index, commands)
	if err != nil {
		c.t.Fatalf("apply row %d: %v", c.index, err)
	}
	c.state = s
	return answers
}

// Propose makes the cluster a Proposer.
func (c *cluster) Propose(_ context.Context, proposals ...meta.Proposal) []meta.Answer {
	return c.apply(proposals...)
}

func put(n int) meta.Command {
	return meta.PutKey{Key: "k", Value: fmt.Appendf(nil, "%d", n)}
}

func TestFirstRequests(t *testing.T) {
	t.Parallel()
	s := session.New()
	a, b := s.Next(), s.Next()
	if a.Client != b.Client || a.Client == ([16]byte{}) {
		t.Errorf("clients %x and %x: want the same, and not zero", a.Client, b.Client)
	}
	if a.Sequence != 1 || a.Oldest != 1 || b.Sequence != 2 || b.Oldest != 1 {
		t.Errorf("got %+v and %+v", a, b)
	}
	s.Done(a, meta.Answer{Status: meta.Applied, Index: 7})
	if r := s.Next(); r.Sequence != 3 || r.Oldest != 2 {
		t.Errorf("after the first answer: %+v, want sequence 3, oldest 2", r)
	}
	if other := session.New().Next(); other.Client == a.Client {
		t.Error("two sessions share a client id")
	}
}

func TestOldestStaysUntilTheClusterSawTheClient(t *testing.T) {
	t.Parallel()
	s, c := session.New(), newCluster(t)
	for range 100 { // given up before anything was appended
		s.Done(s.Next(), meta.Answer{Err: meta.ErrNotApplied})
	}
	r := s.Next()
	if r.Oldest != 1 {
		t.Fatalf("oldest %d before the cluster saw the client: it would be refused", r.Oldest)
	}
	a := c.apply(meta.Proposal{Request: &r, Command: put(1)})[0]
	if a.Status != meta.Applied {
		t.Fatalf("first command that reached the log: %+v", a)
	}
	s.Done(r, a)
	if r := s.Next(); r.Oldest != 102 || r.Sequence != 102 {
		t.Errorf("afterwards: %+v, want sequence and oldest 102", r)
	}
}

func TestUnseenWindowIsLeft(t *testing.T) {
	t.Parallel()
	s := session.New()
	first := s.Next().Client
	clients := map[[16]byte]bool{first: true}
	for range 1000 {
		r := s.Next()
		if r.Sequence > meta.RequestWindow {
			t.Fatalf("%+v: sequence beyond the window of an unseen client", r)
		}
		clients[r.Client] = true
		s.Done(r, meta.Answer{Err: meta.ErrNotApplied})
	}
	if len(clients) != 4 { // 1001 numbers
		t.Errorf("%d clients for 1001 numbers, want 4", len(clients))
	}
}

func TestFullWindowDrawsAnotherClient(t *testing.T) {
	t.Parallel()
	s, c := session.New(), newCluster(t)
	var out []meta.Request
	perClient := map[[16]byte]int{}
	for range 1000 {
		r := s.Next()
		perClient[r.Client]++
		out = append(out, r)
	}
	if len(perClient) != 4 {
		t.Fatalf("%d clients for 1000 commands at once, want 4", len(perClient))
	}
	for i, r := range out {
		a := c.apply(meta.Proposal{Request: &r, Command: put(i)})[0]
		if a.Err != nil {
			t.Fatalf("command %d with %+v: %v", i, r, a.Err)
		}
		s.Done(r, a)
	}
	if r := s.Next(); r.Client != out[0].Client {
		t.Error("after the answers: the first client has room again and is not used")
	}
}

func TestExpiredDrawsAnotherClient(t *testing.T) {
	t.Parallel()
	s, c := session.New(), newCluster(t)
	r := s.Next()
	s.Done(r, c.apply(meta.Proposal{Request: &r, Command: put(1)})[0])
	forgetful := newCluster(t) // the client was forgotten
	r2, waiting := s.Next(), s.Next()
	a := forgetful.apply(meta.Proposal{Request: &r2, Command: put(2)})[0]
	if meta.CodeOf(a.Err) != meta.CodeRequestExpired {
		t.Fatalf("answer %+v: want REQUEST_EXPIRED", a)
	}
	s.Done(r2, a)
	r3 := s.Next()
	if r3.Client == r.Client || r3.Sequence != 1 || r3.Oldest != 1 {
		t.Fatalf("after REQUEST_EXPIRED: %+v, want a new client", r3)
	}
	if a := forgetful.apply(meta.Proposal{Request: &r3, Command: put(3)})[0]; a.Err != nil {
		t.Errorf("with the new client: %v", a.Err)
	}
	s.Done(waiting, meta.Answer{Err: meta.ErrOutcomeUnknown}) // ends in peace
	if r := s.Next(); r.Client != r3.Client {
		t.Errorf("%+v: the forgotten client is used again", r)
	}
}

func TestDoneTwiceAndUnknown(t *testing.T) {
	t.Parallel()
	s := session.New()
	a, b := s.Next(), s.Next()
	for range 3 {
		s.Done(a, meta.Answer{Index: 1, Status: meta.Applied})
		s.Done(meta.Request{Client: [16]byte{9}, Sequence: 1}, meta.Answer{Index: 1})
		s.Done(meta.Request{Client: a.Client, Sequence: 99}, meta.Answer{Index: 1})
	}
	if r := s.Next(); r.Oldest != b.Sequence || r.Sequence != 3 {
		t.Errorf("got %+v, want sequence 3, oldest %d", r, b.Sequence)
	}
}

// TestRandom runs commands of one session through a cluster that sees them in any order that causality allows, several
// times, late or never, with answers lost on the way: each has one effect, and none is refused for its numbers.
func TestRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	for round := range 20 {
		run(t, seed+uint64(round))
	}
}

type pending struct {
	n       int
	request meta.Request
	applied *meta.Answer // the first answer out of the log
}

func run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	s, c := session.New(), newCluster(t)
	limit := 1 + rng.IntN(600)
	var out, late []*pending // sent and waited for; given up, and still on the way
	for step := range 3000 {
		switch k := rng.IntN(10); {
		case k < 4 && len(out) < limit:
			out = append(out, &pending{n: step, request: s.Next()})
		case k == 9 && len(late) > 0: // a copy that was given up arrives: nothing is expected but that it does no harm
			i := rng.IntN(len(late))
			c.apply(meta.Proposal{Request: &late[i].request, Command: put(late[i].n)})
			late = append(late[:i], late[i+1:]...)
		case len(out) > 0:
			i := rng.IntN(len(out))
			p := out[i]
			if rng.IntN(20) == 0 {
				s.Done(p.request, meta.Answer{Err: meta.ErrOutcomeUnknown})
				out = append(out[:i], out[i+1:]...)
				late = append(late, p)
				continue
			}
			a := c.apply(meta.Proposal{Request: &p.request, Command: put(p.n)})[0]
			if err := judge(p, a); err != nil {
				t.Fatalf("seed %d, step %d, request %+v: %v", seed, step, p.request, err)
			}
			if p.applied == nil {
				p.applied = &a
			}
			if rng.IntN(3) > 0 { // the answer arrives; otherwise the command is sent again
				s.Done(p.request, a)
				out = append(out[:i], out[i+1:]...)
			}
		}
	}
}

// judge compares an answer with the first one that the command was given.
func judge(p *pending, a meta.Answer) error {
	switch {
	case a.Err != nil:
		return a.Err
	case p.applied == nil && a.Status != meta.Applied:
		return fmt.Errorf("first copy: status %d", a.Status)
	case p.applied != nil && (a.Status != meta.Redundant || a.FirstIndex != p.applied.Index || a.Result != p.applied.Result):
		return fmt.Errorf("another copy: %+v, first %+v", a, *p.applied)
	}
	return nil
}

func TestNumbered(t *testing.T) {
	t.Parallel()
	me := meta.Identity{NodeID: 1, NodeEpoch: 1}
	for name, tt := range map[string]struct {
		p    meta.Proposal
		want bool
	}{
		"command":             {meta.Proposal{Command: put(1)}, true},
		"request required":    {meta.Proposal{Command: meta.PrepareObjects{Identity: me, Count: 1, Deadline: 1}}, true},
		"atomic":              {meta.Proposal{Command: meta.Atomic{Commands: []meta.Command{put(1)}}}, true},
		"renewal":             {meta.Proposal{Command: meta.RenewNode{Identity: me}}, false},
		"beyond the limits":   {meta.Proposal{Command: meta.PutKey{}}, false},
		"has one":             {meta.Proposal{Command: put(1), Request: &meta.Request{Client: [16]byte{1}, Sequence: 1}}, false},
		"none":                {meta.Proposal{}, false},
		"inner beyond limits": {meta.Proposal{Command: meta.Atomic{Commands: []meta.Command{meta.PutKey{}}}}, false},
	} {
		if got := session.Numbered(tt.p); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	s, c := session.New(), newCluster(t)
	p := s.Wrap(c)
	in := []meta.Proposal{{Command: put(1)}, {Command: put(2)}}
	answers := p.Propose(t.Context(), in...)
	if len(answers) != 2 || answers[0].Err != nil || answers[1].Err != nil {
		t.Fatalf("answers %+v", answers)
	}
	if in[0].Request != nil {
		t.Error("the caller's proposal was changed")
	}
	if got := s.Next(); got.Sequence != 3 || got.Oldest != 3 {
		t.Errorf("next request %+v: both commands should have been numbered and be done", got)
	}
	unknown := proposer(func(...meta.Proposal) []meta.Answer { return nil })
	if got := s.Wrap(unknown).Propose(t.Context(), meta.Proposal{Command: put(3)}); got != nil {
		t.Errorf("answers %+v of a Proposer that gives none", got)
	}
}

type proposer func(...meta.Proposal) []meta.Answer

func (f proposer) Propose(_ context.Context, p ...meta.Proposal) []meta.Answer { return f(p...) }

func TestManyGoroutines(t *testing.T) {
	t.Parallel()
	s := session.New()
	var mu sync.Mutex
	out := map[meta.Request]bool{}
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for g := range errs {
		wg.Go(func() {
			for range 500 {
				r := s.Next()
				key := meta.Request{Client: r.Client, Sequence: r.Sequence}
				mu.Lock()
				if out[key] {
					errs[g] = fmt.Errorf("%+v was handed out twice", r)
				}
				out[key] = true
				mu.Unlock()
				s.Done(r, meta.Answer{Index: 1, Status: meta.Applied})
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
