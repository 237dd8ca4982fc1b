package meta

import "iter"

// Export yields everything that the state holds, as records in a fixed order: the cluster; nodes, unregistered ones
// too; streams, each followed by its ranges, debts, losses and indexed slices; the slices of deleted streams that are
// not released yet; keys; objects with their slices as sent; clients, each followed by its answers. Within each kind
// the order is that of ids, offsets, sequences or bytes. Two states with equal digests yield the same; the walk holds no more
// than one record at a time.
func (s *State) Export() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		_ = yield(s.clusterRecord()) &&
			s.exportNodes(yield) &&
			s.exportStreams(yield) &&
			s.exportKeys(yield) &&
			s.exportObjects(yield) &&
			s.exportClients(yield)
	}
}

func (s *State) clusterRecord() ClusterRecord {
	return ClusterRecord{
		Index: s.index, FormatLevel: s.format, NextStreamID: s.nextStream, NextObjectID: s.nextObject, Digest: s.Digest(),
	}
}

func (s *State) exportNodes(yield func(Record) bool) bool {
	for id, n := range s.nodes.All() {
		if !yield(s.nodeRecord(id, n)) {
			return false
		}
	}
	return true
}

func (s *State) exportStreams(yield func(Record) bool) bool {
	for id, st := range s.streams.All() {
		if !yield(s.streamRecord(id, st)) {
			return false
		}
		for _, r := range st.rangesFrom(id, 0) {
			if !yield(r) {
				return false
			}
		}
		for _, d := range st.debts() {
			if !yield(debtRecord(id, d)) {
				return false
			}
		}
		for _, l := range st.losses() {
			if !yield(lossRecord(id, l)) {
				return false
			}
		}
		if !exportSlices(st.slices, yield) {
			return false
		}
	}
	for _, x := range s.orphans.All() {
		if !exportSlices(x, yield) {
			return false
		}
	}
	return true
}

func exportSlices(x sliceIndex, yield func(Record) bool) bool {
	for r := range x.all() {
		if !yield(storedSlice(r)) {
			return false
		}
	}
	return true
}

func (s *State) exportKeys(yield func(Record) bool) bool {
	for key, k := range s.keys.All() {
		if !yield(keyOf(key, k)) {
			return false
		}
	}
	return true
}

func (s *State) exportObjects(yield func(Record) bool) bool {
	for id, o := range s.objects.All() {
		if !yield(fullObjectRecord(id, o)) {
			return false
		}
	}
	return true
}

func (s *State) exportClients(yield func(Record) bool) bool {
	for id, c := range s.clients.All() {
		if !yield(clientRecord(id, c)) {
			return false
		}
		for sequence, k := range c.results.All() {
			if !yield(answerRecord(id, sequence, k)) {
				return false
			}
		}
	}
	return true
}

func clientRecord(id string, c *client) ClientRecord {
	return ClientRecord{
		Client: [16]byte([]byte(id)), Oldest: c.oldest, Results: uint64(c.results.Len()),
		LastSeenIndex: c.seen / maxRowCommands, LastSeenPosition: int(c.seen % maxRowCommands),
	}
}

func answerRecord(id string, sequence uint64, k *keptAnswer) AnswerRecord {
	r := AnswerRecord{
		Client: [16]byte([]byte(id)), Sequence: sequence, FirstIndex: k.index, FirstPosition: int(k.position),
		Status: k.status, Code: k.code, Inner: k.inner,
	}
	copy(r.PayloadHash[:], appendSum(nil, k.payload))
	if k.status != Rejected {
		r.Result, _ = DecodeResult([]byte(k.result)) // our own encoding, checked where it was read
	}
	return r
}
