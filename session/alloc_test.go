package session_test

import (
	"testing"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/session"
)

// TestNumberingAllocatesNothing once a client id is drawn.
func TestNumberingAllocatesNothing(t *testing.T) { // not parallel: it counts allocations
	s := session.New()
	s.Done(s.Next(), meta.Answer{Status: meta.Applied, Index: 1})
	if n := testing.AllocsPerRun(1000, func() { s.Done(s.Next(), meta.Answer{Status: meta.Applied, Index: 1}) }); n != 0 {
		t.Errorf("%v allocations for a number, want 0", n)
	}
	p := meta.Proposal{Command: meta.PutKey{Key: "k", Value: make([]byte, 100)}}
	if n := testing.AllocsPerRun(1000, func() { session.Numbered(p) }); n != 0 {
		t.Errorf("%v allocations to judge whether a command is numbered, want 0", n)
	}
}
