package headwater_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// TestMain lets the test binary be the processes that the tests kill.
func TestMain(m *testing.M) {
	if plan := os.Getenv(childEnv); plan != "" {
		fmt.Fprintln(os.Stderr, "child:", runChild(plan))
		os.Exit(1)
	}
	if file := os.Getenv(nodeEnv); file != "" {
		if err := runNode(file); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(tests{m})
}

// tests runs the tests and stops the database servers that they share, before leaks are looked for.
type tests struct{ *testing.M }

func (t tests) Run() int { return dbtest.Main(t.M) }

// TestHalted puts an undecodable row into the log: reads go on, writes and waits end with the row and the reason.
func TestHalted(t *testing.T) {
	t.Parallel()
	m := filled(t, 3, 0, 0)
	s, done := node(t, m.Open, headwater.Options{})
	defer done()
	if _, err := s.Linearize(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Put(4, []byte("not a row"))
	if _, err := s.Wait(t.Context(), 4); !errors.Is(err, meta.ErrHalted) || !strings.Contains(err.Error(), "4") {
		t.Errorf("wait ends in %v", err)
	}
	a := s.Propose(t.Context(), put(4))[0]
	if a.Status != 0 || !errors.Is(a.Err, meta.ErrHalted) || !errors.Is(a.Err, replica.ErrHalted) {
		t.Errorf("propose ends in %+v", a)
	}
	st := s.Status()
	if st.Condition != headwater.Halted || st.ReasonIndex != 4 || st.Reason == "" || st.AppliedIndex != 3 {
		t.Errorf("status %+v", st)
	}
	if k, there := s.View().State.Key("key-3"); !there || string(k.Value) != "value 3" {
		t.Error("reads should go on from the last good view")
	}
}

// TestRefusedBeforeTheLog proposes what no cluster takes: it is refused with a code and never appended, and what comes
// with it is not held up.
func TestRefusedBeforeTheLog(t *testing.T) {
	t.Parallel()
	m := oplog.NewMemory()
	s, done := node(t, m.Open, headwater.Options{})
	defer done()
	answers := s.Propose(t.Context(),
		meta.Proposal{Command: meta.PutKey{Key: ""}},
		put(1),
		meta.Proposal{Command: meta.PutKey{Key: "k", Value: make([]byte, 1<<20)}},
		meta.Proposal{Command: meta.PrepareObjects{Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}, Count: 1}},
		meta.Proposal{},
	)
	for i, want := range []meta.Code{meta.CodeInvalidArgument, 0, meta.CodeTooLarge, meta.CodeInvalidArgument, meta.CodeInvalidArgument} {
		if got := meta.CodeOf(answers[i].Err); got != want {
			t.Errorf("command %d: %v, want %v", i, answers[i].Err, want)
		}
		if (answers[i].Index != 0) != (want == 0) {
			t.Errorf("command %d: index %d", i, answers[i].Index)
		}
	}
	if len(s.Propose(t.Context())) != 0 {
		t.Error("no proposal, no answer")
	}
	err := headwater.ReadLog(t.Context(), m.Open(), 1, 0, func(r headwater.LogRow) error {
		if len(r.Proposals) != 1 {
			t.Errorf("row %d holds %+v", r.Index, r.Proposals)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestWrongCluster opens a log that belongs to another cluster than expected.
func TestWrongCluster(t *testing.T) {
	t.Parallel()
	m := oplog.NewMemory()
	info, err := headwater.Init(t.Context(), m.Open())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := headwater.Init(t.Context(), m.Open()); !errors.Is(err, oplog.ErrExists) {
		t.Errorf("a second init ends in %v", err)
	}
	s, err := headwater.Open(t.Context(), m.Open(), headwater.Options{ClusterID: info.ClusterID})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, id := range []string{strings.Repeat("0", 32), strings.Repeat("0", 31) + "1", "cluster", info.ClusterID[:30]} {
		if s, err := headwater.Open(t.Context(), m.Open(), headwater.Options{ClusterID: id}); err == nil {
			s.Close()
			t.Errorf("expecting cluster %q, cluster %s was opened", id, info.ClusterID)
		}
	}
	if _, err := headwater.Open(t.Context(), oplog.NewMemory().Open(), headwater.Options{}); !errors.Is(err, oplog.ErrNoCluster) {
		t.Errorf("an empty database opens with %v", err)
	}
}

// expiring is a context whose deadline is over when done is closed.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.done }

func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestOperationalErrors ends proposals in each way that is no answer, and wants the domain's sentinel, and whether the
// command took effect to be as the sentinel says.
func TestOperationalErrors(t *testing.T) {
	t.Parallel()
	m := oplog.NewMemory()
	faults := faultlog.Wrap(m.Open())
	if _, err := headwater.Init(t.Context(), faults); err != nil {
		t.Fatal(err)
	}
	s, err := headwater.Open(t.Context(), faults, headwater.Options{})
	if err != nil {
		t.Fatal(err)
	}
	faults.Add(faultlog.Rule{Op: faultlog.Append, Before: oplog.ErrFull})
	if a := s.Propose(t.Context(), put(1))[0]; !errors.Is(a.Err, meta.ErrUnavailable) || !errors.Is(a.Err, oplog.ErrFull) {
		t.Errorf("a full database: %v", a.Err)
	}
	faults.Clear()
	answer := faultlog.NewGate()
	faults.Add(faultlog.Rule{Op: faultlog.Append, Hold: answer})
	late := put(9)
	late.Request = &meta.Request{Client: [16]byte{1}, Sequence: 1, Oldest: 1}
	over := expiring{t.Context(), make(chan struct{})}
	go func() { <-answer.Reached(); close(over.done) }() // not before the append was handed over
	var unknown *meta.UnknownError
	if a := s.Propose(over, late)[0]; !errors.Is(a.Err, meta.ErrOutcomeUnknown) || !errors.Is(a.Err, context.DeadlineExceeded) ||
		!errors.As(a.Err, &unknown) || unknown.Request != *late.Request || !strings.Contains(a.Err.Error(), "request 01000000000000000000000000000000/1: ") {
		t.Errorf("a caller whose deadline is over: %v", a.Err)
	}
	answer.Open()
	if a := s.Propose(t.Context(), late)[0]; a.Err != nil || a.Status != meta.Redundant {
		t.Errorf("the same again: %+v", a)
	}
	faults.Clear()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if a := s.Propose(gone, put(2))[0]; !errors.Is(a.Err, context.Canceled) ||
		!errors.Is(a.Err, meta.ErrNotApplied) && !errors.Is(a.Err, meta.ErrOutcomeUnknown) {
		t.Errorf("a cancelled caller: %v", a.Err)
	}
	s.Close()
	if a := s.Propose(t.Context(), put(3))[0]; !errors.Is(a.Err, meta.ErrClosed) {
		t.Errorf("a closed store: %v", a.Err)
	}
	if _, err := s.Linearize(t.Context()); !errors.Is(err, meta.ErrClosed) {
		t.Errorf("a linearizable read of a closed store: %v", err)
	}
	if s.View() == nil || s.Status().Condition != headwater.Closed {
		t.Error("views stay readable after Close")
	}
}

// TestStamp stamps proposals with the clock given, and leaves stamps that are there.
func TestStamp(t *testing.T) {
	t.Parallel()
	m := oplog.NewMemory()
	s, done := node(t, m.Open, headwater.Options{Now: func() time.Time { return time.UnixMilli(1234) }})
	defer done()
	stamped := put(2)
	stamped.Stamp = 99
	s.Propose(t.Context(), put(1), stamped)
	var stamps []int64
	err := s.ReadLog(t.Context(), 1, 0, func(r headwater.LogRow) error {
		for _, p := range r.Proposals {
			stamps = append(stamps, p.Stamp)
		}
		return nil
	})
	if err != nil || len(stamps) != 2 || stamps[0] != 1234 || stamps[1] != 99 {
		t.Errorf("stamps %v, %v", stamps, err)
	}
}

// TestDryRunChangesNothing plans commands that build on each other.
func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	m := filled(t, 2, 0, 0)
	s, done := node(t, m.Open, headwater.Options{})
	defer done()
	if _, err := s.Linearize(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := s.View().State.Digest()
	answers, changes, view := s.DryRun(t.Context(), put(3), meta.Proposal{Command: meta.DeleteKey{Key: "key-3"}}, put(1))
	if answers[0].Status != meta.Applied || answers[1].Status != meta.Applied || answers[2].Status != meta.Redundant {
		t.Errorf("answers %+v", answers)
	}
	if len(changes) != 2 || view.Index != 2 {
		t.Errorf("changes %+v at %d", changes, view.Index)
	}
	if after := s.View().State.Digest(); !bytes.Equal(before[:], after[:]) || s.Status().NewestIndex != 2 {
		t.Error("a dry run changed the state")
	}
}

// BenchmarkView loads the current view: no lock and no allocation.
func BenchmarkView(b *testing.B) {
	m := oplog.NewMemory()
	log := m.Open()
	if _, err := headwater.Init(b.Context(), log); err != nil {
		b.Fatal(err)
	}
	s, err := headwater.Open(b.Context(), log, headwater.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if s.View() == nil {
				b.Error("no view")
			}
		}
	})
}
