package server

// Inside the package: these play with virtual time, in which connections are pipes and a splitter's sockets cannot be.

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// one is a store that only has a condition.
type one struct {
	Store
	condition atomic.Value // a headwater.Condition
}

func (s *one) Status() headwater.Status {
	c, _ := s.condition.Load().(headwater.Condition)
	return headwater.Status{Condition: c}
}

func TestHealthWatchTellsEveryChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &one{}
		store.condition.Store(headwater.Ready)
		s := newService(store, Options{}.withDefaults())
		var got []healthpb.HealthCheckResponse_ServingStatus
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- s.watchHealth(ctx, &healthpb.HealthCheckRequest{}, func(r *healthpb.HealthCheckResponse) error {
				got = append(got, r.Status)
				return nil
			})
		}()
		for _, c := range []headwater.Condition{headwater.Ready, headwater.CatchingUp, headwater.Gap, headwater.Halted, headwater.Ready} {
			synctest.Wait()
			store.condition.Store(c)
			time.Sleep(2 * watchInterval) // of the bubble: no time passes
		}
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended in %v", err)
		}
		want := []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING,
			healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVING}
		if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("told %v, want %v", got, want)
		}
	})
}

// pipe serves one connection of HTTP/1 with the handler and returns its other end.
func pipe(t *testing.T, h http.Handler) net.Conn {
	client, server := net.Pipe()
	l := newHandoff(server.LocalAddr())
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	l.give(server)
	t.Cleanup(func() { _ = client.Close(); _ = s.Close(); <-done })
	return client
}

func TestSlowBodyIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		c := pipe(t, timedBody(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			ended <- err
		})))
		start := time.Now()
		go func() {
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nslow")
			_, _ = io.Copy(io.Discard, c)
		}()
		if err := <-ended; err == nil || time.Since(start) != bodyTimeout {
			t.Errorf("the body ended in %v after %v", err, time.Since(start))
		}
	})
}

func TestSlowAnswerIsNotCutOff(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"a body":        "Content-Length: 5\r\n\r\nquick",
		"an empty body": "Content-Length: 0\r\n\r\n", // what asks for a snapshot is
		"no body":       "\r\n",
		"chunks":        "Transfer-Encoding: chunked\r\n\r\n5\r\nquick\r\n0\r\n\r\n",
		"no chunk":      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testSlowAnswer(t, "POST / HTTP/1.1\r\nHost: h\r\n"+request) })
		})
	}
}

func testSlowAnswer(t *testing.T, request string) {
	c := pipe(t, timedBody(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		select {
		case <-time.After(10 * bodyTimeout):
			_, _ = io.WriteString(w, "at last")
		case <-r.Context().Done():
		}
	})))
	go func() { _, _ = io.WriteString(c, request) }()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || string(b) != "at last" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestDefaultBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(&one{}, Options{}.withDefaults())
		ctx, cancel := s.bounded(context.Background())
		defer cancel()
		if end, ok := ctx.Deadline(); !ok || time.Until(end) != 30*time.Second {
			t.Errorf("deadline %v, %v", end, ok)
		}
		own, stop := context.WithTimeout(context.Background(), time.Hour)
		defer stop()
		if got, _ := s.bounded(own); got != own {
			t.Error("a caller's own deadline was replaced")
		}
	})
}

func TestErrorsOfTheNativeTransport(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	if nativeError(nil) != nil || nativeError(plain) != plain {
		t.Error("what has no status is changed")
	}
	if s := clip(strings.Repeat("x", 99)); len(s) > 70 || !strings.HasSuffix(s, "…") {
		t.Errorf("clipped to %q", s)
	}
	if e := refused(meta.ErrHalted); e.Status != 0 {
		t.Errorf("an operational error is %+v", e)
	}
}
