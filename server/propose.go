package server

import (
	"context"
	"fmt"

	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// maxCommands is the most commands of one call.
const maxCommands = 1000

// batch is the commands of one call, translated. One that stands for no command has its answer already; it does not
// keep the others from being proposed, as one that the rules refuse does not.
type batch struct {
	answers   []meta.Answer
	proposals []meta.Proposal
	places    []int // of the proposals among the answers
}

func newBatch(commands []*pb.Command) (*batch, error) {
	switch n := len(commands); {
	case n == 0:
		return nil, invalid("commands: there are none, 1 to %d are needed", maxCommands)
	case n > maxCommands:
		return nil, &meta.Error{Code: meta.CodeTooLarge, Inner: -1,
			Message: fmt.Sprintf("%d commands, at most %d are allowed in one call", n, maxCommands)}
	}
	b := &batch{answers: make([]meta.Answer, len(commands)), proposals: make([]meta.Proposal, 0, len(commands)),
		places: make([]int, 0, len(commands))}
	for i, c := range commands {
		p, err := api.ToProposal(c)
		if err != nil {
			b.answers[i] = refused(err)
			continue
		}
		b.proposals = append(b.proposals, p)
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

// merge puts the store's answers in their places and returns all as messages.
func (b *batch) merge(answers []meta.Answer) []*pb.Answer {
	for i, at := range b.places {
		if i < len(answers) {
			b.answers[at] = answers[i]
		} else {
			b.answers[at] = meta.Answer{Err: fmt.Errorf("the store gave %d answers to %d commands: %w", len(answers),
				len(b.places), meta.ErrOutcomeUnknown)}
		}
	}
	return api.Each(b.answers, api.FromAnswer)
}

func (s *service) propose(ctx context.Context, r *pb.ProposeRequest) (*pb.ProposeResponse, error) {
	b, err := newBatch(r.GetCommands())
	if err != nil {
		return nil, err
	}
	var answers []meta.Answer
	if len(b.proposals) > 0 {
		ctx, cancel := s.bounded(ctx)
		defer cancel()
		answers = s.store.Propose(ctx, b.proposals...)
	}
	out := b.merge(answers)
	return &pb.ProposeResponse{Answers: out, At: s.at(s.store.View())}, nil
}

func (s *service) dryRun(ctx context.Context, r *pb.DryRunRequest) (*pb.DryRunResponse, error) {
	b, err := newBatch(r.GetCommands())
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
	return &pb.DryRunResponse{Answers: b.merge(answers), Changes: api.Each(changes, api.FromChange), At: s.at(v)}, nil
}

func (s *service) snapshot(ctx context.Context, _ *pb.SnapshotRequest) (*pb.SnapshotResponse, error) {
	// Without the server's bound: a large state takes as long as it takes, and the work goes on beyond the call.
	i, err := s.store.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	return &pb.SnapshotResponse{Index: i}, nil
}
