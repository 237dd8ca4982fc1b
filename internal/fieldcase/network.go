package fieldcase

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// KilledServer is field case 14.6: a server is ended with -9, and now and then in order, under the load of its nodes, and
// started again. It runs 3 rounds, or as many as HEADWATER_ROUNDS says.
func KilledServer(t *testing.T, stores []*headwater.Store, kill, stop, start func(testing.TB)) {
	clustertest.Run(t, stores, 6, 30*time.Second, func() {
		for i := range clustertest.Rounds(t, 3) {
			at := i % len(stores)
			clustertest.Await(t, stores[at], 20)
			if i%3 == 2 {
				stop(t)
			} else {
				kill(t)
			}
			if v := stores[at].View(); v.Index == 0 { // reads go on
				t.Error("no view while the server is away")
			}
			start(t)
		}
		clustertest.Await(t, stores[0], 20)
	})
}

// Outage: while the server of a node is away, reads answer from the view, proposals end with their contexts, and everything
// goes on when it is back.
func Outage(t *testing.T, s *headwater.Store, stop, start func(testing.TB)) {
	mustPut(t, s, "k", "v")
	stop(t)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := meta.Propose(ctx, s, meta.PutKey{Key: "k", Value: []byte("w")})
		cancel()
		if err == nil {
			t.Error("a proposal without a server succeeded")
		}
		if _, ok := s.View().State.Key("k"); !ok {
			t.Error("the view lost a key")
		}
	}
	start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := meta.Propose(ctx, s, meta.PutKey{Key: "k", Value: []byte("x")}); err != nil {
		t.Errorf("propose when the server is back: %v", err)
	}
}

// BadNetwork is hazards 2 and 3: the network between nodes and a server loses answers, holds requests back and breaks
// connections, at moments drawn from a seed. insert begins the statement of an append. It runs 30 faults, or as many as
// HEADWATER_ROUNDS says.
func BadNetwork(t *testing.T, stores []*headwater.Store, x *proxy.Proxy, insert string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	clustertest.Run(t, stores, 6, 5*time.Second, func() {
		var held []*proxy.Gate
		gate := func() *proxy.Gate {
			held = append(held, proxy.NewGate())
			return held[len(held)-1]
		}
		for range clustertest.Rounds(t, 30) {
			clustertest.Await(t, stores[r.IntN(len(stores))], uint64(1+r.IntN(4)))
			switch r.IntN(7) {
			case 0, 1: // committed, answer lost
				x.Add(proxy.LoseAnswer(insert))
			case 2: // broken while it is on its way
				x.Add(proxy.LoseStatement(insert))
			case 3: // commits when it was long given up, or a bit late
				x.Add(proxy.HoldStatement(insert, gate()))
			case 4:
				x.Add(proxy.AbandonStatement(insert, gate()))
			case 5: // committed, and the answer comes late
				x.Add(proxy.HoldAnswer(insert, gate()))
			case 6:
				x.Cut()
			}
			for len(held) > 3 || len(held) > 0 && r.IntN(3) == 0 {
				held[0].Open()
				held = held[1:]
			}
		}
		for _, h := range held {
			h.Open()
		}
		clustertest.Await(t, stores[0], 5)
	})
}

// BlackHole is field case 14.4 for a log: the network swallows everything and says nothing. Calls end by the log's timeout of
// statements, and everything works again over new connections. The newest row of l is 3.
func BlackHole(t *testing.T, l oplog.Log, x *proxy.Proxy) {
	at := oplog.Index(4)
	newest := func() error {
		t.Helper()
		got, err := l.Newest(t.Context())
		if err == nil && got != at-1 {
			t.Errorf("newest: %d, want %d", got, at-1)
		}
		return err
	}
	for round := range 4 {
		if err := newest(); err != nil { // it leaves an idle connection
			t.Fatal(err)
		}
		x.BlackHole()
		if round%2 == 0 {
			if err := newest(); !errors.Is(err, oplog.ErrUnavailable) {
				t.Errorf("newest: %v, want unavailable", err)
			}
		} else if err := l.Append(t.Context(), at, nil, []byte("lost")); !errors.Is(err, oplog.ErrUnknown) {
			t.Errorf("append: %v, want unknown", err)
		}
		// One call has shown that the way is dead. No other one goes it.
		if err := newest(); err != nil {
			t.Errorf("newest over a new connection: %v", err)
		}
		for _, payload := range []string{"y", "z"} { // what was lost never reached the server
			if err := l.Append(t.Context(), at, nil, []byte(payload)); err != nil {
				t.Fatalf("append row %d: %v", at, err)
			}
			at++
		}
	}
}
