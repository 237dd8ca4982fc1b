package sim_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/sim"
)

// TestWrongDialects: databases whose statements are not as careful as they must be are found out, each by a few seeds. So
// what the statements are careful about is needed, and the observer sees when it is missing. (The bounds of a truncation are
// no such case: the engine keeps within them by itself.)
func TestWrongDialects(t *testing.T) {
	for _, c := range []struct {
		d      sim.Dialect
		want   string
		storms []string // nil: any
	}{
		{sim.Dialect{Name: "plain INSERT", Append: sim.AppendPlain, SharedLock: true}, "one history", nil},
		{sim.Dialect{Name: "check without lock", Append: sim.AppendChecked, SharedLock: true}, "one history", nil},
		{sim.Dialect{Name: "plain INSERT, one writer", Append: sim.AppendPlain, OneWriter: true}, "one history", nil},
		{sim.Dialect{Name: "any row before", Append: sim.AppendLocked, SharedLock: true, Unmarked: true}, "a chain", []string{"lossy failover", "pause"}},
		{sim.Dialect{Name: "snapshot over a newer one", Append: sim.AppendLocked, SharedLock: true, Unconditional: true}, "over the one at", nil},
	} {
		t.Run(c.d.Name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 300; seed++ {
				cfg := sim.Draw(rand.New(rand.NewPCG(seed, 1)))
				cfg.Dialect = c.d
				if c.storms != nil {
					cfg.Storms, cfg.Every = c.storms, 300*time.Millisecond
				}
				if r := sim.RunConfig(seed, cfg); r.Err != nil {
					if t.Logf("seed %d: %v", seed, r.Err); !strings.Contains(r.Err.Error(), c.want) {
						t.Errorf("found out by something else: %v, expected %q", r.Err, c.want)
					}
					return
				}
			}
			t.Error("nothing was found")
		})
	}
}
