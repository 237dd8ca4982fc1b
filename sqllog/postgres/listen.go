package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headwaterdb/headwater/oplog"
)

// The first and the longest pause before the listener tries again.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// How rows are told. One notification for each row inside its transaction would queue all commits of the database behind
// one lock, so the appender only says that there is something to tell, and a goroutine tells it: the first at once, the
// next ones together, no sooner than notifyPause later. A notification that is lost costs the slowest poll interval.
//
// It names the newest row where that was told at once, so that whoever has read that far has nothing to look for. Where
// rows come faster than they may be told it names none, and the others go on looking for the next one.
const notifyPause = 5 * time.Millisecond

const atMark = "@" // stands before the index in its payload

// How it is known that notifications arrive: they are sent over another connection than the one that listens (through a
// pooler LISTEN succeeds, a notification over the same connection comes back, and nothing else arrives). Whoever has not
// heard any for a while sends one of its own, marked so that it tells nobody to look for rows. All hear it, and the
// while is drawn anew each time, so of many idle nodes one sends for all.
const (
	proofTime  = 2 * time.Second  // within which it must arrive
	proofEvery = 10 * time.Second // from how long a silence on it is sent; up to twice as long
	proofLater = time.Minute      // how long after a failure the next proof is tried
	proofMark  = "?"              // ends its payload
)

// tell has the other nodes be told of rows up to newest; oplog.Beginning where it is not known whether there is one.
func (s *session) tell(newest oplog.Index) {
	s.newest.Store(uint64(newest))
	signal(s.told)
}

// prove has a notification be sent that is about no rows.
func (s *session) prove() { signal(s.asked) }

// signal leaves a value in a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// listen is the dialect's Listen.
func (s *session) listen(ctx context.Context, wake func(), told func(oplog.Index), sure func(bool)) {
	telling := make(chan struct{})
	go func() {
		defer close(telling)
		s.notifier(ctx)
	}()
	defer func() { <-telling }()
	for pause := firstPause; ctx.Err() == nil; {
		start := time.Now()
		err := s.listenOnce(ctx, wake, told, sure)
		sure(false)
		switch {
		case errors.Is(err, errUnproved):
			pause = proofLater
		case time.Since(start) > proofEvery:
			pause = firstPause
		default:
			pause = min(2*pause, longestPause)
		}
		idle(ctx, pause)
	}
}

// idle waits for d or the end of ctx.
func idle(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

var errUnproved = errors.New("own notifications do not arrive")

// listenOnce listens on one connection for as long as it works. Right after it began it wakes the log once: what was
// appended before was told to nobody here.
func (s *session) listenOnce(ctx context.Context, wake func(), told func(oplog.Index), sure func(bool)) error {
	c, err := s.source.dedicated(ctx)
	if err != nil {
		return err
	}
	defer closeNow(c)
	beginning, cancel := context.WithTimeout(ctx, s.statement)
	defer cancel()
	if _, err := c.PgConn().Exec(beginning, "LISTEN "+s.names.channel()).ReadAll(); err != nil {
		if code := state(err); strings.HasPrefix(code, "0A") || strings.HasPrefix(code, "42") { // it knows no such thing
			return fmt.Errorf("listen: %w: %w", errUnproved, err)
		}
		return fmt.Errorf("listen: %w", err)
	}
	wake()
	s.prove()
	for proved, within := false, proofTime; ; {
		heard, err := s.hear(ctx, c, within, wake, told)
		switch {
		case err != nil:
			return err
		case heard:
			proved, within = true, proofEvery+rand.N(proofEvery)
			sure(true)
		case !proved:
			return errUnproved
		default: // silence for long: prove it anew
			proved, within = false, proofTime
			s.prove()
		}
	}
}

// hear waits for a notification until the time is over, and wakes the log if it is of rows of others.
func (s *session) hear(ctx context.Context, c *pgx.Conn, within time.Duration, wake func(), told func(oplog.Index)) (heard bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	n, err := c.WaitForNotification(waiting)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil && waiting.Err() != nil && !c.IsClosed():
		return false, nil
	case err != nil:
		return false, err
	}
	if strings.HasPrefix(n.Payload, s.token) || strings.HasSuffix(n.Payload, proofMark) {
		return true, nil
	}
	_, at, _ := strings.Cut(n.Payload, atMark)
	if newest, err := strconv.ParseUint(at, 10, 63); err == nil {
		told(oplog.Index(newest))
	} else {
		wake()
	}
	return true, nil
}

// notifier tells what is to be told.
func (s *session) notifier(ctx context.Context) {
	for late := false; ; late = len(s.told) > 0 {
		payload := s.token
		select {
		case <-s.told:
			if newest := oplog.Index(s.newest.Load()); newest != oplog.Beginning && !late {
				payload += atMark + strconv.FormatUint(uint64(newest), 10)
			}
		case <-s.asked:
			payload += proofMark
		case <-ctx.Done():
			return
		}
		pause := notifyPause
		if err := s.notify(ctx, payload); err != nil { // a hint was lost; whoever waits for it polls
			pause = longestPause
		}
		idle(ctx, pause)
	}
}

// notify sends a notification, in a transaction that need not be on the disk: it is a hint, and nothing else is in it.
func (s *session) notify(ctx context.Context, payload string) error {
	ctx, cancel := context.WithTimeout(ctx, s.statement)
	defer cancel()
	var one int
	return s.db.QueryRowContext(ctx, "SELECT 1 FROM set_config('synchronous_commit', 'off', true), pg_notify($1, $2)", s.names.channel(), payload).Scan(&one)
}
