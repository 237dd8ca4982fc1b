package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// batch is the commands of one call, translated. One that stands for no command has its answer already; it does not
// keep the others from being proposed, as one that the rules refuse does not.
type batch struct {
	answers   []meta.Answer
	proposals []meta.Proposal
	places    []int // of the proposals among the answers
}

func newBatch(r *api.ReceivedRequest) (*batch, error) {
	switch n := r.Count; {
	case n == 0:
		return nil, invalid("commands: there are none, 1 to %d are needed", api.MaxCommands)
	case n > api.MaxCommands:
		return nil, &meta.Error{Code: meta.CodeTooLarge, Inner: -1,
			Message: fmt.Sprintf("%d commands, at most %d are allowed in one call", n, api.MaxCommands)}
	}
	b := &batch{answers: make([]meta.Answer, r.Count), proposals: make([]meta.Proposal, 0, r.Count), places: make([]int, 0, r.Count)}
	for i, c := range r.Commands {
		if c.Err != nil {
			b.answers[i] = refused(c.Err)
			continue
		}
		b.proposals = append(b.proposals, c.Proposal)
		b.places = append(b.places, i)
	}
	return b, nil
}

// refused is the answer to what never reached the store.
func refused(err error) meta.Answer {
	a := meta.Answer{Err: err}
	if meta.CodeOf(err) != 0 {
		a.Status = meta.Rejected
	}
	return a
}

// maxCurrent is the most bytes of keys' values that the answers of one call hold: many refusals, each with a large value,
// would make an answer that no client reads, and then knows of none of its commands what became of it.
const maxCurrent = 2 << 20

// bound leaves the values of further refusals out where there are too many bytes of them.
func bound(answers []meta.Answer) {
	size := 0
	for i := range answers {
		var e *meta.Error
		if !errors.As(answers[i].Err, &e) || e.Current == nil {
			continue
		}
		if size += len(e.Current.Value); size > maxCurrent {
			short := *e
			short.Current = nil
			answers[i].Err = &short
		}
	}
}

// merge puts the store's answers in their places and returns all.
func (b *batch) merge(answers []meta.Answer) []meta.Answer {
	for i, at := range b.places {
		if i < len(answers) {
			b.answers[at] = answers[i]
		} else {
			b.answers[at] = meta.Answer{Err: fmt.Errorf("the store gave %d answers to %d commands: %w", len(answers),
				len(b.places), meta.ErrOutcomeUnknown)}
		}
	}
	bound(b.answers)
	return b.answers
}

func (s *service) propose(ctx context.Context, r *pb.ProposeRequest) (*pb.ProposeResponse, error) {
	b, err := newBatch(api.Received(r.GetCommands()))
	if err != nil {
		return nil, err
	}
	answers, at := s.proposeBatch(ctx, b)
	return &pb.ProposeResponse{Answers: api.Each(answers, api.FromAnswer), At: at}, nil
}

// proposeNative is propose with the messages of the native transport.
func (s *service) proposeNative(ctx context.Context, r *api.ReceivedRequest) (*api.ProposeResponse, error) {
	b, err := newBatch(r)
	if err != nil {
		return nil, err
	}
	answers, at := s.proposeBatch(ctx, b)
	return &api.ProposeResponse{Answers: answers, At: at}, nil
}

func (s *service) proposeBatch(ctx context.Context, b *batch) ([]meta.Answer, *pb.At) {
	var answers []meta.Answer
	if len(b.proposals) > 0 {
		ctx, cancel := s.bounded(ctx)
		defer cancel()
		answers = s.store.Propose(ctx, b.proposals...)
	}
	return b.merge(answers), s.at(s.store.View())
}

func (s *service) dryRun(ctx context.Context, r *pb.DryRunRequest) (*pb.DryRunResponse, error) {
	b, err := newBatch(api.Received(r.GetCommands()))
	if err != nil {
		return nil, err
	}
	if _, err := s.view(ctx, r.GetRead()); err != nil {
		return nil, err
	}
	answers, changes, v := s.store.DryRun(ctx, b.proposals...)
	for i := range changes { // told by the positions in the call
		if c := changes[i].Command; c >= 0 && c < len(b.places) {
			changes[i].Command = b.places[c]
		}
	}
	return &pb.DryRunResponse{Answers: api.Each(b.merge(answers), api.FromAnswer), Changes: api.Each(changes, api.FromChange), At: s.at(v)}, nil
}

func (s *service) snapshot(ctx context.Context, _ *pb.SnapshotRequest) (*pb.SnapshotResponse, error) {
	// Without the server's bound: a large state takes as long as it takes, and the work goes on beyond the call.
	i, err := s.store.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	return &pb.SnapshotResponse{Index: i}, nil
}
