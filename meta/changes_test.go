package meta_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

// TestPlan: a dry run answers as the rows would, tells what they would change, and changes nothing.
func TestPlan(t *testing.T) {
	t.Parallel()
	c := newWorld(t).given(then(opened, putKey("k", "v"))...)
	digest := c.s.Digest()
	plan := []meta.Proposal{
		{Command: trimStream(at(1, 1), 1, 1, 5)},
		{Command: openStream(at(2, 1), 1, 0)},
		{Command: meta.DeleteKey{Key: "k"}},
		{Command: createStream("")},
		{Command: nil},
		asked("a", 1, 1, all(createStream("b"), putKey("k", "w"), putKey("k", "x"), putKey("l", "1"), meta.DeleteKey{Key: "l"})),
		asked("a", 2, 1, all(createStream("c"), openStream(at(1, 1), 9, 0))),
	}
	answers, changes := c.s.Plan(plan)
	var got []string
	for i, a := range answers {
		got = append(got, ending(a))
		if a.Index != c.s.Index()+1 || a.Position != i {
			t.Errorf("answer %d is at %d.%d", i, a.Index, a.Position)
		}
	}
	want := []string{"applied", "STREAM_NOT_CLOSED", "applied", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "applied", "STREAM_NOT_FOUND"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if c.s.Digest() != digest {
		t.Fatal("the dry run changed the state")
	}
	s := meta.Stream{ID: 1, Name: "a", Epoch: 1, Open: true, Owner: at(1, 1), Ranges: 1}
	trimmed := s
	trimmed.StartOffset, trimmed.EndOffset = 5, 5
	wantChanges := []meta.Change{
		{Command: 0, Kind: meta.ChangeStream, Key: "1", Old: s, New: trimmed},
		{Command: 0, Kind: meta.ChangeRange, Key: "1/1", Old: meta.Range{StreamID: 1, Epoch: 1, NodeID: 1}, New: meta.Range{StreamID: 1, Epoch: 1, NodeID: 1, EndOffset: 5}},
		{Command: 2, Kind: meta.ChangeKey, Key: "k", Old: meta.Key{Key: "k", Value: []byte("v"), Version: 6 * 256}},
		{Command: 5, Kind: meta.ChangeStream, Key: "2", New: meta.Stream{ID: 2, Name: "b"}},
		{Command: 5, Kind: meta.ChangeKey, Key: "k", New: meta.Key{Key: "k", Value: []byte("x"), Version: 7*256 + 5}},
	}
	if diff := cmp.Diff(wantChanges, changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	// The rows themselves are answered alike.
	real := c.row(plan[0], plan[1], plan[2])
	if diff := cmp.Diff(answers[:3], real); diff != "" {
		t.Errorf("the rows are answered otherwise than planned:\n%s", diff)
	}
}

// TestPlanOfManyRows: a dry run of more commands than a row holds goes on in the next row.
func TestPlanOfManyRows(t *testing.T) {
	t.Parallel()
	var plan []meta.Proposal
	for i := range 600 {
		plan = append(plan, meta.Proposal{Command: putKey(fmt.Sprint(i), "v")})
	}
	s := meta.NewState()
	answers, changes := s.Plan(plan)
	if a := answers[599]; a.Index != 3 || a.Position != 599-512 || a.Result != (meta.PutKeyResult{Version: 3*256 + 599 - 512}) {
		t.Errorf("the last answer is %+v", a)
	}
	if len(changes) != 600 || changes[599].Command != 599 {
		t.Errorf("%d changes, the last is %+v", len(changes), changes[len(changes)-1])
	}
}

// TestChanges: what each kind of command reports beyond the record it is about.
func TestChanges(t *testing.T) {
	t.Parallel()
	stream := func(change func(*meta.Stream)) meta.Stream {
		s := meta.Stream{ID: 1, Name: "a", Epoch: 1, Owner: at(1, 1), Ranges: 1}
		change(&s)
		return s
	}
	transferred := then(opened, recordTransfer(at(1, 1), 1, 1, 2, 10))
	sent := stream(func(s *meta.Stream) {
		s.EndOffset, s.ReservedFor, s.Debts, s.Transfer = 10, 2, 1, &meta.Transfer{ToNode: 2, Boundary: 10}
	})
	debt := meta.Debt{StreamID: 1, StreamEpoch: 1, NodeID: 1, Boundary: 10}
	sealed := meta.Range{StreamID: 1, Epoch: 1, NodeID: 1, EndOffset: 10, Sealed: true}
	node := func(change func(*meta.Node)) meta.Node {
		n := meta.Node{ID: 1, Epoch: 1, Registered: true, Instance: instance("1a"), FormatLevel: 1, Renewals: 1, RegisteredIndex: 1}
		change(&n)
		return n
	}
	for _, tt := range []struct {
		name  string
		given []meta.Command
		cmd   meta.Command
		want  []meta.Change
	}{
		{"a refusal changes nothing", opened, openStream(at(2, 1), 1, 0), nil},
		{"what is redundant changes nothing", opened, openStream(at(1, 1), 1, 0), nil},
		{"RecordTransfer", opened, recordTransfer(at(1, 1), 1, 1, 2, 10), []meta.Change{
			{Kind: meta.ChangeStream, Key: "1", Old: stream(func(s *meta.Stream) { s.Open = true }), New: sent},
			{Kind: meta.ChangeRange, Key: "1/1", Old: meta.Range{StreamID: 1, Epoch: 1, NodeID: 1}, New: sealed},
			{Kind: meta.ChangeDebt, Key: "1/1", New: debt},
		}},
		{"OpenStream seals nothing twice", transferred, openStream(at(2, 1), 1, 0), []meta.Change{
			{Kind: meta.ChangeStream, Key: "1", Old: sent, New: stream(func(s *meta.Stream) {
				s.Epoch, s.Owner, s.Open, s.EndOffset, s.Ranges, s.Debts = 2, at(2, 1), true, 10, 2, 1
			})},
			{Kind: meta.ChangeRange, Key: "1/2", New: meta.Range{StreamID: 1, Epoch: 2, NodeID: 2, StartOffset: 10, EndOffset: 10}},
		}},
		{"OpenStream replaces an empty range", then(opened, closeStream(at(1, 1), 1, 1)), openStream(at(1, 1), 1, 0), []meta.Change{
			{Kind: meta.ChangeStream, Key: "1", Old: stream(func(*meta.Stream) {}), New: stream(func(s *meta.Stream) { s.Epoch, s.Open = 2, true })},
			{Kind: meta.ChangeRange, Key: "1/1", Old: meta.Range{StreamID: 1, Epoch: 1, NodeID: 1, Sealed: true}},
			{Kind: meta.ChangeRange, Key: "1/2", New: meta.Range{StreamID: 1, Epoch: 2, NodeID: 1}},
		}},
		{"OpenStream drops a range that was trimmed", then(transferred, trimStream(at(2, 1), 1, 1, 10)), openStream(at(2, 1), 1, 0), []meta.Change{
			{Kind: meta.ChangeRange, Key: "1/1", Old: sealed},
			{Kind: meta.ChangeStream, Key: "1", Old: stream(func(s *meta.Stream) {
				s.StartOffset, s.EndOffset, s.ReservedFor, s.Transfer = 10, 10, 2, &meta.Transfer{ToNode: 2, Boundary: 10}
			}), New: stream(func(s *meta.Stream) {
				s.Epoch, s.Owner, s.Open, s.StartOffset, s.EndOffset = 2, at(2, 1), true, 10, 10
			})},
			{Kind: meta.ChangeRange, Key: "1/2", New: meta.Range{StreamID: 1, Epoch: 2, NodeID: 2, StartOffset: 10, EndOffset: 10}},
		}},
		{"a write-off", transferred, forceCloseStream(1, 1, true), []meta.Change{
			{Kind: meta.ChangeStream, Key: "1", Old: sent, New: stream(func(s *meta.Stream) { s.EndOffset, s.Losses = 10, 1 })},
			{Kind: meta.ChangeDebt, Key: "1/1", Old: debt},
			{Kind: meta.ChangeLoss, Key: "1/0", New: meta.Loss{StreamID: 1, EndOffset: 10}},
		}},
		{"DeleteStream", transferred, meta.DeleteStream{StreamID: 1, Epoch: 1}, []meta.Change{
			{Kind: meta.ChangeStream, Key: "1", Old: sent},
			{Kind: meta.ChangeRange, Key: "1/1", Old: sealed},
			{Kind: meta.ChangeDebt, Key: "1/1", Old: debt},
		}},
		{"FenceNode", nodes, fenceNode(1, 1, at(2, 1)), []meta.Change{
			{Kind: meta.ChangeNode, Key: "1", Old: node(func(*meta.Node) {}), New: node(func(n *meta.Node) { n.Fenced, n.Rescuer = true, at(2, 1) })},
		}},
		{"SetFormat", []meta.Command{meta.RegisterNode{NodeID: 1, Instance: instance("a"), FormatLevel: 2}}, meta.SetFormat{Level: 2}, []meta.Change{
			{Kind: meta.ChangeFormat, Old: meta.ClusterRecord{Index: 2, FormatLevel: 1, NextStreamID: 1, NextObjectID: 1},
				New: meta.ClusterRecord{Index: 2, FormatLevel: 2, NextStreamID: 1, NextObjectID: 1}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newWorld(t).given(tt.given...)
			next, answers, changes, err := c.s.ApplyWithChanges(c.s.Index()+1, [][]byte{encoded(t, proposal(c.s, tt.cmd))})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, changes); diff != "" {
				t.Errorf("changes of %+v (-want +got):\n%s", answers[0], diff)
			}
			plain := c.do(tt.cmd)
			if diff := cmp.Diff(plain, answers[0]); diff != "" || c.s.Digest() != next.Digest() {
				t.Errorf("without changes it is answered otherwise:\n%s", diff)
			}
		})
	}
}
