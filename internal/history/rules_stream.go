package history

import (
	"slices"

	"github.com/headwaterdb/headwater/meta"
)

// stream is a stream that is there, and the objects that were committed to it.
type stream struct {
	epoch      uint64 // 0: never opened
	open       bool
	owner      meta.Identity
	start, end uint64
	reserved   uint64
	given      bool          // closed by a transfer
	transfer   meta.Transfer // which
	debts      []debt        // in the order in which they were made
	objects    []uint64      // sorted
}

type debt struct{ epoch, node, start, boundary uint64 }

var streamRules = rules[stream]{
	equal: func(a, b stream) bool {
		return a.epoch == b.epoch && a.open == b.open && a.owner == b.owner && a.start == b.start && a.end == b.end &&
			a.reserved == b.reserved && a.given == b.given && a.transfer == b.transfer && slices.Equal(a.debts, b.debts) && slices.Equal(a.objects, b.objects)
	},
	judge: stream.judge,
	read:  stream.read,
}

func (s stream) judge(c meta.Command, a *meta.Answer) (stream, bool) {
	if ofNode(a) || ofObject(a) {
		return s, true
	}
	var v verdict
	next := s
	switch c := c.(type) {
	case meta.OpenStream:
		// Whether a reservation counts depends on the node that it is for.
		if a != nil && meta.CodeOf(a.Err) == meta.CodeStreamReserved {
			return s, !s.open && s.reserved != 0 && s.reserved != c.Identity.NodeID
		}
		v = next.opened(c)
	case meta.CloseStream:
		v = next.closed(c)
	case meta.TrimStream:
		v = next.trimmed(c)
	case meta.RecordTransfer:
		v = next.transferred(c)
	case meta.CommitObjects:
		v = next.committed(c)
	}
	if v.status == meta.Rejected {
		next = s
	}
	return next, a == nil || v.allows(a)
}

// ofObject reports whether a refusal is about the object that was to be committed, which may stand in another stream: that
// is left to the replay.
func ofObject(a *meta.Answer) bool {
	if a == nil {
		return false
	}
	switch meta.CodeOf(a.Err) {
	case meta.CodeObjectNotFound, meta.CodeObjectNotOwned, meta.CodeObjectExists:
		return true
	}
	return false
}

// check is the stream check; owner 0 leaves the last part out.
func (s *stream) check(epoch, owner uint64) (meta.Code, bool) {
	switch {
	case epoch < s.epoch:
		return meta.CodeStreamEpochStale, false
	case epoch > s.epoch:
		return meta.CodeStreamEpochUnknown, false
	case owner != 0 && (s.epoch == 0 || s.owner.NodeID != owner):
		return meta.CodeStreamNotOwned, false
	}
	return 0, true
}

// opened knows opens of the next epoch only.
func (s *stream) opened(c meta.OpenStream) verdict {
	owes := func(d debt) bool { return d.node == c.Identity.NodeID }
	switch {
	case s.open && s.owner == c.Identity:
		return redundant(meta.OpenStreamResult{Epoch: s.epoch, StartOffset: s.start, EndOffset: s.end})
	case s.open && s.owner.NodeID != c.Identity.NodeID, slices.ContainsFunc(s.debts, owes):
		return refused(meta.CodeStreamNotClosed)
	}
	s.epoch, s.open, s.owner, s.reserved, s.given, s.transfer = s.epoch+1, true, c.Identity, 0, false, meta.Transfer{}
	return applied(meta.OpenStreamResult{Epoch: s.epoch, StartOffset: s.start, EndOffset: s.end})
}

func (s *stream) closed(c meta.CloseStream) verdict {
	if code, ok := s.check(c.Epoch, actor(c.Identity, c.OnBehalfOf)); !ok {
		return refused(code)
	}
	result := meta.CloseStreamResult{EndOffset: s.end}
	if !s.open {
		return redundant(result)
	}
	s.open = false
	return applied(result)
}

// actor is the node that the rules read as the one who acts.
func actor(id meta.Identity, onBehalfOf uint64) uint64 {
	if onBehalfOf != 0 {
		return onBehalfOf
	}
	return id.NodeID
}

func (s *stream) trimmed(c meta.TrimStream) verdict {
	owner := c.Identity.NodeID
	if !s.open {
		owner = 0
	}
	if code, ok := s.check(c.Epoch, owner); !ok {
		return refused(code)
	}
	if c.StartOffset <= s.start {
		return redundant(meta.TrimStreamResult{StartOffset: s.start, EndOffset: s.end})
	}
	s.start, s.end = c.StartOffset, max(s.end, c.StartOffset)
	var debts []debt
	for _, d := range s.debts {
		if d.start = max(d.start, s.start); d.start < d.boundary {
			debts = append(debts, d)
		}
	}
	s.debts = debts
	return applied(meta.TrimStreamResult{StartOffset: s.start, EndOffset: s.end})
}

func (s *stream) transferred(c meta.RecordTransfer) verdict {
	if code, ok := s.check(c.Epoch, c.Identity.NodeID); !ok {
		return refused(code)
	}
	t := s.transfer
	switch {
	case !s.open && !s.given:
		return refused(meta.CodeStreamNotOpen)
	case !s.open && t.Boundary != c.Boundary:
		return refused(meta.CodeOffsetMismatch)
	case !s.open && t.ToNode != c.ToNode:
		return refused(meta.CodeStreamNotOpen)
	case !s.open:
		return redundant(meta.RecordTransferResult{StartOffset: t.StartOffset, Boundary: t.Boundary})
	case c.Boundary < s.end:
		return refused(meta.CodeOffsetMismatch)
	}
	s.given, s.transfer = true, meta.Transfer{ToNode: c.ToNode, StartOffset: s.end, Boundary: c.Boundary}
	if s.end < c.Boundary {
		s.debts = append(slices.Clip(s.debts), debt{s.epoch, c.Identity.NodeID, s.end, c.Boundary})
	}
	s.open, s.reserved, s.end = false, c.ToNode, c.Boundary
	return applied(meta.RecordTransferResult{StartOffset: s.transfer.StartOffset, Boundary: c.Boundary})
}

// committed knows commits of one object with one slice.
func (s *stream) committed(c meta.CommitObjects) verdict {
	o := c.Objects[0]
	at, before := slices.BinarySearch(s.objects, o.ObjectID)
	if before {
		return redundant(meta.CommitObjectsResult{})
	}
	if code, ok := s.commit(o.Slices[0], actor(c.Identity, c.OnBehalfOf)); !ok {
		return refused(code)
	}
	s.objects = slices.Insert(slices.Clone(s.objects), at, o.ObjectID)
	return applied(meta.CommitObjectsResult{})
}

func (s *stream) commit(sl meta.Slice, owner uint64) (meta.Code, bool) {
	if sl.EndOffset <= s.start {
		return 0, true // kept out
	}
	for i, d := range s.debts {
		if d.node != owner || d.epoch != sl.StreamEpoch {
			continue
		}
		if !s.continues(sl, d.start) || sl.EndOffset > d.boundary {
			return meta.CodeOffsetMismatch, false
		}
		s.debts = slices.Clone(s.debts)
		if s.debts[i].start = sl.EndOffset; sl.EndOffset == d.boundary {
			s.debts = slices.Delete(s.debts, i, i+1)
		}
		return 0, true
	}
	if code, ok := s.check(sl.StreamEpoch, owner); !ok {
		return code, false
	}
	switch {
	case !s.open:
		return meta.CodeStreamNotOpen, false
	case !s.continues(sl, s.end) || sl.EndOffset <= s.end:
		return meta.CodeOffsetMismatch, false
	}
	s.end = sl.EndOffset
	return 0, true
}

// continues says whether a slice goes on at the next offset. What lies below the start may be missing.
func (s *stream) continues(sl meta.Slice, next uint64) bool {
	return sl.StartOffset == next || sl.StartOffset < next && next == s.start
}

func (s stream) read(r *Read) (stream, bool) {
	if len(r.Got) != 1 {
		return s, false
	}
	got, ok := r.Got[0].(meta.Stream)
	return s, ok && got.Epoch == s.epoch && got.Open == s.open && got.Owner == s.owner && got.StartOffset == s.start &&
		got.EndOffset == s.end && got.ReservedFor == s.reserved && got.Debts == uint64(len(s.debts))
}
