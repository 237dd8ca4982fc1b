package main

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/api/headwater/v1/headwaterv1connect"
)

// dial makes a cluster of the servers; nothing is sent yet.
func (a *app) dial(servers []string) (*cluster, error) {
	c := newCluster(headwaterv1connect.NewHeadwaterClient(http.DefaultClient, servers[0]))
	c.close = func() error { return nil }
	return c, nil
}

// newCluster makes a cluster that proposes through rpc, too.
func newCluster(rpc headwaterv1connect.HeadwaterClient) *cluster {
	return &cluster{rpc: rpc, propose: func(ctx context.Context, commands []*headwaterv1.Command) []*headwaterv1.Answer {
		r, err := rpc.Propose(ctx, connect.NewRequest(&headwaterv1.ProposeRequest{Commands: commands}))
		if err == nil && len(r.Msg.GetAnswers()) == len(commands) {
			return r.Msg.GetAnswers()
		}
		answers := make([]*headwaterv1.Answer, len(commands))
		for i := range answers {
			answers[i] = failedAnswer(err)
		}
		return answers
	}}
}

// failedAnswer is the answer to a command whose call failed as a whole.
func failedAnswer(err error) *headwaterv1.Answer {
	a := &headwaterv1.Answer{Status: headwaterv1.Answer_FAILED,
		Failure: &headwaterv1.Failure{Kind: headwaterv1.Failure_OUTCOME_UNKNOWN}, Message: "the server gave no answers"}
	if err != nil {
		a.Message = rpcError(err).Error()
	}
	return a
}
