package server

import (
	"github.com/headwaterdb/headwater/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // lets clients compress; MaxRecvMsgSize is of what they send, decompressed
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
)

// protoFiles are where reflection finds the services.
var protoFiles = map[string]string{
	serviceName: "headwater/v1/headwater.proto",
	healthName:  "grpc/health/v1/health.proto",
}

// nativeServer serves the methods by the gRPC library's own transport.
func nativeServer(s *service, methods []method, large gate) *grpc.Server {
	g := grpc.NewServer(
		grpc.ForceServerCodecV2(nativeCodec{api.Codec(encoding.GetCodecV2(proto.Name)), large, s}),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
	)
	descs := map[string]*grpc.ServiceDesc{}
	var order []string
	for _, m := range methods {
		d := descs[m.service]
		if d == nil {
			d = &grpc.ServiceDesc{ServiceName: m.service, HandlerType: (*any)(nil), Metadata: protoFiles[m.service]}
			descs[m.service] = d
			order = append(order, m.service)
		}
		if m.unary != nil {
			d.Methods = append(d.Methods, *m.unary)
		} else {
			d.Streams = append(d.Streams, *m.stream)
		}
	}
	for _, name := range order {
		g.RegisterService(descs[name], s)
	}
	reflection.Register(g)
	return g
}
