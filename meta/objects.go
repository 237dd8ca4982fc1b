package meta

import (
	"math"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// objectTables holds the objects, and of the slices what does not stand in a live stream's record.
type objectTables struct {
	// The entries that snapshots hold and the digest covers, together with the slices of all live streams.
	objects pmap.Map[uint64, *object]    // by object id; an id below nextObject that is not here was forgotten
	orphans pmap.Map[uint64, sliceIndex] // by id of a deleted stream: its slices that are not released yet

	// Derived from the entries above, rebuilt when a snapshot is decoded, and no part of the digest.
	prepared  pmap.Map[int64, idSet]      // deadline → prepared objects
	released  idSet                       // committed objects all of whose slices are released
	deletable idSet                       // deletable objects
	dead      idSet                       // streams, deleted ones too, that have slices to release
	inState   [ObjectDeletable + 1]uint64 // how many objects are in each state
	indexed   uint64                      // slices in all indexes
}

// The first bytes of the entries of objects and slices; see digest.go.
const (
	entryObject = 16
	entrySlice  = 17
)

// appendObject: id, state, owner, deadline, committedAt, deletableAt, deletableStamp, hash of the content. How many
// of its slices are unreleased follows from the slices, which are entries of their own; so a change costs the same
// for an object of one slice and of ten thousand.
func appendObject(b []byte, id uint64, o *object) []byte {
	b = appendObjectRecord(b, id, o)
	if o.content == nil {
		return b
	}
	return appendSum(b, o.content.hash)
}

// appendObjectRecord: what appendObject appends before the hash of the content, with whether there is one.
func appendObjectRecord(b []byte, id uint64, o *object) []byte {
	b = appendUint(append(b, entryObject), id)
	b = append(b, byte(o.state))
	b = appendUint(b, o.owner)
	b = appendUint(b, uint64(o.deadline))
	b = appendUint(b, o.committedAt)
	b = appendUint(b, o.deletableAt)
	b = appendUint(b, uint64(o.deletableStamp))
	return appendBool(b, o.content != nil)
}

// appendSliceRef: stream id, start, object id, place in the object's content.
func appendSliceRef(b []byte, stream uint64, r sliceRef) []byte {
	return appendIndexed(b, stream, r.start, r.object.id, r.at)
}

func appendIndexed(b []byte, stream, start, object uint64, at uint32) []byte {
	b = appendUint(append(b, entrySlice), stream)
	return appendUint(appendUint(appendUint(b, start), object), uint64(at))
}

// object returns the record of an object, or nil.
func (t *tx) object(id uint64) *object {
	t.work++
	o, _ := t.objects.Get(id)
	return o
}

// objectHandedOut reports whether an object ever had the id.
func (t *tx) objectHandedOut(id uint64) bool { return id > 0 && id < t.nextObject }

// setObject replaces the record of an object, or makes a new one.
func (t *tx) setObject(id uint64, o *object) {
	t.work++
	old, _ := t.objects.Set(t.edit, id, o)
	t.changeObject(id, old, o)
}

// deleteObject removes the record of an object, of which no slice is indexed any more.
func (t *tx) deleteObject(id uint64) {
	t.work++
	if old, had := t.objects.Delete(t.edit, id); had {
		t.changeObject(id, old, nil)
	}
}

// changeObject keeps digest, derived indexes and changes in step with an object's record; nil is an absent one.
func (t *tx) changeObject(id uint64, old, new *object) {
	if old != nil && new != nil {
		if o := *old; o.state == new.state {
			// A slice was released or indexed: unless that was the last or the first one, no index hears of it.
			o.unreleased = new.unreleased
			if o == *new && (old.unreleased == 0) == (new.unreleased == 0) {
				t.recordObject(id, old, new)
				return
			}
		}
	}
	if old != nil {
		t.buf = appendObject(t.buf[:0], id, old)
		t.sum = t.sum.minus(hashOf(t.buf))
		t.inState[old.state]--
		switch {
		case old.state == ObjectPrepared:
			t.work++
			removeID(t.edit, &t.prepared, old.deadline, id)
		case old.state == ObjectDeletable:
			t.deletable.Delete(t.edit, id)
		case old.unreleased == 0:
			t.released.Delete(t.edit, id)
		}
	}
	if new != nil {
		t.buf = appendObject(t.buf[:0], id, new)
		t.sum = t.sum.plus(hashOf(t.buf))
		t.inState[new.state]++
		switch {
		case new.state == ObjectPrepared:
			t.work++
			addID(t.edit, &t.prepared, new.deadline, id)
		case new.state == ObjectDeletable:
			t.deletable.Set(t.edit, id, struct{}{})
		case new.unreleased == 0:
			t.released.Set(t.edit, id, struct{}{})
		}
	}
	t.recordObject(id, old, new)
}

func (t *tx) recordObject(id uint64, old, new *object) {
	if t.rec == nil {
		return
	}
	var was, is Record
	if old != nil {
		was = objectRecord(id, old)
	}
	if new != nil {
		is = objectRecord(id, new)
	}
	t.rec.add(ChangeObject, idKey(id), was, is)
}

// slicesOf returns the index of a stream, deleted or not, and the offset at or below which its slices are dead.
func (t *tx) slicesOf(stream uint64) (x sliceIndex, deadBelow uint64) {
	if s := t.stream(stream); s != nil {
		return s.slices, s.start
	}
	x, _ = t.orphans.Get(stream)
	return x, math.MaxUint64
}

// setSlices gives a stream, deleted or not, another index.
func (t *tx) setSlices(stream uint64, x sliceIndex) {
	if s := t.stream(stream); s != nil {
		c := *s
		c.slices = x
		t.setStream(stream, &c)
		return
	}
	t.setOrphan(stream, x)
}

func (t *tx) setOrphan(stream uint64, x sliceIndex) {
	t.work++
	if x.root == nil {
		t.orphans.Delete(t.edit, stream)
		t.dead.Delete(t.edit, stream)
		return
	}
	t.orphans.Set(t.edit, stream, x)
	t.dead.Set(t.edit, stream, struct{}{})
}

// changeSlices keeps the list of streams with dead slices in step with a stream's record, and keeps the slices of a
// stream that is deleted. It looks at no more than the first slice: whatever a trim or a deletion kills is released
// later. The old record is not asked what it held: its index may have been changed in place since.
func (t *tx) changeSlices(id uint64, old, new *stream) {
	if new == nil {
		t.setOrphan(id, old.slices)
		return
	}
	r, ok := new.slices.first()
	isDead := ok && r.end() <= new.start
	if isDead == (t.dead.Len() > 0 && t.dead.Has(id)) {
		return
	}
	t.work++
	if isDead {
		t.dead.Set(t.edit, id, struct{}{})
	} else {
		t.dead.Delete(t.edit, id)
	}
}

// insertSlice puts r into the index of a stream; the caller then sets the index, and the number of unreleased slices
// of the object.
func (t *tx) insertSlice(stream uint64, x *sliceIndex, r sliceRef) {
	t.work += 1 + x.height()
	x.insert(t.edit, r)
	t.indexed++
	t.buf = appendSliceRef(t.buf[:0], stream, r)
	t.sum = t.sum.plus(hashOf(t.buf))
	if t.rec != nil {
		t.rec.add(ChangeSlice, sliceKey(stream, r), nil, storedSlice(r))
	}
}

// removeSlice takes r out of the index of a stream; the caller then sets the index, and the number of unreleased
// slices of the object.
func (t *tx) removeSlice(stream uint64, x *sliceIndex, r sliceRef) {
	t.work += 1 + x.height()
	x.remove(t.edit, r.start)
	t.indexed--
	t.buf = appendSliceRef(t.buf[:0], stream, r)
	t.sum = t.sum.minus(hashOf(t.buf))
	if t.rec != nil {
		t.rec.add(ChangeSlice, sliceKey(stream, r), storedSlice(r), nil)
	}
}

// freezeSlices lets the records of before the present command be read after it changed indexes, for the recorder.
func (t *tx) freezeSlices() {
	if t.rec != nil {
		t.freshEdit()
	}
}

// liveSlices returns how many slices readers of the stream can be sent to.
func (s *stream) liveSlices() uint64 {
	n := s.slices.len()
	// Most often none is dead. The first one tells, and of a stream that was never trimmed not even that is read.
	if s.start == 0 {
		return uint64(n)
	}
	if r, ok := s.slices.first(); ok && r.end() <= s.start {
		n -= s.slices.rank(s.start)
	}
	return uint64(n)
}

// objectRecord shows the object id without its slices; o is its record, now or before.
func objectRecord(id uint64, o *object) ObjectRecord {
	r := ObjectRecord{
		ID: id, State: o.state, Owner: o.owner, Deadline: o.deadline, LiveSlices: uint64(o.unreleased),
		CommittedIndex: o.committedAt, DeletableIndex: o.deletableAt, DeletableStamp: o.deletableStamp,
	}
	if o.content != nil {
		r.Size, r.Attributes, r.SliceCount = o.content.size(), o.content.attributes(), uint64(o.content.count())
	}
	return r
}

func storedSlice(r sliceRef) StoredSlice {
	return StoredSlice{ObjectID: r.object.id, StartOffset: r.start, Slice: r.slice()}
}

func sliceKey(stream uint64, r sliceRef) string {
	return pairKey(stream, r.start) + "/" + idKey(r.object.id)
}
