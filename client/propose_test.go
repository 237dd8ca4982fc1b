package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/meta"
)

// script is a store that answers the calls of Propose one after another.
type script struct {
	stub
	mu    sync.Mutex // guards the fields below
	calls [][]meta.Proposal
	steps []func(ps []meta.Proposal) []meta.Answer
}

func newScript(steps ...func([]meta.Proposal) []meta.Answer) *script {
	s := &script{steps: steps}
	s.stub.propose = func(_ context.Context, ps ...meta.Proposal) []meta.Answer {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := len(s.calls)
		s.calls = append(s.calls, ps)
		if n < len(s.steps) {
			return s.steps[n](ps)
		}
		return appliedAt(uint64(n+1), len(ps))
	}
	return s
}

func (s *script) requests(call int) (all []meta.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call >= len(s.calls) {
		return nil
	}
	for _, p := range s.calls[call] {
		if p.Request == nil {
			all = append(all, meta.Request{})
		} else {
			all = append(all, *p.Request)
		}
	}
	return all
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func all(err error) func(ps []meta.Proposal) []meta.Answer {
	return func(ps []meta.Proposal) []meta.Answer {
		out := make([]meta.Answer, len(ps))
		for i := range out {
			out[i].Err = err
			if meta.CodeOf(err) != 0 {
				out[i].Status, out[i].Index = meta.Rejected, 9
			}
		}
		return out
	}
}

func TestEveryCommandIsNumbered(t *testing.T) {
	t.Parallel()
	s := newScript()
	_, addr := serve(t, s)
	c := open(t, client.Options{Endpoints: []string{"http://" + addr + "/"}})
	own := &meta.Request{Client: [16]byte{7}, Sequence: 5, Oldest: 2}
	answers := c.Propose(t.Context(), put("a"), meta.Proposal{Command: meta.RenewNode{Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}}},
		put(""), put("b"), meta.Proposal{Command: meta.DeleteKey{Key: "c"}, Request: own}, meta.Proposal{})
	if len(answers) != 6 {
		t.Fatalf("%d answers", len(answers))
	}
	for i, a := range answers {
		code := meta.CodeOf(a.Err)
		if invalid := i == 2 || i == 5; invalid != (code == meta.CodeInvalidArgument) || invalid != (a.Status == meta.Rejected) {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
	r := s.requests(0)
	if len(r) != 4 || r[0].Sequence != 1 || r[0].Oldest != 1 || r[1] != (meta.Request{}) || r[2].Client != r[0].Client ||
		r[2].Sequence != 2 || r[3] != *own {
		t.Errorf("requests %+v", r)
	}
	if got := answers[3]; got.Position != 2 || got.Result != (meta.PutKeyResult{Version: 258}) {
		t.Errorf("answers have lost their places: %+v", answers)
	}
	if _, err := meta.Propose(t.Context(), c, meta.PutKey{Key: "d", Value: []byte("x")}); err != nil {
		t.Error(err)
	}
	if r := s.requests(1); r[0].Sequence != 3 || r[0].Oldest != 3 {
		t.Errorf("request %+v after all answers came", r)
	}
}

func TestRetriesKeepTheirRequest(t *testing.T) {
	t.Parallel()
	for _, err := range []error{meta.ErrOutcomeUnknown, meta.ErrNotApplied, meta.ErrOverloaded, meta.ErrUnavailable, meta.ErrClosed} {
		s := newScript(all(fmt.Errorf("try: %w", err)), func(ps []meta.Proposal) []meta.Answer {
			out := all(err)(ps)
			out[1] = appliedAt(4, 2)[1]
			return out
		})
		_, addr := serve(t, s)
		c := open(t, client.Options{Endpoints: []string{addr}})
		for i, a := range c.Propose(t.Context(), put("a"), put("b"), put("c")) {
			if a.Err != nil {
				t.Errorf("%v, command %d: %v", err, i, a.Err)
			}
		}
		first := s.requests(0)
		if !slices.Equal(s.requests(1), first) {
			t.Errorf("%v: second try %+v, first %+v", err, s.requests(1), first)
		}
		if got := s.requests(2); len(got) != 2 || got[0] != first[0] || got[1] != first[2] {
			t.Errorf("%v: third try %+v, want what has no answer yet of %+v", err, got, first)
		}
	}
}

func TestRejectedIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	s := newScript(all(&meta.Error{Code: meta.CodeKeyExists, Message: "no", Inner: -1, Current: &meta.Key{Key: "a", Version: 3}}))
	_, addr := serve(t, s)
	c := open(t, client.Options{Endpoints: []string{addr}})
	_, err := meta.Propose(t.Context(), c, meta.PutKey{Key: "a", IfAbsent: true})
	var e *meta.Error
	if !errors.As(err, &e) || e.Code != meta.CodeKeyExists || e.Current == nil || e.Current.Version != 3 || s.count() != 1 {
		t.Errorf("error %v after %d calls", err, s.count())
	}
}

var expired = &meta.Error{Code: meta.CodeRequestExpired, Message: "unknown client", Inner: -1}

func TestForgottenClientTakesAnotherNumber(t *testing.T) {
	t.Parallel()
	s := newScript(func(ps []meta.Proposal) []meta.Answer { return appliedAt(1, len(ps)) }, all(expired))
	_, addr := serve(t, s)
	c := open(t, client.Options{Endpoints: []string{addr}})
	for range 2 {
		if a := c.Propose(t.Context(), put("a"))[0]; a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	before, again := s.requests(1)[0], s.requests(2)[0]
	if again.Client == before.Client || again.Sequence != 1 || again.Oldest != 1 {
		t.Errorf("after REQUEST_EXPIRED of the only copy: %+v, before %+v", again, before)
	}
}

func TestExpiredRepeatIsUnknown(t *testing.T) {
	t.Parallel()
	s := newScript(all(meta.ErrOutcomeUnknown), all(expired), func(ps []meta.Proposal) []meta.Answer { return appliedAt(3, len(ps)) },
		all(expired), all(expired))
	_, addr := serve(t, s)
	c := open(t, client.Options{Endpoints: []string{addr}})
	check := func(what string, a meta.Answer, calls int) {
		t.Helper()
		if !errors.Is(a.Err, meta.ErrOutcomeUnknown) || meta.CodeOf(a.Err) != meta.CodeRequestExpired || a.Status != 0 || s.count() != calls {
			t.Errorf("%s: %+v after %d calls", what, a, s.count())
		}
		var unknown *meta.UnknownError
		if last := s.requests(calls - 1)[0]; !errors.As(a.Err, &unknown) || unknown.Request != last {
			t.Errorf("%s: %v does not name request %v", what, a.Err, last)
		}
	}
	check("a repeat", c.Propose(t.Context(), put("a"))[0], 2)
	if a := c.Propose(t.Context(), put("b"))[0]; a.Err != nil || s.requests(2)[0].Client == s.requests(0)[0].Client {
		t.Errorf("afterwards: %v; the forgotten client goes on", a.Err)
	}
	check("a second number", c.Propose(t.Context(), put("c"))[0], 5)
	p := put("d")
	p.Request = &meta.Request{Client: [16]byte{1}, Sequence: 3, Oldest: 3}
	s.steps = append(s.steps, all(expired))
	check("the caller's own request", c.Propose(t.Context(), p)[0], 6)
}

func TestHaltedEverywhereIsSaid(t *testing.T) {
	t.Parallel()
	halted := fmt.Errorf("row 9: bad checksum: %w", meta.ErrHalted)
	a, b := newScript(all(halted)), newScript(all(halted))
	_, addrA := serve(t, a)
	_, addrB := serve(t, b)
	c := open(t, client.Options{Endpoints: []string{addrA, addrB}})
	got := c.Propose(t.Context(), put("a"))[0]
	if !errors.Is(got.Err, meta.ErrHalted) || errors.Is(got.Err, meta.ErrOutcomeUnknown) || a.count() != 1 || b.count() != 1 {
		t.Errorf("error %v after %d and %d calls", got.Err, a.count(), b.count())
	}
	// One that works is found.
	b.steps = nil
	if got := c.Propose(t.Context(), put("a"))[0]; got.Err != nil {
		t.Error(got.Err)
	}
}

func TestGivingUpWhatMayHaveHappened(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func([]meta.Proposal) []meta.Answer{
		"unknown":    all(meta.ErrOutcomeUnknown),
		"no answers": func([]meta.Proposal) []meta.Answer { return nil },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s := newScript(step, func(ps []meta.Proposal) []meta.Answer {
			cancel() // under way
			return all(meta.ErrNotApplied)(ps)
		}, all(meta.ErrNotApplied), all(meta.ErrNotApplied))
		_, addr := serve(t, s)
		c := open(t, client.Options{Endpoints: []string{addr}})
		a := c.Propose(ctx, put("a"))[0]
		if !errors.Is(a.Err, meta.ErrOutcomeUnknown) || errors.Is(a.Err, meta.ErrNotApplied) || !errors.Is(a.Err, context.Canceled) {
			t.Errorf("%s: %v", name, a.Err)
		}
	}
}

func TestCutOffByTheDeadline(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{}, 8)
	s := &stub{propose: func(ctx context.Context, _ ...meta.Proposal) []meta.Answer {
		entered <- struct{}{}
		<-ctx.Done()
		return []meta.Answer{{Err: meta.ErrOutcomeUnknown}}
	}}
	_, addr := serve(t, s)
	c := open(t, client.Options{Endpoints: []string{addr}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if a := c.Propose(ctx, put("a"))[0]; !errors.Is(a.Err, meta.ErrOutcomeUnknown) || !errors.Is(a.Err, context.Canceled) {
		t.Errorf("cancelled: %v", a.Err)
	}
	go func() { <-entered; _ = c.Close() }()
	if a := c.Propose(t.Context(), put("a"))[0]; !errors.Is(a.Err, meta.ErrOutcomeUnknown) || errors.Is(a.Err, meta.ErrClosed) {
		t.Errorf("closed under way: %v", a.Err)
	}
	if a := c.Propose(t.Context(), put("a"))[0]; !errors.Is(a.Err, meta.ErrClosed) || errors.Is(a.Err, meta.ErrOutcomeUnknown) {
		t.Errorf("closed before: %v", a.Err)
	}
	if _, _, err := c.Counts(t.Context()); !errors.Is(err, meta.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
}

func TestNothingWasSent(t *testing.T) {
	t.Parallel()
	srv, addr := serve(t, &stub{})
	c := open(t, client.Options{Endpoints: []string{addr}, Timeout: 100 * time.Millisecond})
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	for range 5 { // the first may still find the old connection
		a := c.Propose(t.Context(), put("a"))[0]
		if errors.Is(a.Err, meta.ErrNotApplied) && !errors.Is(a.Err, meta.ErrOutcomeUnknown) && errors.Is(a.Err, context.DeadlineExceeded) {
			return
		}
		t.Logf("nobody listens: %v", a.Err)
	}
	t.Error("nobody listens, and the outcome is not told as not applied")
}

// TestOneTryIsBounded: a server that does not answer is left for the next one after AttemptTimeout, whatever was asked.
func TestOneTryIsBounded(t *testing.T) {
	t.Parallel()
	_, a := serve(t, &stub{propose: unanswered})
	_, b := serve(t, &stub{index: 9})
	for name, ask := range map[string]func(*client.Client) error{
		"propose": func(c *client.Client) error { return c.Propose(t.Context(), put("a"))[0].Err },
		"read": func(c *client.Client) error {
			_, _, err := c.Reading(client.Read{AtLeast: 9}).Counts(t.Context())
			return err
		},
	} {
		c := open(t, client.Options{Endpoints: []string{a, b}, AttemptTimeout: 20 * time.Millisecond})
		if err := ask(c); err != nil {
			t.Errorf("%s: the second server was not asked: %v", name, err)
		}
	}
}

// TestCallsAreBounded: a call whose context has no deadline ends after Timeout, however long a try may take.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, &stub{propose: unanswered})
	for _, attempt := range []time.Duration{5 * time.Millisecond, time.Hour} {
		c := open(t, client.Options{Endpoints: []string{addr}, Timeout: 50 * time.Millisecond, AttemptTimeout: attempt})
		if a := c.Propose(t.Context(), put("a"))[0]; !errors.Is(a.Err, meta.ErrOutcomeUnknown) || !errors.Is(a.Err, context.DeadlineExceeded) {
			t.Errorf("propose with tries of %v: %v", attempt, a.Err)
		}
		if _, _, err := c.Reading(client.Read{AtLeast: 9}).Counts(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("read with tries of %v: %v", attempt, err)
		}
	}
}

// unanswered answers when the server gives up.
func unanswered(ctx context.Context, _ ...meta.Proposal) []meta.Answer {
	<-ctx.Done()
	return []meta.Answer{{Err: meta.ErrOutcomeUnknown}}
}

func TestLargeBatches(t *testing.T) {
	t.Parallel()
	s := newScript()
	_, addr := serve(t, s)
	c := open(t, client.Options{Endpoints: []string{addr}})
	ps := make([]meta.Proposal, 2500)
	for i := range ps {
		ps[i] = put(fmt.Sprint(i))
	}
	for i, a := range c.Propose(t.Context(), ps...) {
		if a.Err != nil || int(a.Index) != 1+i/1000 || a.Position != i%1000 {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
	big := make([]meta.Proposal, 40)
	for i := range big {
		big[i] = meta.Proposal{Command: meta.PutKey{Key: fmt.Sprint(i), Value: make([]byte, meta.MaxValueBytes)}}
	}
	for i, a := range c.Propose(t.Context(), big...) {
		if a.Err != nil {
			t.Fatalf("large command %d: %v", i, a.Err)
		}
	}
	if n := s.count(); n != 5 {
		t.Errorf("%d calls, want 3 for 2,500 commands and 2 for 10 MiB", n)
	}
	if got := c.Propose(t.Context()); len(got) != 0 || s.count() != 5 {
		t.Errorf("no proposals: %d answers, %d calls", len(got), s.count())
	}
}

func TestFailover(t *testing.T) {
	t.Parallel()
	log := newLog(t)
	srvA, a := serve(t, openStore(t, log))
	_, b := serve(t, openStore(t, log))
	c := open(t, client.Options{Endpoints: []string{a, b}})
	for i := range 50 {
		if i == 20 {
			if err := srvA.Close(); err != nil {
				t.Fatal(err)
			}
		}
		key := fmt.Sprint(i)
		if _, err := meta.Propose(t.Context(), c, meta.PutKey{Key: key, Value: []byte("x")}); err != nil {
			t.Fatalf("command %d: %v", i, err)
		}
		if _, _, err := c.Key(t.Context(), key); err != nil { // whichever server answers
			t.Fatalf("read after command %d: %v", i, err)
		}
	}
	if st, err := c.Status(t.Context()); err != nil || st.Endpoint != b || st.Condition != "ready" {
		t.Errorf("status %+v, %v; want that of %s", st, err, b)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	const dead = "127.0.0.1:1"
	_, alive := serve(t, &stub{})
	for name, tt := range map[string]struct {
		endpoints []string
		ok        bool
	}{
		"none":           {nil, false},
		"empty":          {[]string{""}, false},
		"no port":        {[]string{"localhost"}, false},
		"a path":         {[]string{"http://localhost:1/x"}, false},
		"encrypted":      {[]string{"https://localhost:1"}, false},
		"nobody":         {[]string{dead}, false},
		"nobody twice":   {[]string{dead, dead}, false},
		"one":            {[]string{alive}, true},
		"second":         {[]string{dead, alive}, true},
		"first":          {[]string{alive, dead}, true},
		"one is garbage": {[]string{alive, "x"}, false},
	} {
		c, err := client.Open(t.Context(), client.Options{Endpoints: tt.endpoints})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if a := c.Propose(t.Context(), put("a"))[0]; a.Err != nil {
				t.Errorf("%s: %v", name, a.Err)
			}
			if err := errors.Join(c.Close(), c.Close()); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
		}
	}
}

func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	var asked []uint64
	behind := &stub{index: 3, wait: func(_ context.Context, i uint64) (*headwater.View, error) {
		asked = append(asked, i)
		return &headwater.View{State: meta.NewState(), Index: 44}, nil
	}, propose: func(_ context.Context, ps ...meta.Proposal) []meta.Answer { return appliedAt(40, len(ps)) }}
	_, addr := serve(t, behind)
	c := open(t, client.Options{Endpoints: []string{addr}})
	if a := c.Propose(t.Context(), put("a"))[0]; a.Err != nil {
		t.Fatal(a.Err)
	}
	if _, at, err := c.Counts(t.Context()); err != nil || at.Index != 44 || at.Incarnation != incarnation {
		t.Errorf("read at %+v, %v", at, err)
	}
	if seen := c.Seen(); seen.Index != 44 {
		t.Errorf("seen %+v", seen)
	}
	if _, at, err := c.Reading(client.Read{Local: true}).Counts(t.Context()); err != nil || at.Index != 3 {
		t.Errorf("local read at %+v, %v", at, err)
	}
	if _, _, err := c.Reading(client.Read{AtLeast: 77}).Counts(t.Context()); err != nil {
		t.Error(err)
	}
	if want := []uint64{40, 77}; !slices.Equal(asked, want) {
		t.Errorf("waited for %v, want %v", asked, want)
	}
	lazy := open(t, client.Options{Endpoints: []string{addr}, LocalReads: true})
	lazy.Propose(t.Context(), put("a"))
	if _, at, err := lazy.Counts(t.Context()); err != nil || at.Index != 3 {
		t.Errorf("by option: %+v, %v", at, err)
	}
}

func TestAnotherIncarnationIsToldOnce(t *testing.T) {
	t.Parallel()
	srv, a := serve(t, &stub{index: 5})
	_, b := serve(t, &stub{index: 2, incarnation: "00000000000000bb"})
	c := open(t, client.Options{Endpoints: []string{a, b}})
	if _, _, err := c.Counts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Counts(t.Context()); !errors.Is(err, meta.ErrIncarnation) {
		t.Errorf("read of another history: %v", err)
	}
	if _, at, err := c.Counts(t.Context()); err != nil || at.Index != 2 || c.Seen().Incarnation != "00000000000000bb" {
		t.Errorf("afterwards: %+v, %v", at, err)
	}
}
