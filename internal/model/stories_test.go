package model_test

import (
	"bytes"
	"strings"

	"github.com/headwaterdb/headwater/meta"
)

// written are the sequences for what is particular to a kind of command.
func written() map[meta.Kind][]story {
	out := map[meta.Kind][]story{}
	for _, s := range [][]story{nodeStories(), streamStories(), transferStories(), commitStories(), compactStories(), objectStories(), keyStories(),
		clusterStories()} {
		for _, s := range s {
			kind := meta.KindOf(s.do)
			out[kind] = append(out[kind], s)
		}
	}
	return out
}

// given lists what comes before.
func given(c ...meta.Command) []meta.Command { return c }

func manyLabels() (out []meta.Label) {
	for i := range 33 {
		out = append(out, meta.Label{Name: string(rune('a'+i/10)) + string(rune('0'+i%10))})
	}
	return out
}

func nodeStories() []story {
	twice := meta.RegisterNode{NodeID: 1, Instance: [16]byte{1, 1}, FormatLevel: 2}
	moved := twice
	moved.Address = "10.0.0.1:1"
	owes := given(meta.RecordTransfer{Identity: at(1), StreamID: 1, Epoch: 1, Boundary: 20})
	return []story{
		{how: "APPLIED", do: moved},
		{how: "REDUNDANT", do: twice},
		{how: "NODE_EPOCH_STALE", do: register(3, 1)},
		{how: "NODE_EPOCH_STALE", do: register(3, 2), given: given(meta.UnregisterNode{NodeID: 3, Epoch: 2})},
		{how: "NODE_EPOCH_STALE", do: meta.RegisterNode{NodeID: 3, Epoch: 1, Instance: [16]byte{3, 9}}},
		{how: "NODE_EPOCH_STALE", do: meta.RegisterNode{NodeID: 3, Epoch: 2, Instance: [16]byte{3, 9}}},
		{how: "FORMAT_UNSUPPORTED", do: meta.RegisterNode{NodeID: 6, Instance: [16]byte{6}, FormatLevel: 1}, given: given(meta.SetFormat{Level: 2})},
		{how: "TOO_LARGE", do: register(6, 2), given: given(meta.RegisterNode{NodeID: 6, Epoch: 1<<63 - 1, Instance: [16]byte{6}, FormatLevel: 2})},
		{how: "TOO_LARGE", do: meta.RegisterNode{NodeID: 6, Instance: [16]byte{6}, Address: strings.Repeat("a", 256)}},
		{how: "TOO_LARGE", do: meta.RegisterNode{NodeID: 6, Instance: [16]byte{6}, Labels: manyLabels()}},
		{how: "INVALID_ARGUMENT", do: meta.RegisterNode{Instance: [16]byte{6}}},
		{how: "INVALID_ARGUMENT", do: meta.RegisterNode{NodeID: 6}},

		{how: "REDUNDANT", do: meta.UnregisterNode{NodeID: 99, Epoch: 1}},
		{how: "NODE_EPOCH_STALE", do: meta.UnregisterNode{NodeID: 3, Epoch: 1}},
		{how: "NODE_EPOCH_UNKNOWN", do: meta.UnregisterNode{NodeID: 3, Epoch: 3}},
		{how: "NODE_HAS_STREAMS", do: meta.UnregisterNode{NodeID: 1, Epoch: 1}},
		{how: "NODE_HAS_STREAMS", do: meta.UnregisterNode{NodeID: 1, Epoch: 1}, given: owes}, // a debt
		{how: "INVALID_ARGUMENT", do: meta.UnregisterNode{Epoch: 1}},
		{how: "TOO_LARGE", do: meta.UnregisterNode{NodeID: 3, Epoch: 1 << 63}},

		{how: "APPLIED", do: meta.FenceNode{NodeID: 3, Epoch: 2, Renewals: 1}},
		{how: "APPLIED", do: meta.FenceNode{NodeID: 5, Epoch: 1, Rescuer: at(2)}}, // a claim on a node that an operator fenced
		{how: "APPLIED", do: meta.FenceNode{NodeID: 4, Epoch: 1, Rescuer: at(2)}, given: given(meta.FenceNode{NodeID: 1, Epoch: 1})},
		{how: "REDUNDANT", do: meta.FenceNode{NodeID: 4, Epoch: 1, Rescuer: at(1)}},
		{how: "REDUNDANT", do: meta.FenceNode{NodeID: 5, Epoch: 1}},
		{how: "NODE_NOT_FOUND", do: meta.FenceNode{NodeID: 99, Epoch: 1}},
		{how: "NODE_EPOCH_STALE", do: meta.FenceNode{NodeID: 3, Epoch: 1}},
		{how: "NODE_EPOCH_UNKNOWN", do: meta.FenceNode{NodeID: 3, Epoch: 3}},
		{how: "NODE_ALIVE", do: meta.FenceNode{NodeID: 3, Epoch: 2, Renewals: 7}},
		{how: "NODE_CLAIMED", do: meta.FenceNode{NodeID: 4, Epoch: 1, Rescuer: at(2)}},
		{how: "NODE_CLAIMED", do: meta.FenceNode{NodeID: 4, Epoch: 1}}, // also for an operator
		{how: "INVALID_ARGUMENT", do: meta.FenceNode{NodeID: 1, Epoch: 1, Rescuer: at(1)}},
		{how: "TOO_LARGE", do: meta.FenceNode{NodeID: 3, Epoch: 1 << 63}},
	}
}

func streamStories() []story {
	shut := meta.CloseStream{Identity: at(1), StreamID: 1, Epoch: 1}
	open := func(node, epoch uint64) meta.OpenStream {
		return meta.OpenStream{Identity: at(node), StreamID: 1, Epoch: epoch}
	}
	toTwo := meta.RecordTransfer{Identity: at(1), StreamID: 1, Epoch: 1, ToNode: 2, Boundary: 10}
	three := meta.Identity{NodeID: 3, NodeEpoch: 2}
	gone := meta.DeleteStream{StreamID: 2}
	return []story{
		{how: "REDUNDANT", do: meta.CreateStream{Identity: at(2), Name: "s1"}},
		{how: "STREAM_EXISTS", do: meta.CreateStream{Identity: at(1), Name: "s1", Labels: []meta.Label{{Name: "a"}}}},
		{how: "INVALID_ARGUMENT", do: meta.CreateStream{Identity: at(1)}},
		{how: "INVALID_ARGUMENT", do: meta.CreateStream{Identity: at(1), Name: "a\u0085"}},
		{how: "TOO_LARGE", do: meta.CreateStream{Identity: at(1), Name: strings.Repeat("n", 256)}},

		{how: "REDUNDANT", do: open(1, 0)},
		{how: "REDUNDANT", do: open(1, 1)},
		{how: "STREAM_NOT_FOUND", do: meta.OpenStream{Identity: at(1), StreamID: 99}},
		{how: "STREAM_NOT_FOUND", do: meta.OpenStream{Identity: at(1), StreamID: 2}, given: given(gone)},
		{how: "STREAM_EPOCH_STALE", do: open(1, 1), given: given(shut)}, // a late duplicate
		{how: "STREAM_EPOCH_STALE", do: open(2, 1)},
		{how: "STREAM_EPOCH_STALE", do: open(1, 1), given: given(shut, open(1, 0))},
		{how: "STREAM_NOT_CLOSED", do: open(2, 0)},
		{how: "STREAM_NOT_CLOSED", do: open(1, 2)},
		{how: "STREAM_NOT_CLOSED", do: open(1, 0), given: given(meta.RecordTransfer{Identity: at(1), StreamID: 1, Epoch: 1, Boundary: 20})},
		{how: "STREAM_RESERVED", do: meta.OpenStream{Identity: three, StreamID: 1}, given: given(toTwo)},
		{how: "over-open", do: meta.OpenStream{Identity: meta.Identity{NodeID: 1, NodeEpoch: 2}, StreamID: 1}, given: given(register(1, 2))},
		{how: "reservation-lapsed", do: meta.OpenStream{Identity: three, StreamID: 1}, given: given(toTwo, meta.FenceNode{NodeID: 2, Epoch: 1})},
		{how: "ranges-dropped", do: open(1, 0), given: given(shut, open(1, 0), commit(1, 2, meta.Slice{StreamID: 1, StreamEpoch: 2, StartOffset: 10, EndOffset: 12}),
			meta.CloseStream{Identity: at(1), StreamID: 1, Epoch: 2}, meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 2, StartOffset: 12})},
		{how: "TOO_LARGE", do: open(1, 1<<63)},
		{how: "TOO_LARGE", do: open(1, 0), given: given(shut, open(1, 1<<63-1), meta.CloseStream{Identity: at(1), StreamID: 1, Epoch: 1<<63 - 1})},

		{how: "on-behalf", do: meta.CloseStream{Identity: at(1), OnBehalfOf: 4, StreamID: 4, Epoch: 1}},
		{how: "REDUNDANT", do: shut, given: given(shut)},
		{how: "NODE_NOT_CLAIMED", do: meta.CloseStream{Identity: at(2), OnBehalfOf: 4, StreamID: 4, Epoch: 1}},
		{how: "NODE_NOT_CLAIMED", do: meta.CloseStream{Identity: at(1), OnBehalfOf: 2, StreamID: 3, Epoch: 1}},
		{how: "STREAM_NOT_OWNED", do: meta.CloseStream{Identity: at(1), StreamID: 2}}, // never opened
		{how: "STREAM_NOT_FOUND", do: meta.CloseStream{Identity: at(1), StreamID: 2}, given: given(gone)},

		{how: "REDUNDANT", do: meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1}},
		{how: "APPLIED", do: meta.TrimStream{Identity: at(2), StreamID: 1, Epoch: 1, StartOffset: 5}, given: given(shut)}, // any live node
		{how: "moves-end", do: meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1, StartOffset: 30}},
		{how: "cuts-debt", do: meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1, StartOffset: 15}, given: given(valid[meta.KindRecordTransfer])},
		{how: "cuts-loss", do: meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1, StartOffset: 15},
			given: given(valid[meta.KindRecordTransfer], meta.ForceCloseStream{StreamID: 1, Epoch: 1, WriteOff: true})},
		{how: "TOO_LARGE", do: meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1, StartOffset: 1 << 63}},

		{how: "REDUNDANT", do: valid[meta.KindLabelStream], given: given(valid[meta.KindLabelStream])},
		{how: "STREAM_NOT_FOUND", do: meta.LabelStream{StreamID: 99}},
		{how: "STREAM_NOT_FOUND", do: meta.LabelStream{StreamID: 2}, given: given(gone)},
		{how: "TOO_LARGE", do: meta.LabelStream{StreamID: 1, Labels: manyLabels()}},
		{how: "INVALID_ARGUMENT", do: meta.LabelStream{StreamID: 1, Labels: []meta.Label{{Value: "x"}}}},

		{how: "REDUNDANT", do: gone, given: given(gone)},
		{how: "STREAM_NOT_CLOSED", do: meta.DeleteStream{StreamID: 1, Epoch: 1}},
		{how: "with-debt", do: meta.DeleteStream{StreamID: 1, Epoch: 1}, given: given(valid[meta.KindRecordTransfer])},
	}
}

func transferStories() []story {
	owes := valid[meta.KindRecordTransfer].(meta.RecordTransfer)
	to := func(node, boundary uint64) meta.RecordTransfer {
		c := owes
		c.ToNode, c.Boundary = node, boundary
		return c
	}
	shut := meta.CloseStream{Identity: at(1), StreamID: 1, Epoch: 1}
	crowd := given()
	for i := range uint64(65) {
		crowd = append(crowd, register(100+i, 1), meta.OpenStream{Identity: at(100 + i), StreamID: 2})
		if i < 64 {
			crowd = append(crowd, meta.RecordTransfer{Identity: at(100 + i), StreamID: 2, Epoch: i + 1, Boundary: i + 1})
		}
	}
	return []story{
		{how: "owes", do: owes},
		{how: "APPLIED", do: to(0, 10)}, // nothing is owed
		{how: "REDUNDANT", do: owes, given: given(owes)},
		{how: "OFFSET_MISMATCH", do: to(2, 9)},
		{how: "OFFSET_MISMATCH", do: to(2, 21), given: given(owes)},
		{how: "STREAM_NOT_OPEN", do: owes, given: given(shut)},
		{how: "STREAM_NOT_OPEN", do: to(3, 20), given: given(owes)},
		{how: "STREAM_NOT_OPEN", do: owes, given: given(owes, meta.ForceCloseStream{StreamID: 1, Epoch: 1, WriteOff: true})}, // forgotten by the write-off
		{how: "NODE_NOT_FOUND", do: to(99, 20)},
		{how: "TOO_MANY_DEBTS", do: meta.RecordTransfer{Identity: at(164), StreamID: 2, Epoch: 65, Boundary: 65}, given: crowd},
		{how: "TOO_LARGE", do: to(2, 1<<63)},

		{how: "writes-off", do: meta.ForceCloseStream{StreamID: 1, Epoch: 1, WriteOff: true}, given: given(owes)},
		{how: "REDUNDANT", do: meta.ForceCloseStream{StreamID: 1, Epoch: 1}, given: given(owes)},
		{how: "REDUNDANT", do: meta.ForceCloseStream{StreamID: 1, Epoch: 1, WriteOff: true}, given: given(shut)},
		{how: "TOO_LARGE", do: meta.ForceCloseStream{StreamID: 1, Epoch: 1, Reason: strings.Repeat("r", 1025)}},
		{how: "INVALID_ARGUMENT", do: meta.ForceCloseStream{StreamID: 1, Epoch: 1, Reason: "\xff"}},
	}
}

func commitStories() []story {
	next := meta.Slice{StreamID: 1, StreamEpoch: 1, StartOffset: 10, EndOffset: 12}
	as := func(node, behalf, object uint64, content ...meta.Slice) meta.CommitObjects {
		c := commit(node, object, content...)
		c.OnBehalfOf = behalf
		return c
	}
	bent := func(change func(*meta.Slice)) meta.CommitObjects {
		sl := next
		change(&sl)
		return commit(1, 2, sl)
	}
	first := meta.Slice{StreamID: 1, StreamEpoch: 1, EndOffset: 10}
	other := commit(1, 1, first)
	other.Objects[0].Size = 10
	long := commit(1, 2, next)
	long.Objects[0].Attributes = make([]byte, 257)
	owes := meta.RecordTransfer{Identity: at(2), StreamID: 3, Epoch: 1, Boundary: 9}
	owed := meta.Slice{StreamID: 3, StreamEpoch: 1, StartOffset: 5, EndOffset: 9}
	beyond := owed
	beyond.EndOffset = 10
	return []story{
		{how: "on-behalf", do: as(1, 4, 9, meta.Slice{StreamID: 4, StreamEpoch: 1, EndOffset: 3})},
		{how: "on-behalf", do: as(1, 4, 2, meta.Slice{StreamID: 4, StreamEpoch: 1, EndOffset: 3})}, // its own object
		{how: "dropped", do: commit(1, 2, next, meta.Slice{StreamID: 2, EndOffset: 3}), given: given(meta.DeleteStream{StreamID: 2})},
		{how: "APPLIED", do: bent(func(sl *meta.Slice) { sl.StartOffset, sl.EndOffset = 3, 5 }),
			given: given(meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1, StartOffset: 5})}, // below the start: kept out
		{how: "APPLIED", do: bent(func(sl *meta.Slice) { sl.StartOffset = 3 }),
			given: given(meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1, StartOffset: 10})}, // begins below it
		{how: "debt-paid", do: commit(2, 8, owed), given: given(owes)},
		{how: "on-behalf-debt-paid", do: as(1, 2, 8, owed), given: given(owes, meta.FenceNode{NodeID: 2, Epoch: 1, Rescuer: at(1)})},
		{how: "REDUNDANT", do: commit(1, 1, first)},
		{how: "APPLIED", do: meta.CommitObjects{Identity: at(1), Objects: append(commit(1, 1, first).Objects, commit(1, 2, next).Objects...)}}, // one is skipped
		{how: "OBJECT_EXISTS", do: other},
		{how: "OBJECT_NOT_FOUND", do: commit(1, 99, next)},
		{how: "OBJECT_NOT_FOUND", do: commit(1, 0, next)},
		{how: "OBJECT_NOT_FOUND", do: commit(2, 10), given: given(meta.ForgetObjects{ObjectIDs: []uint64{10}})},
		{how: "OBJECT_NOT_OWNED", do: commit(1, 8, next)},
		{how: "OBJECT_EXPIRED", do: commit(2, 10)},
		{how: "NODE_NOT_CLAIMED", do: as(2, 4, 8, next)},
		{how: "STREAM_NOT_OPEN", do: commit(1, 2, next), given: given(meta.CloseStream{Identity: at(1), StreamID: 1, Epoch: 1})},
		{how: "STREAM_NOT_FOUND", do: bent(func(sl *meta.Slice) { sl.StreamID = 99 })},
		{how: "STREAM_NOT_FOUND", do: bent(func(sl *meta.Slice) { sl.StreamID = 0 })},
		{how: "STREAM_EPOCH_STALE", do: bent(func(sl *meta.Slice) { sl.StreamEpoch = 0 })},
		{how: "STREAM_EPOCH_UNKNOWN", do: bent(func(sl *meta.Slice) { sl.StreamEpoch = 2 })},
		{how: "STREAM_NOT_OWNED", do: commit(1, 2, owed)},
		{how: "OFFSET_MISMATCH", do: bent(func(sl *meta.Slice) { sl.StartOffset = 11 })},
		{how: "OFFSET_MISMATCH", do: bent(func(sl *meta.Slice) { sl.StartOffset = 9 })},
		{how: "OFFSET_MISMATCH", do: commit(2, 8, beyond), given: given(owes)},
		{how: "OFFSET_MISMATCH", do: bent(func(sl *meta.Slice) { sl.StartOffset = 3 }),
			given: given(meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1, StartOffset: 5})}, // begins below the start, and not all above is new
		{how: "INVALID_ARGUMENT", do: meta.CommitObjects{Identity: at(1)}},
		{how: "INVALID_ARGUMENT", do: bent(func(sl *meta.Slice) { sl.EndOffset = 10 })},
		{how: "TOO_LARGE", do: bent(func(sl *meta.Slice) { sl.Length = 1 << 63 })},
		{how: "TOO_LARGE", do: long},
	}
}

func compactStories() []story {
	whole := valid[meta.KindCompactObjects].(meta.CompactObjects)
	result := func(node, object uint64, content ...meta.Slice) meta.CompactObjects {
		c := whole
		c.Identity, c.Objects = at(node), []meta.Object{{ObjectID: object, Slices: content}}
		return c
	}
	all := meta.Slice{StreamID: 1, EndOffset: 10}
	from := func(sources ...uint64) meta.CompactObjects {
		c := whole
		c.Sources = sources
		return c
	}
	nothing := meta.CompactObjects{Identity: at(1), Sources: []uint64{1}}
	trimmed := given(meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1, StartOffset: 10})
	ids := make([]uint64, 1001)
	for i := range ids {
		ids[i] = uint64(i + 1)
	}
	return []story{
		{how: "APPLIED", do: result(2, 8, all)}, // any live node, any objects
		{how: "APPLIED", do: result(1, 2, meta.Slice{StreamID: 1, StreamEpoch: 77, EndOffset: 4}, meta.Slice{StreamID: 1, StartOffset: 4, EndOffset: 10})},
		{how: "nothing-live", do: nothing, given: trimmed},
		{how: "nothing-live", do: nothing, given: given(meta.CloseStream{Identity: at(1), StreamID: 1, Epoch: 1}, meta.DeleteStream{StreamID: 1, Epoch: 1})},
		{how: "REDUNDANT", do: whole, given: given(whole)},
		{how: "OBJECT_NOT_FOUND", do: from(99)},
		{how: "OBJECT_NOT_FOUND", do: from(3)}, // prepared
		{how: "OBJECT_NOT_FOUND", do: result(1, 99, all)},
		{how: "OBJECT_EXISTS", do: result(1, 7, all)},
		{how: "OBJECT_NOT_OWNED", do: result(1, 8, all)},
		{how: "OBJECT_EXPIRED", do: result(2, 10, all)},
		{how: "COVERAGE_MISMATCH", do: nothing},
		{how: "COVERAGE_MISMATCH", do: result(1, 2, meta.Slice{StreamID: 1, EndOffset: 9})},
		{how: "COVERAGE_MISMATCH", do: result(1, 2, meta.Slice{StreamID: 1, EndOffset: 11})},
		{how: "COVERAGE_MISMATCH", do: result(1, 2, all, meta.Slice{StreamID: 1, StartOffset: 9, EndOffset: 10})},
		{how: "INVALID_ARGUMENT", do: from()},
		{how: "INVALID_ARGUMENT", do: from(1, 1)},
		{how: "TOO_LARGE", do: from(ids...)},
	}
}

func objectStories() []story {
	ids := valid[meta.KindCompactObjects].(meta.CompactObjects).Sources
	many := make([]uint64, 1001)
	for i := range many {
		many[i] = uint64(i + 1)
	}
	forget := valid[meta.KindForgetObjects]
	return []story{
		{how: "INVALID_ARGUMENT", do: meta.PrepareObjects{Identity: at(1)}},
		{how: "INVALID_ARGUMENT", do: valid[meta.KindPrepareObjects], alone: true},
		{how: "TOO_LARGE", do: meta.PrepareObjects{Identity: at(1), Count: 1001}},

		{how: "REDUNDANT", do: meta.ReclaimObjects{Time: 100, Limit: 10}}, // no deadline is below it
		{how: "APPLIED", do: meta.ReclaimObjects{Time: 1, Limit: 1}, given: given(meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1, StartOffset: 10})},
		{how: "INVALID_ARGUMENT", do: meta.ReclaimObjects{Time: 200}},
		{how: "TOO_LARGE", do: meta.ReclaimObjects{Time: 200, Limit: 1001}},

		{how: "REDUNDANT", do: forget, given: given(forget)},
		{how: "OBJECT_NOT_FOUND", do: meta.ForgetObjects{ObjectIDs: []uint64{99}}},
		{how: "OBJECT_NOT_FOUND", do: meta.ForgetObjects{ObjectIDs: []uint64{0}}},
		{how: "OBJECT_IN_USE", do: meta.ForgetObjects{ObjectIDs: ids}},
		{how: "OBJECT_IN_USE", do: meta.ForgetObjects{ObjectIDs: []uint64{10, 3}}}, // prepared
		{how: "INVALID_ARGUMENT", do: meta.ForgetObjects{}},
		{how: "INVALID_ARGUMENT", do: meta.ForgetObjects{ObjectIDs: []uint64{10, 10}}},
		{how: "TOO_LARGE", do: meta.ForgetObjects{ObjectIDs: many}},
	}
}

func keyStories() []story {
	long := strings.Repeat("k", 1025)
	return []story{
		{how: "REDUNDANT", do: meta.PutKey{Key: "k", Value: []byte("v"), IfAbsent: true}}, // the same value comes first
		{how: "KEY_EXISTS", do: meta.PutKey{Key: "k", Value: []byte("w"), IfAbsent: true}},
		{how: "KEY_VERSION_MISMATCH", do: meta.PutKey{Key: "k", Value: []byte("w"), IfVersion: 7}},
		{how: "KEY_VERSION_MISMATCH", do: meta.PutKey{Key: "absent", IfVersion: 7}},
		{how: "INVALID_ARGUMENT", do: meta.PutKey{}},
		{how: "INVALID_ARGUMENT", do: meta.PutKey{Key: "k", IfAbsent: true, IfVersion: 1}},
		{how: "TOO_LARGE", do: meta.PutKey{Key: long}},
		{how: "TOO_LARGE", do: meta.PutKey{Key: "k", Value: bytes.Repeat([]byte{1}, 256<<10+1)}},

		{how: "REDUNDANT", do: meta.DeleteKey{Key: "absent", IfVersion: 7}},
		{how: "KEY_VERSION_MISMATCH", do: meta.DeleteKey{Key: "k", IfVersion: 7}},
		{how: "INVALID_ARGUMENT", do: meta.DeleteKey{}},
		{how: "TOO_LARGE", do: meta.DeleteKey{Key: long}},

		{how: "KEY_EXISTS", do: meta.CheckKey{Key: "k", IfAbsent: true}},
		{how: "KEY_VERSION_MISMATCH", do: meta.CheckKey{Key: "k", IfVersion: 7}},
		{how: "KEY_VERSION_MISMATCH", do: meta.CheckKey{Key: "absent", IfVersion: 7}},
		{how: "INVALID_ARGUMENT", do: meta.CheckKey{Key: "k"}},
		{how: "INVALID_ARGUMENT", do: meta.CheckKey{Key: "k", IfAbsent: true, IfVersion: 7}},
		{how: "TOO_LARGE", do: meta.CheckKey{Key: long, IfAbsent: true}},
	}
}

func clusterStories() []story {
	put := meta.PutKey{Key: "n"}
	hundred := make([]meta.Command, 101)
	for i := range hundred {
		hundred[i] = put
	}
	thousand := meta.ReclaimObjects{Limit: 1000}
	heavy := given(thousand, thousand, thousand, thousand, thousand, thousand, thousand, thousand, thousand, thousand, meta.ForgetObjects{ObjectIDs: []uint64{10}})
	old := meta.RegisterNode{NodeID: 6, Instance: [16]byte{6}}
	return []story{
		{how: "REDUNDANT", do: meta.SetFormat{Level: 1}},
		{how: "REDUNDANT", do: meta.SetFormat{Level: 1}, given: given(meta.SetFormat{Level: 2})},
		{how: "INVALID_ARGUMENT", do: meta.SetFormat{Level: 3}},
		{how: "INVALID_ARGUMENT", do: meta.SetFormat{}},
		{how: "FORMAT_UNSUPPORTED", do: meta.SetFormat{Level: 2}, given: given(old)}, // none given is level 1
		{how: "FORMAT_UNSUPPORTED", do: meta.SetFormat{Level: 2}, bare: true},

		{how: "INVALID_ARGUMENT", do: meta.Atomic{}},
		{how: "INVALID_ARGUMENT", do: meta.Atomic{Commands: given(put)}, alone: true},
		{how: "INVALID_ARGUMENT", do: meta.Atomic{Commands: given(put, meta.RenewNode{Identity: at(1)})}},
		{how: "INVALID_ARGUMENT", do: meta.Atomic{Commands: given(put, meta.SetFormat{Level: 1})}},
		{how: "TOO_LARGE", do: meta.Atomic{Commands: hundred}},
		{how: "TOO_LARGE", do: meta.Atomic{Commands: heavy}},
	}
}
