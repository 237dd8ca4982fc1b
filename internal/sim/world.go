package sim

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/headwaterdb/headwater/replica"
)

// world is the surroundings of a node as the engine sees them.
func (s *sched) world(g *group, name string) replica.World {
	roles := 0
	return replica.World{
		Now: func() time.Time { return s.clock(g) },
		Wait: func(ctx context.Context, until time.Time, a, b <-chan struct{}) bool {
			return s.park(ctx, s.moment(g, until), a, b)
		},
		Timeout: func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			return s.timeout(ctx, g, d)
		},
		Go: func(f func()) {
			s.start(name+" "+[]string{"flusher", "tailer", "watcher", "looker", "snapshotter"}[roles%5], g, f)
			roles++
		},
		Random: s.random,
		Step:   func() { s.strike(g) },
	}
}

// random draws 16 bytes.
func (s *sched) random() (b [16]byte) {
	binary.LittleEndian.PutUint64(b[:], s.dice.Uint64())
	binary.LittleEndian.PutUint64(b[8:], s.dice.Uint64())
	return b
}

// strike lets others run, now and then, where an operating system might.
func (s *sched) strike(g *group) {
	t := s.current
	if t != nil && !s.closing {
		s.observe(g)
	}
	if t == nil || s.closing || g.zombie || s.dice.IntN(1000) >= g.preempt {
		return
	}
	if s.dice.IntN(20) == 0 { // for long
		s.sleep(time.Duration(s.dice.Int64N(int64(3 * time.Millisecond))))
		return
	}
	s.ready = append(s.ready, t)
	s.hand(t)
}
