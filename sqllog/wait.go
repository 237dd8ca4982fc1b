package sqllog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// Signal wakes the logs of one process that are kept in the same tables. All methods may be called at once.
type Signal struct {
	mu     sync.Mutex    // guards the rest
	newest oplog.Index   // the highest that was told
	told   bool          // the last ring told an index
	wakes  uint64        // rings that told none
	rung   chan struct{} // closed and replaced by every ring
}

// NewSignal returns a signal that nothing has been told yet.
func NewSignal() *Signal { return &Signal{rung: make(chan struct{})} }

// Wake makes every log that waits look at the database.
func (s *Signal) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = false
	s.wakes++
	s.ring()
}

// appended tells that this process, or as the dialect heard another one, has appended the row at index.
func (s *Signal) appended(index oplog.Index) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest, s.told = max(s.newest, index), true // two logs may tell in another order than they appended
	s.ring()
}

func (s *Signal) ring() {
	close(s.rung)
	s.rung = make(chan struct{})
}

// next returns the channel that the next ring closes.
func (s *Signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rung
}

// below reports whether the last ring told of a row, and all told of are at or below after: nothing to look for.
func (s *Signal) below(after oplog.Index) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told && !above(s.newest, after)
}

// woken counts the rings that told no index.
func (s *Signal) woken() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wakes
}

// above reports whether a reader that has read up to after has yet to read the row at index.
func above(index, after oplog.Index) bool { return after == oplog.Beginning || index > after }

// lastLook is the newest look of a log that found nothing above what was known.
type lastLook struct {
	at    time.Time
	wakes uint64 // of the signal, before it
	seen  int64  // the dialect's counter before it
}

// Wait is oplog.Log's. It looks at the newest index when it starts and whenever the dialect's counter has changed; a
// ring of the signal ends it without a look, which would only delay the reading. What rings or changes during a look is
// seen by the next one, because the look comes after the counter was read and the signal was listened to.
//
// A node waits anew after each row. Where nothing but rows up to after was told of since the last look, and that is not
// older than the pause between two looks, Wait begins with the rest of that pause.
func (l *Log) Wait(ctx context.Context, after oplog.Index) error {
	if err := l.enter(ctx); err != nil {
		return fmt.Errorf("wait for rows after %d: %w", after, err)
	}
	defer l.leave()
	pause := l.c.Poll
	if l.sure.Load() {
		pause = l.c.IdlePoll
	}
	rung := l.c.Signal.next()
	last, rest := l.looked.Load(), time.Duration(0)
	if last != nil && last.wakes == l.c.Signal.woken() && l.c.Signal.below(after) {
		rest = pause - time.Since(last.at)
	}
	for {
		var err error
		if rest <= 0 {
			rung = l.c.Signal.next()
			var found bool
			if last, found, err = l.look(ctx, after); found {
				return nil
			}
			rest = pause
		}
		for again := false; err == nil && !again; rest = pause {
			var told bool
			if told, again, err = l.stir(ctx, after, &rung, last.seen, rest, &pause); told {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("wait for rows after %d: %w", after, err)
		}
		rest = 0
	}
}

// look reports whether there are rows above after, and remembers the look where there are none.
func (l *Log) look(ctx context.Context, after oplog.Index) (last *lastLook, found bool, err error) {
	last = &lastLook{at: time.Now(), wakes: l.c.Signal.woken()}
	if last.seen, err = l.changed(ctx); err != nil {
		return last, false, err
	}
	newest, ok, err := l.newest(ctx)
	switch {
	case err != nil:
		return last, false, err
	case !ok:
		return last, false, oplog.ErrNoCluster
	case above(newest, after):
		return last, true, nil
	}
	l.looked.Store(last)
	return last, false, nil
}

// stir waits for a ring or for the next poll, in rest, and reports whether a ring told of rows, or it is time to look for them.
func (l *Log) stir(ctx context.Context, after oplog.Index, rung *<-chan struct{}, seen int64, rest time.Duration, pause *time.Duration) (told, look bool, err error) {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-*rung:
		if !l.c.Signal.below(after) {
			return true, false, nil
		}
		*rung = l.c.Signal.next()
		return !l.c.Signal.below(after), false, nil // it may have rung in between
	case <-timer.C:
	case <-ctx.Done():
		return false, false, ctx.Err()
	case <-l.life.Done():
		return false, false, oplog.ErrClosed
	}
	now, err := l.changed(ctx)
	if err != nil {
		return false, false, err
	}
	if now != seen || l.c.Dialect.Changed == nil {
		if now != seen {
			*pause = l.c.Poll
		} else {
			*pause = l.longer(*pause)
		}
		return false, true, nil
	}
	*pause = l.longer(*pause)
	return false, false, nil
}

func (l *Log) longer(pause time.Duration) time.Duration {
	return min(pause+pause/2, l.c.IdlePoll)
}

// changed reads the dialect's counter of changes on the pinned connection; without one it returns 0.
func (l *Log) changed(ctx context.Context) (int64, error) {
	if l.c.Dialect.Changed == nil {
		return 0, nil
	}
	select {
	case l.watch.slot <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-l.life.Done():
		return 0, oplog.ErrClosed
	}
	defer func() { <-l.watch.slot }()
	for tries := l.newTries(); ; {
		var n int64
		conn, err := l.watch.get(ctx)
		if err == nil {
			n, err = l.c.Dialect.Changed(ctx, conn)
		}
		if err == nil {
			return n, nil
		}
		v := l.verdict(err)
		if v.Drop {
			l.watch.drop()
		}
		if !v.Retry || !tries.pause(ctx) {
			return 0, l.meaning(reads, true, v, err)
		}
	}
}
