package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
)

// counting is a server that counts the statements that it executes, by its own extension.
func counting(t testing.TB, settings ...string) *dbtest.Postgres {
	t.Helper()
	p := dbtest.NewPostgres(t, append(settings, "shared_preload_libraries = 'pg_stat_statements'")...)
	mustExec(t, session(t, p.DSN("postgres", "postgres")), "CREATE EXTENSION pg_stat_statements")
	return p
}

// idle checks that n idle nodes leave the server alone.
func idle(t testing.TB, p *dbtest.Postgres, n int) {
	t.Helper()
	s := session(t, p.DSN("postgres", "postgres"))
	clustertest.Idle{Nodes: n, Counts: func() (statements, sessions int64) {
		err := s.QueryRow(t.Context(), `SELECT sum(calls)::bigint, sum(calls) FILTER (WHERE query LIKE 'SET statement_timeout%')::bigint
			FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'`).Scan(&statements, &sessions)
		if err != nil {
			t.Fatal(err)
		}
		return statements, sessions
	}}.Run(t)
}

// TestIdleStatements: a node that has nothing to do sends the server at most 5 statements in a second, whether it hears
// of rows or polls.
func TestIdleStatements(t *testing.T) {
	t.Parallel()
	for _, noNotify := range []bool{false, true} {
		t.Run(fmt.Sprintf("notify=%t", !noNotify), func(t *testing.T) {
			t.Parallel()
			p := counting(t)
			o := on(p)
			o.NoNotify = noNotify
			stores := nodes(t, 4, o, headwater.Options{})
			mustPut(t, stores[0], "k")
			clustertest.Agree(t, stores)
			idle(t, p, len(stores))
		})
	}
}

// TestManyNodes: 3 processes of nodes read one server while rows are written as fast as 2,000 in a second. None stays
// behind: whatever was the newest row at a moment, all of them reach it while the writing goes on. In the end they agree,
// and idle they leave the server alone. 2 nodes a process and 2,000 rows, or 8 and 60,000 at full size.
func TestManyNodes(t *testing.T) {
	t.Parallel()
	perProcess, rows := 2, 2000
	if full {
		perProcess, rows = 8, 60_000
	}
	p := counting(t, "fsync = off")
	plan := fleetPlan{DSN: p.DSN("postgres", "postgres"), Prefix: dbtest.Prefix(), Nodes: perProcess}
	o := headwater.Options{}
	o.Engine.RowCommands = 1
	writer := nodes(t, 1, plan.options(), o)[0]
	var fleets []*fleet
	for range 3 {
		fleets = append(fleets, startFleet(t, plan))
	}
	start := time.Now()
	written := make(chan struct{})
	go func() {
		defer close(written)
		write(t, writer, rows, 2000)
	}()
	var took []time.Duration // until all had what was the newest row when they were asked
	for over := false; !over; {
		select {
		case <-written:
			over = true
		case <-time.After(200 * time.Millisecond):
			start := time.Now()
			reach(t, writer, fleets)
			took = append(took, time.Since(start))
		}
	}
	t.Logf("%d rows written, %.0f a second; of %d times that all %d nodes were asked to have the newest row, it took %v in the median, %v at most",
		rows, float64(rows)/time.Since(start).Seconds(), len(took), 3*perProcess, middle(took).Round(time.Millisecond), slices.Max(took).Round(time.Millisecond))
	want := writer.Status()
	for i, got := range reach(t, writer, fleets) {
		fit := got.Condition == headwater.Ready || got.Condition == headwater.CatchingUp // it looks for more
		if !fit || got.Applied != want.AppliedIndex || got.Digest != want.Digest {
			t.Errorf("node %d: %+v, want index %d and digest %s", i, got, want.AppliedIndex, want.Digest)
		}
	}
	idle(t, p, 1+3*perProcess)
}

// write proposes commands that each make a row, at most rate of them in a second.
func write(t testing.TB, s *headwater.Store, rows, rate int) {
	next := make(chan int)
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for i := range next {
				if err := put(context.Background(), s, fmt.Sprintf("key-%d", i%500)); err != nil {
					t.Errorf("row %d: %v", i, err)
				}
			}
		})
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for i := range rows {
		for float64(i) > time.Since(start).Seconds()*float64(rate) {
			<-tick.C
		}
		next <- i
	}
	close(next)
	done.Wait()
}

// middle returns the median.
func middle(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// reach waits until all nodes have what is the newest row now, and returns how they stand then.
func reach(t testing.TB, writer *headwater.Store, fleets []*fleet) (all []nodeReport) {
	t.Helper()
	newest := uint64(writer.View().Index)
	for _, f := range fleets {
		f.ask(newest)
	}
	for _, f := range fleets {
		all = append(all, f.reports()...)
	}
	return all
}
