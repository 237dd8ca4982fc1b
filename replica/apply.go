package replica

import (
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// applied is a row that was applied.
type applied[R any] struct {
	index   oplog.Index
	batch   uint64 // of ours; 0: another's row
	results []R
	bytes   int
}

// apply applies the row after the applied one, which next said is at hand. It reports false where that did not
// happen: the condition is final then, or a contradiction has to be looked into first.
func (s *tailStep[S, R]) apply() (applied[R], bool) {
	at := s.applied + 1
	var row RowInfo
	var size int
	own, handed := s.handed[at]
	if handed {
		row, size = own.row, own.bytes
	} else {
		payload := s.page[0].Payload
		var err error
		if row, err = DecodeRow(at, payload); err != nil {
			s.halt(at, err)
			return applied[R]{}, false
		}
		size = len(payload)
	}
	if row.Incarnation != s.genesis.Incarnation {
		s.halt(at, fmt.Errorf("%w row at index %d: it is of incarnation %016x, this cluster of %016x",
			ErrUndecodable, at, row.Incarnation, s.genesis.Incarnation))
		return applied[R]{}, false
	}
	if row.Previous != s.row {
		s.become(Rewound, s.applied, fmt.Sprintf("row %d follows on a row with checksum %016x, and the one that was applied here has "+
			"%016x: the database lost acknowledged rows, and others stand in their place", at, row.Previous, s.row))
		return applied[R]{}, false
	}
	if s.contradicts(&row) {
		return applied[R]{}, false
	}
	next, results, digest, err := s.m.run(s.state, at, row.Commands)
	if err != nil {
		s.halt(at, err)
		return applied[R]{}, false
	}
	if handed {
		delete(s.handed, at)
		if s.deferred { // this is what the read was for; if there is more, the watcher says so again
			s.readDue, s.deferred = false, false
		}
	} else {
		s.page[0] = oplog.Row{} // the next read is made while the rest of the page is held
		s.page = s.page[1:]
	}
	s.state, s.applied, s.digest, s.row, s.last, s.shown = next, at, digest, row.Checksum, row.id(), nil
	s.ring.put(at, digest)
	s.newest = max(s.newest, at)
	s.missing, s.lagging, s.idle = 0, 0, 0
	if s.condition == Gap {
		s.behind()
	}
	out := applied[R]{index: at, results: results, bytes: size}
	if row.Writer == s.token {
		out.batch = row.Batch
	}
	return out, true
}

// halt makes the condition Halted. Rows that were acknowledged or read stay where they are: nothing is skipped.
func (s *tailStep[S, R]) halt(at oplog.Index, err error) {
	s.become(Halted, at, err.Error())
}

// run calls the machine for one row. A panic in it is an error: the row would panic every node, so it must stop this
// one without killing the process.
func (m *Machine[S, R]) run(s S, at oplog.Index, commands [][]byte) (next S, results []R, d Digest, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("apply the row at index %d: panic: %v", at, p)
		}
	}()
	next, results, err = m.Apply(s, at, commands)
	if err != nil {
		return next, nil, d, fmt.Errorf("apply the row at index %d: %w", at, err)
	}
	if len(results) != len(commands) {
		return next, nil, d, fmt.Errorf("apply the row at index %d: %d results for %d commands", at, len(results), len(commands))
	}
	return next, results, m.Digest(next), nil
}

// contradicts compares what the row's writer had applied with what this node had at the same index. A row of our own
// is not compared: it carries what we had.
func (s *tailStep[S, R]) contradicts(row *RowInfo) bool {
	mine, known := s.ring.get(row.Seen)
	if !known || mine.digest == row.SeenDigest || row.Writer == s.token {
		return false
	}
	if _, settled := s.contradictors[row.Writer]; settled {
		return false
	}
	s.contradicted = row.Writer
	if s.haltAtOnce {
		s.become(Diverged, row.Index, fmt.Sprintf("row %d: its writer %s had digest %s at index %d, this node has %s",
			row.Index, row.Writer, row.SeenDigest, row.Seen, mine.digest))
		return true
	}
	s.contradiction = &contradiction{row: row.Index, seen: row.Seen, writer: row.Writer}
	return true
}

// rebuild is a state built anew from the log.
type rebuild[S any] struct {
	state  S
	index  oplog.Index // where it stands: the index applied, or above it where only a newer snapshot is there
	digest Digest
	row    uint64 // the checksum of the row there
	ring   ring
	whole  bool // it was built; false: what the log holds does not lead to the index
}

// verdict of a contradiction.
type rebuiltVerdict int

const (
	rebuiltFailed   rebuiltVerdict = iota // try again later
	rebuiltHealed                         // the rebuilt state was taken
	rebuiltDisagree                       // the rebuilt state is what we had; the writer is remembered
	rebuiltFinal                          // the condition is final now
)

// rebuilt takes the state built anew at applied and judges the contradiction: who is wrong, this node or the writer?
func (s *tailStep[S, R]) rebuilt(b *rebuild[S], err error, now time.Time) rebuiltVerdict {
	c := s.contradiction
	if err != nil {
		c.tries++
		s.readAt = now.Add(s.retry.after(c.tries-1, s.chance))
		return rebuiltFailed
	}
	s.contradiction, s.readAt = nil, now
	if b.whole {
		if b.index == s.applied && b.row != s.row {
			s.become(Rewound, s.applied, fmt.Sprintf("row %d is not the row that was applied here: the history has been replaced", s.applied))
			return rebuiltFinal
		}
		if b.index != s.applied || b.digest != s.digest {
			healedRing := b.ring
			s.set(b.state, b.index, b.digest, b.row)
			s.ring = healedRing
			s.healed++
			return rebuiltHealed
		}
	}
	s.contradictors[c.writer] = c.row
	if len(s.contradictors) > 1 {
		s.become(Diverged, c.row, fmt.Sprintf("row %d: writer %s, the second one, had another state at index %d than this node, "+
			"and a rebuild from the log confirmed this node's", c.row, c.writer, c.seen))
		return rebuiltFinal
	}
	return rebuiltDisagree
}
