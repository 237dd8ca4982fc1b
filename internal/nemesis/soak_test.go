//go:build unix

package nemesis_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/history"
)

// TestHistories plays rounds on each kind of database: one, or, where HEADWATER_SOAK says how long, as many as fit, with
// a line of figures each minute.
func TestHistories(t *testing.T) {
	soak := soaking(t)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HEADWATER_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("HEADWATER_TEST_SEED: %v", err)
		}
	}
	if _, err := binary(); err != nil {
		t.Fatal(err)
	}
	sum := newSummary()
	if soak > 0 {
		defer sum.everyMinute()()
	}
	for n, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			next := k.begin(t)
			// Each kind gets its share of the time, what others left over included.
			until := sum.begin.Add(soak * time.Duration(n+1) / time.Duration(len(kinds)))
			faults := 10
			if soak > 0 {
				faults = 30
			}
			for i := uint64(0); i == 0 || time.Now().Before(until) && !t.Failed(); i++ {
				t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
					a := play(t, next(t), seed+i, faults)
					t.Log(a.String())
					sum.add(k.name, a)
				})
			}
		})
	}
}

// soaking is how long rounds are to be played; 0: as few as there can be.
func soaking(t testing.TB) time.Duration {
	s := os.Getenv("HEADWATER_SOAK")
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("HEADWATER_SOAK: %v", err)
	}
	return d
}

// keepHistory saves the history of a round that failed.
func keepHistory(t testing.TB, h *history.History, r *history.Report) {
	base := os.Getenv("HEADWATER_HISTORIES")
	if base == "" {
		base = os.TempDir()
	}
	dir := filepath.Join(base, fmt.Sprintf("headwater-history-%d", h.Seed))
	if err := history.Save(dir, h, r); err != nil {
		t.Errorf("keep the history: %v", err)
	}
	t.Logf("The history is in %s; go run ./internal/history/recheck %s judges it again.", dir, dir)
}

// String tells what came of a round.
func (a *account) String() string {
	return fmt.Sprintf("%v; faults %s; %d restarts of daemons, %d rows truncated, longest time without an answer %v, all ready after %v",
		a.report, counted(a.faults), a.restarts, a.truncated, a.unavailable.Round(time.Millisecond), a.recovery.Round(time.Millisecond))
}

func counted(m map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(out, ", ")
}

// summary adds rounds up.
type summary struct {
	begin time.Time

	mu          sync.Mutex // guards the rest
	rounds      map[string]int
	outcomes    map[history.Outcome]int
	faults      map[string]int
	reads       int
	rows        int
	parts       int
	unavailable time.Duration
	recovery    time.Duration
	bad         int
}

func newSummary() *summary {
	return &summary{begin: time.Now(), rounds: map[string]int{}, outcomes: map[history.Outcome]int{}, faults: map[string]int{}}
}

func (s *summary) add(kind string, a account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds[kind]++
	for o, n := range a.report.Outcomes {
		s.outcomes[o] += n
	}
	for f, n := range a.faults {
		s.faults[f] += n
	}
	s.reads += a.report.Replayed
	s.rows += a.report.Rows
	s.parts += a.report.Parts
	s.unavailable, s.recovery = max(s.unavailable, a.unavailable), max(s.recovery, a.recovery)
	s.bad += len(a.report.Faults)
}

// everyMinute prints a line a minute, until the function is called that it returns, which prints the last one.
func (s *summary) everyMinute() (stop func()) {
	done := make(chan struct{})
	var printing sync.WaitGroup
	printing.Go(func() {
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.print()
			case <-done:
				s.print()
				return
			}
		}
	})
	return func() { close(done); printing.Wait() }
}

func (s *summary) print() {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf("%v: rounds %s; commands %d answered, %d failed, %d unknown; %d rows, %d reads replayed, %d parts checked; longest time without an answer %v, to be ready %v; %d violations; faults %s\n",
		time.Since(s.begin).Round(time.Second), counted(s.rounds), s.outcomes[history.Answered], s.outcomes[history.Failed],
		s.outcomes[history.Unknown], s.rows, s.reads, s.parts, s.unavailable.Round(time.Millisecond), s.recovery.Round(time.Millisecond), s.bad, counted(s.faults))
}
