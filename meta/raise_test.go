package meta_test

import (
	"bytes"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// TestRaised: a raised state is sound, comes back from a snapshot, keeps what was there, and leaves the one it came from alone.
func TestRaised(t *testing.T) {
	t.Parallel()
	s := meta.Populated(1000)
	digest := s.Digest()
	const to = 1 << 32
	raised, err := s.Raised(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := raised.Verify(); err != nil {
		t.Error(err)
	}
	var stored bytes.Buffer
	if err := raised.Encode(&stored); err != nil {
		t.Fatal(err)
	}
	back, err := meta.Decode(&stored)
	if err != nil || back.Digest() != raised.Digest() {
		t.Errorf("from a snapshot: %v", err)
	}
	if s.Digest() != digest || raised.Digest() == digest || raised.Index() != to || raised.Counts() != s.Counts() {
		t.Errorf("index %d, counts %+v, want %d, %+v and another digest", raised.Index(), raised.Counts(), uint64(to), s.Counts())
	}
	for id := range uint64(1000) {
		before, _ := s.Stream(id + 1)
		if after, ok := raised.Stream(id + 1); !ok || after.Epoch != before.Epoch+1<<40 || after.Owner != before.Owner || after.EndOffset != before.EndOffset || after.Open != before.Open {
			t.Errorf("stream %+v became %+v", before, after)
		}
	}
	for _, index := range []uint64{0, s.Index(), 1 << 55} {
		if _, err := s.Raised(index); err == nil {
			t.Errorf("raised from index %d to %d", s.Index(), index)
		}
	}
	full, answers := meta.ApplyProposals(meta.NewState(), meta.Proposal{Command: meta.RegisterNode{NodeID: 1, Epoch: 1<<63 - 1, Instance: [16]byte{1}}})
	if answers[0].Err != nil {
		t.Fatal(answers[0].Err)
	}
	if _, err := full.Raised(to); err == nil {
		t.Error("an epoch was raised above 2^63")
	}
}
