package model_test

import (
	"slices"

	"github.com/headwaterdb/headwater/meta"
)

func (g *gen) objectCommand(k meta.Kind) meta.Command {
	switch k {
	case meta.KindPrepareObjects:
		return meta.PrepareObjects{Identity: g.actor(), Count: 1 + g.upTo(3), Deadline: int64(50 + g.upTo(100))}
	case meta.KindCommitObjects:
		return g.commitObjects()
	case meta.KindCompactObjects:
		return g.compactObjects()
	case meta.KindReclaimObjects:
		return meta.ReclaimObjects{Time: int64(g.upTo(110)), Limit: 1 + g.upTo(4)*g.upTo(4)}
	case meta.KindForgetObjects:
		return g.forgetObjects()
	}
	panic("a kind without a generator: " + k.String())
}

func (g *gen) objectsIn(state meta.ObjectState, owners ...uint64) (ids []uint64) {
	for _, o := range g.m.Objects() {
		if o.State == state && (len(owners) == 0 || slices.Contains(owners, o.Owner)) {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// some draws up to n of ids, without doubles.
func (g *gen) some(ids []uint64, n int) []uint64 {
	ids = slices.Clone(ids)
	g.r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:min(n, len(ids))]
}

func (g *gen) forgetObjects() meta.Command {
	ids := g.some(g.objectsIn(meta.ObjectDeletable), 1+int(g.upTo(3)))
	for len(ids) == 0 || g.chance(20) {
		ids = append(ids, g.upTo(40)) // perhaps forgotten before, in use, or never handed out
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return meta.ForgetObjects{ObjectIDs: g.some(ids, len(ids))}
}

// object fills in what is no slice.
func (g *gen) object(id uint64) meta.Object {
	o := meta.Object{ObjectID: id, Size: 100 + g.upTo(3)}
	if g.chance(50) {
		o.Attributes = []byte{1, byte(g.upTo(3))}
	}
	return o
}

// sent is an object as it was committed, so that it can be sent again.
func sent(o meta.ObjectRecord) meta.Object {
	return meta.Object{ObjectID: o.ID, Size: o.Size, Attributes: o.Attributes, Slices: o.Slices}
}

func (g *gen) slice(stream, epoch, start, end uint64) meta.Slice {
	return meta.Slice{StreamID: stream, StreamEpoch: epoch, StartOffset: start, EndOffset: end, Position: g.upTo(9),
		Length: 1 + g.upTo(9), MaxTimestamp: int64(start) + int64(g.upTo(20)) - 5}
}

func (g *gen) commitObjects() meta.Command {
	node := g.someNode().NodeID
	if debt, ok := pick(g, g.m.Debts()); ok && g.chance(40) {
		node = debt.NodeID
	} else if st := g.streamThat(g.servedBy); st.Owner.NodeID != 0 {
		node = st.Owner.NodeID
	}
	if id, ok := pick(g, g.claimed()); ok && g.chance(30) {
		node = id
	}
	c := meta.CommitObjects{}
	c.Identity, c.OnBehalfOf = g.actsFor(node)
	prepared := g.objectsIn(meta.ObjectPrepared, node, c.Identity.NodeID)
	if len(prepared) == 0 && g.chance(90) {
		return meta.PrepareObjects{Identity: c.Identity, Count: 1 + g.upTo(5), Deadline: int64(50 + g.upTo(100))}
	}
	ids := g.some(prepared, 1+int(g.upTo(2)))
	if g.chance(5) || len(ids) == 0 {
		ids = append(ids, 1+g.upTo(20)) // whoever owns it, whatever it is
	}
	slices.Sort(ids)
	next := map[[2]uint64]uint64{} // by stream and epoch, what the earlier slices left
	for _, id := range slices.Compact(ids) {
		o := g.object(id)
		for range g.upTo(g.burst) {
			o.Slices = append(o.Slices, g.nextSlice(node, next)...)
		}
		c.Objects = append(c.Objects, o)
	}
	g.addCommitted(&c)
	return c
}

// claimed lists the fenced nodes for which somebody may act.
func (g *gen) claimed() (ids []uint64) {
	for _, id := range g.m.Nodes() {
		if _, ok := g.rescue(id); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// servedBy says whether a stream is open and somebody may act for its owner.
func (g *gen) servedBy(st meta.Stream) bool {
	_, rescued := g.rescue(st.Owner.NodeID)
	return st.Open && (rescued || slices.Contains(g.m.Nodes(), st.Owner.NodeID) && !g.m.Node(st.Owner.NodeID).Fenced)
}

// addCommitted adds an object that was committed before, equal or with other content.
func (g *gen) addCommitted(c *meta.CommitObjects) {
	if !g.chance(15) {
		return
	}
	id, ok := pick(g, append(g.objectsIn(meta.ObjectCommitted), g.objectsIn(meta.ObjectDeletable)...))
	if !ok || slices.ContainsFunc(c.Objects, func(o meta.Object) bool { return o.ObjectID == id }) {
		return
	}
	o := sent(g.m.Object(id))
	if g.chance(20) {
		o.Size++
	}
	c.Objects = append(c.Objects, o)
	if g.chance(40) {
		c.Objects = c.Objects[len(c.Objects)-1:]
	}
}

// nextSlice is a slice that the node may commit: of a stream that it owns, or of a debt; or one that is left out.
func (g *gen) nextSlice(node uint64, next map[[2]uint64]uint64) []meta.Slice {
	if ids := g.m.DeletedStreams(); len(ids) > 0 && g.chance(7) {
		id, _ := pick(g, ids)
		return []meta.Slice{g.slice(id, 1+g.upTo(2), g.upTo(5), 6+g.upTo(5))}
	}
	var debts []meta.Debt
	for _, d := range g.m.Debts() {
		if at := max(d.StartOffset, next[[2]uint64{d.StreamID, d.StreamEpoch}]); d.NodeID == node && at < d.Boundary {
			d.StartOffset = at
			debts = append(debts, d)
		}
	}
	if d, ok := pick(g, debts); ok && g.chance(60) {
		end := d.StartOffset + 1 + g.upTo(d.Boundary-d.StartOffset-1)
		if g.chance(3) {
			end = d.Boundary + 1
		}
		next[[2]uint64{d.StreamID, d.StreamEpoch}] = end
		return []meta.Slice{g.below(d.StreamID, g.slice(d.StreamID, d.StreamEpoch, d.StartOffset, end))}
	}
	st := g.streamThat(func(st meta.Stream) bool { return st.Open && st.Owner.NodeID == node })
	at := max(st.EndOffset, next[[2]uint64{st.ID, st.Epoch}])
	sl := g.slice(st.ID, st.Epoch, at, at+1+g.upTo(5))
	if st.StartOffset > 0 && g.chance(5) { // wholly below the start
		sl.StartOffset, sl.EndOffset = st.StartOffset-1, st.StartOffset
		return []meta.Slice{sl}
	}
	next[[2]uint64{st.ID, st.Epoch}] = sl.EndOffset
	return []meta.Slice{g.below(st.ID, sl)}
}

// below lets a slice begin below the stream's start, which is right only where nothing below it is live.
func (g *gen) below(stream uint64, sl meta.Slice) meta.Slice {
	for _, st := range g.m.Streams() {
		if st.ID != stream || sl.StartOffset == 0 {
			continue
		}
		if st.StartOffset == sl.StartOffset && g.chance(50) || g.chance(3) {
			sl.StartOffset -= 1 + g.upTo(sl.StartOffset-1)
		}
	}
	return sl
}

func (g *gen) compactObjects() meta.Command {
	var sources []uint64
	for _, sl := range g.m.LiveSlices(g.stream().ID) {
		if len(sources) < 3 && g.chance(60) {
			sources = append(sources, sl.ObjectID)
		}
	}
	if len(sources) == 0 || g.chance(20) {
		sources = append(sources, g.some(g.objectsIn(meta.ObjectCommitted), 2)...)
	}
	if len(sources) == 0 || g.chance(4) {
		sources = append(sources, 1+g.upTo(30))
	}
	slices.Sort(sources)
	c := meta.CompactObjects{Identity: g.actor(), Sources: slices.Compact(sources)}
	results := g.some(g.objectsIn(meta.ObjectPrepared, c.Identity.NodeID), 2)
	if len(results) == 0 && g.chance(90) {
		return meta.PrepareObjects{Identity: c.Identity, Count: 1 + g.upTo(5), Deadline: int64(50 + g.upTo(100))}
	}
	if len(results) == 0 || g.chance(5) {
		results = []uint64{1 + g.upTo(20)}
	}
	for _, id := range results {
		c.Objects = append(c.Objects, g.object(id))
	}
	live := g.liveOf(c.Sources)
	if g.chance(12) {
		live = g.bendSlices(live)
	}
	if len(live) == 0 && g.chance(70) {
		c.Objects = nil
	}
	for _, sl := range live {
		o := &c.Objects[g.r.IntN(len(c.Objects))]
		o.Slices = append(o.Slices, sl)
	}
	if len(c.Objects) > 0 && g.chance(6) {
		if o, ok := pick(g, g.m.Objects()); ok {
			c.Objects[0].ObjectID = o.ID // in any state, of any node
		}
	}
	if len(c.Objects) > 0 && g.chance(3) {
		for _, o := range g.m.Objects() {
			if o.State == meta.ObjectDeletable && o.CommittedIndex == 0 && o.Owner == c.Identity.NodeID {
				c.Objects[0].ObjectID = o.ID // given up before it was committed
			}
		}
	}
	return c
}

// liveOf returns slices that hold what is live of the sources: joined where they touch, cut here and there, with parts
// that are ignored.
func (g *gen) liveOf(sources []uint64) (out []meta.Slice) {
	for _, st := range g.m.Streams() {
		first := len(out)
		for _, x := range g.m.LiveSlices(st.ID) {
			if !slices.Contains(sources, x.ObjectID) {
				continue
			}
			if n := len(out); n > first && out[n-1].EndOffset == x.StartOffset && !g.chance(20) {
				out[n-1].EndOffset = x.Slice.EndOffset
				continue
			}
			sl := g.slice(st.ID, x.Slice.StreamEpoch, x.StartOffset, x.Slice.EndOffset)
			if x.StartOffset == st.StartOffset && st.StartOffset > 0 && g.chance(40) {
				sl.StartOffset -= 1 + g.upTo(sl.StartOffset-1)
			}
			out = append(out, sl)
			if middle := (x.StartOffset + sl.EndOffset) / 2; middle > sl.StartOffset && g.chance(15) {
				rest := sl
				rest.StartOffset, out[len(out)-1].EndOffset = middle, middle
				out = append(out, rest)
			}
		}
		if st.StartOffset > 0 && g.chance(8) {
			out = append(out, g.slice(st.ID, st.Epoch, st.StartOffset-1, st.StartOffset))
		}
	}
	if id, ok := pick(g, g.m.DeletedStreams()); ok && g.chance(15) {
		out = append(out, g.slice(id, 1, 0, 1+g.upTo(9)))
	}
	return out
}

// bendSlices makes the results cover too little, too much, twice, or across a hole.
func (g *gen) bendSlices(in []meta.Slice) []meta.Slice {
	if len(in) == 0 {
		return append(in, g.slice(g.stream().ID, 1, g.upTo(9), 10+g.upTo(9)))
	}
	i := g.r.IntN(len(in))
	switch g.upTo(5) {
	case 0:
		return slices.Delete(in, i, i+1)
	case 1:
		return append(in, in[i])
	case 2:
		in[i].EndOffset++
	case 3:
		in[i].StartOffset++
	case 4:
		in[i].StreamID = 99
	case 5:
		if i+1 < len(in) && in[i].StreamID == in[i+1].StreamID {
			in[i].EndOffset = in[i+1].EndOffset
			return slices.Delete(in, i+1, i+2)
		}
	}
	return in
}
