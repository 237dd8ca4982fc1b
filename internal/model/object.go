package model

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/headwaterdb/headwater/meta"
)

// object is an object that is not forgotten.
type object struct {
	state     meta.ObjectState
	owner     uint64
	deadline  int64
	content   *meta.Object // as sent; nil: never committed
	committed uint64       // row of the commit
	deletable uint64       // row since when it is deletable
	stamp     int64        // and its stamp
}

func equalContent(a, b meta.Object) bool {
	return a.Size == b.Size && bytes.Equal(a.Attributes, b.Attributes) && slices.Equal(a.Slices, b.Slices)
}

func (s *state) handedOut(id uint64) bool { return id > 0 && id < s.nextObject }

func (s *state) prepareObjects(c meta.PrepareObjects) verdict {
	if err := s.identity(c.Identity); err != nil {
		return refused(err)
	}
	first := s.nextObject
	for range c.Count {
		s.objects[s.nextObject] = &object{state: meta.ObjectPrepared, owner: c.Identity.NodeID, deadline: c.Deadline}
		s.nextObject++
	}
	return applied(meta.PrepareObjectsResult{FirstObjectID: first, Count: c.Count})
}

// mayCommit judges one object that was sent; before says that it was committed with this content.
func (s *state) mayCommit(o meta.Object, owners ...uint64) (before bool, err *meta.Error) {
	have := s.objects[o.ObjectID]
	switch {
	case have != nil && have.content != nil && equalContent(*have.content, o):
		return true, nil
	case have != nil && have.content != nil:
		return false, refusal(meta.CodeObjectExists)
	case have == nil:
		return false, refusal(meta.CodeObjectNotFound)
	case !slices.Contains(owners, have.owner):
		return false, refusal(meta.CodeObjectNotOwned)
	case have.state == meta.ObjectDeletable:
		return false, refusal(meta.CodeObjectExpired)
	}
	return false, nil
}

func (s *state) commitObjects(at place, c meta.CommitObjects) verdict {
	owner, err := s.actsAs(c.Identity, c.OnBehalfOf)
	if err != nil {
		return refused(err)
	}
	var fresh []meta.Object
	for _, o := range c.Objects {
		before, err := s.mayCommit(o, c.Identity.NodeID, owner)
		if err != nil {
			return refused(err)
		}
		if !before {
			fresh = append(fresh, o)
		}
	}
	if len(fresh) == 0 {
		return redundant(meta.CommitObjectsResult{})
	}
	dropped := uint64(0)
	for _, o := range fresh {
		for _, sl := range o.Slices {
			gone, err := s.commitSlice(owner, o.ObjectID, sl)
			if err != nil {
				return refused(err)
			}
			if gone {
				dropped++
			}
		}
		s.setContent(at, o)
	}
	return applied(meta.CommitObjectsResult{DroppedSlices: dropped})
}

func (s *state) setContent(at place, o meta.Object) {
	have := s.objects[o.ObjectID]
	have.state, have.content, have.committed = meta.ObjectCommitted, &o, at.index
}

// commitSlice makes one slice part of its stream; gone says that the stream was deleted.
func (s *state) commitSlice(owner, object uint64, sl meta.Slice) (gone bool, err *meta.Error) {
	st := s.streams[sl.StreamID]
	if st == nil {
		return false, refusal(meta.CodeStreamNotFound)
	}
	if st.deleted {
		return true, nil
	}
	if sl.EndOffset <= st.start {
		return false, nil
	}
	for i := range st.debts {
		d := &st.debts[i]
		if d.NodeID != owner || d.StreamEpoch != sl.StreamEpoch {
			continue
		}
		if !st.continues(sl, d.StartOffset) || sl.EndOffset > d.Boundary {
			return false, refusal(meta.CodeOffsetMismatch)
		}
		st.insert(object, d.StartOffset, sl)
		if d.StartOffset = sl.EndOffset; d.StartOffset == d.Boundary {
			st.debts = slices.Delete(st.debts, i, i+1)
		}
		return false, nil
	}
	if _, err := s.check(sl.StreamID, sl.StreamEpoch, owner); err != nil {
		return false, err
	}
	if !st.open {
		return false, refusal(meta.CodeStreamNotOpen)
	}
	if !st.continues(sl, st.end) || sl.EndOffset <= st.end {
		return false, refusal(meta.CodeOffsetMismatch)
	}
	st.insert(object, st.end, sl)
	st.moveEnd(sl.EndOffset)
	return false, nil
}

// continues says whether a slice goes on at the next offset.
func (st *stream) continues(sl meta.Slice, next uint64) bool {
	return sl.StartOffset == next || sl.StartOffset < next && next == st.start
}

func (st *stream) insert(object, from uint64, sl meta.Slice) {
	st.index = append(st.index, indexed{object: object, from: from, slice: sl})
	slices.SortFunc(st.index, func(a, b indexed) int { return cmp.Compare(a.from, b.from) })
}

// sourceSlices returns how many slices the sources of a compaction were committed with.
func (s *state) sourceSlices(c meta.CompactObjects) (n uint64) {
	for _, id := range c.Sources {
		if o := s.objects[id]; o != nil && o.content != nil {
			n += uint64(len(o.content.Slices))
		}
	}
	return n
}

func (s *state) compactObjects(at place, c meta.CompactObjects) verdict {
	if err := s.identity(c.Identity); err != nil {
		return refused(err)
	}
	held := s.sourceSlices(c)
	if held > maxSlices || at.left != nil && held > *at.left {
		return reject(meta.CodeTooLarge)
	}
	if at.left != nil {
		*at.left -= held
	}
	if s.compactedBefore(c) {
		return redundant(nil)
	}
	for _, id := range c.Sources {
		if o := s.objects[id]; o == nil || o.state != meta.ObjectCommitted {
			return reject(meta.CodeObjectNotFound)
		}
	}
	for _, o := range c.Objects {
		before, err := s.mayCommit(o, c.Identity.NodeID)
		if err != nil {
			return refused(err)
		}
		if before {
			return reject(meta.CodeObjectExists)
		}
	}
	if !s.covers(c) {
		return reject(meta.CodeCoverageMismatch)
	}
	for _, st := range s.streams {
		st.index = slices.DeleteFunc(st.index, func(x indexed) bool { return slices.Contains(c.Sources, x.object) })
	}
	for _, id := range c.Sources {
		s.giveUp(at, id)
	}
	for _, o := range c.Objects {
		for _, sl := range o.Slices {
			if st := s.live(sl.StreamID); st != nil && sl.EndOffset > st.start {
				st.insert(o.ObjectID, max(sl.StartOffset, st.start), sl)
			}
		}
		s.setContent(at, o)
	}
	return applied(nil)
}

func (s *state) giveUp(at place, id uint64) {
	o := s.objects[id]
	o.state, o.deletable, o.stamp = meta.ObjectDeletable, at.index, at.stamp
}

func (s *state) compactedBefore(c meta.CompactObjects) bool {
	for _, id := range c.Sources {
		o := s.objects[id]
		if !s.handedOut(id) || o != nil && o.state != meta.ObjectDeletable {
			return false
		}
	}
	for _, o := range c.Objects {
		have := s.objects[o.ObjectID]
		if have == nil || have.content == nil || !equalContent(*have.content, o) {
			return false
		}
	}
	return true
}

// covers says whether the results hold exactly the live offsets of the sources, each once.
func (s *state) covers(c meta.CompactObjects) bool {
	var want, got []meta.Slice // stream, start and end only
	for id, st := range s.streams {
		for _, x := range st.index {
			if slices.Contains(c.Sources, x.object) && !st.deleted && x.slice.EndOffset > st.start {
				want = append(want, meta.Slice{StreamID: id, StartOffset: max(x.from, st.start), EndOffset: x.slice.EndOffset})
			}
		}
	}
	for _, o := range c.Objects {
		for _, sl := range o.Slices {
			st := s.streams[sl.StreamID]
			if st == nil {
				return false
			}
			if !st.deleted && sl.EndOffset > st.start {
				got = append(got, meta.Slice{StreamID: sl.StreamID, StartOffset: max(sl.StartOffset, st.start), EndOffset: sl.EndOffset})
			}
		}
	}
	return slices.Equal(joined(want), joined(got))
}

// joined sorts intervals and joins those that touch; such as overlap stay apart, and so equal nothing that is disjoint.
func joined(in []meta.Slice) []meta.Slice {
	slices.SortFunc(in, func(a, b meta.Slice) int {
		return cmp.Or(cmp.Compare(a.StreamID, b.StreamID), cmp.Compare(a.StartOffset, b.StartOffset),
			cmp.Compare(a.EndOffset, b.EndOffset))
	})
	var out []meta.Slice
	for _, sl := range in {
		if n := len(out); n > 0 && out[n-1].StreamID == sl.StreamID && out[n-1].EndOffset == sl.StartOffset {
			out[n-1].EndOffset = sl.EndOffset
			continue
		}
		out = append(out, sl)
	}
	return out
}

func (s *state) reclaimObjects(at place, c meta.ReclaimObjects) verdict {
	var result meta.ReclaimObjectsResult
	for _, id := range slices.Sorted(maps.Keys(s.streams)) {
		st := s.streams[id]
		var left []indexed
		for _, x := range st.index {
			if result.ReleasedSlices < c.Limit && (st.deleted || x.slice.EndOffset <= st.start) {
				result.ReleasedSlices++
				continue
			}
			left = append(left, x)
		}
		st.index = left
	}
	var late, empty []uint64
	for id, o := range s.objects {
		switch {
		case o.state == meta.ObjectPrepared && o.deadline < c.Time:
			late = append(late, id)
		case o.state == meta.ObjectCommitted && s.indexedSlices(id) == 0:
			empty = append(empty, id)
		}
	}
	slices.SortFunc(late, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(s.objects[a].deadline, s.objects[b].deadline), cmp.Compare(a, b))
	})
	slices.Sort(empty)
	for _, id := range append(late, empty...) {
		if result.DeletableObjects < c.Limit {
			result.DeletableObjects++
			s.giveUp(at, id)
		}
	}
	if result == (meta.ReclaimObjectsResult{}) {
		return redundant(result)
	}
	return applied(result)
}

func (s *state) indexedSlices(object uint64) (n uint64) {
	for _, st := range s.streams {
		for _, x := range st.index {
			if x.object == object {
				n++
			}
		}
	}
	return n
}

func (s *state) forgetObjects(c meta.ForgetObjects) verdict {
	var result meta.ForgetObjectsResult
	for _, id := range c.ObjectIDs {
		if !s.handedOut(id) {
			return reject(meta.CodeObjectNotFound)
		}
	}
	for _, id := range c.ObjectIDs {
		o := s.objects[id]
		if o != nil && o.state != meta.ObjectDeletable {
			return reject(meta.CodeObjectInUse)
		}
		if o != nil {
			delete(s.objects, id)
			result.Forgotten++
		}
	}
	if result.Forgotten == 0 {
		return redundant(result)
	}
	return applied(result)
}
