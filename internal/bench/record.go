package bench

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept from 1 ns to 100 s, with three digits; what takes longer is counted as 100 s.
const (
	longest = int64(100 * time.Second)
	digits  = 3
)

// recorder counts what callers did. Callers share shards, so that they rarely wait for each other.
type recorder struct {
	ops       []string
	classify  func(error) string
	start     time.Time
	strict    bool         // what was due before start is not counted, although it ended later
	ends      atomic.Int64 // the end of what is measured, in nanoseconds from start on; 0: open
	shards    []*shard
	perCaller []int64 // each written by its caller alone

	// Below: of the goroutine that collects.
	total   []*hdrhistogram.Histogram // by op
	counted []int64                   // by op: those that ended in time
	errors  map[errorKey]*ErrorCount
	seconds []Second
}

// shard is what some of the callers did since it was last collected.
type shard struct {
	mu      sync.Mutex                // guards all below
	hists   []*hdrhistogram.Histogram // by op; nil: none yet
	counted []int64
	errors  map[errorKey]*ErrorCount
}

type errorKey struct {
	op   int
	code string
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, digits) }

func newRecorder(ops []string, callers int, classify func(error) string) *recorder {
	r := &recorder{ops: ops, classify: classify, perCaller: make([]int64, callers), total: make([]*hdrhistogram.Histogram, len(ops)),
		counted: make([]int64, len(ops)), errors: map[errorKey]*ErrorCount{}}
	for range min(callers, 2*runtime.GOMAXPROCS(0)) {
		r.shards = append(r.shards, &shard{hists: make([]*hdrhistogram.Histogram, len(ops)), counted: make([]int64, len(ops)),
			errors: map[errorKey]*ErrorCount{}})
	}
	return r
}

func (r *recorder) begin(start time.Time) { r.start = start }

// close ends what is measured at the given moment, unless it has an earlier end. Before the start nothing is measured.
func (r *recorder) close(at time.Time) {
	d := max(int64(at.Sub(r.start)), 1) // 0 stands for open
	if have := r.ends.Load(); have == 0 || d < have {
		r.ends.Store(d)
	}
}

// window is how long was measured, once it is over.
func (r *recorder) window() time.Duration {
	if d := r.ends.Load(); d > 1 {
		return time.Duration(d)
	}
	return 0
}

// record counts one operation of a caller. What ended before the measurement began is not counted. What began before and
// ended in it is, as in a closed loop the rate would be too low by what is under way at the end otherwise.
func (r *recorder) record(caller int, s Sample, due, end time.Time) {
	at := int64(end.Sub(r.start))
	if at <= 0 || r.strict && due.Before(r.start) {
		return
	}
	over := r.ends.Load()
	counts := over == 0 || at <= over
	sh := r.shards[caller%len(r.shards)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.Err != nil {
		sh.fail(errorKey{s.Op, r.classify(s.Err)}, r.ops[s.Op], s.Err)
		return
	}
	if sh.hists[s.Op] == nil {
		sh.hists[s.Op] = newHistogram()
	}
	_ = sh.hists[s.Op].RecordValue(min(max(int64(end.Sub(due)), 1), longest)) // within its bounds, so it fits
	if counts {
		sh.counted[s.Op]++
		r.perCaller[caller]++
	}
}

func (s *shard) fail(k errorKey, op string, err error) {
	e := s.errors[k]
	if e == nil {
		e = &ErrorCount{Op: op, Code: k.code, Example: err.Error()}
		s.errors[k] = e
	}
	e.Count++
}

// second collects what happened since the last one, and keeps it as the nth second unless no time was measured.
func (r *recorder) second(n int, took time.Duration) Second {
	all := newHistogram()
	s := Second{Second: n, Seconds: took.Seconds()}
	for _, sh := range r.shards {
		sh.mu.Lock()
		for op, h := range sh.hists {
			s.Count += sh.counted[op]
			r.counted[op] += sh.counted[op]
			sh.counted[op] = 0
			if h == nil || h.TotalCount() == 0 {
				continue
			}
			if r.total[op] == nil {
				r.total[op] = newHistogram()
			}
			r.total[op].Merge(h)
			all.Merge(h)
			h.Reset()
		}
		for k, e := range sh.errors {
			s.Errors += e.Count
			if have := r.errors[k]; have != nil {
				have.Count += e.Count
			} else {
				r.errors[k] = e
			}
		}
		clear(sh.errors)
		sh.mu.Unlock()
	}
	if took > 0 {
		s.Rate = float64(s.Count) / took.Seconds()
	}
	if all.TotalCount() > 0 {
		s.P50, s.P99, s.Max = quantile(all, 50), quantile(all, 99), milliseconds(all.Max())
	}
	if took > 0 && (s.Count > 0 || s.Errors > 0 || took >= time.Second) {
		r.seconds = append(r.seconds, s)
	}
	return s
}

// result is everything that was collected. missed operations were due and never begun, and the first of them had waited for
// oldest at the end: in the latencies of all operations, which kind they would have been is not known, they count with what
// each had waited, which is the least that it would have taken.
func (r *recorder) result(end time.Time, missed int64, oldest time.Duration) *Result {
	window := r.window().Seconds()
	res := &Result{Begin: r.start.UTC(), Seconds: window, WithDrain: max(end.Sub(r.start).Seconds(), window), Missed: missed,
		Operations: []Summary{}, Errors: []ErrorCount{}, Timeline: r.seconds, PerCaller: r.perCaller}
	if res.Timeline == nil {
		res.Timeline = []Second{}
	}
	failed := make([]int64, len(r.ops))
	for k, e := range r.errors {
		res.Errors = append(res.Errors, *e)
		failed[k.op] += e.Count
	}
	all := newHistogram()
	var counted, errors int64
	for op, h := range r.total {
		if h == nil && failed[op] == 0 {
			continue
		}
		if h == nil {
			h = newHistogram()
		}
		all.Merge(h)
		s := summary(r.ops[op], h, r.counted[op], window)
		s.Errors = failed[op]
		res.Operations = append(res.Operations, s)
		counted, errors = counted+r.counted[op], errors+failed[op]
	}
	succeeded := all.TotalCount()
	const steps = 1000 // they are due evenly
	for i := range int64(steps) {
		if n := missed*(i+1)/steps - missed*i/steps; n > 0 {
			_ = all.RecordValues(min(max(int64(oldest)*(steps-i)/steps, 1), longest), n) // within its bounds, so it fits
		}
	}
	res.All = summary("all", all, counted, window)
	res.All.Count, res.All.Errors = succeeded, errors
	slices.SortFunc(res.Errors, func(a, b ErrorCount) int {
		if c := strings.Compare(a.Op, b.Op); c != 0 {
			return c
		}
		return strings.Compare(a.Code, b.Code)
	})
	return res
}

func summary(op string, h *hdrhistogram.Histogram, counted int64, window float64) Summary {
	s := Summary{Op: op, Count: h.TotalCount()}
	if window > 0 {
		s.Rate = float64(counted) / window
	}
	if s.Count == 0 {
		return s
	}
	s.Min, s.Mean, s.Max = milliseconds(h.Min()), h.Mean()/1e6, milliseconds(h.Max())
	s.P50, s.P90, s.P99, s.P999 = quantile(h, 50), quantile(h, 90), quantile(h, 99), quantile(h, 99.9)
	return s
}

func quantile(h *hdrhistogram.Histogram, q float64) float64 {
	return milliseconds(h.ValueAtQuantile(q))
}

func milliseconds(ns int64) float64 { return float64(ns) / 1e6 }
