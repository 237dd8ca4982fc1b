package bench_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/headwaterdb/headwater/internal/bench"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/session"
)

// cluster is a log of one node, as small as it can be: a row for each call of Propose.
type cluster struct {
	mu    sync.Mutex
	state *meta.State
	index uint64
	lose  func(n uint64) bool // whether the answers of a row are lost; nil: never
	seen  map[string]int      // reads by how fresh they were asked for
}

func newCluster() *cluster { return &cluster{state: meta.NewState(), seen: map[string]int{}} }

// target numbers commands, as programs do.
func (c *cluster) target() bench.Target {
	return struct {
		meta.Proposer
		reads
	}{session.New().Wrap(proposer(c.propose)), reads{c}}
}

type proposer func(...meta.Proposal) []meta.Answer

func (f proposer) Propose(_ context.Context, p ...meta.Proposal) []meta.Answer { return f(p...) }

func (c *cluster) propose(proposals ...meta.Proposal) []meta.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers := make([]meta.Answer, 0, len(proposals))
	for len(proposals) > 0 {
		row := proposals[:min(len(proposals), 256)]
		proposals = proposals[len(row):]
		commands := make([][]byte, len(row))
		for i, p := range row {
			b, err := meta.AppendProposal(nil, p)
			if err != nil {
				panic(err)
			}
			commands[i] = b
		}
		c.index++
		next, a, err := c.state.Apply(c.index, commands)
		if err != nil {
			panic(err)
		}
		c.state = next
		if c.lose != nil && c.lose(c.index) {
			for i := range a {
				a[i] = meta.Answer{Err: meta.ErrOutcomeUnknown}
			}
		}
		answers = append(answers, a...)
	}
	return answers
}

func (c *cluster) at(f bench.Fresh) *meta.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case f.Linearizable:
		c.seen["linearizable"]++
	case f.AtLeast > 0:
		c.seen["at-least"]++
	default:
		c.seen["local"]++
	}
	return c.state
}

// reads are the queries of a bench.Target.
type reads struct{ c *cluster }

func (r reads) Counts(context.Context) (meta.Counts, error) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.c.state.Counts(), nil
}

func (r reads) Stream(_ context.Context, f bench.Fresh, id uint64) (meta.Stream, error) {
	s, ok := r.c.at(f).Stream(id)
	if !ok {
		return s, fmt.Errorf("no stream %d", id)
	}
	return s, nil
}

func (r reads) Find(_ context.Context, f bench.Fresh, stream, start uint64, limit int) (meta.Found, error) {
	found, err := r.c.at(f).FindObjects(stream, start, 0, limit)
	if err == nil && len(found.Slices) == 0 && found.StreamEndOffset > start {
		err = errors.New("nothing found")
	}
	return found, err
}

func (r reads) Key(_ context.Context, f bench.Fresh, key string) (meta.Key, error) {
	k, ok := r.c.at(f).Key(key)
	if !ok {
		return k, fmt.Errorf("no key %s", key)
	}
	return k, nil
}

func (r reads) Deletable(_ context.Context, limit int) (ids []uint64, err error) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	p, err := r.c.state.Objects(meta.ObjectFilter{State: meta.ObjectDeletable}, "", limit)
	for _, o := range p.Items {
		ids = append(ids, o.ID)
	}
	return ids, err
}

func (r reads) Wait(_ context.Context, index uint64) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.index < index {
		return fmt.Errorf("index %d is not there", index)
	}
	return nil
}

// work prepares and runs.
func work(t *testing.T, c *cluster, w bench.Work, callers int, count int64) *bench.Result {
	t.Helper()
	p, err := bench.Prepare(t.Context(), []bench.Target{c.target(), c.target()}, w, callers, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := bench.Run(t.Context(), bench.Load{Count: count}, bench.Operations, p.Callers, bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func count(r *bench.Result, op string) int64 {
	for _, s := range r.Operations {
		if s.Op == op {
			return s.Count
		}
	}
	return 0
}

// TestEveryKind: each kind of work does the operations it promises, and the cluster refuses none of them.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	ops := map[string][]string{
		"puts": {"put"}, "gets": {"get"}, "visible": {"visible"}, "finds": {"find"}, "commits": {"prepare", "commit"},
		"opens": {"close", "open"}, "transfers": {"transfer", "open", "close"},
		"store": {"commit", "find", "stream", "open", "close", "transfer", "trim", "reclaim", "forget"},
	}
	names, _ := bench.Kinds()
	if len(names) != len(ops) {
		t.Fatalf("kinds %v", names)
	}
	for _, kind := range names {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			const n = 2_000
			r := work(t, c, bench.Work{Kind: kind, Streams: 5, Keys: 50, Seed: 1}, 3, n)
			if len(r.Errors) > 0 || r.All.Count != n {
				t.Fatalf("%d operations, errors %+v", r.All.Count, r.Errors)
			}
			var seen int64
			for _, op := range ops[kind] {
				if count(r, op) == 0 {
					t.Errorf("no operation %s in %+v", op, r.Operations)
				}
				seen += count(r, op)
			}
			if kind == "store" {
				seen += count(r, "prepare")
				if left := c.state.Counts(); left.CommittedObjects > uint64(count(r, "commit"))/2 {
					t.Errorf("of %d objects %d are still committed: trims and reclaims keep too much", count(r, "commit"), left.CommittedObjects)
				}
			}
			if seen != n {
				t.Errorf("other operations than %v: %+v", ops[kind], r.Operations)
			}
		})
	}
}

func TestPrepareMakesWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	c := newCluster()
	var last [2]int
	w := bench.Work{Kind: "finds", Streams: 1234, Objects: 321, Slices: 7}
	p, err := bench.Prepare(t.Context(), []bench.Target{c.target()}, w, 5, func(done, total int) { last = [2]int{done, total} })
	if err != nil {
		t.Fatal(err)
	}
	got := c.state.Counts()
	if got.Streams != 1234 || got.OpenStreams != 1234 || got.CommittedObjects != 321 || got.Slices != 321*7 || got.Nodes != 2 || len(p.Callers) != 5 {
		t.Errorf("%+v, %d callers", got, len(p.Callers))
	}
	if want := 2*1234 + 321; last != [2]int{want, want} {
		t.Errorf("progress ended at %v, want %d of as many", last, want)
	}
}

func TestNotEmptyIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster()
	work(t, c, bench.Work{Kind: "puts"}, 1, 10)
	before := c.index
	_, err := bench.Prepare(t.Context(), []bench.Target{c.target()}, bench.Work{Kind: "puts"}, 1, nil)
	if !errors.Is(err, bench.ErrNotEmpty) || c.index != before {
		t.Errorf("error %v, %d rows more: want ErrNotEmpty, and nothing done", err, c.index-before)
	}
	for _, kind := range []string{"puts", "store"} { // again and again, on what the last one left
		if r := work(t, c, bench.Work{Kind: kind, Force: true}, 2, 500); len(r.Errors) > 0 {
			t.Errorf("forced: %+v", r.Errors)
		}
	}
}

func TestReadsAreAsFreshAsAskedFor(t *testing.T) {
	t.Parallel()
	for _, fresh := range bench.Freshnesses {
		for _, kind := range []string{"gets", "finds"} {
			c := newCluster()
			work(t, c, bench.Work{Kind: kind, Reads: fresh, Streams: 5}, 1, 100)
			want := fresh
			if kind == "gets" && fresh == "at-least" {
				want = "local" // the caller has been answered nothing
			}
			if c.seen[want] != 100 {
				t.Errorf("%s, %s: %v", kind, fresh, c.seen)
			}
		}
	}
}

// TestLostAnswersAreComeBackFrom: a caller whose answers are lost looks how its streams stand, and is refused nothing.
func TestLostAnswersAreComeBackFrom(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"commits", "opens", "transfers", "store"} {
		c := newCluster()
		p, err := bench.Prepare(t.Context(), []bench.Target{c.target()}, bench.Work{Kind: kind, Streams: 4, Seed: 7}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.lose = func(n uint64) bool { return n%17 == 0 }
		lost := 0
		for range 800 {
			switch s := p.Callers[0](t.Context()); {
			case errors.Is(s.Err, meta.ErrOutcomeUnknown):
				lost++
			case s.Err != nil:
				t.Fatalf("%s: %s: %v", kind, bench.Operations[s.Op], s.Err)
			}
		}
		if lost == 0 {
			t.Errorf("%s: no answer was lost", kind)
		}
	}
}

func TestBadWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		w                bench.Work
		callers, targets int
		says             string
	}{
		{bench.Work{Kind: "sleep"}, 1, 1, "puts"},
		{bench.Work{Kind: "puts"}, 0, 1, "callers"},
		{bench.Work{Kind: "visible"}, 1, 1, "at least 2 nodes, or as many servers"},
		{bench.Work{Kind: "puts", ValueBytes: 7}, 1, 1, "8"},
		{bench.Work{Kind: "puts", ValueBytes: 256<<10 + 1}, 1, 1, "256 KiB"},
		{bench.Work{Kind: "puts", Keys: -1}, 1, 1, "keys"},
		{bench.Work{Kind: "store", Streams: 3}, 4, 1, "a stream of its own"},
		{bench.Work{Kind: "store", Streams: 1 << 30}, 4, 1, "10,000,000"},
		{bench.Work{Kind: "store", Slices: 1001}, 1, 1, "1000"},
		{bench.Work{Kind: "store", Objects: -1}, 1, 1, "negative"},
		{bench.Work{Kind: "gets", Reads: "stale"}, 1, 1, "linearizable"},
	} {
		err := tt.w.WithDefaults(tt.callers).Validate(tt.callers, tt.targets)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v, %d callers, %d targets: %v, should speak of %q", tt.w, tt.callers, tt.targets, err, tt.says)
		}
	}
}
