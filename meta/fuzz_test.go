package meta_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/headwaterdb/headwater/internal/wire"
	"github.com/headwaterdb/headwater/meta"
)

// fuzzBases are the states that FuzzApply begins with: an empty one, one in which all kinds of entries have come about,
// and one so large that unbounded work shows.
var fuzzBases = sync.OnceValue(func() []*meta.State {
	return []*meta.State{meta.NewState(), churned(), meta.Populated(20_000)}
})

// churned is a state in which all kinds of entries have come about.
func churned() *meta.State {
	c := newChurn(nil, 9)
	for range 120 {
		b, err := meta.AppendProposal(nil, c.proposal())
		if err != nil {
			panic(err)
		}
		next, _, err := c.s.Apply(c.s.Index()+1, [][]byte{b})
		if err != nil {
			panic(err)
		}
		c.s = next
	}
	return c.s
}

// workLimit bounds the entries and map nodes that a command of so many bytes may look at or change: some for each kind,
// and some for each slice, id and name in it, which take two bytes at least.
func workLimit(size int) int { return 4000 + 100*size }

// FuzzApply applies whatever decodes, and is field case 09.3 in other words: nothing panics; the work is bounded by the
// command and not by the state; what is refused or redundant changes nothing but index and request memory and tells no
// change; and what is left still has a snapshot that decodes to it, in one form only. The input is a list of commands,
// each behind its length; what does not decode is passed over.
func FuzzApply(f *testing.F) {
	for seed := range uint64(6) {
		var b []byte
		for _, row := range mixed(f, seed, 12) {
			for _, c := range row {
				b = wire.AppendBytes(b, c)
			}
		}
		f.Add(byte(seed), b)
	}
	for base := range byte(3) {
		for _, p := range vectors() {
			if b := encode(f, p); len(b) < 4096 {
				f.Add(base, wire.AppendBytes(nil, b))
			}
		}
	}
	f.Fuzz(func(t *testing.T, base byte, script []byte) {
		bases := fuzzBases()
		which := int(base) % len(bases)
		s := bases[which]
		r := wire.NewReader(script)
		applied := 0
		for applied < 64 && r.Err() == nil && r.Len() > 0 {
			b := bytes.Clone(r.Bytes())
			if r.Err() != nil {
				break
			}
			p, err := meta.DecodeProposal(b)
			if err != nil {
				continue
			}
			applied++
			s = fuzzStep(t, s, p, b)
		}
		if applied > 0 && which < len(bases)-1 { // the large one takes too long
			fuzzSnapshot(t, s)
		}
	})
}

// fuzzStep applies one command and checks what must hold whatever it is.
func fuzzStep(t *testing.T, s *meta.State, p meta.Proposal, b []byte) *meta.State {
	t.Helper()
	before, digest := meta.RuleDigest(s), s.Digest()
	next, answers, changes, err := s.ApplyWithChanges(s.Index()+1, [][]byte{b})
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	a := answers[0]
	checkRefusal(t, a)
	if a.Status != meta.Applied && (meta.RuleDigest(next) != before || len(changes) > 0) {
		t.Fatalf("%+v ends as %s, and changes the state: %+v", p, ending(a), changes)
	}
	if s.Digest() != digest {
		t.Fatalf("%+v changes the state that it was applied to", p)
	}
	if p.Request != nil && meta.RuleDigest(next) != before && next.Digest() == digest {
		t.Fatalf("%+v changes the state and not its digest", p)
	}
	if planned, work := meta.Work(s, p); planned.Status != a.Status || work > workLimit(len(b)) {
		t.Fatalf("%+v, %d bytes: ends as %s, planned as %s, with %d entries and map nodes looked at; allowed are %d",
			p, len(b), ending(a), ending(planned), work, workLimit(len(b)))
	}
	return next
}

// fuzzSnapshot sends a state through a snapshot: it must verify, decode to the same digest, and encode to the same bytes.
func fuzzSnapshot(t *testing.T, s *meta.State) {
	t.Helper()
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := s.Encode(&first); err != nil {
		t.Fatal(err)
	}
	twin, err := meta.Decode(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := twin.Encode(&second); err != nil || twin.Digest() != s.Digest() || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Fatalf("the snapshot decodes to another state: digests %x and %x, %v", s.Digest(), twin.Digest(), err)
	}
}
