package postgres_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// sum is the cheapest state there is, so that a benchmark measures the log.
func sum() replica.Machine[uint64, uint64] {
	return replica.Machine[uint64, uint64]{
		Apply: func(s uint64, _ oplog.Index, commands [][]byte) (uint64, []uint64, error) {
			out := make([]uint64, len(commands))
			for i := range commands {
				s++
				out[i] = s
			}
			return s, out, nil
		},
		Digest: func(s uint64) (d replica.Digest) {
			binary.LittleEndian.PutUint64(d[:], s)
			return d
		},
		Encode: func(s uint64, w io.Writer) error { return binary.Write(w, binary.LittleEndian, s) },
		Decode: func(r io.Reader) (s uint64, err error) { return s, binary.Read(r, binary.LittleEndian, &s) },
	}
}

// contender is a node of BenchmarkNodes and what happened to it.
type contender struct {
	*replica.Replica[uint64, uint64]
	commands        atomic.Int64
	rows, conflicts atomic.Int64
	mu              sync.Mutex // guards the rest
	last            time.Time  // when a row of its own was committed last
	longest         time.Duration
}

func (c *contender) committed(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, now.Sub(c.last))
	c.last = now
}

// round is what one round of BenchmarkNodes measured.
type round struct {
	rate, slowest, fastest, conflicts, p50, p99, p999, longest float64 // commands/s (three), %, ms (the others)
}

// contend has callers propose at n nodes for a time, each one command of 16 bytes after the other.
func contend(b *testing.B, n, callers int, plain bool, during time.Duration) round {
	o := place(b)
	o.Turnstile = !plain
	nodes := make([]*contender, n)
	for i := range nodes {
		postgres.Apart()
		l, err := postgres.Open(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		if _, err := replica.Init(b.Context(), l); err != nil && !errors.Is(err, oplog.ErrExists) {
			b.Fatal(err)
		}
		c := &contender{}
		c.Replica, err = replica.Open(b.Context(), l, sum(), replica.Options{Events: replica.Events{
			Appended: func(oplog.Index, int, int, time.Duration) { c.rows.Add(1); c.committed(time.Now()) },
			Conflict: func(oplog.Index) { c.conflicts.Add(1) },
		}})
		if err != nil {
			b.Fatal(err)
		}
		nodes[i] = c
	}
	start := time.Now()
	for _, c := range nodes {
		c.last = start
	}
	var done sync.WaitGroup
	waits := make([][]time.Duration, callers)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for i := range callers {
		c := nodes[i%n]
		done.Go(func() {
			command := make([]byte, 16)
			for now := time.Now(); now.Sub(start) < during; {
				if res := c.Propose(ctx, command)[0]; res.Err != nil {
					b.Errorf("propose: %v", res.Err)
					return
				}
				then := now
				now = time.Now()
				c.commands.Add(1)
				waits[i] = append(waits[i], now.Sub(then))
			}
		})
	}
	done.Wait()
	end := time.Now()
	took := end.Sub(start).Seconds()
	r := round{slowest: -1}
	var rows, conflicts int64
	for _, c := range nodes {
		c.committed(end)
		rate := float64(c.commands.Load()) / took
		r.rate += rate
		r.fastest = max(r.fastest, rate)
		if r.slowest < 0 || rate < r.slowest {
			r.slowest = rate
		}
		r.longest = max(r.longest, c.longest.Seconds()*1000)
		rows, conflicts = rows+c.rows.Load(), conflicts+c.conflicts.Load()
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	}
	all := slices.Concat(waits...)
	slices.Sort(all)
	at := func(part float64) float64 { return all[int(float64(len(all)-1)*part)].Seconds() * 1000 }
	r.conflicts = 100 * float64(conflicts) / float64(max(rows+conflicts, 1))
	r.p50, r.p99, r.p999 = at(0.5), at(0.99), at(0.999)
	return r
}

// BenchmarkNodes measures what becomes of a thousand callers that propose at more and more nodes of one server, with the
// turnstile and without it. One iteration is a round of 2 s of each, one after the other; what is reported are the
// medians of the rounds: -bench Nodes -benchtime 5x.
func BenchmarkNodes(b *testing.B) {
	for _, n := range []int{1, 3, 8, 16} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			var rounds [2][]round
			for range b.N {
				for i, plain := range []bool{true, false} {
					rounds[i] = append(rounds[i], contend(b, n, 1000, plain, 2*time.Second))
				}
			}
			for i, name := range []string{"plain", "turn"} {
				for unit, value := range map[string]func(r round) float64{
					"commands/s": func(r round) float64 { return r.rate }, "slowest/fastest": func(r round) float64 { return r.slowest / r.fastest },
					"%conflicts": func(r round) float64 { return r.conflicts }, "p50ms": func(r round) float64 { return r.p50 },
					"p99ms": func(r round) float64 { return r.p99 }, "p99.9ms": func(r round) float64 { return r.p999 },
					"longest-ms": func(r round) float64 { return r.longest },
				} {
					b.ReportMetric(median(rounds[i], value), name+"-"+unit)
				}
			}
		})
	}
}

func median(rounds []round, value func(r round) float64) float64 {
	var values []float64
	for _, r := range rounds {
		values = append(values, value(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
