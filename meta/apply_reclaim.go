package meta

func (t *tx) reclaimObjects(c ReclaimObjects) outcome {
	released := t.releaseSlices(c.Limit)
	deletable := t.giveUpPrepared(c.Time, c.Limit)
	deletable += t.giveUpReleased(c.Limit - deletable)
	r := ReclaimObjectsResult{ReleasedSlices: released, DeletableObjects: deletable}
	if r == (ReclaimObjectsResult{}) {
		return redundant(r)
	}
	return applied(r)
}

// releaseSlices takes up to limit dead slices out of their indexes, lowest stream and offset first. The dead slices
// of a stream are the first ones of its index, all of them where the stream was deleted.
func (t *tx) releaseSlices(limit uint64) (n uint64) {
	for n < limit {
		stream, _, ok := t.dead.Min()
		if !ok {
			break
		}
		x, deadBelow := t.slicesOf(stream)
		for n < limit {
			r, ok := x.first()
			if !ok || r.end() > deadBelow {
				break
			}
			t.removeSlice(stream, &x, r)
			o := *t.object(r.object.id)
			o.unreleased--
			t.setObject(r.object.id, &o)
			n++
		}
		t.setSlices(stream, x) // strikes the stream off the list where nothing dead is left
	}
	return n
}

// giveUpPrepared makes up to limit prepared objects deletable whose deadline is below the time, in order of deadline
// and id.
func (t *tx) giveUpPrepared(time int64, limit uint64) (n uint64) {
	for n < limit {
		deadline, ids, ok := t.prepared.Min()
		if !ok || deadline >= time {
			break
		}
		id, _, _ := ids.Min()
		t.makeDeletable(id, *t.object(id))
		n++
	}
	return n
}

// giveUpReleased makes up to limit committed objects deletable all of whose slices are released, lowest id first.
func (t *tx) giveUpReleased(limit uint64) (n uint64) {
	for n < limit {
		id, _, ok := t.released.Min()
		if !ok {
			break
		}
		t.makeDeletable(id, *t.object(id))
		n++
	}
	return n
}

func (t *tx) forgetObjects(c ForgetObjects) outcome {
	for _, id := range c.ObjectIDs {
		if !t.objectHandedOut(id) {
			return reject(CodeObjectNotFound, "object %d was never prepared", id)
		}
	}
	var forgotten uint64
	for _, id := range c.ObjectIDs {
		o := t.object(id)
		if o == nil {
			continue
		}
		if o.state != ObjectDeletable {
			return reject(CodeObjectInUse, "object %d is %s, not deletable", id, o.state)
		}
		forgotten++
	}
	if forgotten == 0 {
		return redundant(ForgetObjectsResult{})
	}
	for _, id := range c.ObjectIDs {
		t.deleteObject(id)
	}
	return applied(ForgetObjectsResult{Forgotten: forgotten})
}
