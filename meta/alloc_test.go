package meta_test

import (
	"fmt"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// Allocations per operation are what a benchmark can hold that does not vary with the machine: apply is pure, so the same
// row on the same state allocates the same. A bound that is passed is no fault by itself; it asks for a look at what has
// become dearer. These tests count allocations, so they are not parallel.

// perCommand are the allocations of applying the row, for each of its commands.
func perCommand(t *testing.T, s *meta.State, row [][]byte) float64 {
	t.Helper()
	return testing.AllocsPerRun(5, func() {
		_, answers, err := s.Apply(s.Index()+1, row)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
	}) / float64(len(row))
}

// putRow is a row of n puts of 100 bytes with requests, as clients send them.
func putRow(t *testing.T, n int) (row [][]byte) {
	for i := range n {
		row = append(row, encoded(t, meta.Proposal{Stamp: 1_700_000_000_000,
			Request: &meta.Request{Client: [16]byte{7}, Sequence: uint64(i + 1), Oldest: 1},
			Command: meta.PutKey{Key: fmt.Sprintf("bench/%d", i*7919%10_000), Value: make([]byte, 100)}}))
	}
	return row
}

// commitRow is a row of n commits of one object with ten slices each, of streams of node 1 in filledState.
func commitRow(t *testing.T, s *meta.State, n int) (*meta.State, [][]byte) {
	t.Helper()
	me := meta.Identity{NodeID: 1, NodeEpoch: 1}
	prepare := meta.PrepareObjects{Identity: me, Count: uint64(n), Deadline: 1 << 40}
	s, answers, err := s.Apply(s.Index()+1, [][]byte{encoded(t, meta.Proposal{Command: prepare,
		Request: &meta.Request{Client: [16]byte{9}, Sequence: 1, Oldest: 1}})})
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
	first := answers[0].Result.(meta.PrepareObjectsResult).FirstObjectID
	streams := s.Counts().Streams / 100
	ends := map[uint64]uint64{}
	var row [][]byte
	for i := range uint64(n) {
		o := meta.Object{ObjectID: first + i, Size: 1 << 20, Attributes: []byte("etag")}
		for k := range uint64(10) {
			id := (i*10+k)*31%streams*100 + 1
			if _, ok := ends[id]; !ok {
				st, _ := s.Stream(id)
				ends[id] = st.EndOffset
			}
			o.Slices = append(o.Slices, meta.Slice{StreamID: id, StreamEpoch: 1, StartOffset: ends[id], EndOffset: ends[id] + 1000,
				Position: k * 1000, Length: 1000, MaxTimestamp: 1_700_000_000_000})
			ends[id] += 1000
		}
		row = append(row, encoded(t, meta.Proposal{Stamp: 1_700_000_000_000, Request: &meta.Request{Client: [16]byte{8}, Sequence: i + 1, Oldest: 1},
			Command: meta.CommitObjects{Identity: me, Objects: []meta.Object{o}}}))
	}
	return s, row
}

func TestApplyAllocates(t *testing.T) {
	s := filledState(t, 5_000, true)
	withIDs, commits := commitRow(t, s, 256)
	for _, tt := range []struct {
		name string
		s    *meta.State
		row  [][]byte
		most float64
	}{
		{"puts in a row of 256", s, putRow(t, 256), 9},
		{"a put alone in its row", s, putRow(t, 1), 40},
		{"ten-slice commits in a row of 256", withIDs, commits, 30},
		{"a ten-slice commit alone in its row", withIDs, commits[:1], 130},
	} {
		got := perCommand(t, tt.s, tt.row)
		t.Logf("%-36s %.2f allocations each, at most %v", tt.name, got, tt.most)
		if got > tt.most {
			t.Errorf("%s: %.2f allocations each, at most %v are wanted", tt.name, got, tt.most)
		}
	}
}

// TestEncodingAllocatesNothing into a buffer with room.
func TestEncodingAllocatesNothing(t *testing.T) {
	request := &meta.Request{Client: [16]byte{1}, Sequence: 1, Oldest: 1}
	buf := make([]byte, 0, 4096)
	for name, p := range map[string]meta.Proposal{
		"put":              {Request: request, Command: meta.PutKey{Key: "key", Value: make([]byte, 100)}},
		"ten-slice commit": tenSlices(),
	} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := meta.AppendProposal(buf, p); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestValidateAllocates nothing where there is nothing to refuse.
func TestValidateAllocates(t *testing.T) {
	request := &meta.Request{Client: [16]byte{1}, Sequence: 1, Oldest: 1}
	for name, tt := range map[string]struct {
		p    meta.Proposal
		most float64
	}{
		"put":              {meta.Proposal{Request: request, Command: meta.PutKey{Key: "key", Value: make([]byte, 100)}}, 0},
		"ten-slice commit": {tenSlices(), 0},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := meta.Validate(tt.p); err != nil {
				t.Fatal(err)
			}
		}); n > tt.most {
			t.Errorf("%s: %v allocations, at most %v are wanted", name, n, tt.most)
		}
	}
}
