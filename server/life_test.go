package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// readLog reads rows over gRPC.
func readLog(t testing.TB, addr string, from, limit uint64) (rows []*pb.Row, err error) {
	t.Helper()
	s, err := dial(t, addr).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, procedures+"ReadLog")
	if err == nil {
		err = errors.Join(s.SendMsg(&pb.ReadLogRequest{FromIndex: from, Limit: limit}), s.CloseSend())
	}
	for err == nil {
		m := &pb.ReadLogResponse{}
		if err = s.RecvMsg(m); err == nil {
			rows = append(rows, m.Row)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return rows, err
}

// TestTour sends the tour line by line as JSON over HTTP.
func TestTour(t *testing.T) {
	t.Parallel()
	read := func(name string) []string {
		b, err := os.ReadFile("../testdata/tour/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	lines, expected := read("tour.jsonl"), read("tour.expected.jsonl")
	if len(lines) != len(expected) {
		t.Fatalf("%d lines, %d expected answers", len(lines), len(expected))
	}
	_, addr := serve(t, openStore(t), server.Options{})
	c := httpClient(t, false)
	for i, line := range lines {
		code, body := post(t, c, addr, "Propose", `{"commands": [`+line+`]}`)
		var got struct{ Answers []map[string]any }
		var want map[string]any
		if err := errors.Join(json.Unmarshal([]byte(body), &got), json.Unmarshal([]byte(expected[i]), &want)); err != nil || code != 200 || len(got.Answers) != 1 {
			t.Fatalf("line %d: status %d, %v, %s", i+1, code, err, body)
		}
		if !contains(got.Answers[0], want) {
			t.Errorf("line %d: %s\nanswer %s\nmust contain %s", i+1, line, body, expected[i])
		}
	}
	rows, err := readLog(t, addr, 0, 0)
	_, status := post(t, c, addr, "Status", `{}`)
	if newest := field(t, status, "newestIndex"); err != nil || newest != fmt.Sprint(len(rows)-1) || len(rows) < len(lines)/2 {
		t.Errorf("%d rows from 0 on (%v), the newest is %s", len(rows), err, newest)
	}
	for i, row := range rows {
		if row.Index != uint64(i) || row.Undecodable != "" || (row.ClusterId != "") != (i == 0) {
			t.Errorf("row %d: %v", i, row)
		}
	}
	if rows, err = readLog(t, addr, 5, 2); err != nil || len(rows) != 2 || rows[0].Index != 5 || len(rows[0].Commands) != 1 {
		t.Errorf("2 rows from 5: %v, %v", rows, err)
	}
}

// contains reports whether every field of want stands in got with that value.
func contains(got, want any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		a, isList := want.([]any)
		g, alsoList := got.([]any)
		if !isList {
			return got == want
		}
		if !alsoList || len(a) != len(g) {
			return false
		}
		for i := range a {
			if !contains(g[i], a[i]) {
				return false
			}
		}
		return true
	}
	g, ok := got.(map[string]any)
	if !ok {
		return false
	}
	for k, v := range w {
		if !contains(g[k], v) {
			return false
		}
	}
	return true
}

// gate is a store whose Propose waits until it is let go.
func gate() (f *fake, entered chan struct{}, release chan struct{}) {
	entered, release = make(chan struct{}, 16), make(chan struct{})
	return &fake{propose: func(ctx context.Context, ps ...meta.Proposal) []meta.Answer {
		entered <- struct{}{}
		select {
		case <-release:
			return []meta.Answer{{Status: meta.Applied, Index: 1, FirstIndex: 1, Result: meta.PutKeyResult{Version: 256}}}
		case <-ctx.Done():
			return []meta.Answer{{Err: errors.Join(meta.ErrOutcomeUnknown, ctx.Err())}}
		}
	}}, entered, release
}

// startCalls puts one call of each transport under way and returns how they end.
func startCalls(t *testing.T, addr string, entered chan struct{}) (ends chan string) {
	t.Helper()
	ends = make(chan string, 3)
	conn := dial(t, addr)
	go func() {
		r := &pb.ProposeResponse{}
		err := conn.Invoke(context.Background(), procedures+"Propose", &pb.ProposeRequest{Commands: []*pb.Command{putCommand("k", "v")}}, r)
		ends <- "native " + outcome(r.GetAnswers(), err)
	}()
	for _, h2 := range []bool{false, true} {
		c := httpClient(t, h2)
		go func() {
			r, err := c.Post("http://"+addr+procedures+"Propose", "application/json", strings.NewReader(`{"commands": [{"putKey": {"key": "k"}}]}`))
			if err != nil {
				ends <- "web error"
				return
			}
			defer r.Body.Close()
			b, err := io.ReadAll(r.Body)
			if err != nil || !strings.Contains(string(b), "APPLIED") {
				ends <- "web error"
				return
			}
			ends <- "web applied"
		}()
	}
	for range 3 {
		<-entered
	}
	return ends
}

func outcome(answers []*pb.Answer, err error) string {
	if err == nil && len(answers) == 1 && answers[0].Status == pb.Answer_APPLIED {
		return "applied"
	}
	return "error"
}

func TestShutdownLetsCallsFinish(t *testing.T) {
	t.Parallel()
	f, entered, release := gate()
	s, addr := serve(t, f, server.Options{})
	ends := startCalls(t, addr, entered)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	for { // until it no longer accepts
		c, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	select {
	case err := <-done:
		t.Fatalf("shut down with calls under way: %v", err)
	default:
	}
	close(release)
	for range 3 {
		if got := <-ends; !strings.HasSuffix(got, "applied") {
			t.Errorf("a call under way ended as: %s", got)
		}
	}
	if err := <-done; err != nil {
		t.Errorf("shut down: %v", err)
	}
}

// TestShutdownEndsReadsThatWait: what a read waits for may never come, so that it must not hold the shutdown up.
func TestShutdownEndsReadsThatWait(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{})
	f := &fake{wait: func(ctx context.Context, _ uint64) (*headwater.View, error) {
		close(waiting)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	s, addr := serve(t, f, server.Options{})
	end := make(chan error, 1)
	conn := dial(t, addr)
	go func() {
		end <- conn.Invoke(context.Background(), procedures+"Counts", &pb.CountsRequest{Read: &pb.Read{AtLeastIndex: 1 << 40}}, &pb.CountsResponse{})
	}()
	<-waiting
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("shut down: %v", err)
	}
	if err := <-end; status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "closing") {
		t.Errorf("the read ended in %v", err)
	}
}

func TestShutdownGivesUpInTime(t *testing.T) {
	t.Parallel()
	f, entered, _ := gate()
	s, addr := serve(t, f, server.Options{})
	ends := startCalls(t, addr, entered)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shut down: %v", err)
	}
	for range 3 {
		if got := <-ends; !strings.HasSuffix(got, "error") {
			t.Errorf("a call that was cut off ended as: %s", got)
		}
	}
}

func TestServeAfterClose(t *testing.T) {
	t.Parallel()
	s := server.New(&fake{}, server.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the listener is open")
	}
}

func TestServeEndsWithItsListener(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(&fake{}, server.Options{})
	_ = l.Close()
	if err := s.Serve(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("serve on a closed listener: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestCallersDeadline is honoured on both transports, whatever the server's own bound.
func TestCallersDeadline(t *testing.T) {
	t.Parallel()
	f, _, _ := gate()
	f.index = 1
	f.wait = func(ctx context.Context, _ uint64) (*headwater.View, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, addr := serve(t, f, server.Options{Timeout: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := dial(t, addr).Invoke(ctx, procedures+"Counts", &pb.CountsRequest{Read: &pb.Read{AtLeastIndex: 9}}, &pb.CountsResponse{})
	if status.Code(err) != codes.DeadlineExceeded { // told by the server or by the caller's own clock, whichever was first
		t.Errorf("the call ended in %v", err)
	}
}
