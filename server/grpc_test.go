package server_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/headwaterdb/headwater"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/api/headwater/v1/headwaterv1connect"
	"github.com/headwaterdb/headwater/server"
)

func dial(t testing.TB, addr string, o ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+addr, append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func putCommand(key, value string) *pb.Command {
	return &pb.Command{Command: &pb.Command_PutKey{PutKey: &pb.PutKey{Key: key, Value: []byte(value)}}}
}

// TestEveryProtocol calls the same server by each protocol that it speaks, errors and streams included.
func TestEveryProtocol(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, openStore(t), server.Options{})
	for name, o := range map[string]struct {
		h2      bool
		options []connect.ClientOption
	}{
		"grpc":              {true, []connect.ClientOption{connect.WithGRPC()}},
		"grpc-web":          {false, []connect.ClientOption{connect.WithGRPCWeb()}},
		"grpc-web, HTTP/2":  {true, []connect.ClientOption{connect.WithGRPCWeb()}},
		"connect":           {false, nil},
		"connect, HTTP/2":   {true, nil},
		"connect, compress": {false, []connect.ClientOption{connect.WithSendGzip()}},
	} {
		c := headwaterv1connect.NewHeadwaterClient(httpClient(t, o.h2), "http://"+addr, o.options...)
		testProtocol(t, name, func(ctx context.Context, m *pb.ProposeRequest) (*pb.ProposeResponse, error) {
			r, err := c.Propose(ctx, connect.NewRequest(m))
			if err != nil {
				return nil, err
			}
			return r.Msg, nil
		}, func(ctx context.Context, m *pb.GetStreamRequest) (code uint32, details int) {
			_, err := c.GetStream(ctx, connect.NewRequest(m))
			var e *connect.Error
			if !errors.As(err, &e) {
				return 0, 0
			}
			return uint32(e.Code()), len(e.Details())
		}, func(ctx context.Context) (n int, err error) {
			s, err := c.Export(ctx, connect.NewRequest(&pb.ExportRequest{}))
			if err != nil {
				return 0, err
			}
			defer s.Close()
			for s.Receive() {
				n++
			}
			return n, s.Err()
		})
	}
	conn := dial(t, addr)
	testProtocol(t, "grpc-go", func(ctx context.Context, m *pb.ProposeRequest) (*pb.ProposeResponse, error) {
		r := &pb.ProposeResponse{}
		return r, conn.Invoke(ctx, procedures+"Propose", m, r)
	}, func(ctx context.Context, m *pb.GetStreamRequest) (code uint32, details int) {
		st := status.Convert(conn.Invoke(ctx, procedures+"GetStream", m, &pb.GetStreamResponse{}))
		return uint32(st.Code()), len(st.Details())
	}, func(ctx context.Context) (n int, err error) {
		s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, procedures+"Export")
		if err == nil {
			err = errors.Join(s.SendMsg(&pb.ExportRequest{}), s.CloseSend())
		}
		for ; err == nil; n++ {
			err = s.RecvMsg(&pb.ExportResponse{})
		}
		if err.Error() == "EOF" {
			err = nil
		}
		return n - 1, err
	})
}

func testProtocol(t *testing.T, name string, propose func(context.Context, *pb.ProposeRequest) (*pb.ProposeResponse, error),
	getStream func(context.Context, *pb.GetStreamRequest) (uint32, int), export func(context.Context) (int, error)) {
	t.Helper()
	r, err := propose(t.Context(), &pb.ProposeRequest{Commands: []*pb.Command{putCommand(name, "x"), {}}})
	if err != nil {
		t.Errorf("%s: propose: %v", name, err)
		return
	}
	if len(r.Answers) != 2 || r.Answers[0].Status != pb.Answer_APPLIED || r.Answers[1].Status != pb.Answer_REJECTED ||
		r.At.GetIndex() < r.Answers[0].GetIndex() || r.Answers[0].GetIndex() == 0 {
		t.Errorf("%s: propose answered %v", name, r)
	}
	if code, details := getStream(t.Context(), &pb.GetStreamRequest{StreamId: 5}); code != uint32(codes.NotFound) || details != 1 {
		t.Errorf("%s: a missing stream is code %d with %d details", name, code, details)
	}
	if n, err := export(t.Context()); err != nil || n < 2 {
		t.Errorf("%s: export sent %d records, %v", name, n, err)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	var now atomic.Value
	now.Store(headwater.Ready)
	f := &fake{status: func() headwater.Status { return headwater.Status{Condition: now.Load().(headwater.Condition)} }}
	for c, want := range map[headwater.Condition]healthpb.HealthCheckResponse_ServingStatus{
		headwater.Ready: healthpb.HealthCheckResponse_SERVING, headwater.CatchingUp: healthpb.HealthCheckResponse_SERVING,
		headwater.Gap: healthpb.HealthCheckResponse_NOT_SERVING, headwater.Halted: healthpb.HealthCheckResponse_NOT_SERVING,
		headwater.Diverged: healthpb.HealthCheckResponse_NOT_SERVING, headwater.Rewound: healthpb.HealthCheckResponse_NOT_SERVING,
		headwater.Closed: healthpb.HealthCheckResponse_NOT_SERVING,
	} {
		now.Store(c)
		s, addr := serve(t, f, server.Options{})
		h := healthpb.NewHealthClient(dial(t, addr))
		for _, name := range []string{"", "headwater.v1.Headwater"} {
			if r, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name}); err != nil || r.Status != want {
				t.Errorf("%s, service %q: %v, %v; want %v", c, name, r, err, want)
			}
		}
		if r, err := h.List(t.Context(), &healthpb.HealthListRequest{}); err != nil || len(r.Statuses) != 2 || r.Statuses[""].GetStatus() != want {
			t.Errorf("%s: list %v, %v", c, r, err)
		}
		if _, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "nope"}); status.Code(err) != codes.NotFound {
			t.Errorf("unknown service: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestHealthWatch(t *testing.T) {
	t.Parallel()
	s, addr := serve(t, openStore(t), server.Options{})
	h := healthpb.NewHealthClient(dial(t, addr))
	w, err := h.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := h.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "nope"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.Recv(); err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("first: %v, %v", r, err)
	}
	if r, err := unknown.Recv(); err != nil || r.Status != healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Fatalf("unknown service: %v, %v", r, err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	if r, err := w.Recv(); err != nil || r.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("closing: %v, %v", r, err)
	}
	if _, err := w.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("closed: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("shut down under a watch: %v", err)
	}
}

func TestReflection(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, openStore(t), server.Options{})
	// A user agent of a proxy keeps the connection with net/http, so both implementations are asked.
	for _, agent := range []string{"", "curl/8"} {
		conn := dial(t, addr, grpc.WithUserAgent(agent))
		s, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ask := func(m *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
			t.Helper()
			if err := s.Send(m); err != nil {
				t.Fatal(err)
			}
			r, err := s.Recv()
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		var names []string
		for _, svc := range r.GetListServicesResponse().GetService() {
			names = append(names, svc.Name)
		}
		for _, want := range []string{"headwater.v1.Headwater", "grpc.health.v1.Health"} {
			if !slices.Contains(names, want) {
				t.Errorf("agent %q: services %q lack %s", agent, names, want)
			}
		}
		r = ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "headwater.v1.Headwater.FindObjects"}})
		if len(r.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("agent %q: no file for a method: %v", agent, r)
		}
		if err := s.CloseSend(); err != nil {
			t.Error(err)
		}
		// The older name of the same messages.
		a, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
		if err != nil {
			t.Fatal(err)
		}
		r = &reflectionpb.ServerReflectionResponse{}
		if err := errors.Join(a.SendMsg(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}), a.RecvMsg(r)); err != nil {
			t.Fatal(err)
		}
		if len(r.GetListServicesResponse().GetService()) < 2 {
			t.Errorf("agent %q, v1alpha: %v", agent, r)
		}
		if err := a.CloseSend(); err != nil {
			t.Error(err)
		}
	}
}

// TestNativeGzip: the gRPC transport takes compressed messages, and its limit is of what they hold. The client is one that
// has no part in the gRPC library's table of compressors, but calls itself by its name.
func TestNativeGzip(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, openStore(t), server.Options{})
	c := headwaterv1connect.NewHeadwaterClient(httpClient(t, true), "http://"+addr, connect.WithGRPC(), connect.WithSendGzip())
	for size, want := range map[int]connect.Code{200 << 10: 0, 9 << 20: connect.CodeResourceExhausted} {
		m := connect.NewRequest(&pb.ProposeRequest{Commands: []*pb.Command{putCommand("k", string(make([]byte, size)))}})
		m.Header().Set("User-Agent", "grpc-go/1.0")
		r, err := c.Propose(t.Context(), m)
		switch {
		case want != 0 && connect.CodeOf(err) != want:
			t.Errorf("%d bytes of zeros, compressed: %v, want %v", size, err, want)
		case want == 0 && (err != nil || r.Msg.GetAnswers()[0].GetStatus() != pb.Answer_APPLIED):
			t.Errorf("%d bytes of zeros, compressed: %v, %v", size, r, err)
		}
	}
}

func TestNativeRefusals(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, openStore(t), server.Options{})
	conn := dial(t, addr)
	if err := conn.Invoke(t.Context(), procedures+"Status", &pb.StatusRequest{}, &pb.StatusResponse{}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Invoke(t.Context(), procedures+"Nope", &pb.StatusRequest{}, &pb.StatusResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("unknown method: %v", err)
	}
	big := &pb.ProposeRequest{Commands: []*pb.Command{putCommand("k", string(make([]byte, 9<<20)))}}
	if err := conn.Invoke(t.Context(), procedures+"Propose", big, &pb.ProposeResponse{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("9 MiB: %v", err)
	}
	req, err := http.NewRequest("GET", "http://"+addr+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := httpClient(t, true).Do(req) // HTTP/2 without gRPC, beside it
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != 200 {
		t.Errorf("status %d", r.StatusCode)
	}
}
