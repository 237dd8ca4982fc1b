package meta

import "slices"

func (t *tx) createStream(c CreateStream) outcome {
	if _, err := t.checkIdentity(c.Identity, 0); err != nil {
		return rejected(err)
	}
	t.work++
	if id, known := t.names.Get(c.Name); known {
		if !slices.Equal(t.stream(id).labels, c.Labels) {
			return reject(CodeStreamExists, "stream %d is called %q already and has other labels", id, c.Name)
		}
		return redundant(CreateStreamResult{StreamID: id})
	}
	id := t.nextStream
	if id >= maxNumber {
		return reject(CodeTooLarge, "stream ids are used up: the last was %d", id-1)
	}
	t.nextStream++
	s := &stream{}
	s.setNames(c.Name, c.Labels)
	t.setStream(id, s)
	return applied(CreateStreamResult{StreamID: id})
}

func (t *tx) openStream(c OpenStream) outcome {
	if _, err := t.checkIdentity(c.Identity, 0); err != nil {
		return rejected(err)
	}
	s := t.stream(c.StreamID)
	if s == nil {
		return rejected(t.streamNotFound(c.StreamID))
	}
	if s.open && s.owner == c.Identity && (c.Epoch == 0 || c.Epoch == s.epoch) {
		return redundant(openResult(s))
	}
	epoch := c.Epoch
	if epoch == 0 {
		epoch = s.epoch + 1
	}
	switch {
	case epoch <= s.epoch:
		// Equal too: a duplicate that arrives late must not open again what was closed since.
		return reject(CodeStreamEpochStale, "stream %d was opened at epoch %d already, the command names epoch %d", c.StreamID, s.epoch, epoch)
	case epoch >= maxNumber:
		return reject(CodeTooLarge, "stream %d has used up its epochs: the last was %d", c.StreamID, s.epoch)
	}
	if err := t.checkOpen(c, s); err != nil {
		return rejected(err)
	}
	next := *s
	next.rare = t.rareAfterOpen(c.StreamID, s)
	next.open, next.owner, next.epoch = true, c.Identity, epoch
	next.rangeEpoch, next.rangeStart = epoch, s.end
	t.setStream(c.StreamID, &next)
	return applied(openResult(&next))
}

// checkOpen judges whether somebody stands in the way of an open at a higher epoch.
func (t *tx) checkOpen(c OpenStream, s *stream) *Error {
	// A node that was restarted may open its open streams anew, at its new node epoch.
	if s.open && (s.owner.NodeID != c.Identity.NodeID || s.owner == c.Identity) {
		return refuse(CodeStreamNotClosed, "stream %d is open by node %d at stream epoch %d", c.StreamID, s.owner.NodeID, s.epoch)
	}
	if s.rare == nil {
		return nil
	}
	for _, d := range s.rare.debts {
		if d.node == c.Identity.NodeID {
			return refuse(CodeStreamNotClosed, "node %d still owes [%d, %d) of stream %d", d.node, d.start, d.boundary, c.StreamID)
		}
	}
	to := s.rare.reservedFor
	if to == 0 || to == c.Identity.NodeID {
		return nil
	}
	if n := t.liveNode(to); n != nil && !n.fenced {
		return refuse(CodeStreamReserved, "stream %d is reserved for node %d", c.StreamID, to)
	}
	return nil
}

// rareAfterOpen returns the rare part of a stream after an open: the last range sealed among the past ones, some that
// nobody can read any more dropped, reservation and transfer gone.
func (t *tx) rareAfterOpen(id uint64, s *stream) *streamRare {
	some := s.rangeEpoch != 0 && s.rangeStart < s.end // an empty range is replaced
	if s.rare == nil && !some {
		return nil
	}
	r := rareOf(s)
	r.reservedFor, r.transfer = 0, nil
	if some {
		t.sealRange(r, id, s)
	}
	for range maxDroppedRanges {
		start, p, ok := r.ranges.Min()
		if !ok || p.end > s.start {
			break
		}
		t.dropRange(r, id, start)
	}
	return r.orNil()
}

func openResult(s *stream) OpenStreamResult {
	return OpenStreamResult{Epoch: s.epoch, StartOffset: s.start, EndOffset: s.end}
}

func (t *tx) closeStream(c CloseStream) outcome {
	owner, err := t.checkIdentity(c.Identity, c.OnBehalfOf)
	if err != nil {
		return rejected(err)
	}
	s, err := t.streamCheck(c.StreamID, c.Epoch, owner)
	if err != nil {
		return rejected(err)
	}
	if !s.open {
		return redundant(CloseStreamResult{EndOffset: s.end})
	}
	next := *s
	next.open = false
	t.setStream(c.StreamID, &next)
	return applied(CloseStreamResult{EndOffset: next.end})
}

func (t *tx) trimStream(c TrimStream) outcome {
	if _, err := t.checkIdentity(c.Identity, 0); err != nil {
		return rejected(err)
	}
	s, err := t.streamAt(c.StreamID, c.Epoch)
	if err == nil && s.open {
		s, err = t.streamCheck(c.StreamID, c.Epoch, c.Identity.NodeID)
	}
	if err != nil {
		return rejected(err)
	}
	if c.StartOffset <= s.start {
		return redundant(TrimStreamResult{StartOffset: s.start, EndOffset: s.end})
	}
	next := *s
	next.start = c.StartOffset
	next.end = max(s.end, c.StartOffset)
	if s.rare != nil {
		r := rareOf(s)
		t.trimDebts(r, c.StreamID, c.StartOffset)
		t.trimLosses(r, c.StreamID, c.StartOffset)
		next.rare = r.orNil()
	}
	t.setStream(c.StreamID, &next)
	return applied(TrimStreamResult{StartOffset: next.start, EndOffset: next.end})
}

// trimDebts takes what lies below start out of the debts.
func (t *tx) trimDebts(r *streamRare, id, start uint64) {
	if len(r.debts) == 0 || r.debts[0].start >= start {
		return
	}
	var left []debt
	for _, d := range r.debts {
		if d.boundary > start {
			d.start = max(d.start, start)
			left = append(left, d)
		}
	}
	t.setDebts(r, id, left)
}

// trimLosses takes what lies below start out of the losses.
func (t *tx) trimLosses(r *streamRare, id, start uint64) {
	if len(r.losses) == 0 || r.losses[0].start >= start {
		return
	}
	var left []loss
	for _, l := range r.losses {
		if l.end > start {
			l.start = max(l.start, start)
			left = append(left, l)
		}
	}
	t.setLosses(r, id, left)
}

func (t *tx) labelStream(c LabelStream) outcome {
	s := t.stream(c.StreamID)
	if s == nil {
		return rejected(t.streamNotFound(c.StreamID))
	}
	if slices.Equal(s.labels, c.Labels) {
		return redundant(nil)
	}
	next := *s
	next.setNames(s.name, c.Labels)
	t.setStream(c.StreamID, &next)
	return applied(nil)
}

func (t *tx) removeStream(c DeleteStream) outcome {
	if err := t.checkOptionalIdentity(c.Identity); err != nil {
		return rejected(err)
	}
	if !t.streamHandedOut(c.StreamID) {
		return rejected(t.streamNotFound(c.StreamID))
	}
	s := t.stream(c.StreamID)
	if s == nil {
		return redundant(nil)
	}
	if err := checkStreamEpoch(c.StreamID, s, c.Epoch); err != nil {
		return rejected(err)
	}
	if s.open {
		return reject(CodeStreamNotClosed, "stream %d is open by node %d", c.StreamID, s.owner.NodeID)
	}
	t.deleteStream(c.StreamID)
	return applied(nil)
}
