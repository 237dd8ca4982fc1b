package meta

import (
	"runtime"
	"sort"
)

// The bounds of FindObjects.
const (
	MaxFound     = 10_000 // slices that may be asked for
	defaultFound = 100    // slices where the limit is 0
)

// FindObjects says where a reader finds [start, end) of a stream: the slices that cover it, contiguous and in offset
// order, at most limit of them, where they stop and why. The first slice may begin below start and the last end above
// end: objects are read in whole slices. End 0 means the end of the stream; limit is 1 to MaxFound, or 0 for 100.
//
// Where start lies below the stream's start, the answer begins at the stream's start, and says so. Where it lies at or
// above the stream's end, the answer is empty and stops for StopEnd: there is nothing yet. At an interval that is
// still owed, or was written off, the answer stops and names it; behind a loss a reader goes on from Found.Loss.EndOffset.
//
// The cost grows with the logarithm of the stream's slices, and with the answer. The error is an *Error:
// STREAM_NOT_FOUND, INVALID_ARGUMENT or TOO_LARGE.
func (s *State) FindObjects(stream, start, end uint64, limit int) (Found, error) {
	var f Found
	err := s.FindObjectsInto(&f, stream, start, end, limit)
	return f, err
}

// FindObjectsInto is FindObjects into an answer whose memory is used again: it does not allocate where f.Slices has
// the room. The slices found before are overwritten.
func (s *State) FindObjectsInto(f *Found, stream, start, end uint64, limit int) error {
	*f = Found{Slices: f.Slices[:0]}
	limit, err := foundLimit(limit)
	if err != nil {
		return err
	}
	st, ok := s.streams.Get(stream)
	if !ok {
		return s.streamNotFound(stream)
	}
	if end != 0 && end <= start {
		return refuse(CodeInvalidArgument, "startOffset %d is not below endOffset %d", start, end)
	}
	at := max(start, st.start)
	f.StartOffset, f.StreamStartOffset, f.StreamEndOffset = at, st.start, st.end
	if end == 0 || end > st.end {
		end = st.end
	}
	if at < end && cap(f.Slices) == 0 {
		f.Slices = make([]FoundSlice, 0, min(limit, st.slices.rank(end)-st.slices.rank(at)+1))
	}
	c := st.slices.seek(at)
	for at < end && len(f.Slices) < limit {
		if len(f.Slices)%fetchedAhead == 0 {
			fetchAhead(c, end, limit-len(f.Slices))
		}
		r, ok := c.ref()
		if !ok || r.start > at {
			break
		}
		f.Slices = append(f.Slices, FoundSlice{
			ObjectID: r.object.id, ObjectSize: r.object.size(), Attributes: r.object.attributes(), Slice: r.slice(),
		})
		at = r.end()
		c.next()
	}
	f.EndOffset = at
	if f.Stop = StopEnd; at < end {
		f.stopAt(stream, st, &c)
	}
	return nil
}

// fetchedAhead is how many slices are fetched from memory at a time.
const fetchedAhead = 16

// fetchAhead reads a little of each of the next slices that begin below end, n at most. They lie at random in a large
// state: read one after the other each would be waited for, and the processor fetches them together where nothing lies
// between. It changes nothing.
func fetchAhead(c sliceCursor, end uint64, n int) {
	var next [fetchedAhead]sliceRef
	refs := fetchContents(next[:0], c, end, n)
	touched := 0
	for i := range refs {
		touched += int(refs[i].object.data[0]) + int(refs[i].object.data[refs[i].at])
	}
	runtime.KeepAlive(touched) // or the compiler leaves the reading out
}

// fetchContents is the part of fetchAhead that reads the records of the contents, and no bytes of theirs. It returns the refs.
func fetchContents(refs []sliceRef, c sliceCursor, end uint64, n int) []sliceRef {
	for len(refs) < min(n, fetchedAhead) {
		r, ok := c.ref()
		if !ok || r.start >= end {
			break
		}
		refs = append(refs, r)
		c.next()
	}
	touched := 0
	for i := range refs {
		touched += len(refs[i].object.data)
	}
	runtime.KeepAlive(touched)
	return refs
}

// stopAt says why the answer ends before the end that was asked for.
func (f *Found) stopAt(stream uint64, st *stream, c *sliceCursor) {
	at := f.EndOffset
	r, ok := c.ref()
	if ok && r.start <= at {
		f.Stop = StopLimit
		return
	}
	debts := st.debts()
	if i := sort.Search(len(debts), func(i int) bool { return debts[i].boundary > at }); i < len(debts) && debts[i].start <= at {
		f.Stop, f.Debt = StopDebt, debtRecord(stream, debts[i])
		return
	}
	// What is neither indexed nor owed was written off. Every such interval is recorded; if one were not, it would be
	// told as what it is, an interval up to the next slice that nobody has.
	gap := loss{start: at, end: st.end}
	if ok {
		gap.end = r.start
	}
	losses := st.losses()
	if i := sort.Search(len(losses), func(i int) bool { return losses[i].end > at }); i < len(losses) && losses[i].start <= at {
		gap = losses[i]
	}
	f.Stop, f.Loss = StopLoss, lossRecord(stream, gap)
}

func foundLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return defaultFound, nil
	case limit < 0:
		return 0, refuse(CodeInvalidArgument, "limit %d: must be 1 to %d, or 0 for %d", limit, MaxFound, defaultFound)
	case limit > MaxFound:
		return 0, refuse(CodeTooLarge, "limit %d: at most %d", limit, MaxFound)
	}
	return limit, nil
}

// FindOffset returns the first offset at or after a timestamp: where the first slice in offset order begins, of those
// that are live, whose greatest timestamp is at least t. Records below that offset are all older than t, as far as
// they are in the index; timestamps need not ascend. A slice of which only the end is live counts as a whole, and its
// offset is then the stream's start. Found is false where every slice is older, and the offset then the stream's end.
//
// It reads O(log n) of the stream's n slices. The error is an *Error, STREAM_NOT_FOUND.
func (s *State) FindOffset(stream uint64, t int64) (offset uint64, found bool, err error) {
	st, ok := s.streams.Get(stream)
	if !ok {
		return 0, false, s.streamNotFound(stream)
	}
	r, ok := st.slices.newerThan(st.start, t)
	if !ok {
		return st.end, false, nil
	}
	return max(r.start, st.start), true, nil
}

// defaultSmall is what counts as a small slice where nothing is said, in bytes.
const defaultSmall = 1 << 20

// CompactionCandidates lists objects that hold small slices of a stream, those below smallBelow bytes (0: 1 MiB).
// A page goes on over the stream in offset order until it has looked at 10,000 live slices or met limit objects, and
// lists what it met: the object with the most small slices first, of equal ones the lower id. An object whose slices
// lie further apart may be met by two pages. The cursor is empty for the first page, then Page.Next; the limit is 1
// to MaxPage, or 0 for 100. The error is an *Error, STREAM_NOT_FOUND where there is no such stream.
func (s *State) CompactionCandidates(stream, smallBelow uint64, cursor string, limit int) (Page[CompactionCandidate], error) {
	var p Page[CompactionCandidate]
	from, limit, err := idPage(listCandidates, cursor, limit)
	if err != nil {
		return p, err
	}
	st, ok := s.streams.Get(stream)
	if !ok {
		return p, s.streamNotFound(stream)
	}
	if smallBelow == 0 {
		smallBelow = defaultSmall
	}
	met := make(map[uint64]int) // object id → place in p.Items
	c := st.slices.seek(max(from, st.start))
	for scanned := 0; ; scanned++ {
		r, ok := c.ref()
		if !ok {
			break
		}
		sl := r.slice()
		i, known := met[r.object.id]
		if scanned == maxScanned || sl.Length < smallBelow && !known && len(p.Items) == limit {
			p.Next = numberCursor(listCandidates, r.start)
			break
		}
		if sl.Length < smallBelow {
			if !known {
				i = len(p.Items)
				met[r.object.id] = i
				p.Items = append(p.Items, CompactionCandidate{ObjectID: r.object.id, ObjectSize: r.object.size()})
			}
			p.Items[i].SmallSlices++
			p.Items[i].SmallBytes += sl.Length
		}
		c.next()
	}
	sort.Slice(p.Items, func(i, j int) bool {
		a, b := p.Items[i], p.Items[j]
		return a.SmallSlices > b.SmallSlices || a.SmallSlices == b.SmallSlices && a.ObjectID < b.ObjectID
	})
	return p, nil
}
