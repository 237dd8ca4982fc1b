package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"github.com/headwaterdb/headwater/api"
	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/api/headwater/v1/headwaterv1connect"
	"github.com/headwaterdb/headwater/meta"
)

// dial makes a cluster of the servers; nothing is sent yet.
func (a *app) dial(servers []string) (*cluster, error) {
	rpc := headwaterv1connect.NewHeadwaterClient(http.DefaultClient, servers[0])
	return &cluster{
		rpc:      rpc,
		Proposer: rpcProposer{rpc},
		read:     a.readOptions(),
		close:    func() error { return nil },
	}, nil
}

type rpcProposer struct {
	rpc headwaterv1connect.HeadwaterClient
}

// Propose is meta.Proposer's.
func (p rpcProposer) Propose(ctx context.Context, proposals ...meta.Proposal) []meta.Answer {
	r, err := p.rpc.Propose(ctx, connect.NewRequest(&headwaterv1.ProposeRequest{Commands: api.Each(proposals, api.FromProposal)}))
	if err == nil && len(r.Msg.GetAnswers()) == len(proposals) {
		return api.Each(r.Msg.GetAnswers(), api.ToAnswer)
	}
	err = api.FromStatus(err)
	if err == nil {
		err = errors.New("the server gave no answers")
	}
	answers := make([]meta.Answer, len(proposals))
	for i := range answers {
		answers[i] = meta.Answer{Err: fmt.Errorf("%w: %w", meta.ErrOutcomeUnknown, err)}
	}
	return answers
}
