package meta

// objectCommand judges the commands on objects and does them.
func (t *tx) objectCommand(c Command) outcome {
	t.freezeSlices()
	switch c := c.(type) {
	case PrepareObjects:
		return t.prepareObjects(c)
	case CommitObjects:
		return t.commitObjects(c)
	case CompactObjects:
		return t.compactObjects(c)
	case ReclaimObjects:
		return t.reclaimObjects(c)
	case ForgetObjects:
		return t.forgetObjects(c)
	}
	return reject(CodeInvalidArgument, "%T is no command on objects", c)
}

func (t *tx) prepareObjects(c PrepareObjects) outcome {
	if _, err := t.checkIdentity(c.Identity, 0); err != nil {
		return rejected(err)
	}
	first := t.nextObject
	t.nextObject += c.Count
	for id := first; id < t.nextObject; id++ {
		t.setObject(id, &object{state: ObjectPrepared, owner: c.Identity.NodeID, deadline: c.Deadline})
	}
	return applied(PrepareObjectsResult{FirstObjectID: first, Count: c.Count})
}

// commit is one CommitObjects that is being judged: what it would change, while nothing is changed yet. It is kept
// from one command to the next for its memory.
type commit struct {
	fresh   []*Object      // the objects that are not skipped
	slices  []commitSlice  // the slices that are to be indexed, in the order sent
	streams []commitStream // the streams that they belong to, in the order of their first slices
	byID    map[uint64]int // stream id → place in streams, where these are many
	places  []uint32       // where each slice begins in the packed content of its object
	dropped uint64
}

type commitSlice struct {
	object, slice int // places in fresh, and in its slices
	stream        int // place in streams
}

type commitStream struct {
	id    uint64
	rec   *stream // its record, before the commit, then after it; nil: deleted
	end   uint64
	debts []debt // not to be changed in place unless copied
	owned bool   // debts were copied
}

// fewStreams is up to how many streams looking through all is faster than a map.
const fewStreams = 16

func (k *commit) reset() {
	clear(k.fresh)
	clear(k.streams)
	if len(k.byID) > 0 {
		clear(k.byID)
	}
	k.fresh, k.slices, k.streams, k.dropped = k.fresh[:0], k.slices[:0], k.streams[:0], 0
}

func (t *tx) commitObjects(c CommitObjects) outcome {
	owner, err := t.checkIdentity(c.Identity, c.OnBehalfOf)
	if err != nil {
		return rejected(err)
	}
	k := &t.commit
	k.reset()
	for i := range c.Objects {
		o := &c.Objects[i]
		skip, err := t.judgeCommitted(o)
		if err == nil && !skip {
			err = t.judgePrepared(o.ObjectID, owner, c.Identity.NodeID)
			k.fresh = append(k.fresh, o)
		}
		if err != nil {
			return rejected(err)
		}
	}
	if len(k.fresh) == 0 {
		return redundant(CommitObjectsResult{})
	}
	for i, o := range k.fresh {
		for j := range o.Slices {
			if err := t.judgeSlice(owner, i, j); err != nil {
				return rejected(err)
			}
		}
	}
	t.doCommit()
	return applied(CommitObjectsResult{DroppedSlices: k.dropped})
}

// judgeCommitted reports whether the object was committed before with the same content; with other content it is
// refused.
func (t *tx) judgeCommitted(o *Object) (same bool, err *Error) {
	old := t.object(o.ObjectID)
	if old == nil || old.content == nil {
		return false, nil
	}
	c, _ := packContent(o, nil)
	if !c.equal(old.content) {
		return false, refuse(CodeObjectExists, "object %d was committed at index %d with other content", o.ObjectID, old.committedAt)
	}
	return true, nil
}

// judgePrepared judges whether an object may be committed by a node, or by the one that acts on its behalf.
func (t *tx) judgePrepared(id, owner, acting uint64) *Error {
	old := t.object(id)
	switch {
	case old == nil && t.objectHandedOut(id):
		return refuse(CodeObjectNotFound, "object %d was forgotten", id)
	case old == nil:
		return refuse(CodeObjectNotFound, "object %d was never prepared", id)
	case old.owner != owner && old.owner != acting:
		return refuse(CodeObjectNotOwned, "object %d was prepared by node %d, not by node %d", id, old.owner, owner)
	case old.state == ObjectDeletable:
		return refuse(CodeObjectExpired, "object %d was given up at index %d: its deadline %d had passed", id, old.deletableAt, old.deadline)
	}
	return nil
}

// judgeSlice judges one slice against what the earlier ones of the commit left.
func (t *tx) judgeSlice(owner uint64, object, slice int) *Error {
	k := &t.commit
	sl := &k.fresh[object].Slices[slice]
	if !t.streamHandedOut(sl.StreamID) {
		return t.streamNotFound(sl.StreamID)
	}
	i := t.commitStream(sl.StreamID)
	s := &k.streams[i]
	if s.rec == nil {
		k.dropped++
		return nil
	}
	if sl.EndOffset <= s.rec.start {
		return nil
	}
	err := t.judgeOffsets(owner, k.fresh[object].ObjectID, sl, s)
	if err == nil {
		k.slices = append(k.slices, commitSlice{object: object, slice: slice, stream: i})
	}
	return err
}

// judgeOffsets judges whether a slice goes on where its writer left off, and notes that it did.
func (t *tx) judgeOffsets(owner, object uint64, sl *Slice, s *commitStream) *Error {
	if i := owedDebt(s.debts, owner, sl.StreamEpoch); i >= 0 {
		d := s.debts[i]
		if !continues(sl, d.start, s.rec.start) || sl.EndOffset > d.boundary {
			return refuse(CodeOffsetMismatch, "object %d holds [%d, %d) of stream %d, but node %d owes [%d, %d) at epoch %d",
				object, sl.StartOffset, sl.EndOffset, sl.StreamID, owner, d.start, d.boundary, d.epoch)
		}
		s.pay(i, sl.EndOffset)
		return nil
	}
	if err := checkStreamOwner(sl.StreamID, s.rec, sl.StreamEpoch, owner); err != nil {
		return err
	}
	if !s.rec.open {
		return refuse(CodeStreamNotOpen, "stream %d is closed at epoch %d", sl.StreamID, s.rec.epoch)
	}
	if !continues(sl, s.end, s.rec.start) {
		return refuse(CodeOffsetMismatch, "object %d holds [%d, %d) of stream %d, whose next offset is %d",
			object, sl.StartOffset, sl.EndOffset, sl.StreamID, s.end)
	}
	s.end = sl.EndOffset
	return nil
}

// continues reports whether a slice that ends above the stream's start may come next. It may begin below the start
// only where nothing below it is live, so that what it hides there is of no use to anybody.
func continues(sl *Slice, next, streamStart uint64) bool {
	return sl.StartOffset == next || sl.StartOffset < next && next == streamStart
}

// owedDebt returns the place of the debt of a node at a stream epoch, or -1. There is at most one, since a stream
// epoch ends with the transfer that makes it.
func owedDebt(debts []debt, node, epoch uint64) int {
	for i := range debts {
		if debts[i].epoch == epoch && debts[i].node == node {
			return i
		}
	}
	return -1
}

// pay moves the start of a debt up, and drops it where nothing is left of it.
func (s *commitStream) pay(i int, to uint64) {
	if !s.owned {
		s.debts, s.owned = append(make([]debt, 0, len(s.debts)), s.debts...), true
	}
	if to < s.debts[i].boundary {
		s.debts[i].start = to
		return
	}
	s.debts = append(s.debts[:i], s.debts[i+1:]...)
}

// commitStream returns the place in the commit's streams of one that was once created.
func (t *tx) commitStream(id uint64) int {
	k := &t.commit
	if len(k.streams) <= fewStreams {
		for i := range k.streams {
			if k.streams[i].id == id {
				return i
			}
		}
	} else if i, ok := k.byID[id]; ok {
		return i
	}
	s := commitStream{id: id, rec: t.stream(id)}
	if s.rec != nil {
		s.end = s.rec.end
		if s.rec.rare != nil {
			s.debts = s.rec.rare.debts
		}
	}
	i := len(k.streams)
	k.streams = append(k.streams, s)
	switch {
	case i == fewStreams:
		if k.byID == nil {
			k.byID = make(map[uint64]int)
		}
		for j := range k.streams {
			k.byID[k.streams[j].id] = j
		}
	case i > fewStreams:
		k.byID[id] = i
	}
	return i
}

// doCommit does what was judged.
func (t *tx) doCommit() {
	k := &t.commit
	// The records of the touched streams, made once each.
	for i := range k.streams {
		if rec := k.streams[i].rec; rec != nil {
			c := *rec
			c.end = k.streams[i].end
			k.streams[i].rec = &c
		}
	}
	rest := k.slices
	for i, o := range k.fresh {
		var c *content
		c, k.places = packContent(o, k.places[:0])
		n := 0
		for n < len(rest) && rest[n].object == i {
			r := rest[n]
			s := k.streams[r.stream]
			t.insertSlice(s.id, &s.rec.slices, newSliceRef(c, k.places[r.slice], o.Slices[r.slice], s.rec.start))
			n++
		}
		rest = rest[n:]
		t.commitObject(c, n)
	}
	for i := range k.streams {
		s := &k.streams[i]
		if s.rec == nil {
			continue
		}
		if s.owned {
			rare := rareOf(s.rec)
			t.setDebts(rare, s.id, s.debts)
			s.rec.rare = rare.orNil()
		}
		t.setStream(s.id, s.rec)
	}
}

// commitObject makes a prepared object a committed one, n of whose slices were indexed. Where these are none, it is
// at once one of those that ReclaimObjects makes deletable.
func (t *tx) commitObject(c *content, n int) {
	o := *t.object(c.id)
	o.content, o.state, o.committedAt, o.unreleased = c, ObjectCommitted, t.index, uint32(n)
	t.setObject(c.id, &o)
}
