package sim_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headwaterdb/headwater/internal/sim"
)

var (
	seed  = flag.Uint64("seed", 0, "TestSeed runs this seed and prints its history")
	first = flag.Uint64("first", 1, "the first seed of TestSeeds")
	stop  = flag.Bool("stop", false, "TestSeeds starts no further seed once one has failed")
	tail  = flag.Int("tail", 60, "how many lines of the history of a failing seed to print; TestSeed prints all of it")
)

// rounds is how many seeds TestSeeds runs.
func rounds() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("HEADWATER_ROUNDS"), 10, 64); err == nil {
		return n
	}
	if os.Getenv("HEADWATER_TEST_FULL") != "" {
		return 2000
	}
	return 60
}

// fail reports a seed that broke an invariant, with the end of its history and the command that repeats it.
func fail(t *testing.T, r *sim.Report) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(r.Trace, "\n"), "\n")
	t.Errorf("seed %d: %v\n%s\nthe last of %d lines:\n%s\nto repeat it: go test ./internal/sim -run 'TestSeed$' -seed=%d", r.Seed, r.Err,
		r.Config.String(), len(lines), strings.Join(lines[max(len(lines)-*tail, 0):], "\n"), r.Seed)
}

// TestSeed repeats one seed, for a person who looks into a failure.
func TestSeed(t *testing.T) {
	if *seed == 0 {
		return // nothing was asked for
	}
	r := sim.Run(*seed)
	fmt.Print(r.Trace)
	if r.Err != nil {
		t.Errorf("seed %d: %v", r.Seed, r.Err)
	}
}

// TestSeeds runs many clusters, each drawn from a seed, and checks the invariants after every step.
func TestSeeds(t *testing.T) {
	for s := *first; s < *first+rounds(); s++ {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			if *stop && broken.Load() {
				return
			}
			if r := sim.Run(s); r.Err != nil {
				broken.Store(true)
				fail(t, r)
			}
		})
	}
}

// broken is set once a seed has failed.
var broken atomic.Bool

// TestCorpus runs the seeds that found something once.
func TestCorpus(t *testing.T) {
	f, err := os.Open("testdata/seeds")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		line, _, _ := strings.Cut(in.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		s, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil || len(fields) < 2 {
			t.Fatalf("%q is not a seed and why it is kept", line)
		}
		t.Run(fields[0], func(t *testing.T) {
			t.Parallel()
			if r := sim.Run(s); r.Err != nil {
				fail(t, r)
			}
		})
	}
}

// TestRepeat: a seed makes the same history, byte for byte.
func TestRepeat(t *testing.T) {
	for s := uint64(1); s <= 5; s++ {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			a, b := sim.Run(s).Trace, sim.Run(s).Trace
			if a == b {
				return
			}
			x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
			for i := range min(len(x), len(y)) {
				if x[i] != y[i] {
					t.Fatalf("seed %d, line %d differs:\n%s\n%s", s, i+1, x[i], y[i])
				}
			}
			t.Fatalf("seed %d: %d lines and %d lines", s, len(x), len(y))
		})
	}
}
