package meta_test

import (
	"fmt"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// perKind returns one command of each kind that is judged to the end in meta.Populated(n), and what comes before it.
func perKind(n uint64) []workload {
	open, closed, owed := n/2, n-1, n
	name := meta.PopulatedName
	return []workload{
		{"RegisterNode", nil, registerNode(1, "new")},
		{"RenewNode", nil, meta.RenewNode{Identity: at(1, 1)}},
		{"UnregisterNode", nil, meta.UnregisterNode{NodeID: 3, Epoch: 1}},
		{"FenceNode", nil, fenceNode(1, 1, at(2, 1))},
		{"CreateStream", nil, meta.CreateStream{Identity: at(1, 1), Name: name(open) + "x", Labels: labels("topic", "orders")}},
		{"OpenStream", nil, openStream(at(2, 1), owed, 0)},
		{"CloseStream", nil, closeStream(at(1, 1), open, 1)},
		{"TrimStream", nil, trimStream(at(1, 1), open, 1, 100)},
		{"TrimStream with a debt", nil, trimStream(at(2, 1), owed, 1, 5)},
		{"LabelStream", nil, meta.LabelStream{StreamID: open, Labels: labels("topic", "other")}},
		{"DeleteStream", nil, meta.DeleteStream{StreamID: closed, Epoch: 1}},
		{"RecordTransfer", nil, recordTransfer(at(1, 1), open, 1, 2, 100)},
		{"ForceCloseStream", nil, forceCloseStream(owed, 1, true)},
		{"PrepareObjects", nil, prepareObjects(at(1, 1), 1)},
		{"CommitObjects", []meta.Command{prepareObjects(at(1, 1), 1)}, commitSlice(at(1, 1), 1, open, 1, 0, 10)},
		{"CompactObjects", []meta.Command{prepareObjects(at(1, 1), 2), commitSlice(at(1, 1), 1, open, 1, 0, 10)},
			meta.CompactObjects{Identity: at(1, 1), Sources: []uint64{1}, Objects: commitSlice(at(1, 1), 2, open, 1, 0, 10).Objects}},
		{"ReclaimObjects", []meta.Command{prepareObjects(at(1, 1), 1), commitSlice(at(1, 1), 1, open, 1, 0, 10), trimStream(at(1, 1), open, 1, 10)}, meta.ReclaimObjects{Limit: 10}},
		{"ForgetObjects", []meta.Command{meta.PrepareObjects{Identity: at(1, 1), Count: 1, Deadline: 1}, meta.ReclaimObjects{Time: 2, Limit: 1}}, meta.ForgetObjects{ObjectIDs: []uint64{1}}},
		{"PutKey", nil, putKey(name(n/20), "other")},
		{"DeleteKey", nil, meta.DeleteKey{Key: name(n / 20)}},
		{"CheckKey", nil, meta.CheckKey{Key: name(n / 20), IfVersion: 256}},
		{"Atomic", nil, all(closeStream(at(1, 1), open, 1), openStream(at(2, 1), open, 0), putKey(name(n/20), "other"))},
		{"SetFormat", nil, meta.SetFormat{Level: 1}},
	}
}

type workload struct {
	name  string
	given []meta.Command
	cmd   meta.Command
}

// start returns the state before the command: nothing in it is too new to be shared.
func (w workload) start(tb testing.TB, s *meta.State) *meta.State {
	tb.Helper()
	for _, cmd := range w.given {
		next, answers := meta.ApplyProposals(s, proposal(s, cmd))
		if answers[0].Status != meta.Applied {
			tb.Fatalf("%s: %T: %v", w.name, cmd, answers[0].Err)
		}
		s = next
	}
	return s
}

// TestBoundedWork is invariant 10: what a command looks at and changes does not grow with the state but by the height of
// the maps, which is a node more for every factor of about fifty, in each of the maps that it touches.
func TestBoundedWork(t *testing.T) {
	t.Parallel()
	const few = 1000
	many := uint64(1_000_000)
	if raceEnabled {
		many = 20_000
	}
	small, large := meta.Populated(few), meta.Populated(many)
	if err := small.Verify(); err != nil {
		t.Fatal(err)
	}
	smallKinds, largeKinds := perKind(few), perKind(many)
	for i, w := range smallKinds {
		for _, asks := range []bool{false, true} {
			a, atFew := work(t, w, small, asks)
			b, atMany := work(t, largeKinds[i], large, asks)
			if ending(a) != ending(b) || a.Status == meta.Rejected {
				t.Errorf("%s ends as %s and %s (%v, %v)", w.name, ending(a), ending(b), a.Err, b.Err)
			}
			t.Logf("%-24s request %-5v %4d operations at %d streams, %4d at %d", w.name, asks, atFew, few, atMany, many)
			if atMany > 3*atFew {
				t.Errorf("%s: %d operations at %d streams, %d at %d", w.name, atFew, few, atMany, many)
			}
		}
	}
}

// work counts the operations of a command, with a request or without.
func work(t *testing.T, w workload, s *meta.State, asks bool) (meta.Answer, int) {
	t.Helper()
	s = w.start(t, s)
	p := proposal(s, w.cmd)
	if _, renews := w.cmd.(meta.RenewNode); asks && !renews {
		p.Request = request("somebody", 1, 1)
	}
	return meta.Work(s, p)
}

// TestDeletingManyRanges: a stream with very many ranges goes in one bounded command.
func TestDeletingManyRanges(t *testing.T) {
	t.Parallel()
	var atFew int
	for _, n := range []uint64{10, 5000} {
		s := workload{given: one}.start(t, meta.NewState())
		for i := range n {
			epoch := i + 1
			row := []meta.Proposal{{Command: openStream(at(1, 1), 1, epoch)}, {Command: recordTransfer(at(1, 1), 1, epoch, 0, epoch)}, {Command: forceCloseStream(1, epoch, true)}}
			s, _ = meta.ApplyProposals(s, row...)
		}
		if st, _ := s.Stream(1); st.Ranges != n {
			t.Fatalf("%d ranges, want %d", st.Ranges, n)
		}
		a, ops := meta.Work(s, meta.Proposal{Command: meta.DeleteStream{StreamID: 1, Epoch: n}})
		if a.Status != meta.Applied {
			t.Fatal(a.Err)
		}
		if atFew == 0 {
			atFew = ops
		}
		if ops > atFew {
			t.Errorf("%d operations with %d ranges, %d with 10", ops, n, atFew)
		}
		if _, ops := meta.Work(s, meta.Proposal{Command: openStream(at(1, 1), 1, 0)}); ops > 30 {
			t.Errorf("an open with %d ranges takes %d operations", n, ops)
		}
	}
}

// BenchmarkApply applies one command of each kind, alone in its row, to a state of many streams.
func BenchmarkApply(b *testing.B) {
	for _, n := range []uint64{1000, 1_000_000} {
		s := meta.Populated(n)
		for _, w := range perKind(n) {
			b.Run(fmt.Sprintf("%s/streams=%d", w.name, n), func(b *testing.B) {
				s := w.start(b, s)
				row := [][]byte{nil}
				var err error
				if row[0], err = meta.AppendProposal(nil, proposal(s, w.cmd)); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, a, err := s.Apply(s.Index()+1, row); err != nil || a[0].Status == meta.Rejected {
						b.Fatal(err, a)
					}
				}
			})
		}
	}
}

// BenchmarkApplyRequest applies a put with a request, as most commands come: in full rows, by 64 clients that have all
// but their last answer.
func BenchmarkApplyRequest(b *testing.B) {
	s := meta.Populated(1_000_000)
	var sequence uint64
	i := 0
	var row [][]byte
	b.ReportAllocs()
	for b.Loop() {
		p := meta.Proposal{Command: putKey(meta.PopulatedName(uint64(i*7919)%100_000+1), fmt.Sprint(i)), Request: request(fmt.Sprint("client ", i%64), sequence, sequence)}
		if i++; i%64 == 1 {
			sequence++
			p.Request = request(fmt.Sprint("client ", 0), sequence, sequence)
		}
		c, err := meta.AppendProposal(nil, p)
		if err != nil {
			b.Fatal(err)
		}
		if row = append(row, c); len(row) < 256 {
			continue
		}
		if s, _, err = s.Apply(s.Index()+1, row); err != nil {
			b.Fatal(err)
		}
		row = row[:0]
	}
}
