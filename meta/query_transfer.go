package meta

import "iter"

// DebtFilter narrows the list of debts.
type DebtFilter struct {
	StreamID uint64 // only those of this stream; 0: of all
	NodeID   uint64 // only those of this node; 0: of all
}

// debtPlace is where a debt stands in the list of all.
type debtPlace struct{ node, stream, start uint64 }

// Debts lists what nodes that gave streams away still have to commit, by node, stream and offset. The cursor is empty
// for the first page, then Page.Next; the limit is 1 to MaxPage, or 0 for 100. The error is an *Error,
// STREAM_NOT_FOUND where the filter names a stream that is not there.
func (s *State) Debts(filter DebtFilter, cursor string, limit int) (Page[Debt], error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return Page[Debt]{}, err
	}
	var from debtPlace
	if err := openNumberCursor(listDebts, cursor, &from.node, &from.stream, &from.start); err != nil {
		return Page[Debt]{}, err
	}
	l := listing[debtPlace, debt, Debt]{
		show:   func(at debtPlace, d debt) (Debt, int) { return debtRecord(at.stream, d), 0 },
		cursor: func(at debtPlace) string { return numberCursor(listDebts, at.node, at.stream, at.start) },
	}
	if filter.StreamID == 0 {
		from.node = max(from.node, filter.NodeID)
		l.entries = s.debtsFrom(from)
		if filter.NodeID != 0 {
			l.within = func(at debtPlace) bool { return at.node == filter.NodeID }
		}
		return l.page(limit), nil
	}
	st, ok := s.streams.Get(filter.StreamID)
	if !ok {
		return Page[Debt]{}, s.streamNotFound(filter.StreamID)
	}
	l.entries = func(yield func(debtPlace, debt) bool) {
		for _, d := range st.debts() {
			if d.start >= from.start && !yield(debtPlace{d.node, filter.StreamID, d.start}, d) {
				return
			}
		}
	}
	if filter.NodeID != 0 {
		l.keep = func(at debtPlace, _ debt) bool { return at.node == filter.NodeID }
	}
	return l.page(limit), nil
}

// debtsFrom yields all debts from a place on.
func (s *State) debtsFrom(from debtPlace) iter.Seq2[debtPlace, debt] {
	return func(yield func(debtPlace, debt) bool) {
		for node, set := range s.debtors.From(from.node) {
			if node > from.node {
				from = debtPlace{node: node}
			}
			for id := range set.streams.From(from.stream) {
				if id > from.stream {
					from.stream, from.start = id, 0
				}
				st, _ := s.streams.Get(id)
				for _, d := range st.debts() {
					if d.node == node && d.start >= from.start && !yield(debtPlace{node, id, d.start}, d) {
						return
					}
				}
			}
		}
	}
}
