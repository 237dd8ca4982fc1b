package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"google.golang.org/grpc"
)

// Store is what the server needs of a store; *headwater.Store is one.
type Store interface {
	meta.Proposer
	// DryRun judges the proposals against the current view, which it returns too.
	DryRun(ctx context.Context, proposals ...meta.Proposal) ([]meta.Answer, []meta.Change, *headwater.View)
	// View returns the current view; it costs next to nothing.
	View() *headwater.View
	// Wait returns a view at or above index; Linearize one that holds everything answered before the call.
	Wait(ctx context.Context, index uint64) (*headwater.View, error)
	Linearize(ctx context.Context) (*headwater.View, error)
	// Status tells how the node stands.
	Status() headwater.Status
	// Snapshot stores a snapshot and returns its index.
	Snapshot(ctx context.Context) (uint64, error)
	// ReadLog gives the rows from an index on to fn, at most limit of them; 0: all that there are.
	ReadLog(ctx context.Context, from uint64, limit int, fn func(headwater.LogRow) error) error
}

// Options configure a Server; the zero value works.
type Options struct {
	// Version of the program, for Status and the front page; empty: "unknown".
	Version string
	// Timeout bounds what a call without a deadline waits for; default 30 s. Streams have no bound.
	Timeout time.Duration
	// Logger is told of panics in handlers and of faults of the transports; nil: nobody is.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Version == "" {
		o.Version = "unknown"
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// The bounds of the network side.
const (
	maxRequestBytes = 8<<20 + 64<<10 // a full row of commands, and what is around them
	maxStreams      = 4096           // calls at once on one connection
	streamWorkers   = 1024           // goroutines that wait for calls: a new one for each would grow its stack each time
	headerTimeout   = 10 * time.Second
	bodyTimeout     = 30 * time.Second
	idleTimeout     = 5 * time.Minute
	pingAfter       = 30 * time.Second // of silence
	pingTimeout     = 15 * time.Second
	minClientPing   = 5 * time.Second
	maxHeaderBytes  = 64 << 10
)

// Server serves one store. Its methods may be called at once from many goroutines.
type Server struct {
	service *service
	handler http.Handler
	native  *grpc.Server
	web     *http.Server

	mu        sync.Mutex // guards the fields below
	splitters []*splitter
	closed    bool
}

// New returns a server for store, which stays the caller's to close, after the server was shut down.
func New(store Store, o Options) *Server {
	o = o.withDefaults()
	svc := newService(store, o)
	methods := svc.methods()
	g := newGate()
	s := &Server{service: svc, handler: webHandler(svc, methods, g), native: nativeServer(svc, methods, g)}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.web = &http.Server{
		Handler: s.handler, Protocols: &protocols,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
			WriteByteTimeout: bodyTimeout},
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	return s
}

// Handler returns all that the server answers as an HTTP handler, gRPC included, for programs that listen themselves.
// HTTP/2, which gRPC needs, is the listener's to offer.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers the connections of l until Shutdown or Close, and then returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	split := newSplitter(l, headerTimeout, idleTimeout)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = l.Close()
		return nil
	}
	s.splitters = append(s.splitters, split)
	s.mu.Unlock()

	var wg sync.WaitGroup
	wg.Go(func() { _ = s.native.Serve(split.native) }) // ends with the splitter, which says why
	wg.Go(func() { _ = s.web.Serve(split.web) })
	err := split.serve()
	split.close()
	wg.Wait()
	return err
}

// Shutdown stops accepting, tells health checks, lets calls under way finish and then closes all connections. When ctx
// ends first the calls are cut off and the context's error is returned; what they proposed may have taken effect.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopAccepting()
	done := make(chan struct{})
	go func() {
		s.native.GracefulStop()
		close(done)
	}()
	err := s.web.Shutdown(ctx)
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		s.native.Stop() // ends GracefulStop
		<-done
	}
	return errors.Join(err, s.web.Close())
}

// Close is Shutdown without patience.
func (s *Server) Close() error {
	s.stopAccepting()
	s.native.Stop()
	return s.web.Close()
}

func (s *Server) stopAccepting() {
	s.service.close()
	s.mu.Lock()
	s.closed = true
	splitters := s.splitters
	s.splitters = nil
	s.mu.Unlock()
	for _, split := range splitters {
		split.close()
	}
}
