package meta

import "iter"

// ObjectFilter narrows the list of objects.
type ObjectFilter struct {
	State ObjectState // only objects in this state; 0: in any
	// ExpiredAt, with ObjectPrepared, leaves only objects whose deadline is below it: those that a ReclaimObjects of
	// that time gives up. Milliseconds since 1970; 0: all.
	ExpiredAt int64
	// WithSlices fills ObjectRecord.Slices in. A page then ends earlier where objects hold many.
	WithSlices bool
}

// Object returns an object that is not forgotten, with its slices, and whether there is one. It costs as much as the
// object has slices, at most MaxSlices.
func (s *State) Object(id uint64) (ObjectRecord, bool) {
	o, ok := s.objects.Get(id)
	if !ok {
		return ObjectRecord{}, false
	}
	return fullObjectRecord(id, o), true
}

// fullObjectRecord is objectRecord with the slices.
func fullObjectRecord(id uint64, o *object) ObjectRecord {
	r := objectRecord(id, o)
	if o.content != nil {
		r.Slices = o.content.object().Slices
	}
	return r
}

// Objects lists objects: prepared ones in the order of their deadlines and, of equal deadlines, of their ids, all
// others by id. The cursor is empty for the first page, then Page.Next; the limit is 1 to MaxPage, or 0 for 100. The
// error is an *Error, INVALID_ARGUMENT where the filter makes no sense.
func (s *State) Objects(filter ObjectFilter, cursor string, limit int) (Page[ObjectRecord], error) {
	switch {
	case filter.State > ObjectDeletable:
		return Page[ObjectRecord]{}, refuse(CodeInvalidArgument, "state %d is not that of an object", filter.State)
	case filter.ExpiredAt != 0 && filter.State != ObjectPrepared:
		return Page[ObjectRecord]{}, refuse(CodeInvalidArgument, "only prepared objects expire, but expiredAt comes with state %s", filter.State)
	case filter.State == ObjectPrepared:
		return s.preparedObjects(filter, cursor, limit)
	case filter.State == ObjectDeletable:
		return s.deletableObjects(filter, cursor, limit)
	}
	from, limit, err := idPage(listObjects, cursor, limit)
	if err != nil {
		return Page[ObjectRecord]{}, err
	}
	return listing[uint64, *object, ObjectRecord]{
		entries: s.objects.From(from),
		keep:    func(_ uint64, o *object) bool { return filter.State == 0 || o.state == filter.State },
		show:    filter.show,
		cursor:  func(id uint64) string { return numberCursor(listObjects, id) },
	}.page(limit), nil
}

// show makes the item of one object.
func (f ObjectFilter) show(id uint64, o *object) (ObjectRecord, int) {
	if !f.WithSlices {
		return objectRecord(id, o), 0
	}
	r := fullObjectRecord(id, o)
	return r, len(r.Slices) * sliceWeight
}

// showID is show for a list that has only the id.
func (f ObjectFilter) showID(s *State, id uint64) (ObjectRecord, int) {
	o, _ := s.objects.Get(id)
	return f.show(id, o)
}

func (s *State) deletableObjects(filter ObjectFilter, cursor string, limit int) (Page[ObjectRecord], error) {
	from, limit, err := idPage(listDeletable, cursor, limit)
	if err != nil {
		return Page[ObjectRecord]{}, err
	}
	return listing[uint64, struct{}, ObjectRecord]{
		entries: s.deletable.From(from),
		show:    func(id uint64, _ struct{}) (ObjectRecord, int) { return filter.showID(s, id) },
		cursor:  func(id uint64) string { return numberCursor(listDeletable, id) },
	}.page(limit), nil
}

// preparedPlace is where an object stands in the list of prepared ones. For cursors the deadline is shifted to an
// unsigned number in the same order.
type preparedPlace struct{ deadline, id uint64 }

func placeOf(deadline int64, id uint64) preparedPlace {
	return preparedPlace{uint64(deadline) ^ 1<<63, id}
}

func (s *State) preparedObjects(filter ObjectFilter, cursor string, limit int) (Page[ObjectRecord], error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return Page[ObjectRecord]{}, err
	}
	var from preparedPlace
	if err := openNumberCursor(listPrepared, cursor, &from.deadline, &from.id); err != nil {
		return Page[ObjectRecord]{}, err
	}
	l := listing[preparedPlace, struct{}, ObjectRecord]{
		entries: s.preparedFrom(from),
		show:    func(at preparedPlace, _ struct{}) (ObjectRecord, int) { return filter.showID(s, at.id) },
		cursor:  func(at preparedPlace) string { return numberCursor(listPrepared, at.deadline, at.id) },
	}
	if filter.ExpiredAt != 0 {
		end := placeOf(filter.ExpiredAt, 0)
		l.within = func(at preparedPlace) bool { return at.deadline < end.deadline }
	}
	return l.page(limit), nil
}

// preparedFrom yields the prepared objects from a place on.
func (s *State) preparedFrom(from preparedPlace) iter.Seq2[preparedPlace, struct{}] {
	return func(yield func(preparedPlace, struct{}) bool) {
		first := from.id
		for deadline, ids := range s.prepared.From(int64(from.deadline ^ 1<<63)) {
			if placeOf(deadline, 0).deadline != from.deadline {
				first = 0
			}
			for id := range ids.From(first) {
				if !yield(placeOf(deadline, id), struct{}{}) {
					return
				}
			}
		}
	}
}
