package server_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/server"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openStore opens a store on a new log in memory.
func openStore(t testing.TB) *headwater.Store {
	t.Helper()
	log := oplog.NewMemory().Open()
	if _, err := headwater.Init(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	s, err := headwater.Open(t.Context(), log, headwater.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

// serve starts a server for store and returns it with its address.
func serve(t testing.TB, store server.Store, o server.Options) (*server.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(store, o)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

// httpClient returns a client with connections of its own, for HTTP/1 or, with prior knowledge, HTTP/2.
func httpClient(t testing.TB, h2 bool) *http.Client {
	t.Helper()
	var p http.Protocols
	p.SetHTTP1(!h2)
	p.SetUnencryptedHTTP2(h2)
	tr := &http.Transport{Protocols: &p}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// fake is a store whose answers a test decides; what it does not decide comes from an empty state.
type fake struct {
	propose   func(context.Context, ...meta.Proposal) []meta.Answer
	wait      func(context.Context, uint64) (*headwater.View, error)
	linearize func(context.Context) (*headwater.View, error)
	status    func() headwater.Status
	readLog   func(context.Context, uint64, int, func(headwater.LogRow) error) error
	index     oplog.Index
}

const fakeIncarnation = "00000000000000aa"

var errUndecided = errors.New("the test did not expect this call")

func (f *fake) Propose(ctx context.Context, p ...meta.Proposal) []meta.Answer {
	if f.propose == nil {
		return nil
	}
	return f.propose(ctx, p...)
}

func (f *fake) DryRun(_ context.Context, p ...meta.Proposal) ([]meta.Answer, []meta.Change, *headwater.View) {
	a, c := meta.NewState().Plan(p)
	return a, c, f.View()
}

func (f *fake) View() *headwater.View {
	return &headwater.View{State: meta.NewState(), Index: f.index}
}

func (f *fake) Wait(ctx context.Context, index uint64) (*headwater.View, error) {
	if f.wait == nil {
		return nil, errUndecided
	}
	return f.wait(ctx, index)
}

func (f *fake) Linearize(ctx context.Context) (*headwater.View, error) {
	if f.linearize == nil {
		return nil, errUndecided
	}
	return f.linearize(ctx)
}

func (f *fake) Status() headwater.Status {
	st := headwater.Status{Condition: headwater.Ready}
	if f.status != nil {
		st = f.status()
	}
	st.Incarnation = fakeIncarnation
	return st
}

func (f *fake) Snapshot(context.Context) (uint64, error) { return 0, errUndecided }

func (f *fake) ReadLog(ctx context.Context, from uint64, limit int, fn func(headwater.LogRow) error) error {
	if f.readLog == nil {
		return errUndecided
	}
	return f.readLog(ctx, from, limit, fn)
}
