package meta

import (
	"iter"
	"strings"
)

// Stream returns a live stream by its id, and whether there is one.
func (s *State) Stream(id uint64) (Stream, bool) {
	st, ok := s.streams.Get(id)
	if !ok {
		return Stream{}, false
	}
	return s.streamRecord(id, st), true
}

// StreamByName returns a live stream by its name, and whether there is one.
func (s *State) StreamByName(name string) (Stream, bool) {
	id, ok := s.names.Get(name)
	if !ok {
		return Stream{}, false
	}
	return s.Stream(id)
}

// Streams lists all live streams by id. The cursor is empty for the first page, then Page.Next; the limit is 1 to
// MaxPage, or 0 for 100. The error is an *Error.
func (s *State) Streams(cursor string, limit int) (Page[Stream], error) {
	from, limit, err := idPage(listStreams, cursor, limit)
	if err != nil {
		return Page[Stream]{}, err
	}
	return listing[uint64, *stream, Stream]{
		entries: s.streams.From(from),
		show:    func(id uint64, st *stream) (Stream, int) { return s.streamRecord(id, st), 0 },
		cursor:  func(id uint64) string { return numberCursor(listStreams, id) },
	}.page(limit), nil
}

// StreamsByName lists the live streams whose name begins with prefix in the order of the names' bytes; cursor, limit
// and error are as in Streams.
func (s *State) StreamsByName(prefix, cursor string, limit int) (Page[Stream], error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return Page[Stream]{}, err
	}
	from, err := openTextCursor(listStreamsByName, cursor)
	if err != nil {
		return Page[Stream]{}, err
	}
	return listing[string, uint64, Stream]{
		entries: s.names.From(max(from, prefix)),
		within:  func(name string) bool { return strings.HasPrefix(name, prefix) },
		show:    func(_ string, id uint64) (Stream, int) { return s.streamOf(id), 0 },
		cursor:  func(name string) string { return textCursor(listStreamsByName, name) },
	}.page(limit), nil
}

// StreamsByOwner lists the open streams that a node owns, by id; cursor, limit and error are as in Streams.
func (s *State) StreamsByOwner(nodeID uint64, cursor string, limit int) (Page[Stream], error) {
	set, _ := s.owners.Get(nodeID)
	return s.streamsIn(set, listStreamsByOwner, cursor, limit)
}

// StreamsReservedFor lists the closed streams whose next open is reserved for a node, by id: those that were transferred
// to it and that it has not opened yet. Cursor, limit and error are as in Streams.
func (s *State) StreamsReservedFor(nodeID uint64, cursor string, limit int) (Page[Stream], error) {
	set, _ := s.reserved.Get(nodeID)
	return s.streamsIn(set, listStreamsReserved, cursor, limit)
}

// StreamsByLabel lists the live streams that carry the label, by id; cursor, limit and error are as in Streams.
func (s *State) StreamsByLabel(label Label, cursor string, limit int) (Page[Stream], error) {
	set, _ := s.labels.Get(labelKey(label))
	return s.streamsIn(set, listStreamsByLabel, cursor, limit)
}

// streamsIn lists the streams of a set.
func (s *State) streamsIn(set idSet, list byte, cursor string, limit int) (Page[Stream], error) {
	from, limit, err := idPage(list, cursor, limit)
	if err != nil {
		return Page[Stream]{}, err
	}
	return listing[uint64, struct{}, Stream]{
		entries: set.From(from),
		show:    func(id uint64, _ struct{}) (Stream, int) { return s.streamOf(id), 0 },
		cursor:  func(id uint64) string { return numberCursor(list, id) },
	}.page(limit), nil
}

// streamOf shows a stream that an index names, which is therefore there.
func (s *State) streamOf(id uint64) Stream {
	r, _ := s.Stream(id)
	return r
}

// Ranges lists what the owners of a stream wrote, by offset, the last range included; cursor and limit are as in
// Streams. The error is an *Error, STREAM_NOT_FOUND where there is no such live stream.
func (s *State) Ranges(streamID uint64, cursor string, limit int) (Page[Range], error) {
	from, limit, err := idPage(listRanges, cursor, limit)
	if err != nil {
		return Page[Range]{}, err
	}
	st, ok := s.streams.Get(streamID)
	if !ok {
		return Page[Range]{}, s.streamNotFound(streamID)
	}
	return listing[uint64, Range, Range]{
		entries: st.rangesFrom(streamID, from),
		show:    func(_ uint64, r Range) (Range, int) { return r, 0 },
		cursor:  func(start uint64) string { return numberCursor(listRanges, start) },
	}.page(limit), nil
}

// rangesFrom yields the ranges that start at or above an offset, by start offset.
func (st *stream) rangesFrom(id, from uint64) iter.Seq2[uint64, Range] {
	return func(yield func(uint64, Range) bool) {
		if st.rare != nil {
			for start, p := range st.rare.ranges.From(from) {
				if !yield(start, rangeRecord(id, start, p)) {
					return
				}
			}
		}
		if st.rangeEpoch != 0 && st.rangeStart >= from {
			yield(st.rangeStart, lastRange(id, st))
		}
	}
}

// Losses lists the intervals of a stream that were written off, by offset; cursor, limit and error are as in Ranges.
func (s *State) Losses(streamID uint64, cursor string, limit int) (Page[Loss], error) {
	from, limit, err := idPage(listLosses, cursor, limit)
	if err != nil {
		return Page[Loss]{}, err
	}
	st, ok := s.streams.Get(streamID)
	if !ok {
		return Page[Loss]{}, s.streamNotFound(streamID)
	}
	return listing[uint64, loss, Loss]{
		entries: func(yield func(uint64, loss) bool) {
			for _, l := range st.losses() {
				if l.start >= from && !yield(l.start, l) {
					return
				}
			}
		},
		show:   func(_ uint64, l loss) (Loss, int) { return lossRecord(streamID, l), 0 },
		cursor: func(start uint64) string { return numberCursor(listLosses, start) },
	}.page(limit), nil
}

// losses returns the losses of a stream, which are not to be changed.
func (st *stream) losses() []loss {
	if st.rare == nil {
		return nil
	}
	return st.rare.losses
}

// reservedFor returns the node for which the next open of a stream is reserved, or 0.
func (st *stream) reservedFor() uint64 {
	if st.rare == nil {
		return 0
	}
	return st.rare.reservedFor
}

// debts returns the debts of a stream, which are not to be changed.
func (st *stream) debts() []debt {
	if st.rare == nil {
		return nil
	}
	return st.rare.debts
}
