package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// nodes opens n nodes on the database, the first of which makes it a cluster.
func nodes(t *testing.T, n int, o postgres.Options, engine headwater.Options) []*headwater.Store {
	t.Helper()
	var logs []oplog.Log
	for range n {
		logs = append(logs, openNode(t, o))
	}
	return clustertest.Nodes(t, engine, logs...)
}

// TestKilledServer kills the server with -9 under load and starts it again. It runs 3 rounds, or as many as
// HEADWATER_ROUNDS says. Hazard 8, field case 14.6.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	engine := headwater.Options{}
	engine.Engine.SnapshotInterval = 50
	o := on(p)
	o.Turnstile = true
	stores := nodes(t, 3, o, engine)
	clustertest.Run(t, stores, 6, 30*time.Second, func() {
		for i := range clustertest.Rounds(t, 3) {
			clustertest.Await(t, stores[i%3], 20)
			if i%3 == 2 {
				p.Stop(t)
			} else {
				p.Kill(t)
			}
			if v := stores[i%3].View(); v.Index == 0 { // reads go on
				t.Error("no view while the server is away")
			}
			p.Start(t)
		}
		clustertest.Await(t, stores[0], 20)
	})
}

// TestBadNetwork runs three nodes through a network that loses answers, holds requests back and breaks connections, at
// moments drawn from a seed. It runs 30 faults, or as many as HEADWATER_ROUNDS says. Hazards 2 and 3.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	for _, turnstile := range []bool{false, true} {
		t.Run(fmt.Sprintf("turnstile=%t", turnstile), func(t *testing.T) {
			t.Parallel()
			testBadNetwork(t, turnstile)
		})
	}
}

func testBadNetwork(t *testing.T, turnstile bool) {
	x, _, o := proxied(t)
	o.Turnstile = turnstile
	o.StatementTimeout = 300 * time.Millisecond
	engine := headwater.Options{}
	engine.Engine.SnapshotInterval = 40
	stores := nodes(t, 3, o, engine)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	clustertest.Run(t, stores, 6, 5*time.Second, func() {
		var held []*proxy.Gate
		gate := func() *proxy.Gate {
			held = append(held, proxy.NewGate())
			return held[len(held)-1]
		}
		insert := "INSERT INTO " + o.Prefix + "_log"
		for range clustertest.Rounds(t, 30) {
			clustertest.Await(t, stores[r.IntN(3)], uint64(1+r.IntN(4)))
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

// TestOutage: while the server is away reads answer from the view, proposals end with their contexts, and everything
// goes on when it is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	s := nodes(t, 1, on(p), headwater.Options{})[0]
	if _, err := meta.Propose(t.Context(), s, meta.PutKey{Key: "k", Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	p.Stop(t)
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
	p.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := meta.Propose(ctx, s, meta.PutKey{Key: "k", Value: []byte("x")}); err != nil {
		t.Errorf("propose when the server is back: %v", err)
	}
}
