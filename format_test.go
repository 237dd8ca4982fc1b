package headwater // inside: only so can a row be made that this program would not propose

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// newer is what a newer program would append to raise the level above what this one knows.
func newer(t *testing.T) [][]byte {
	t.Helper()
	var commands [][]byte
	for _, c := range []meta.Command{
		meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}, FormatLevel: meta.MaxFormat + 1},
		meta.SetFormat{Level: meta.MaxFormat + 1},
	} {
		b, err := meta.AppendProposal(nil, meta.Proposal{Stamp: 1, Command: c})
		if err != nil {
			t.Fatal(err)
		}
		commands = append(commands, b)
	}
	return commands
}

// TestNewerFormatHalts: a node that was missed in an upgrade stops at the row that raises the level, keeps the state
// from before it, and says what to do.
func TestNewerFormatHalts(t *testing.T) {
	ctx := t.Context()
	log := oplog.NewMemory().Open()
	defer log.Close()
	if _, err := Init(ctx, log); err != nil {
		t.Fatal(err)
	}
	upgraded := machine()
	upgraded.Apply = func(s *meta.State, index oplog.Index, commands [][]byte) (*meta.State, []meta.Answer, error) {
		return s.Apply(uint64(index), commands)
	}
	upgraded.Decode = meta.Decode
	other, err := replica.Open(ctx, log, upgraded, replica.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, r := range other.Propose(ctx, newer(t)...) {
		if r.Err != nil || r.Value.Err != nil {
			t.Fatal(r.Err, r.Value.Err)
		}
	}
	store, err := Open(ctx, log, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Linearize(ctx); !errors.Is(err, meta.ErrHalted) {
		t.Errorf("Linearize: %v, want %v", err, meta.ErrHalted)
	}
	st := store.Status()
	if st.Condition != Halted || st.ReasonIndex != 1 || st.AppliedIndex != 0 || !strings.Contains(st.Reason, "must be upgraded") {
		t.Errorf("status: %+v", st)
	}
	if a := store.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: "a"}}); !errors.Is(a[0].Err, meta.ErrHalted) {
		t.Errorf("Propose: %v, want %v", a[0].Err, meta.ErrHalted)
	}
}

func TestNewerFormatInSnapshot(t *testing.T) {
	s, answers, err := meta.NewState().Apply(1, newer(t))
	if err != nil || s.FormatLevel() != meta.MaxFormat+1 {
		t.Fatal(answers, err)
	}
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := machine().Decode(&b); err == nil || !strings.Contains(err.Error(), "must be upgraded") {
		t.Errorf("a snapshot of a newer level was decoded: %v", err)
	}
}

// TestNewerFormatIsNotProposed: a program does not raise the level above its own head.
func TestNewerFormatIsNotProposed(t *testing.T) {
	ctx := context.Background()
	log := oplog.NewMemory().Open()
	defer log.Close()
	if _, err := Init(ctx, log); err != nil {
		t.Fatal(err)
	}
	store, err := Open(ctx, log, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	a := store.Propose(ctx,
		meta.Proposal{Command: meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}, FormatLevel: meta.MaxFormat + 1}},
		meta.Proposal{Command: meta.SetFormat{Level: meta.MaxFormat + 1}},
		meta.Proposal{Command: meta.PutKey{Key: "a"}},
		meta.Proposal{Command: meta.SetFormat{Level: meta.MaxFormat + 9}})
	if a[0].Err != nil || meta.CodeOf(a[1].Err) != meta.CodeFormatUnsupported || a[2].Err != nil ||
		meta.CodeOf(a[3].Err) != meta.CodeInvalidArgument {
		t.Errorf("answers: %v, %v, %v, %v", a[0].Err, a[1].Err, a[2].Err, a[3].Err)
	}
}
