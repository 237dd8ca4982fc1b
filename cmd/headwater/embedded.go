package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/api/headwater/v1/headwaterv1connect"
	"github.com/headwaterdb/headwater/server"
)

// openDatabase opens the database of --db in this process and serves it on a listener in memory.
func (a *app) openDatabase(ctx context.Context, why purpose) (_ *cluster, err error) {
	log, err := openLog(ctx, a.db, why)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = firstError(err, log.Close())
		}
	}()
	var o headwater.Options
	if why == toRead {
		o.Engine.SnapshotInterval = -1 // who only reads writes nothing, not even a snapshot that is due
	}
	changed := make(chan struct{}, 1)
	notify(&o.Engine.Events.StateOf, changed)
	store, err := headwater.Open(ctx, log, o)
	if err != nil {
		return nil, databaseError(err)
	}
	defer func() {
		if err != nil {
			_ = store.Close()
		}
	}()
	if err := a.catchUp(ctx, store, changed); err != nil {
		return nil, err
	}
	srv := server.New(store, server.Options{Version: version()})
	m := serveInMemory(srv.Handler())
	return &cluster{rpc: m.client(), Proposer: store, read: a.readOptions(), close: func() error {
		m.close()
		return firstError(srv.Close(), store.Close(), log.Close())
	}}, nil
}

// catchUp waits for the newest row, so that a look at a database shows what is in it. A node that cannot get there
// still answers, from as far as it got: that is told, and left to the command. changed gets a value when the node's
// condition may have changed.
func (a *app) catchUp(ctx context.Context, store *headwater.Store, changed <-chan struct{}) error {
	waiting, giveUp := context.WithCancel(ctx)
	defer giveUp()
	done := make(chan error, 1)
	go func() {
		_, err := store.Linearize(waiting)
		done <- err
	}()
	for {
		st := store.Status()
		if stuck(st.Condition) {
			fmt.Fprintf(a.err, "headwater: %s: %s; what follows is as of index %d\n", st.Condition, printable(st.Reason), st.AppliedIndex)
			giveUp()
			<-done
			return nil
		}
		select {
		case <-changed:
			continue
		case err := <-done:
			st := store.Status()
			switch {
			case err == nil:
				return nil
			case stuck(st.Condition):
				done <- err // it is told above
				continue
			case errors.Is(err, context.DeadlineExceeded):
				return unavailable(fmt.Errorf("read the log up to %d of %d: %w", st.AppliedIndex, st.NewestIndex, err), "--timeout allows more time")
			}
			return unavailable(fmt.Errorf("read the log: %w", err), "")
		}
	}
}

// stuck reports whether a node in this condition does not come to the newest row by itself.
func stuck(c headwater.Condition) bool {
	return c == headwater.Gap || c == headwater.Halted || c == headwater.Diverged || c == headwater.Rewound
}

// memory is a server on a listener in memory.
type memory struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
	server      *http.Server
	done        chan struct{}
	transport   *http.Transport
}

func serveInMemory(h http.Handler) *memory {
	m := &memory{connections: make(chan net.Conn), closed: make(chan struct{}), done: make(chan struct{}),
		server: &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}}
	m.transport = &http.Transport{DialContext: m.dial}
	go func() {
		defer close(m.done)
		_ = m.server.Serve(m) // ends with close
	}()
	return m
}

func (m *memory) client() headwaterv1connect.HeadwaterClient {
	return headwaterv1connect.NewHeadwaterClient(&http.Client{Transport: m.transport}, "http://memory")
}

func (m *memory) close() {
	m.transport.CloseIdleConnections()
	_ = m.server.Close()
	<-m.done
}

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case m.connections <- there:
		return here, nil
	case <-m.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept is net.Listener's.
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.connections:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close is net.Listener's.
func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// Addr is net.Listener's.
func (m *memory) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

// Network is net.Addr's.
func (memoryAddr) Network() string { return "memory" }

// String is net.Addr's.
func (memoryAddr) String() string { return "memory" }
