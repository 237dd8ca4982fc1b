package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headwaterdb/headwater/internal/pmap"
	"github.com/headwaterdb/headwater/meta"
)

// slicesOfStream is how many slices each stream has in the state that is looked into.
const slicesOfStream = 10

// view stands for what a node publishes: what is measured is the load of such a pointer.
type view struct{ state *meta.State }

// lookups measures reads of a state with n streams of ten slices each, beside look-ups in the map that the state is made
// of: nanoseconds each, the median of several interleaved rounds.
func lookups(n int, took time.Duration) (map[string]float64, error) {
	state, err := filled(n)
	if err != nil {
		return nil, err
	}
	var current atomic.Pointer[view]
	current.Store(&view{state})
	bare := bareMap(n)
	rnd := rand.New(rand.NewPCG(1, 2))
	order := make([]uint64, 1<<16) // drawn before, so that no drawing is measured
	for i := range order {
		order[i] = rnd.Uint64N(uint64(n)) + 1
	}
	var found meta.Found
	sink := uint64(0)
	loops := []struct {
		name string
		do   func(i int)
	}{
		{"view", func(int) { sink += current.Load().state.Index() }},
		{"map hot", func(i int) { v, _ := bare.Get(uint64(i&7) + 1); sink += v[0] }},
		{"map random", func(i int) { v, _ := bare.Get(order[i&(len(order)-1)]); sink += v[0] }},
		{"stream hot", func(i int) { s, _ := state.Stream(uint64(i&7) + 1); sink += s.EndOffset }},
		{"stream random", func(i int) { s, _ := state.Stream(order[i&(len(order)-1)]); sink += s.EndOffset }},
		{"find ten random", func(i int) {
			if err := state.FindObjectsInto(&found, order[i&(len(order)-1)], 0, 0, slicesOfStream); err == nil {
				sink += uint64(len(found.Slices))
			}
		}},
	}
	times := map[string][]float64{}
	const rounds = 5
	for range rounds {
		for _, l := range loops {
			times[l.name] = append(times[l.name], timeOf(l.do, took/time.Duration(rounds*len(loops))))
		}
	}
	if sink == 0 || len(found.Slices) != slicesOfStream {
		return nil, fmt.Errorf("the look-ups found %d slices, want %d", len(found.Slices), slicesOfStream)
	}
	middle := map[string]float64{}
	for name, ns := range times {
		middle[name] = medianOf(ns)
	}
	return middle, nil
}

// timeOf repeats do for about the time given and returns nanoseconds for one.
func timeOf(do func(i int), took time.Duration) float64 {
	const perLook = 4096 // at the clock
	n := 0
	begin := time.Now()
	for time.Since(begin) < took || n == 0 {
		for range perLook {
			do(n)
			n++
		}
	}
	return float64(time.Since(begin)) / float64(n)
}

// bareMap is a map with n entries of 16 bytes, inserted in random order.
func bareMap(n int) pmap.Map[uint64, [2]uint64] {
	var m pmap.Map[uint64, [2]uint64]
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(i + 1)
	}
	rand.New(rand.NewPCG(3, 4)).Shuffle(n, func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
	for chunk := range slices.Chunk(keys, 256) {
		e := pmap.NewEdit()
		for _, k := range chunk {
			m.Set(e, k, [2]uint64{k, k})
		}
	}
	return m
}

// filled is a state with n open streams, each with ten slices that share objects with nine other streams.
func filled(n int) (*meta.State, error) {
	n = (n + 9) / 10 * 10
	b := &builder{state: meta.NewState()}
	me := meta.Identity{NodeID: 1, NodeEpoch: 1}
	b.add(meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}})
	for i := range n {
		b.add(meta.CreateStream{Identity: me, Name: fmt.Sprintf("tenant-%d/topic-%d", i%1000, i)})
		b.add(meta.OpenStream{Identity: me, StreamID: uint64(i + 1)})
	}
	objects := uint64(n / 10 * slicesOfStream)
	for at := uint64(0); at < objects; at += 1000 {
		b.add(meta.PrepareObjects{Identity: me, Count: min(1000, objects-at), Deadline: 1 << 40})
	}
	for i := range objects {
		o := meta.Object{ObjectID: i + 1, Size: 1 << 20, Attributes: []byte("etag")}
		group, round := i%uint64(n/10), i/uint64(n/10)
		for k := range uint64(10) {
			o.Slices = append(o.Slices, meta.Slice{StreamID: group*10 + k + 1, StreamEpoch: 1, StartOffset: round * 100,
				EndOffset: round*100 + 100, Position: k * 4096, Length: 4096, MaxTimestamp: 1_700_000_000_000})
		}
		b.add(meta.CommitObjects{Identity: me, Objects: []meta.Object{o}})
	}
	b.flush()
	return b.state, b.err
}

// builder applies commands in full rows.
type builder struct {
	state    *meta.State
	row      [][]byte
	sequence uint64
	err      error
}

func (b *builder) add(c meta.Command) {
	p := meta.Proposal{Command: c}
	if _, needs := c.(meta.PrepareObjects); needs {
		b.sequence++
		p.Request = &meta.Request{Client: [16]byte{1}, Sequence: b.sequence, Oldest: b.sequence}
	}
	payload, err := meta.AppendProposal(nil, p)
	if err != nil && b.err == nil {
		b.err = err
	}
	if b.row = append(b.row, payload); len(b.row) == 256 {
		b.flush()
	}
}

func (b *builder) flush() {
	if b.err != nil || len(b.row) == 0 {
		return
	}
	next, answers, err := b.state.Apply(b.state.Index()+1, b.row)
	for _, a := range answers {
		if err == nil {
			err = a.Err
		}
	}
	b.err, b.row = err, b.row[:0]
	if err == nil {
		b.state = next
	}
}
