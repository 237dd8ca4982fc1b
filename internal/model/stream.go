package model

import (
	"slices"

	"github.com/headwaterdb/headwater/meta"
)

// The bounds of one stream.
const (
	maxDebts      = 64
	maxLosses     = 1000
	droppedRanges = 16 // ranges below the start that one OpenStream drops
)

// stream is a stream, or what is left of one that was deleted: then only the index matters.
type stream struct {
	deleted  bool
	name     string
	labels   []meta.Label
	epoch    uint64
	open     bool
	owner    meta.Identity // of a closed stream the last one
	start    uint64
	end      uint64
	reserved uint64 // the node for which the next open is reserved
	transfer *meta.Transfer
	ranges   []meta.Range // by offset
	debts    []meta.Debt  // by offset
	losses   []meta.Loss  // by offset
	index    []indexed    // by offset
}

// indexed is a slice that readers of the stream may be sent to, from its first offset that counts.
type indexed struct {
	object uint64
	from   uint64
	slice  meta.Slice
}

// live returns a stream that is there.
func (s *state) live(id uint64) *stream {
	if st := s.streams[id]; st != nil && !st.deleted {
		return st
	}
	return nil
}

// check is the stream check; owner 0 leaves the last part out.
func (s *state) check(id, epoch, owner uint64) (*stream, *meta.Error) {
	st := s.live(id)
	switch {
	case st == nil:
		return nil, refusal(meta.CodeStreamNotFound)
	case epoch < st.epoch:
		return nil, refusal(meta.CodeStreamEpochStale)
	case epoch > st.epoch:
		return nil, refusal(meta.CodeStreamEpochUnknown)
	case owner != 0 && (st.epoch == 0 || st.owner.NodeID != owner):
		return nil, refusal(meta.CodeStreamNotOwned)
	}
	return st, nil
}

func (s *state) createStream(c meta.CreateStream) verdict {
	if err := s.identity(c.Identity); err != nil {
		return refused(err)
	}
	labels := sortedLabels(c.Labels)
	for id, st := range s.streams {
		if st.deleted || st.name != c.Name {
			continue
		}
		if slices.Equal(st.labels, labels) {
			return redundant(meta.CreateStreamResult{StreamID: id})
		}
		return reject(meta.CodeStreamExists)
	}
	id := s.nextStream
	s.nextStream++
	s.streams[id] = &stream{name: c.Name, labels: labels}
	return applied(meta.CreateStreamResult{StreamID: id})
}

func (s *state) openStream(c meta.OpenStream) verdict {
	if err := s.identity(c.Identity); err != nil {
		return refused(err)
	}
	st := s.live(c.StreamID)
	if st == nil {
		return reject(meta.CodeStreamNotFound)
	}
	same := st.open && st.owner == c.Identity
	result := func() meta.OpenStreamResult {
		return meta.OpenStreamResult{Epoch: st.epoch, StartOffset: st.start, EndOffset: st.end}
	}
	epoch := c.Epoch
	if epoch == 0 {
		if same {
			return redundant(result())
		}
		epoch = st.epoch + 1
		if epoch >= limit63 {
			return reject(meta.CodeTooLarge)
		}
	}
	switch {
	case epoch < st.epoch:
		return reject(meta.CodeStreamEpochStale)
	case epoch == st.epoch && same:
		return redundant(result())
	case epoch == st.epoch:
		return reject(meta.CodeStreamEpochStale)
	case st.open && (st.owner.NodeID != c.Identity.NodeID || same):
		return reject(meta.CodeStreamNotClosed)
	case slices.ContainsFunc(st.debts, func(d meta.Debt) bool { return d.NodeID == c.Identity.NodeID }):
		return reject(meta.CodeStreamNotClosed)
	}
	if r := s.nodes[st.reserved]; st.reserved != c.Identity.NodeID && r != nil && r.registered && !r.fenced {
		return reject(meta.CodeStreamReserved)
	}
	st.seal()
	if n := len(st.ranges); n > 0 && st.ranges[n-1].StartOffset == st.ranges[n-1].EndOffset {
		st.ranges = st.ranges[:n-1]
	}
	for dropped := 0; dropped < droppedRanges && len(st.ranges) > 0 && st.ranges[0].EndOffset <= st.start; dropped++ {
		st.ranges = st.ranges[1:]
	}
	st.open, st.epoch, st.owner = true, epoch, c.Identity
	st.reserved, st.transfer = 0, nil
	st.ranges = append(st.ranges, meta.Range{StreamID: c.StreamID, Epoch: epoch, NodeID: c.Identity.NodeID,
		StartOffset: st.end, EndOffset: st.end})
	return applied(result())
}

// seal closes the stream's last range at the end.
func (st *stream) seal() {
	if n := len(st.ranges); n > 0 {
		st.ranges[n-1].Sealed = true
	}
}

// moveEnd moves the end, and that of the last range, to offset.
func (st *stream) moveEnd(offset uint64) {
	st.end = offset
	if n := len(st.ranges); n > 0 {
		st.ranges[n-1].EndOffset = offset
	}
}

func (s *state) closeStream(c meta.CloseStream) verdict {
	owner, err := s.actsAs(c.Identity, c.OnBehalfOf)
	if err != nil {
		return refused(err)
	}
	st, err := s.check(c.StreamID, c.Epoch, owner)
	if err != nil {
		return refused(err)
	}
	result := meta.CloseStreamResult{EndOffset: st.end}
	if !st.open {
		return redundant(result)
	}
	st.open = false
	st.seal()
	return applied(result)
}

func (s *state) trimStream(c meta.TrimStream) verdict {
	if err := s.identity(c.Identity); err != nil {
		return refused(err)
	}
	owner := uint64(0)
	if st := s.live(c.StreamID); st != nil && st.open {
		owner = c.Identity.NodeID
	}
	st, err := s.check(c.StreamID, c.Epoch, owner)
	if err != nil {
		return refused(err)
	}
	if c.StartOffset <= st.start {
		return redundant(meta.TrimStreamResult{StartOffset: st.start, EndOffset: st.end})
	}
	st.start = c.StartOffset
	if st.end < st.start {
		st.moveEnd(st.start)
	}
	var debts []meta.Debt
	for _, d := range st.debts {
		if d.StartOffset = max(d.StartOffset, st.start); d.StartOffset < d.Boundary {
			debts = append(debts, d)
		}
	}
	var losses []meta.Loss
	for _, l := range st.losses {
		if l.StartOffset = max(l.StartOffset, st.start); l.StartOffset < l.EndOffset {
			losses = append(losses, l)
		}
	}
	st.debts, st.losses = debts, losses
	return applied(meta.TrimStreamResult{StartOffset: st.start, EndOffset: st.end})
}

func (s *state) labelStream(c meta.LabelStream) verdict {
	st := s.live(c.StreamID)
	if st == nil {
		return reject(meta.CodeStreamNotFound)
	}
	labels := sortedLabels(c.Labels)
	if slices.Equal(st.labels, labels) {
		return redundant(nil)
	}
	st.labels = labels
	return applied(nil)
}

func (s *state) deleteStream(c meta.DeleteStream) verdict {
	if err := s.optional(c.Identity); err != nil {
		return refused(err)
	}
	if st := s.streams[c.StreamID]; st != nil && st.deleted {
		return redundant(nil)
	}
	st, err := s.check(c.StreamID, c.Epoch, 0)
	if err != nil {
		return refused(err)
	}
	if st.open {
		return reject(meta.CodeStreamNotClosed)
	}
	s.streams[c.StreamID] = &stream{deleted: true, index: st.index}
	return applied(nil)
}

func (s *state) recordTransfer(c meta.RecordTransfer) verdict {
	if err := s.identity(c.Identity); err != nil {
		return refused(err)
	}
	st, err := s.check(c.StreamID, c.Epoch, c.Identity.NodeID)
	if err != nil {
		return refused(err)
	}
	if !st.open {
		t := st.transfer
		switch {
		case t == nil:
			return reject(meta.CodeStreamNotOpen)
		case t.Boundary != c.Boundary:
			return reject(meta.CodeOffsetMismatch)
		case t.ToNode != c.ToNode:
			return reject(meta.CodeStreamNotOpen)
		}
		return redundant(meta.RecordTransferResult{StartOffset: t.StartOffset, Boundary: t.Boundary})
	}
	if to := s.nodes[c.ToNode]; c.ToNode != 0 && (to == nil || !to.registered) {
		return reject(meta.CodeNodeNotFound)
	}
	if c.Boundary < st.end {
		return reject(meta.CodeOffsetMismatch)
	}
	if len(st.debts) >= maxDebts {
		return reject(meta.CodeTooManyDebts)
	}
	result := meta.RecordTransferResult{StartOffset: st.end, Boundary: c.Boundary}
	if st.end < c.Boundary {
		st.debts = append(st.debts, meta.Debt{StreamID: c.StreamID, StreamEpoch: st.epoch, NodeID: c.Identity.NodeID,
			StartOffset: st.end, Boundary: c.Boundary})
	}
	st.transfer = &meta.Transfer{ToNode: c.ToNode, StartOffset: st.end, Boundary: c.Boundary}
	st.reserved = c.ToNode
	st.moveEnd(c.Boundary)
	st.open = false
	st.seal()
	return applied(result)
}

func (s *state) forceCloseStream(c meta.ForceCloseStream) verdict {
	st, err := s.check(c.StreamID, c.Epoch, 0)
	if err != nil {
		return refused(err)
	}
	result := meta.CloseStreamResult{EndOffset: st.end}
	if !st.open && !(c.WriteOff && (len(st.debts) > 0 || st.reserved != 0 || st.transfer != nil)) {
		return redundant(result)
	}
	st.open = false
	st.seal()
	if c.WriteOff {
		for _, d := range st.debts {
			st.losses = append(st.losses, meta.Loss{StreamID: c.StreamID, StartOffset: d.StartOffset, EndOffset: d.Boundary})
		}
		st.debts, st.reserved, st.transfer = nil, 0, nil
		st.losses = mergedLosses(st.losses)
		if len(st.losses) > maxLosses {
			return reject(meta.CodeTooLarge)
		}
	}
	return applied(result)
}

func mergedLosses(losses []meta.Loss) []meta.Loss {
	slices.SortFunc(losses, func(a, b meta.Loss) int {
		if a.StartOffset < b.StartOffset {
			return -1
		}
		return 1
	})
	var out []meta.Loss
	for _, l := range losses {
		if n := len(out); n > 0 && out[n-1].EndOffset == l.StartOffset {
			out[n-1].EndOffset = l.EndOffset
			continue
		}
		out = append(out, l)
	}
	return out
}
