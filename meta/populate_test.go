package meta

import (
	"fmt"
	"iter"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// PopulatedName is the name of one of the streams of Populated.
func PopulatedName(id uint64) string { return fmt.Sprintf("stream-%09d", id) }

// Populated returns a state with nodes 1 to 3 and n streams, in far less time than n commands take. All carry one
// label and are open at stream epoch 1 by node 1, but the last two, which are closed; the last one was handed to node 2
// and node 1 owes [0, 10) of it. There are also n/10 keys, named as the streams, and n/100 clients with one result each.
func Populated(n uint64) *State {
	s := NewState()
	for id := range uint64(3) {
		var answers []Answer
		s, answers = ApplyProposals(s, Proposal{Command: RegisterNode{NodeID: id + 1, Instance: [16]byte{byte(id + 1)}}})
		if answers[0].Status != Applied {
			panic(answers[0].Err)
		}
	}
	label := []Label{{Name: "topic", Value: "orders"}}
	streamAt := func(id uint64) *stream {
		st := &stream{owner: Identity{1, 1}, epoch: 1, rangeEpoch: 1, open: id < n-1}
		st.setNames(PopulatedName(id), label)
		return st
	}
	var buf []byte
	s.streams = sorted(n, func(id uint64) (uint64, *stream) {
		st := streamAt(id)
		buf = appendStream(buf[:0], id, st)
		s.sum = s.sum.plus(hashOf(buf))
		return id, st
	})
	s.names = sorted(n, func(id uint64) (string, uint64) { return PopulatedName(id), id })
	s.owners = sorted(1, func(uint64) (uint64, idSet) { return 1, ids(n - 2) })
	s.labels = sorted(1, func(uint64) (string, idSet) { return labelKey(label[0]), ids(n) })
	s.openStreams, s.nextStream = n-2, n+1
	s.keys = sorted(n/10, func(id uint64) (string, keyRecord) {
		k := keyRecord{value: "value", version: 256}
		buf = appendKey(buf[:0], PopulatedName(id), k)
		s.sum = s.sum.plus(hashOf(buf))
		return PopulatedName(id), k
	})
	t := newTx(s, s.index)
	last := *t.stream(n)
	r := rareOf(&last)
	t.setDebts(r, n, []debt{{epoch: 1, node: 1, start: 0, boundary: 10}})
	r.reservedFor, r.transfer = 2, &transfer{to: 2, boundary: 10}
	last.rare, last.end = r, 10
	t.setStream(n, &last)
	for i := range min(n/100, 60_000) {
		t.index, t.position = 1, 0
		req := &Request{Sequence: 1}
		copy(req.Client[:], PopulatedName(i))
		c := t.seeClient(req, nil)
		c.seen = i
		t.keepAnswer(c, req, t.newKept(redundant(nil), sum{}))
	}
	t.State.index = s.index
	return t.finish()
}

// sorted builds a map of n entries from ascending ones.
func sorted[K string | uint64, V any](n uint64, entry func(id uint64) (K, V)) pmap.Map[K, V] {
	var seq iter.Seq2[K, V] = func(yield func(K, V) bool) {
		for id := range n {
			if !yield(entry(id + 1)) {
				return
			}
		}
	}
	m, err := pmap.FromSorted(seq)
	if err != nil {
		panic(err)
	}
	return m
}

func ids(n uint64) idSet {
	return sorted(n, func(id uint64) (uint64, struct{}) { return id, struct{}{} })
}
