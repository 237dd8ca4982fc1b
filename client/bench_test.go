package client_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/meta"
)

// BenchmarkPropose puts 100-byte values through the API into a log in memory; server and callers share the machine.
func BenchmarkPropose(b *testing.B) {
	for _, callers := range []int{1, 16, 256, 1000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			_, addr := serve(b, openStore(b, newLog(b)))
			c := open(b, client.Options{Endpoints: []string{addr}})
			p := meta.Proposal{Command: meta.PutKey{Key: "bench", Value: make([]byte, 100)}}
			each(b, callers, func() error { return c.Propose(b.Context(), p)[0].Err })
		})
	}
}

// BenchmarkProposeGathered is BenchmarkPropose with callers that share requests.
func BenchmarkProposeGathered(b *testing.B) {
	for _, gather := range []int{1, 2, 4} {
		for _, callers := range []int{1, 16, 256, 1000} {
			b.Run(fmt.Sprintf("gather=%d/callers=%d", gather, callers), func(b *testing.B) {
				_, addr := serve(b, openStore(b, newLog(b)))
				c := open(b, client.Options{Endpoints: []string{addr}, Gather: gather})
				p := meta.Proposal{Command: meta.PutKey{Key: "bench", Value: make([]byte, 100)}}
				each(b, callers, func() error { return c.Propose(b.Context(), p)[0].Err })
			})
		}
	}
}

// BenchmarkProposeBatch is BenchmarkPropose with 100 commands in each call.
func BenchmarkProposeBatch(b *testing.B) {
	_, addr := serve(b, openStore(b, newLog(b)))
	c := open(b, client.Options{Endpoints: []string{addr}})
	ps := make([]meta.Proposal, 100)
	for i := range ps {
		ps[i] = meta.Proposal{Command: meta.PutKey{Key: "bench", Value: make([]byte, 100)}}
	}
	for b.Loop() {
		for _, a := range c.Propose(b.Context(), ps...) {
			if a.Err != nil {
				b.Fatal(a.Err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(ps))/b.Elapsed().Seconds(), "commands/s")
}

// BenchmarkFindObjects reads through the API from the server's own view.
func BenchmarkFindObjects(b *testing.B) {
	for _, callers := range []int{1, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			store := openStore(b, newLog(b))
			small(b, store)
			_, addr := serve(b, store)
			c := open(b, client.Options{Endpoints: []string{addr}})
			each(b, callers, func() error {
				_, _, err := c.FindObjects(b.Context(), 1, 0, 0, 10)
				return err
			})
		})
	}
}

// each lets callers call fn b.N times in all.
func each(b *testing.B, callers int, fn func() error) {
	b.Helper()
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := fn(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
