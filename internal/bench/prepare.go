package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/headwaterdb/headwater/meta"
)

// The nodes of the work are registered from this id on, away from those that people number by hand.
const firstNode = 0xbe0001

// perCall is how many commands the preparation proposes at once, and atOnce in how many calls.
const (
	perCall = 500
	atOnce  = 8
)

// Plan is work that is ready to be done: nodes are registered, streams open, objects committed.
type Plan struct {
	Callers []Caller // for Run, with Operations

	work    Work
	kind    kind
	targets []Target
	nodes   []meta.Identity
	keys    []string
	callers []*caller
}

// Prepare makes what the work needs, and callers that spread evenly over the targets. progress, which may be nil, is told
// how far it is. ErrNotEmpty where the cluster holds anything, unless the work is forced.
//
// What Prepare and the callers make stays in the cluster.
func Prepare(ctx context.Context, targets []Target, w Work, callers int, progress func(done, total int)) (*Plan, error) {
	w = w.WithDefaults(callers)
	if err := w.Validate(callers, len(targets)); err != nil {
		return nil, err
	}
	counts, err := targets[0].Counts(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the cluster: %w", err)
	}
	if !w.Force && !empty(counts) {
		return nil, fmt.Errorf("%w: it holds %d nodes, %d streams, %d objects and %d keys", ErrNotEmpty, counts.Nodes,
			counts.Streams, objects(counts), counts.Keys)
	}
	p := &Plan{work: w, targets: targets}
	p.kind, _ = kindOf(w.Kind)
	if err := p.register(ctx, max(2, len(targets))); err != nil {
		return nil, err
	}
	name := random(6) // so that the names are new in any cluster
	p.keys = make([]string, w.Keys)
	for i := range p.keys {
		p.keys[i] = fmt.Sprintf("bench/%x/%d", name, i)
	}
	for i := range callers {
		c := newCaller(p, i)
		p.callers = append(p.callers, c)
		p.Callers = append(p.Callers, p.kind.does(c))
	}
	steps := &steps{tell: progress}
	if w.Kind == "gets" {
		err = p.writeKeys(ctx, steps)
	}
	if p.kind.streams {
		err = p.makeStreams(ctx, fmt.Sprintf("bench/%x", name), steps)
	}
	if err == nil {
		err = p.fill(ctx, steps)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// steps counts what the preparation has done.
type steps struct {
	mu          sync.Mutex // guards the rest
	done, total int
	tell        func(done, total int)
}

func (s *steps) expect(n int) { s.add(0, n) }

func (s *steps) add(done, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.total = s.done+done, s.total+total
	if s.tell != nil {
		s.tell(s.done, s.total)
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// register makes the work's nodes known.
func (p *Plan) register(ctx context.Context, n int) error {
	for i := range uint64(n) {
		command := meta.RegisterNode{NodeID: firstNode + i, Instance: [16]byte(random(16)), Address: "bench"}
		r, err := meta.Propose(ctx, p.targets[0], command)
		if err != nil {
			return fmt.Errorf("register node %d: %w", command.NodeID, err)
		}
		p.nodes = append(p.nodes, meta.Identity{NodeID: command.NodeID, NodeEpoch: r.Epoch})
	}
	return nil
}

// chunks proposes n commands in chunks, several chunks at once, and hands each answer on. Each chunk goes to another target.
func (p *Plan) chunks(ctx context.Context, n int, s *steps, command func(i int) meta.Command, take func(i int, a meta.Answer)) error {
	s.expect(n)
	next := atomic.Int64{}
	ctx, fail := context.WithCancelCause(ctx) // the first failure ends all
	defer fail(nil)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for ctx.Err() == nil {
				at := int(next.Add(perCall)) - perCall
				if at >= n {
					return
				}
				batch := make([]meta.Proposal, min(perCall, n-at))
				for i := range batch {
					batch[i].Command = command(at + i)
				}
				for i, a := range p.targets[at/perCall%len(p.targets)].Propose(ctx, batch...) {
					if a.Err != nil {
						fail(fmt.Errorf("prepare: %w", a.Err))
						return
					}
					take(at+i, a)
				}
				s.add(len(batch), 0)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (p *Plan) writeKeys(ctx context.Context, s *steps) error {
	value := random(p.work.ValueBytes)
	return p.chunks(ctx, len(p.keys), s, func(i int) meta.Command { return meta.PutKey{Key: p.keys[i], Value: value} },
		func(int, meta.Answer) {})
}

// makeStreams creates the streams, shares them out, and opens them.
func (p *Plan) makeStreams(ctx context.Context, prefix string, s *steps) error {
	n := p.work.Streams
	s.expect(n) // the second half
	owned := make([]*ownStream, n)
	owner := func(i int) *caller { return p.callers[i%len(p.callers)] }
	err := p.chunks(ctx, n, s, func(i int) meta.Command {
		return meta.CreateStream{Identity: owner(i).me(), Name: fmt.Sprintf("%s/%d", prefix, i)}
	}, func(i int, a meta.Answer) {
		r, _ := a.Result.(meta.CreateStreamResult)
		owned[i] = &ownStream{id: r.StreamID, node: owner(i).node}
	})
	if err != nil {
		return err
	}
	s.add(0, -n)
	err = p.chunks(ctx, n, s, func(i int) meta.Command {
		return meta.OpenStream{Identity: owner(i).me(), StreamID: owned[i].id}
	}, func(i int, a meta.Answer) {
		r, _ := a.Result.(meta.OpenStreamResult)
		owned[i].epoch, owned[i].open = r.Epoch, true
	})
	for i, st := range owned {
		owner(i).streams = append(owner(i).streams, st)
	}
	return err
}

// fill commits the objects that the work wants to find there.
func (p *Plan) fill(ctx context.Context, s *steps) error {
	n := p.work.Objects
	if n == 0 || !p.kind.streams {
		return nil
	}
	s.expect(n)
	var next atomic.Int64
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var wg sync.WaitGroup
	for _, c := range p.callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if next.Add(1) > int64(n) {
					return
				}
				for op := opPrepare; op == opPrepare; {
					sample := c.commit(ctx)
					if op = sample.Op; sample.Err != nil {
						fail(fmt.Errorf("prepare: %s: %w", Operations[op], sample.Err))
						return
					}
				}
				s.add(1, 0)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func seeded(seed uint64, i int) *mrand.Rand { return mrand.New(mrand.NewPCG(seed, uint64(i))) }
