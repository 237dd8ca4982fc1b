package meta

import (
	"bufio"
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// FuzzDecodeSnapshot feeds arbitrary bytes to Decode: nothing panics, and what decodes has no other form. It stands inside the package because nearly all of them fail at the
// digest, which guards what comes behind it: here a wrong digest is passed over, so that export, encoding and further
// commands meet every state that the checks of the entries let through. None of that may panic, and what is encoded
// from such a state must decode to the same digest. And the form is canonical: what decodes encodes to the same bytes, but
// for the digest that was passed over.
func FuzzDecodeSnapshot(f *testing.F) {
	var b bytes.Buffer
	if err := NewState().Encode(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	for _, s := range fuzzStates(f) {
		var b bytes.Buffer
		if err := s.Encode(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) { throughDecoder(t, data) })
}

// TestEveryByteOfASnapshot changes each byte of a snapshot to a few others and lets the result through, as the fuzzer
// does; it gets deeper than the fuzzer because most of the bytes stay as they were.
func TestEveryByteOfASnapshot(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	states := fuzzStates(t)
	var b bytes.Buffer
	if err := states[len(states)-1].Encode(&b); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for i, was := range b.Bytes() {
		for _, v := range []byte{was + 1, was - 1, 0, byte(rng.Uint32())} {
			changed := bytes.Clone(b.Bytes())
			changed[i] = v
			if throughDecoder(t, changed) {
				passed++
			}
		}
	}
	if t.Logf("%d changed snapshots of %d bytes came through", passed, b.Len()); passed < b.Len()/2 {
		t.Error("too few to show much")
	}
}

// throughDecoder decodes bytes, whatever their digest, and does everything with the state that comes out. It reports
// whether one came out.
func throughDecoder(t *testing.T, data []byte) bool {
	s := &State{window: defaultWindow}
	d := snapshotReader{r: bufio.NewReader(bytes.NewReader(data)), s: s, labels: map[string]string{}}
	var wrong *digestError
	if err := d.state(); err != nil && !errors.As(err, &wrong) {
		return false
	}
	for r := range s.Export() {
		if r == nil {
			t.Fatal("an export holds nothing")
		}
	}
	_ = s.Verify() // it may find fault with the state, but not panic
	var again bytes.Buffer
	if err := s.Encode(&again); err != nil {
		t.Fatal(err)
	}
	content := again.Len() - len(s.Digest())
	if len(data) < again.Len() || !bytes.Equal(data[:content], again.Bytes()[:content]) {
		t.Fatalf("accepted\n%x\nencodes to\n%x", data, again.Bytes())
	}
	twin, err := Decode(&again)
	if err != nil || twin.Digest() != s.Digest() {
		t.Fatalf("a state that was decoded does not survive another round: %v", err)
	}
	for _, c := range fuzzCommands() {
		b, err := AppendProposal(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		if next, _, err := s.Apply(s.index+1, [][]byte{b}); err == nil {
			s = next
		}
	}
	return true
}

// fuzzCommands touch each kind of entry.
func fuzzCommands() []Proposal {
	id := Identity{NodeID: 1, NodeEpoch: 1}
	slice := Slice{StreamID: 1, StreamEpoch: 1, EndOffset: 10, Length: 10}
	commands := []Command{
		RegisterNode{NodeID: 1, Instance: [16]byte{1}, Labels: []Label{{Name: "rack", Value: "1"}}},
		RegisterNode{NodeID: 2, Instance: [16]byte{2}},
		CreateStream{Identity: id, Name: "a", Labels: []Label{{Name: "team", Value: "x"}}},
		CreateStream{Identity: id, Name: "b"},
		OpenStream{Identity: id, StreamID: 1},
		OpenStream{Identity: id, StreamID: 2},
		PrepareObjects{Identity: id, Count: 3, Deadline: 1000},
		CommitObjects{Identity: id, Objects: []Object{{ObjectID: 1, Size: 10, Slices: []Slice{slice, {StreamID: 2, StreamEpoch: 1, EndOffset: 5}}}}},
		RecordTransfer{Identity: id, StreamID: 1, Epoch: 1, ToNode: 2, Boundary: 20},
		OpenStream{Identity: Identity{NodeID: 2, NodeEpoch: 1}, StreamID: 1},
		RecordTransfer{Identity: Identity{NodeID: 2, NodeEpoch: 1}, StreamID: 1, Epoch: 2, Boundary: 30},
		ForceCloseStream{StreamID: 2, Epoch: 1},
		PutKey{Key: "k", Value: []byte("v")},
		TrimStream{Identity: id, StreamID: 1, Epoch: 2, StartOffset: 3},
		DeleteStream{StreamID: 2, Epoch: 1},
		FenceNode{NodeID: 2, Epoch: 1, Rescuer: id},
	}
	var out []Proposal
	for i, c := range commands {
		out = append(out, Proposal{Request: &Request{Client: [16]byte{1}, Sequence: uint64(i + 1)}, Command: c})
	}
	return append(out, Proposal{Command: ReclaimObjects{Time: 2000, Limit: 10}}, Proposal{Command: RenewNode{Identity: id}},
		Proposal{Command: ForceCloseStream{StreamID: 1, Epoch: 2, WriteOff: true}})
}

// fuzzStates returns the states after each of the commands.
func fuzzStates(f testing.TB) []*State {
	var out []*State
	s := NewState()
	for _, c := range fuzzCommands() {
		b, err := AppendProposal(nil, c)
		if err != nil {
			f.Fatal(err)
		}
		next, answers, err := s.Apply(s.index+1, [][]byte{b})
		if err != nil {
			f.Fatal(err)
		}
		if answers[0].Err != nil {
			f.Fatalf("seed command %+v: %v", c.Command, answers[0].Err)
		}
		s = next
		out = append(out, s)
	}
	return out
}
