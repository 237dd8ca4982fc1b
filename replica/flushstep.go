package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

const (
	// maxAhead is how many acknowledged rows of ours may wait for the tailer before the flusher appends no further.
	maxAhead = 16
	// freeLosses is how many slots in a row may be lost before the flusher rests between tries.
	freeLosses = 2
	// turnPatience bounds the wait for a turn, turnHold how long a turn is kept while the rows before it are read.
	turnPatience = 2 * time.Second
	turnHold     = 250 * time.Millisecond
	// restMin and restMax bound the random rest after a lost slot: about one append on a fast and on a slow database.
	restMin = 200 * time.Microsecond
	restMax = 20 * time.Millisecond
)

// flushStep decides what the flusher does: what to append and where, and what the end of an append means. It has no
// goroutine, no clock and does no I/O; time comes in as values and chance from the source it is given.
type flushStep struct {
	rowCommands int // most commands in a row
	rowBytes    int // byte budget; shrinks when the database finds a row too large
	retry       pauses
	chance      *rand.Rand

	phase  flushPhase
	number uint64      // of the last batch made
	own    oplog.Index // the newest row that the database acknowledged to us: as good as seen, we wrote it
	ownRow uint64      // its checksum
	until  time.Time   // no statement before this moment, unless the log moves on
	losses int         // slots lost in a row
	fair   bool        // the log is a turnstile
	crowd  bool        // others append at the same time: stand in line before the next append
	turn   bool        // it is our turn
	fresh  bool        // and nothing was decided in it yet
	turnAt oplog.Index // the newest row when it began
	pass   time.Time   // when it is given up for want of the rows up to turnAt
	errs   int         // errors in a row

	// The batch in hand, in the phases after flushFree.
	slot    oplog.Index
	row     uint64 // checksum of its row
	follows uint64 // and of the row before
	size    int    // of its payload in bytes
	count   int    // its commands
	doubted bool   // at least one statement for this slot ended without saying what it did
}

type flushPhase int

const (
	flushFree   flushPhase = iota // nothing in hand
	flushAsking                   // an append is under way
	flushUnsure                   // the slot may hold our row, now or later
	flushLost                     // somebody else has the slot; wait until it has been seen
)

// flushFacts is what the flusher's decision depends on, all of one moment.
type flushFacts struct {
	now      time.Time
	applied  oplog.Index // what the tailer has applied, and answered
	digest   Digest      // of that state
	row      uint64      // checksum of the row applied last
	shown    []byte      // what that row ends with in the log, where it is damaged there
	newest   oplog.Index // the newest row known to be in the log
	queued   bool        // something waits to be appended
	held     bool        // a gap: nothing may be proposed
	stopped  bool        // halted or closing
	resolved bool        // the tailer has dealt with the batch in hand
}

type flushKind int

const (
	flushWait    flushKind = iota // for a signal, or until the moment given
	flushTake                     // make a batch for slot at, and call took
	flushAsk                      // append the batch in hand at its slot, and call appended
	flushRequeue                  // the slot holds another row: queue the batch again
	flushTurn                     // wait for a turn, and call turned
	flushPass                     // end the turn, and call passed
	flushStop
)

// flushDo is what the shell is told to do.
type flushDo struct {
	kind   flushKind
	at     oplog.Index
	number uint64
	until  time.Time // for flushWait; zero: no limit
}

// next decides what to do now.
func (s *flushStep) next(f flushFacts) flushDo {
	if f.stopped {
		return flushDo{kind: flushStop}
	}
	switch s.phase {
	case flushUnsure:
		switch {
		case f.resolved: // it was our row, or an install has jumped over it
			s.free()
		case f.applied >= s.slot: // the row there was seen, and it is not ours; so ours can never land
			s.free()
			return flushDo{kind: flushRequeue}
		case f.now.Before(s.until):
			return flushDo{kind: flushWait, until: s.until}
		default:
			s.phase = flushAsking
			return flushDo{kind: flushAsk, at: s.slot}
		}
	case flushLost:
		if s.crowd {
			s.free()
			break
		}
		// An append that lost for a reason other than a row in its slot (a deadlock chosen as victim, say) must not
		// wait for ever for a row that nobody writes: when the pause is over it tries again, at the same slot.
		if f.applied < s.slot && f.now.Before(s.until) {
			return flushDo{kind: flushWait, until: s.until}
		}
		if f.applied >= s.slot {
			s.until = time.Time{}
			if s.losses > freeLosses {
				s.until = f.now.Add(s.rest())
			}
		}
		s.free()
	}
	seen := max(f.applied, s.own)
	idle := !f.queued || f.held || seen >= f.applied+maxAhead
	behind := max(f.newest, s.turnAt) > seen
	if s.fresh { // who finds nothing new in the turn has it for itself, and need not stand in line the next time
		s.fresh, s.crowd = false, behind
	}
	switch {
	case s.turn && (idle || behind && !f.now.Before(s.pass)):
		return flushDo{kind: flushPass}
	case s.turn && behind:
		return flushDo{kind: flushWait, until: s.pass}
	case idle, behind && !s.crowd:
		return flushDo{kind: flushWait}
	case f.now.Before(s.until):
		return flushDo{kind: flushWait, until: s.until}
	case s.crowd && !s.turn:
		return flushDo{kind: flushTurn}
	}
	s.number++
	return flushDo{kind: flushTake, at: seen + 1, number: s.number}
}

// last returns the checksum of the row that the next append follows on.
func (s *flushStep) last(f flushFacts) uint64 {
	if s.own > f.applied {
		return s.ownRow
	}
	return f.row
}

// mark is what the row before the batch in hand must end with in the log.
func (s *flushStep) mark(f flushFacts) []byte {
	if f.shown != nil && s.slot == f.applied+1 {
		return f.shown
	}
	return mark(s.follows)
}

// turned tells how the wait for a turn ended: with the newest row of that moment, or an error.
func (s *flushStep) turned(newest oplog.Index, err error, now time.Time) {
	if err == nil {
		s.turn, s.fresh, s.turnAt, s.pass = true, true, newest, now.Add(turnHold)
		return
	}
	// Try once without, when the slot that was lost last has been seen or after a pause; the next loss leads here again.
	s.fair = s.fair && !errors.Is(err, oplog.ErrNoTurns)
	s.crowd, s.phase = false, flushLost
	s.until = now.Add(s.retry.after(s.losses, s.chance))
}

// passed tells that the turn has ended without an append.
func (s *flushStep) passed() { s.turn, s.fresh = false, false }

// rest draws the pause after a lost slot. It grows with the losses, so that writers in excess spread out.
func (s *flushStep) rest() time.Duration {
	most := min(restMin<<min(s.losses, 10), restMax)
	return time.Duration(s.chance.Int64N(int64(most)))
}

func (s *flushStep) free() { s.phase, s.doubted = flushFree, false }

// took tells that a batch was made to be row, size bytes as a payload.
func (s *flushStep) took(row *RowInfo, size int) {
	s.phase, s.slot, s.row, s.follows, s.count, s.size, s.doubted = flushAsking, row.Index, row.Checksum, row.Previous, len(row.Commands), size, false
}

// flushVerdict says what the end of an append means for the batch in hand.
type flushVerdict int

const (
	verdictLanded  flushVerdict = iota // acknowledged: hand the row to the tailer, which answers
	verdictUnsure                      // keep the batch as it is
	verdictLost                        // another row has the slot: queue it again, it has no effect and never will
	verdictAgain                       // the same, but the database is the reason: queue it again for later
	verdictRefused                     // fail it with the error: it has no effect and never will
)

// appended decides what the end of the append under way means, and returns the error to fail the batch with where it
// is refused.
func (s *flushStep) appended(err error, now time.Time) (flushVerdict, error) {
	s.passed()
	switch {
	case err == nil:
		s.own, s.ownRow, s.losses, s.errs, s.until = s.slot, s.row, 0, 0, time.Time{}
		s.free()
		return verdictLanded, nil
	case s.doubted || !oplog.NotApplied(err):
		// What this statement says does not vouch for the one before it, which may still arrive: stay at the slot.
		s.phase, s.doubted = flushUnsure, true
		s.pause(now)
		return verdictUnsure, nil
	case errors.Is(err, oplog.ErrConflict):
		s.phase, s.crowd = flushLost, s.fair
		s.until = now.Add(s.retry.after(s.losses, s.chance))
		if s.fair {
			s.until = time.Time{}
			if s.losses > freeLosses { // even in turns: somebody does not stand in line
				s.until = now.Add(s.rest())
			}
		}
		s.losses++
		return verdictLost, nil
	case errors.Is(err, oplog.ErrTooLarge) && s.count > 1:
		s.free()
		s.rowBytes = max(min(s.rowBytes, s.size)/2, 1)
		return verdictAgain, nil
	case errors.Is(err, oplog.ErrTooLarge):
		s.free()
		return verdictRefused, fmt.Errorf("%w: a row of %d bytes: %w", ErrTooLarge, s.size, err)
	case errors.Is(err, oplog.ErrUnavailable):
		s.free()
		s.pause(now)
		return verdictAgain, nil
	default:
		s.free()
		s.pause(now)
		return verdictRefused, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
}

func (s *flushStep) pause(now time.Time) {
	s.until = now.Add(s.retry.after(s.errs, s.chance))
	s.errs++
}

// pauses are the pauses between tries of something that fails.
type pauses struct{ min, max time.Duration }

// after returns the pause after the given number of failures before this one: doubling, with jitter downward by as
// much as half, so that nodes that failed together do not come back together.
func (p pauses) after(failures int, chance *rand.Rand) time.Duration {
	d := p.min << min(failures, 20)
	if d > p.max || d <= 0 {
		d = p.max
	}
	return d/2 + time.Duration(chance.Int64N(int64(d/2)+1))
}
