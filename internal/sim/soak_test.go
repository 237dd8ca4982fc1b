package sim_test

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/sim"
)

// tally adds up what the runs of a soak did.
type tally struct {
	mu     sync.Mutex // guards the rest
	begin  time.Time
	next   uint64
	seeds  int
	time   time.Duration
	counts map[string]int
}

func (y *tally) take() uint64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.next++
	return y.next
}

func (y *tally) add(r *sim.Report) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.seeds++
	y.time += r.Time
	for k, n := range r.Counts {
		y.counts[k] += n
	}
}

// line is the summary.
func (y *tally) line() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d seeds, %v simulated;", time.Since(y.begin).Round(time.Second), y.seeds, y.time.Round(time.Second))
	for _, k := range slices.Sorted(maps.Keys(y.counts)) {
		fmt.Fprintf(&b, " %s %d,", k, y.counts[k])
	}
	return strings.TrimSuffix(b.String(), ",")
}

// TestSoak runs seeds for as long as HEADWATER_SOAK says, on every processor, each time others. It prints a line a
// minute: what was done, and what went wrong, by kind.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("HEADWATER_SOAK"))
	if err != nil {
		return // nothing was asked for
	}
	y := &tally{begin: time.Now(), next: uint64(time.Now().UnixMilli()) << 16, counts: map[string]int{}}
	fmt.Printf("simulating from seed %d for %v\n", y.next+1, length)
	end := y.begin.Add(length)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for time.Now().Before(end) {
				r := sim.Run(y.take())
				if y.add(r); r.Err != nil {
					fail(t, r)
				}
			}
		})
	}
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	for {
		select {
		case <-minute.C:
			fmt.Println(y.line())
		case <-done:
			fmt.Println(y.line())
			return
		}
	}
}
