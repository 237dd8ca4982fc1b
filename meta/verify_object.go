package meta

// verifyObjects is the part of Verify that looks at objects and slices: t is the state that is built anew, with the
// streams already in it, and s the kept one.
func (t *tx) verifyObjects(s *State, wrong func(string, ...any)) {
	unreleased := make(map[*content]uint32) // only looked up, never ranged over
	for id, st := range s.streams.All() {
		t.verifySlices(id, st.slices, unreleased, wrong)
		verifyCover(id, st, wrong)
	}
	for id, x := range s.orphans.All() {
		if !t.streamHandedOut(id) || s.streams.Has(id) || x.root == nil {
			wrong("stream %d: its slices stand among those of deleted streams", id)
		}
		t.setOrphan(id, x)
		t.verifySlices(id, x, unreleased, wrong)
	}
	for id, o := range s.objects.All() {
		copied := *o
		copied.unreleased = 0
		if o.content != nil {
			copied.unreleased = unreleased[o.content]
			delete(unreleased, o.content)
		}
		t.setObject(id, &copied)
		if copied.unreleased != o.unreleased {
			wrong("object %d: %d slices unreleased, %d are indexed", id, o.unreleased, copied.unreleased)
		}
		verifyObject(id, o, s, wrong)
	}
	if len(unreleased) > 0 {
		wrong("%d objects have indexed slices, but no record", len(unreleased))
	}
	t.compareObjects(s, wrong)
}

func verifyObject(id uint64, o *object, s *State, wrong func(string, ...any)) {
	switch {
	case id == 0 || id >= s.nextObject:
		wrong("object %d: never handed out", id)
	case o.state < ObjectPrepared || o.state > ObjectDeletable:
		wrong("object %d: state %d", id, o.state)
	case (o.content == nil) != (o.committedAt == 0) || (o.state == ObjectDeletable) != (o.deletableAt != 0):
		wrong("object %d: %s, committed at %d, deletable at %d", id, o.state, o.committedAt, o.deletableAt)
	case o.state == ObjectPrepared && o.content != nil || o.state == ObjectCommitted && o.content == nil:
		wrong("object %d: %s with content %v", id, o.state, o.content != nil)
	case o.state != ObjectCommitted && o.unreleased != 0:
		wrong("object %d: %s with %d slices", id, o.state, o.unreleased)
	case o.content != nil && (o.content.id != id || o.content.hash != hashOf(o.content.data)):
		wrong("object %d: its content is that of object %d", id, o.content.id)
	}
}

// verifySlices counts the slices of one stream and checks that they are in order and apart.
func (t *tx) verifySlices(id uint64, x sliceIndex, unreleased map[*content]uint32, wrong func(string, ...any)) {
	var end uint64
	n := 0
	for c := x.seek(0); ; c.next() {
		r, ok := c.ref()
		if !ok {
			break
		}
		if r.start < end || r.end() <= r.start {
			wrong("stream %d: slice [%d, %d) after one that ends at %d", id, r.start, r.end(), end)
		}
		if sl := r.slice(); sl.StreamID != id || r.start < sl.StartOffset || r.end() != sl.EndOffset {
			wrong("stream %d: slice [%d, %d) is not what object %d holds: %+v", id, r.start, r.end(), r.object.id, sl)
		}
		end = r.end()
		n++
		unreleased[r.object]++
		t.indexed++
		t.sum = t.sum.plus(hashOf(appendSliceRef(nil, id, r)))
	}
	if n != x.len() {
		wrong("stream %d: %d slices, its index counts %d", id, n, x.len())
	}
	if s, ok := t.streams.Get(id); ok && end > s.end {
		wrong("stream %d: a slice ends at %d, the stream at %d", id, end, s.end)
	}
}

// verifyCover checks that live slices, debts and losses together cover a stream from start to end, each offset once.
func verifyCover(id uint64, st *stream, wrong func(string, ...any)) {
	debts, losses := st.debts(), st.losses()
	c := st.slices.seek(st.start)
	at := st.start
	for at < st.end {
		r, ok := c.ref()
		switch {
		case ok && max(r.start, st.start) == at:
			at = r.end()
			c.next()
		case len(debts) > 0 && debts[0].start == at && at < debts[0].boundary:
			at, debts = debts[0].boundary, debts[1:]
		case len(losses) > 0 && losses[0].start == at && at < losses[0].end:
			at, losses = losses[0].end, losses[1:]
		default:
			wrong("stream %d: offset %d of [%d, %d) is neither held, owed nor lost", id, at, st.start, st.end)
			return
		}
	}
	if _, ok := c.ref(); ok || at != st.end || len(debts) > 0 || len(losses) > 0 {
		wrong("stream %d: covered up to %d, the end is %d, and there is more: slices %v, debts %v, losses %v", id, at, st.end, ok, debts, losses)
	}
}

func (t *tx) compareObjects(s *State, wrong func(string, ...any)) {
	none := func(struct{}, struct{}) bool { return true }
	sameSet := func(a, b idSet) bool { return equalMaps(a, b, none) }
	for _, index := range []struct {
		name  string
		equal bool
	}{
		{"prepared objects", equalMaps(s.prepared, t.prepared, sameSet)},
		{"released objects", equalMaps(s.released, t.released, none)},
		{"deletable objects", equalMaps(s.deletable, t.deletable, none)},
		{"streams with dead slices", equalMaps(s.dead, t.dead, none)},
	} {
		if !index.equal {
			wrong("the index of %s differs from the one computed anew", index.name)
		}
	}
	if s.inState != t.inState || s.indexed != t.indexed {
		wrong("counts of objects and slices: kept %d and %d, computed %d and %d", s.inState, s.indexed, t.inState, t.indexed)
	}
}
