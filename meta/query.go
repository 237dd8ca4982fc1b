package meta

import (
	"encoding/base64"
	"encoding/binary"
	"iter"
)

// The bounds of one page of a list.
const (
	MaxPage     = 1000 // items that may be asked for
	defaultPage = 100  // items where the limit is 0
	// maxScanned is how many entries a page looks at, whether they pass its filter or not.
	maxScanned = 10_000
	// maxPageWeight ends a page early where items are large: bytes of values, or 100 for each slice of an object.
	maxPageWeight = 1 << 20
	sliceWeight   = 100
)

// Page is one page of a list. A page does a bounded amount of work: it may hold fewer items than asked for, even none,
// and yet not be the last.
type Page[T any] struct {
	Items []T    // owned by the caller
	Next  string // the cursor of the next page; empty: this was the last
}

// Counts returns how much there is in the state, in constant time.
func (s *State) Counts() Counts {
	return Counts{
		Nodes: s.registered, FencedNodes: s.fenced,
		Streams: uint64(s.streams.Len()), OpenStreams: s.openStreams,
		PreparedObjects: s.inState[ObjectPrepared], CommittedObjects: s.inState[ObjectCommitted],
		DeletableObjects: s.inState[ObjectDeletable], Slices: s.indexed,
		Debts: s.debts, Keys: uint64(s.keys.Len()), Clients: uint64(s.clients.Len()), Results: s.results,
	}
}

// listing makes one page out of entries that come in the order of the list.
type listing[K, V, T any] struct {
	entries iter.Seq2[K, V]
	// within reports whether the list goes on at k; nil: to the end of entries.
	within func(k K) bool
	// keep reports whether the entry belongs to the list; nil: all do.
	keep func(k K, v V) bool
	// show makes the item, and says what it weighs in bytes where that can be much.
	show func(k K, v V) (item T, weight int)
	// cursor names the place of k in the list.
	cursor func(k K) string
}

// page returns at most limit items, from the first entry on. The cursor names the first entry that is not in the page,
// so that the next page begins there, or behind where it has gone meanwhile.
func (l listing[K, V, T]) page(limit int) (p Page[T]) {
	scanned, weight := 0, 0
	for k, v := range l.entries {
		if l.within != nil && !l.within(k) {
			break
		}
		if len(p.Items) == limit || scanned == maxScanned || weight >= maxPageWeight {
			p.Next = l.cursor(k)
			break
		}
		scanned++
		if l.keep != nil && !l.keep(k, v) {
			continue
		}
		item, w := l.show(k, v)
		weight += w
		p.Items = append(p.Items, item)
	}
	return p
}

// pageLimit judges the limit of a page.
func pageLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return defaultPage, nil
	case limit < 0:
		return 0, refuse(CodeInvalidArgument, "limit %d: must be 1 to %d, or 0 for %d", limit, MaxPage, defaultPage)
	case limit > MaxPage:
		return 0, refuse(CodeTooLarge, "limit %d: at most %d", limit, MaxPage)
	}
	return limit, nil
}

// Each list has cursors of its own, so that one of another list is refused instead of misread.
const (
	listNodes byte = 1 + iota
	listStreams
	listStreamsByName
	listStreamsByOwner
	listStreamsByLabel
	listStreamsReserved
	listRanges
	listLosses
	listDebts
	listObjects
	listPrepared
	listDeletable
	listKeys
	listCandidates
)

// textCursor returns the cursor of a list that is ordered by text.
func textCursor(list byte, text string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{list}, text...))
}

// numberCursor returns the cursor of a list that is ordered by numbers.
func numberCursor(list byte, numbers ...uint64) string {
	b := []byte{list}
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// openTextCursor returns where the page begins; the empty cursor is the begin of the list.
func openTextCursor(list byte, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) == 0 || b[0] != list {
		return "", badCursor(cursor)
	}
	return string(b[1:]), nil
}

// openNumberCursor fills in where the page begins; the empty cursor leaves numbers as they are.
func openNumberCursor(list byte, cursor string, numbers ...*uint64) error {
	if cursor == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) == 0 || b[0] != list {
		return badCursor(cursor)
	}
	b = b[1:]
	for _, to := range numbers {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return badCursor(cursor)
		}
		*to, b = n, b[size:]
	}
	if len(b) > 0 {
		return badCursor(cursor)
	}
	return nil
}

func badCursor(cursor string) error {
	if len(cursor) > 64 {
		cursor = cursor[:64] + "…"
	}
	return refuse(CodeInvalidArgument, "cursor %q: not one that a page of this list returned", cursor)
}

// idPage judges limit and cursor of a list that is ordered by one id.
func idPage(list byte, cursor string, limit int) (from uint64, n int, err error) {
	if n, err = pageLimit(limit); err != nil {
		return 0, 0, err
	}
	return from, n, openNumberCursor(list, cursor, &from)
}
