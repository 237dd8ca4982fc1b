package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// Leaks is field case 16.4 on one database: broken connections, calls that are given up and nodes that come and go leave
// nothing behind. The test that runs it must not be parallel, for it counts what the process has.
type Leaks struct {
	Open  func(ctx context.Context) (oplog.Log, error)
	Cut   func()     // breaks all connections of the process to the database
	Links func() int // how many are open
}

// held is what a process has.
type held struct {
	goroutines, files, links int
	heap                     uint64
}

func (h held) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d connections, %d KiB of heap", h.goroutines, h.files, h.links, h.heap>>10)
}

// Run goes through 20 broken connections, 2,000 calls given up and 20 lives of a node, or through 1,000, 100,000 and 1,000
// at full size.
func (l Leaks) Run(t *testing.T) {
	t.Helper()
	reconnects, calls, lives := 20, 2000, 20
	if Full {
		reconnects, calls, lives = 1000, 100_000, 1000
	}
	log, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := Nodes(t, headwater.Options{}, log)[0]
	for _, phase := range []struct {
		name  string
		times int
		do    func(i int) error
	}{
		{"broken connections", reconnects, func(int) error { l.Cut(); return l.put(t.Context(), s) }},
		{"calls given up", calls, func(i int) error { return l.giveUp(t.Context(), s, i) }},
		{"lives of a node", lives, func(int) error { return l.live(t.Context()) }},
	} {
		for i := range max(5, phase.times/20) { // what is made once and kept is no leak
			if err := phase.do(i); err != nil {
				t.Fatalf("%s: %v", phase.name, err)
			}
		}
		base := l.settled(held{})
		for i := range phase.times {
			if err := phase.do(i); err != nil {
				t.Fatalf("%s, round %d: %v", phase.name, i, err)
			}
		}
		after := l.settled(base)
		t.Logf("%s: %v; after %d: %v", phase.name, base, phase.times, after)
		if !after.within(base) {
			t.Errorf("%s: from %v to %v", phase.name, base, after)
		}
	}
	if err := l.put(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// poolSpread is how many more connections a pool may keep at one time than at another.
const poolSpread = 5

// within reports whether h is base and a twentieth at most, or as much more as a process has now and then. A connection of
// the pool brings goroutines and files of its own, at both of its ends and in the proxy.
func (h held) within(base held) bool {
	more := max(0, h.links-base.links)
	return more <= poolSpread && h.goroutines <= base.goroutines+max(4, base.goroutines/20)+6*more &&
		h.files <= base.files+max(3, base.files/20)+3*more && h.heap <= base.heap+max(2<<20, base.heap/20)
}

// settled is what the process has once what is ending has ended: when it is within base, or has not fallen for a second.
func (l Leaks) settled(base held) (h held) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	least := 1 << 30
	for still := 0; still < 20; still++ {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		h = held{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc, links: l.Links()}
		if files, err := os.ReadDir("/proc/self/fd"); err == nil {
			h.files = len(files)
		}
		if base != (held{}) && h.within(base) {
			break
		}
		if n := h.goroutines + h.files + h.links; n < least {
			least, still = n, 0
		}
		<-tick.C
	}
	return h
}

// put proposes until it is answered; the same key again and again, so that the state does not grow.
func (l Leaks) put(ctx context.Context, s *headwater.Store) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		if err = s.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: "k", Value: fmt.Append(nil, s.View().Index)}})[0].Err; err == nil {
			return nil
		}
	}
	return fmt.Errorf("no proposal is answered: %w", err)
}

// giveUp makes calls whose context ends before they do, or while they run.
func (l Leaks) giveUp(ctx context.Context, s *headwater.Store, i int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(i%4)*100*time.Microsecond)
	defer cancel()
	switch i % 3 {
	case 0:
		s.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: "g"}})
	case 1:
		_, _ = s.Linearize(ctx)
	default:
		if _, err := s.Wait(ctx, uint64(s.View().Index)+1<<40); err == nil {
			return errors.New("a wait for what never comes ended well")
		}
	}
	return nil
}

// live opens a node, uses it and closes it.
func (l Leaks) live(ctx context.Context) error {
	log, err := l.Open(ctx)
	if err != nil {
		return err
	}
	s, err := headwater.Open(ctx, log, headwater.Options{})
	if err != nil {
		return errors.Join(err, log.Close())
	}
	return errors.Join(l.put(ctx, s), s.Close(), log.Close())
}
