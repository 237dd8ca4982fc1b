package model

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/headwaterdb/headwater/meta"
)

// Export returns all records in the order of meta.State.Export. Digest of the cluster and payload hashes, which the
// model does not have, are zero.
func (m *Model) Export() []meta.Record {
	s := &m.now
	out := []meta.Record{meta.ClusterRecord{Index: m.index, FormatLevel: s.format, NextStreamID: s.nextStream,
		NextObjectID: s.nextObject}}
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		out = append(out, m.Node(id))
	}
	ids := slices.Sorted(maps.Keys(s.streams))
	for _, id := range ids {
		if !s.streams[id].deleted {
			out = append(out, m.streamRecords(id)...)
		}
	}
	for _, id := range ids {
		if st := s.streams[id]; st.deleted {
			out = append(out, st.sliceRecords()...)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		out = append(out, s.keys[key])
	}
	for _, id := range slices.Sorted(maps.Keys(s.objects)) {
		out = append(out, m.Object(id))
	}
	return append(out, m.clientRecords()...)
}

// Node returns the record of a node id that was registered at some time.
func (m *Model) Node(id uint64) meta.Node {
	n := m.now.nodes[id]
	r := meta.Node{ID: id, Epoch: n.epoch, Registered: n.registered}
	if !n.registered {
		return r
	}
	r.Instance, r.Address, r.Labels = n.instances[len(n.instances)-1], n.address, n.labels
	r.FormatLevel, r.Renewals, r.Fenced, r.Rescuer, r.RegisteredIndex = n.format, n.renewals, n.fenced, n.rescuer, n.since
	r.OwnedStreams, r.OwedDebts = m.now.owned(id)
	return r
}

// KnownNode is Node for an id that may never have been registered.
func (m *Model) KnownNode(id uint64) (meta.Node, bool) {
	if m.now.nodes[id] == nil {
		return meta.Node{}, false
	}
	return m.Node(id), true
}

// Nodes returns the ids of the registered nodes, ascending.
func (m *Model) Nodes() (ids []uint64) {
	for _, id := range slices.Sorted(maps.Keys(m.now.nodes)) {
		if m.now.nodes[id].registered {
			ids = append(ids, id)
		}
	}
	return ids
}

// Streams returns the live streams by id.
func (m *Model) Streams() (out []meta.Stream) {
	for _, id := range slices.Sorted(maps.Keys(m.now.streams)) {
		if !m.now.streams[id].deleted {
			out = append(out, m.stream(id))
		}
	}
	return out
}

// DeletedStreams returns the ids of streams that were deleted, ascending.
func (m *Model) DeletedStreams() (ids []uint64) {
	for _, id := range slices.Sorted(maps.Keys(m.now.streams)) {
		if m.now.streams[id].deleted {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *Model) stream(id uint64) meta.Stream {
	st := m.now.streams[id]
	return meta.Stream{ID: id, Name: st.name, Labels: st.labels, Epoch: st.epoch, Open: st.open, Owner: st.owner,
		StartOffset: st.start, EndOffset: st.end, ReservedFor: st.reserved, Transfer: st.transfer,
		Ranges: uint64(len(st.ranges)), Debts: uint64(len(st.debts)), Losses: uint64(len(st.losses)),
		Slices: uint64(len(m.LiveSlices(id)))}
}

func (m *Model) streamRecords(id uint64) []meta.Record {
	st := m.now.streams[id]
	out := []meta.Record{m.stream(id)}
	for _, r := range st.ranges {
		out = append(out, r)
	}
	for _, d := range st.debts {
		out = append(out, d)
	}
	for _, l := range st.losses {
		out = append(out, l)
	}
	return append(out, st.sliceRecords()...)
}

func (st *stream) sliceRecords() (out []meta.Record) {
	for _, x := range st.index {
		out = append(out, meta.StoredSlice{ObjectID: x.object, StartOffset: x.from, Slice: x.slice})
	}
	return out
}

// Debts returns all debts, by stream and offset.
func (m *Model) Debts() (out []meta.Debt) {
	for _, id := range slices.Sorted(maps.Keys(m.now.streams)) {
		out = append(out, m.now.streams[id].debts...)
	}
	return out
}

// Keys returns all keys, by key.
func (m *Model) Keys() (out []meta.Key) {
	for _, key := range slices.Sorted(maps.Keys(m.now.keys)) {
		out = append(out, m.now.keys[key])
	}
	return out
}

// Objects returns all objects that are not forgotten, by id.
func (m *Model) Objects() (out []meta.ObjectRecord) {
	for _, id := range slices.Sorted(maps.Keys(m.now.objects)) {
		out = append(out, m.Object(id))
	}
	return out
}

// Object returns the record of an object that is not forgotten.
func (m *Model) Object(id uint64) meta.ObjectRecord {
	o := m.now.objects[id]
	r := meta.ObjectRecord{ID: id, State: o.state, Owner: o.owner, Deadline: o.deadline, CommittedIndex: o.committed,
		DeletableIndex: o.deletable, DeletableStamp: o.stamp, LiveSlices: m.now.indexedSlices(id)}
	if o.content != nil {
		r.Size, r.Attributes, r.Slices = o.content.Size, o.content.Attributes, o.content.Slices
		r.SliceCount = uint64(len(r.Slices))
	}
	return r
}

// LiveSlices returns what readers find of a stream, by offset: StartOffset is where it counts from.
func (m *Model) LiveSlices(stream uint64) (out []meta.StoredSlice) {
	st := m.now.live(stream)
	if st == nil {
		return nil
	}
	for _, x := range st.index {
		if x.slice.EndOffset > st.start {
			out = append(out, meta.StoredSlice{ObjectID: x.object, StartOffset: max(x.from, st.start), Slice: x.slice})
		}
	}
	return out
}

func (m *Model) clientRecords() (out []meta.Record) {
	ids := slices.SortedFunc(maps.Keys(m.clients), func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids {
		c := m.clients[id]
		out = append(out, meta.ClientRecord{Client: id, Oldest: c.oldest, Results: uint64(len(c.kept)),
			LastSeenIndex: c.seen.index, LastSeenPosition: c.seen.position})
		for _, sequence := range slices.Sorted(maps.Keys(c.kept)) {
			k := c.kept[sequence]
			r := meta.AnswerRecord{Client: id, Sequence: sequence, FirstIndex: k.at.index, FirstPosition: k.at.position,
				Status: k.verdict.status, Inner: -1, Result: k.verdict.result}
			if k.verdict.err != nil {
				r.Code, r.Inner = k.verdict.err.Code, k.verdict.err.Inner
			}
			out = append(out, r)
		}
	}
	return out
}

// FindObjects looks [start, end) of a stream up by a walk over every slice, debt and loss; end 0 is the end of the
// stream. It judges no limits; ok is false where there is no such stream.
func (m *Model) FindObjects(stream, start, end uint64, limit int) (f meta.Found, ok bool) {
	st := m.now.live(stream)
	if st == nil {
		return f, false
	}
	f = meta.Found{StreamStartOffset: st.start, StreamEndOffset: st.end, Stop: meta.StopEnd}
	if end == 0 || end > st.end {
		end = st.end
	}
	at := max(start, st.start)
	f.StartOffset = at
	for f.EndOffset = at; at < end; f.EndOffset = at {
		if x, found := st.sliceAt(at); found {
			if len(f.Slices) == limit {
				f.Stop = meta.StopLimit
				return f, true
			}
			o := m.now.objects[x.object].content
			f.Slices = append(f.Slices, meta.FoundSlice{ObjectID: x.object, ObjectSize: o.Size, Attributes: o.Attributes, Slice: x.slice})
			at = x.slice.EndOffset
			continue
		}
		for _, d := range st.debts {
			if d.StartOffset <= at && at < d.Boundary {
				f.Stop, f.Debt = meta.StopDebt, d
			}
		}
		for _, l := range st.losses {
			if l.StartOffset <= at && at < l.EndOffset {
				f.Stop, f.Loss = meta.StopLoss, l
			}
		}
		return f, true
	}
	return f, true
}

func (st *stream) sliceAt(offset uint64) (indexed, bool) {
	for _, x := range st.index {
		if x.from <= offset && offset < x.slice.EndOffset {
			return x, true
		}
	}
	return indexed{}, false
}

// FindOffset returns where the first live slice begins whose greatest timestamp is at least t, and the stream's end
// where there is none.
func (m *Model) FindOffset(stream uint64, t int64) (offset uint64, found bool) {
	for _, x := range m.LiveSlices(stream) {
		if x.Slice.MaxTimestamp >= t {
			return x.StartOffset, true
		}
	}
	return m.now.streams[stream].end, false
}

// Candidates returns the objects that hold slices of a stream below so many bytes that are live: the one with the most of
// them first, of equal ones the lower id.
func (m *Model) Candidates(stream, below uint64) (out []meta.CompactionCandidate) {
	for _, x := range m.LiveSlices(stream) {
		i := slices.IndexFunc(out, func(c meta.CompactionCandidate) bool { return c.ObjectID == x.ObjectID })
		if x.Slice.Length >= below {
			continue
		}
		if i < 0 {
			i = len(out)
			out = append(out, meta.CompactionCandidate{ObjectID: x.ObjectID, ObjectSize: m.now.objects[x.ObjectID].content.Size})
		}
		out[i].SmallSlices++
		out[i].SmallBytes += x.Slice.Length
	}
	slices.SortFunc(out, func(a, b meta.CompactionCandidate) int {
		return cmp.Or(cmp.Compare(b.SmallSlices, a.SmallSlices), cmp.Compare(a.ObjectID, b.ObjectID))
	})
	return out
}

// Uncovered returns offsets at which a live stream has not exactly one of slice, debt and loss between start and end: none,
// if the rules hold the promise that every offset is found, owed or known to be lost. It looks at the bounds of
// intervals only, and at what lies beside them.
func (m *Model) Uncovered() (out []meta.Loss) {
	for _, st := range m.Streams() {
		s := m.now.streams[st.ID]
		var in []meta.Slice
		for _, x := range m.LiveSlices(st.ID) {
			in = append(in, meta.Slice{StartOffset: x.StartOffset, EndOffset: x.Slice.EndOffset})
		}
		for _, d := range s.debts {
			in = append(in, meta.Slice{StartOffset: d.StartOffset, EndOffset: d.Boundary})
		}
		for _, l := range s.losses {
			in = append(in, meta.Slice{StartOffset: l.StartOffset, EndOffset: l.EndOffset})
		}
		slices.SortFunc(in, func(a, b meta.Slice) int { return cmp.Compare(a.StartOffset, b.StartOffset) })
		at := s.start
		for _, x := range append(in, meta.Slice{StartOffset: s.end, EndOffset: s.end}) {
			if x.StartOffset != at {
				out = append(out, meta.Loss{StreamID: st.ID, StartOffset: at, EndOffset: x.StartOffset})
			}
			at = x.EndOffset
		}
	}
	return out
}
