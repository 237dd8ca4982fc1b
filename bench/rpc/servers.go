package main

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	"github.com/headwaterdb/headwater/server"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/api/headwater/v1/headwaterv1connect"
)

const procedure = "/headwater.v1.Headwater/Propose"

// connectEcho serves Propose by Connect.
type connectEcho struct {
	headwaterv1connect.UnimplementedHeadwaterHandler
}

func (connectEcho) Propose(_ context.Context, r *connect.Request[pb.ProposeRequest]) (*connect.Response[pb.ProposeResponse], error) {
	return connect.NewResponse(echo(r.Msg)), nil
}

// echoDesc is the service as protoc-gen-go-grpc would write it, for Propose alone.
var echoDesc = grpc.ServiceDesc{
	ServiceName: "headwater.v1.Headwater",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Propose",
		Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(pb.ProposeRequest)
			if err := dec(in); err != nil {
				return nil, err
			}
			return echo(in), nil
		},
	}},
}

func grpcEcho() *grpc.Server {
	s := grpc.NewServer(grpc.NumStreamWorkers(1024)) // as the project's server has
	s.RegisterService(&echoDesc, struct{}{})
	return s
}

// runServer serves on a free port of loopback and prints the address.
func runServer(kind string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	mux := http.NewServeMux()
	mux.Handle(headwaterv1connect.NewHeadwaterHandler(connectEcho{}))
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	h2 := &http.HTTP2Config{MaxConcurrentStreams: 2000}
	switch kind {
	case "connect": // net/http's own h2c
		return (&http.Server{Handler: mux, Protocols: &both, HTTP2: h2}).Serve(l)
	case "lean": // net/http's h2c with a hand-written unary gRPC handler
		return (&http.Server{Handler: http.HandlerFunc(leanPropose), Protocols: &both, HTTP2: h2}).Serve(l)
	case "grpc": // grpc-go's own transport
		return grpcEcho().Serve(l)
	case "headwater": // the project's server: both transports on one port, translations, an echo for a store
		return server.New(newEchoStore(), server.Options{}).Serve(l)
	case "grpc-http": // grpc-go on net/http
		return (&http.Server{Handler: grpcEcho(), Protocols: &both, HTTP2: h2}).Serve(l)
	}
	return fmt.Errorf("no server %q", kind)
}
