package oplogtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// BenchmarkVisibility measures how long it takes from an append at one log until another one, in the same tables, has read
// the row, as the engine does: it waits, then reads. writer holds rows up to newest. The reader has waited for idle before
// each append, so that its pauses are as long as they become by then. Medians and a 99th percentile are reported in
// microseconds.
func BenchmarkVisibility(b *testing.B, writer, reader oplog.Log, newest oplog.Index, idle time.Duration) {
	var sent, answered []time.Duration
	for at := newest + 1; b.Loop(); at++ {
		waiting, end := context.WithTimeout(b.Context(), time.Minute)
		seen := make(chan time.Time, 1)
		go func() {
			if err := await(waiting, reader, at); err != nil {
				b.Errorf("wait for row %d: %v", at, err)
			}
			seen <- time.Now()
		}()
		<-time.After(idle)
		start := time.Now()
		if err := writer.Append(b.Context(), at, nil, []byte("row")); err != nil {
			b.Fatalf("append row %d: %v", at, err)
		}
		answer := time.Now()
		then := <-seen
		end()
		sent, answered = append(sent, then.Sub(start)), append(answered, then.Sub(answer))
	}
	slices.Sort(sent)
	slices.Sort(answered)
	b.ReportMetric(0, "ns/op") // it is mostly the idling
	b.ReportMetric(micros(sent, 50), "µs/sent-to-seen")
	b.ReportMetric(micros(answered, 50), "µs/answered-to-seen")
	b.ReportMetric(micros(answered, 99), "µs/answered-to-seen-p99")
}

// await waits until l shows the row at index.
func await(ctx context.Context, l oplog.Log, index oplog.Index) error {
	for {
		if err := l.Wait(ctx, index-1); err != nil {
			return err
		}
		if rows, err := l.Read(ctx, index-1, 1); err != nil || len(rows) > 0 {
			return err
		}
	}
}

// BenchmarkAgainst measures what an append costs in terms of a plain INSERT that commits by itself, of the same payload
// into a table with the same columns, which insert makes at index. The two take turns, who is first changing each time,
// so that whatever else the machine does hits both. Medians are reported in microseconds, and their ratio.
func BenchmarkAgainst(b *testing.B, l oplog.Log, newest oplog.Index, insert func(index oplog.Index, payload []byte) error) {
	payload := make([]byte, 100)
	var ours, plain []time.Duration
	for at := newest + 1; b.Loop(); at++ {
		for turn := range 2 {
			start := time.Now()
			if (int(at)+turn)%2 == 0 {
				if err := l.Append(b.Context(), at, nil, payload); err != nil {
					b.Fatalf("append row %d: %v", at, err)
				}
				ours = append(ours, time.Since(start))
				continue
			}
			if err := insert(at, payload); err != nil {
				b.Fatalf("insert row %d: %v", at, err)
			}
			plain = append(plain, time.Since(start))
		}
	}
	slices.Sort(ours)
	slices.Sort(plain)
	b.ReportMetric(micros(ours, 50), "µs/append")
	b.ReportMetric(micros(plain, 50), "µs/insert")
	b.ReportMetric(micros(ours, 50)/micros(plain, 50), "append/insert")
}

// micros is the percentile of sorted times in microseconds.
func micros(sorted []time.Duration, percent int) float64 {
	return float64(sorted[(len(sorted)-1)*percent/100].Nanoseconds()) / 1000
}
