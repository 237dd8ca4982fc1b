package main

import (
	"context"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/meta"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/api/headwater/v1/headwaterv1connect"
)

// caller proposes once; i is the caller's number, by which it takes one of the connections.
type caller func(i int, ctx context.Context, m *pb.ProposeRequest) (*pb.ProposeResponse, error)

// newClient returns a client of one kind with its own connections.
func newClient(kind, addr string, conns int) (call caller, closeAll func(), err error) {
	switch kind {
	case "connect", "connect-proto": // connect-go: by the gRPC protocol, or by its own
		var cs []headwaterv1connect.HeadwaterClient
		var ts []*http.Transport
		for range conns {
			var h2 http.Protocols
			h2.SetUnencryptedHTTP2(true)
			t := &http.Transport{Protocols: &h2, DisableCompression: true}
			ts = append(ts, t)
			var o []connect.ClientOption
			if kind == "connect" {
				o = append(o, connect.WithGRPC())
			}
			cs = append(cs, headwaterv1connect.NewHeadwaterClient(&http.Client{Transport: t}, "http://"+addr, o...))
		}
		return func(i int, ctx context.Context, m *pb.ProposeRequest) (*pb.ProposeResponse, error) {
				r, err := cs[i%conns].Propose(ctx, connect.NewRequest(m))
				if err != nil {
					return nil, err
				}
				return r.Msg, nil
			}, func() {
				for _, t := range ts {
					t.CloseIdleConnections()
				}
			}, nil
	case "headwater": // the project's client, which numbers the commands
		c, err := client.Open(context.Background(), client.Options{Endpoints: []string{addr}})
		if err != nil {
			return nil, nil, err
		}
		return func(_ int, ctx context.Context, m *pb.ProposeRequest) (*pb.ProposeResponse, error) {
			_, err := meta.Propose(ctx, c, meta.PutKey{Key: m.Commands[0].GetPutKey().Key, Value: value})
			return nil, err
		}, func() { _ = c.Close() }, nil
	case "grpc":
		var cs []*grpc.ClientConn
		for range conns {
			c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return nil, nil, err
			}
			cs = append(cs, c)
		}
		return func(i int, ctx context.Context, m *pb.ProposeRequest) (*pb.ProposeResponse, error) {
				out := new(pb.ProposeResponse)
				return out, cs[i%conns].Invoke(ctx, procedure, m, out)
			}, func() {
				for _, c := range cs {
					_ = c.Close()
				}
			}, nil
	}
	return nil, nil, fmt.Errorf("no client %q", kind)
}
