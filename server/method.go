package server

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// method is one procedure, ready for both transports.
type method struct {
	service string // for example "headwater.v1.Headwater"
	name    string // for example "Propose"
	web     func(...connect.HandlerOption) http.Handler
	unary   *grpc.MethodDesc // exactly one of the two
	stream  *grpc.StreamDesc
}

func (m method) path() string { return "/" + m.service + "/" + m.name }

type streamFunc[Req, Res any] = func(ctx context.Context, req *Req, send func(*Res) error) error

// unary makes a method out of a function that takes one message and returns one.
func unary[Req, Res any](s *service, svc, name string, fn func(context.Context, *Req) (*Res, error)) method {
	m := method{service: svc, name: name}
	fn = guarded(s, name, fn)
	m.web = func(o ...connect.HandlerOption) http.Handler {
		return connect.NewUnaryHandler(m.path(), func(ctx context.Context, r *connect.Request[Req]) (*connect.Response[Res], error) {
			res, err := fn(ctx, r.Msg)
			if err != nil {
				return nil, err
			}
			return connect.NewResponse(res), nil
		}, o...)
	}
	m.unary = nativeUnary(name, fn)
	return m
}

// nativeUnary makes the native side of a method out of a guarded function.
func nativeUnary[Req, Res any](name string, fn func(context.Context, *Req) (*Res, error)) *grpc.MethodDesc {
	return &grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		req := new(Req)
		if err := decode(req); err != nil {
			return nil, err
		}
		res, err := fn(ctx, req)
		if err != nil {
			return nil, nativeError(err)
		}
		return res, nil
	}}
}

// serverStream makes a method out of a function that takes one message and sends many.
func serverStream[Req, Res any](s *service, svc, name string, fn streamFunc[Req, Res]) method {
	m := method{service: svc, name: name}
	fn = guardedStream(s, name, fn)
	m.web = func(o ...connect.HandlerOption) http.Handler {
		return connect.NewServerStreamHandler(m.path(), func(ctx context.Context, r *connect.Request[Req], out *connect.ServerStream[Res]) error {
			return fn(ctx, r.Msg, out.Send)
		}, o...)
	}
	m.stream = &grpc.StreamDesc{StreamName: name, ServerStreams: true, Handler: func(_ any, out grpc.ServerStream) error {
		req := new(Req)
		if err := out.RecvMsg(req); err != nil {
			return err
		}
		return nativeError(fn(out.Context(), req, func(r *Res) error { return out.SendMsg(r) }))
	}}
	return m
}

// nativeError turns an error with a Connect status into one of the gRPC library. The codes have the same numbers.
func nativeError(err error) error {
	var c *connect.Error
	if err == nil || !errors.As(err, &c) {
		return err
	}
	p := &spb.Status{Code: int32(codes.Code(c.Code())), Message: c.Message()}
	for _, d := range c.Details() {
		p.Details = append(p.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return status.ErrorProto(p)
}
