package meta_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headwaterdb/headwater/meta"
)

// answering is a Proposer that gives these answers and keeps what was proposed.
type answering struct {
	answers  []meta.Answer
	proposed []meta.Proposal
}

func (a *answering) Propose(_ context.Context, proposals ...meta.Proposal) []meta.Answer {
	a.proposed = append(a.proposed, proposals...)
	return a.answers
}

func TestProposeReturnsTheCommandsOwnResult(t *testing.T) {
	t.Parallel()
	p := &answering{answers: []meta.Answer{{Status: meta.Redundant, Result: meta.CreateStreamResult{StreamID: 7}}}}
	create := meta.CreateStream{Identity: me, Name: "orders-0"}
	res, err := meta.Propose(t.Context(), p, create)
	if err != nil || res.StreamID != 7 {
		t.Errorf("%v, %v, want stream 7", res, err)
	}
	request := meta.Request{Client: id16(1), Sequence: 2, Oldest: 1}
	if res, err = meta.ProposeRequest(t.Context(), p, request, create); err != nil || res.StreamID != 7 {
		t.Errorf("%v, %v, want stream 7", res, err)
	}
	want := []meta.Proposal{{Command: create}, {Request: &request, Command: create}}
	if d := cmp.Diff(want, p.proposed); d != "" {
		t.Errorf("proposed (-want +got):\n%s", d)
	}
	p.answers = []meta.Answer{{Status: meta.Applied}}
	if _, err := meta.Propose(t.Context(), p, meta.DeleteKey{Key: "k"}); err != nil {
		t.Errorf("a command without a result: %v", err)
	}
}

func TestProposePassesErrorsOn(t *testing.T) {
	t.Parallel()
	put := meta.PutKey{Key: "k"}
	refused := &meta.Error{Code: meta.CodeKeyExists, Message: "k has version 3", Inner: -1}
	p := &answering{answers: []meta.Answer{{Status: meta.Rejected, Err: refused}}}
	if _, err := meta.Propose(t.Context(), p, put); err != error(refused) {
		t.Errorf("%v, want the refusal itself", err)
	}
	p.answers = []meta.Answer{{Err: meta.ErrOverloaded}}
	if _, err := meta.Propose(t.Context(), p, put); !errors.Is(err, meta.ErrOverloaded) {
		t.Errorf("%v, want overloaded", err)
	}
	p.answers = nil
	if _, err := meta.Propose(t.Context(), p, put); !errors.Is(err, meta.ErrOutcomeUnknown) {
		t.Errorf("%v, want outcome unknown", err)
	}
	p.answers = []meta.Answer{{Status: meta.Applied, Result: meta.CreateStreamResult{}}}
	if _, err := meta.Propose(t.Context(), p, put); err == nil || !strings.Contains(err.Error(), "CreateStreamResult") {
		t.Errorf("%v, want a complaint about the result's type", err)
	}
}
