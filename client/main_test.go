package client_test

import (
	"context"
	"net"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/server"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLog makes a new cluster in memory.
func newLog(t testing.TB) *oplog.Memory {
	t.Helper()
	m := oplog.NewMemory()
	l := m.Open()
	defer l.Close()
	if _, err := headwater.Init(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	return m
}

// openStore opens one more node on the log.
func openStore(t testing.TB, m *oplog.Memory) *headwater.Store {
	t.Helper()
	l := m.Open()
	s, err := headwater.Open(t.Context(), l, headwater.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
		_ = l.Close()
	})
	return s
}

// serve starts a server for store and returns it with its address.
func serve(t testing.TB, store server.Store) (*server.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(store, server.Options{Version: "test"})
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

func open(t testing.TB, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	return c
}

// stub is a store of which a test decides what it needs; the rest is that of an empty one.
type stub struct {
	index       uint64
	incarnation string
	propose     func(context.Context, ...meta.Proposal) []meta.Answer
	wait        func(context.Context, uint64) (*headwater.View, error)
	readLog     func(from uint64, fn func(headwater.LogRow) error) error
}

const incarnation = "00000000000000aa"

func (s *stub) Propose(ctx context.Context, p ...meta.Proposal) []meta.Answer {
	if s.propose == nil {
		return appliedAt(1, len(p))
	}
	return s.propose(ctx, p...)
}

func (s *stub) DryRun(context.Context, ...meta.Proposal) ([]meta.Answer, []meta.Change, *headwater.View) {
	return nil, nil, s.View()
}

func (s *stub) View() *headwater.View {
	return &headwater.View{State: meta.NewState(), Index: oplog.Index(s.index)}
}

func (s *stub) Wait(ctx context.Context, index uint64) (*headwater.View, error) {
	if s.wait == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.wait(ctx, index)
}

func (s *stub) Linearize(context.Context) (*headwater.View, error) { return s.View(), nil }

func (s *stub) Status() headwater.Status {
	i := s.incarnation
	if i == "" {
		i = incarnation
	}
	return headwater.Status{Condition: headwater.Ready, Incarnation: i, AppliedIndex: s.index}
}

func (s *stub) Snapshot(context.Context) (uint64, error) { return s.index, nil }

func (s *stub) ReadLog(_ context.Context, from uint64, _ int, fn func(headwater.LogRow) error) error {
	return s.readLog(from, fn)
}

// appliedAt is n answers of the row at index.
func appliedAt(index uint64, n int) []meta.Answer {
	out := make([]meta.Answer, n)
	for i := range out {
		out[i] = meta.Answer{Status: meta.Applied, Index: index, Position: i, FirstIndex: index, FirstPosition: i,
			Result: meta.PutKeyResult{Version: index*256 + uint64(i)}}
	}
	return out
}

func put(key string) meta.Proposal {
	return meta.Proposal{Command: meta.PutKey{Key: key, Value: []byte("v")}}
}
