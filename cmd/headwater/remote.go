package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/api/headwater/v1/headwaterv1connect"
	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/meta"
)

// dial makes a cluster of the servers. Reads go to the first one that answers; commands go through the client, which
// tries all of them again where that is safe.
func (a *app) dial(ctx context.Context, servers []string) *cluster {
	p := &remoteProposer{servers: servers}
	return &cluster{rpc: firstAnswering(ctx, servers), Proposer: p, read: a.readOptions(), close: p.close}
}

// firstAnswering is the API of the first server that answers; of the last one where none does, or there is but one, so
// that the call itself tells what is wrong.
func firstAnswering(ctx context.Context, servers []string) headwaterv1connect.HeadwaterClient {
	for _, s := range servers[:len(servers)-1] {
		rpc := headwaterv1connect.NewHeadwaterClient(http.DefaultClient, s)
		if _, err := rpc.Status(ctx, connect.NewRequest(&headwaterv1.StatusRequest{})); err == nil {
			return rpc
		}
	}
	return headwaterv1connect.NewHeadwaterClient(http.DefaultClient, servers[len(servers)-1])
}

// remoteProposer opens the client when the first command is proposed: who only reads does without.
type remoteProposer struct {
	servers []string
	once    sync.Once
	client  *client.Client
	err     error
}

// Propose is meta.Proposer's.
func (p *remoteProposer) Propose(ctx context.Context, proposals ...meta.Proposal) []meta.Answer {
	p.once.Do(func() { p.client, p.err = client.Open(ctx, client.Options{Endpoints: p.servers}) })
	if p.err == nil {
		return p.client.Propose(ctx, proposals...)
	}
	answers := make([]meta.Answer, len(proposals))
	for i := range answers {
		answers[i] = meta.Answer{Err: fmt.Errorf("%w: %w", meta.ErrNotApplied, p.err)}
	}
	return answers
}

func (p *remoteProposer) close() error {
	if p.client == nil {
		return nil
	}
	return p.client.Close()
}
