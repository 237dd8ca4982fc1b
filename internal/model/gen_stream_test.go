package model_test

import "github.com/headwaterdb/headwater/meta"

// stream is a live one in most cases, else one that was deleted or never handed out.
func (g *gen) stream() meta.Stream {
	all := g.m.Streams()
	if st, ok := pick(g, all); ok && g.chance(94) {
		return st
	}
	if id, ok := pick(g, g.m.DeletedStreams()); ok && g.chance(60) {
		return meta.Stream{ID: id, Epoch: g.upTo(2)}
	}
	return meta.Stream{ID: g.upTo(1) * 99, Epoch: 1}
}

// streamThat is a live stream with a property where there is one, in most cases.
func (g *gen) streamThat(holds func(meta.Stream) bool) meta.Stream {
	var found []meta.Stream
	for _, st := range g.m.Streams() {
		if holds(st) {
			found = append(found, st)
		}
	}
	if st, ok := pick(g, found); ok && g.chance(85) {
		return st
	}
	return g.stream()
}

func closed(st meta.Stream) bool { return !st.Open }

func (g *gen) openStream() meta.Command {
	st := g.streamThat(closed)
	c := meta.OpenStream{Identity: g.actor(), StreamID: st.ID}
	if g.chance(45) {
		c.Identity = g.as(st.ReservedFor)
	}
	if st.Open && g.chance(60) {
		c.Identity = g.as(st.Owner.NodeID)
	}
	switch {
	case g.chance(35):
		c.Epoch = st.Epoch + 1
	case g.chance(15):
		c.Epoch = st.Epoch + 2
	case g.chance(25):
		c.Epoch = st.Epoch
	}
	return c
}

func (g *gen) closeStream() meta.Command {
	st := g.streamThat(g.servedBy)
	c := meta.CloseStream{StreamID: st.ID, Epoch: st.Epoch}
	c.Identity, c.OnBehalfOf = g.actsFor(st.Owner.NodeID)
	return c
}

// actsFor finds who may act as a node: itself, or its rescuer; sometimes neither.
func (g *gen) actsFor(node uint64) (id meta.Identity, onBehalfOf uint64) {
	if rescuer, ok := g.rescue(node); ok && g.chance(92) {
		return rescuer, node
	}
	if node != 0 && g.chance(3) {
		return g.actor(), node
	}
	return g.as(node), 0
}

func (g *gen) trimStream() meta.Command {
	st := g.stream()
	c := meta.TrimStream{Identity: g.as(st.Owner.NodeID), StreamID: st.ID, Epoch: st.Epoch}
	if !st.Open && g.chance(60) {
		c.Identity = g.actor()
	}
	switch {
	case g.chance(10):
		c.StartOffset = st.StartOffset
	case g.chance(12):
		c.StartOffset = st.EndOffset + g.upTo(3)
	case g.chance(20):
		if sl, ok := pick(g, g.m.LiveSlices(st.ID)); ok {
			c.StartOffset = sl.Slice.EndOffset
		}
	default:
		c.StartOffset = st.StartOffset + 1 + g.upTo(min(8, st.EndOffset-st.StartOffset))
	}
	return c
}

func (g *gen) deleteStream() meta.Command {
	st := g.streamThat(closed)
	c := meta.DeleteStream{Identity: g.perhaps(), StreamID: st.ID, Epoch: st.Epoch}
	if g.chance(10) {
		c.Epoch += g.upTo(2) - 1
	}
	return c
}

func (g *gen) recordTransfer() meta.Command {
	st := g.streamThat(g.servedBy)
	if g.chance(15) {
		st = g.streamThat(func(st meta.Stream) bool { return st.Transfer != nil })
	}
	c := meta.RecordTransfer{Identity: g.as(st.Owner.NodeID), StreamID: st.ID, Epoch: st.Epoch,
		Boundary: st.EndOffset + g.upTo(6)}
	if g.chance(60) {
		c.ToNode = g.someNode().NodeID
	}
	if t := st.Transfer; t != nil && g.chance(80) {
		c.ToNode, c.Boundary = t.ToNode, t.Boundary+g.upTo(3)/3
		if g.chance(15) {
			c.ToNode++
		}
	}
	if st.EndOffset > 0 && g.chance(4) {
		c.Boundary = st.EndOffset - 1
	}
	return c
}
