package meta

func (t *tx) recordTransfer(c RecordTransfer) outcome {
	if _, err := t.checkIdentity(c.Identity, 0); err != nil {
		return rejected(err)
	}
	s, err := t.streamCheck(c.StreamID, c.Epoch, c.Identity.NodeID)
	if err != nil {
		return rejected(err)
	}
	if !s.open {
		return transferredBefore(c, s)
	}
	var debts []debt
	if s.rare != nil {
		debts = s.rare.debts
	}
	switch {
	case c.ToNode != 0 && t.liveNode(c.ToNode) == nil:
		return reject(CodeNodeNotFound, "node %d, to which stream %d is to go, is not registered", c.ToNode, c.StreamID)
	case c.Boundary < s.end:
		return reject(CodeOffsetMismatch, "boundary %d is below the end %d of stream %d", c.Boundary, s.end, c.StreamID)
	case len(debts) >= maxDebts: // as the rule says, also where this transfer would add none
		return reject(CodeTooManyDebts, "stream %d has %d debts already, at most %d are allowed", c.StreamID, len(debts), maxDebts)
	}
	r := rareOf(s)
	r.reservedFor = c.ToNode
	r.transfer = &transfer{to: c.ToNode, start: s.end, boundary: c.Boundary}
	if s.end < c.Boundary {
		d := debt{epoch: s.epoch, node: c.Identity.NodeID, start: s.end, boundary: c.Boundary}
		t.setDebts(r, c.StreamID, append(debts[:len(debts):len(debts)], d))
	}
	next := *s
	next.rare, next.open, next.end = r, false, c.Boundary
	t.setStream(c.StreamID, &next)
	return applied(RecordTransferResult{StartOffset: s.end, Boundary: c.Boundary})
}

// transferredBefore judges a transfer of a stream that is closed: is it the one that closed it?
func transferredBefore(c RecordTransfer, s *stream) outcome {
	var was *transfer
	if s.rare != nil {
		was = s.rare.transfer
	}
	switch {
	case was == nil:
		return reject(CodeStreamNotOpen, "stream %d is closed, and not by a transfer", c.StreamID)
	case was.boundary != c.Boundary:
		return reject(CodeOffsetMismatch, "stream %d was transferred at boundary %d, not %d", c.StreamID, was.boundary, c.Boundary)
	case was.to != c.ToNode:
		return reject(CodeStreamNotOpen, "stream %d is closed: it was transferred to node %d, not %d", c.StreamID, was.to, c.ToNode)
	}
	// As the first answer said, even where part of the debt is paid by now.
	return redundant(RecordTransferResult{StartOffset: was.start, Boundary: was.boundary})
}

// forceCloseStream closes a stream for an operator. There is something to do where the stream is open, or where a
// write-off finds a debt, a reservation or a transfer to forget.
func (t *tx) forceCloseStream(c ForceCloseStream) outcome {
	s, err := t.streamAt(c.StreamID, c.Epoch)
	if err != nil {
		return rejected(err)
	}
	next := *s
	next.open = false
	if c.WriteOff && s.rare != nil {
		if next.rare, err = t.writeOff(c.StreamID, s); err != nil {
			return rejected(err)
		}
	}
	if next.open == s.open && next.rare == s.rare {
		return redundant(CloseStreamResult{EndOffset: s.end})
	}
	t.setStream(c.StreamID, &next)
	return applied(CloseStreamResult{EndOffset: next.end})
}

// writeOff returns the rare part of a stream after its debts became losses; the same one where it has nothing to write
// off: neither a debt nor a transfer, without which there is no reservation. Above maxLosses it refuses: to merge losses
// over data that is there would hide it.
func (t *tx) writeOff(id uint64, s *stream) (*streamRare, *Error) {
	if len(s.rare.debts) == 0 && s.rare.transfer == nil {
		return s.rare, nil
	}
	r := rareOf(s)
	r.reservedFor, r.transfer = 0, nil
	if len(r.debts) > 0 {
		losses := addLosses(r.losses, r.debts)
		if len(losses) > maxLosses {
			return nil, refuse(CodeTooLarge, "stream %d would have %d losses, at most %d are allowed: trim it first", id, len(losses), maxLosses)
		}
		t.setDebts(r, id, nil)
		t.setLosses(r, id, losses)
	}
	return r.orNil(), nil
}

// addLosses returns the losses with the debts behind them, adjoining ones merged. A write-off leaves no debt, so all
// debts were made after all losses, and lie above them.
func addLosses(losses []loss, debts []debt) []loss {
	out := append(make([]loss, 0, len(losses)+len(debts)), losses...)
	for _, d := range debts {
		if n := len(out); n > 0 && out[n-1].end == d.start {
			out[n-1].end = d.boundary
			continue
		}
		out = append(out, loss{d.start, d.boundary})
	}
	return out
}
