package main

import (
	"context"
	"errors"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
)

// echoStore answers every command at once: what it takes to serve it is what the real server adds.
type echoStore struct{ view *headwater.View }

func newEchoStore() *echoStore {
	return &echoStore{view: &headwater.View{State: meta.NewState(), Index: 1_000_000}}
}

var errNotHere = errors.New("an echo has no log")

func (s *echoStore) Propose(_ context.Context, ps ...meta.Proposal) []meta.Answer {
	out := make([]meta.Answer, len(ps))
	for i := range out {
		out[i] = meta.Answer{Status: meta.Applied, Index: 1_000_000, Position: i, FirstIndex: 1_000_000, FirstPosition: i,
			Result: meta.PutKeyResult{Version: 256_000_000}}
	}
	return out
}

func (s *echoStore) DryRun(context.Context, ...meta.Proposal) ([]meta.Answer, []meta.Change, *headwater.View) {
	return nil, nil, s.view
}
func (s *echoStore) View() *headwater.View                                 { return s.view }
func (s *echoStore) Wait(context.Context, uint64) (*headwater.View, error) { return s.view, nil }
func (s *echoStore) Linearize(context.Context) (*headwater.View, error)    { return s.view, nil }
func (s *echoStore) Snapshot(context.Context) (uint64, error)              { return 0, errNotHere }
func (s *echoStore) ReadLog(context.Context, uint64, int, func(headwater.LogRow) error) error {
	return errNotHere
}
func (s *echoStore) Status() headwater.Status {
	return headwater.Status{Condition: headwater.Ready, Incarnation: "0123456789abcdef"}
}
