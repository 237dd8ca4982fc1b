package model_test

import (
	"bytes"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// bounds drives both up to a limit that a random run does not grow to.
type bounds struct {
	*pair
	sequence uint64
}

func newBounds(t *testing.T, nodes uint64) *bounds {
	t.Parallel()
	b := &bounds{pair: newPair(t, coverage{})}
	b.quick = true
	for id := uint64(1); id <= nodes; id++ {
		b.do(meta.RegisterNode{NodeID: id, Instance: [16]byte{byte(id), 1}})
	}
	b.do(meta.CreateStream{Identity: at(1), Name: "s"})
	return b
}

func at(node uint64) meta.Identity { return meta.Identity{NodeID: node, NodeEpoch: 1} }

// do applies commands in one row, with a request where they need one, and compares the answers.
func (b *bounds) do(commands ...meta.Command) {
	b.t.Helper()
	var row []meta.Proposal
	for _, c := range commands {
		row = append(row, meta.Proposal{Stamp: 1, Command: c, Request: b.requestFor(c)})
	}
	b.row(row...)
}

// requestFor returns a new request where the command needs one.
func (b *bounds) requestFor(c meta.Command) *meta.Request {
	switch c.(type) {
	case meta.PrepareObjects, meta.Atomic:
	default:
		return nil
	}
	b.sequence++
	r := &meta.Request{Client: [16]byte{1}, Sequence: b.sequence, Oldest: b.sequence}
	if b.sequence == 1 {
		r.Oldest = 0
	}
	return r
}

// reached fails unless a command of the kind has ended so.
func (b *bounds) reached(kind meta.Kind, how string, times int) {
	b.t.Helper()
	b.check()
	b.reload()
	if got := b.cov[outcome{kind, how}]; got != times {
		b.t.Fatalf("%v ended %d times with %s, not %d times; in all: %v", kind, got, how, times, b.cov)
	}
}

func (b *bounds) end() uint64 { return b.model.Streams()[0].EndOffset }

func TestBoundOfDebts(t *testing.T) {
	b := newBounds(t, 66)
	for node := uint64(1); node <= 66; node++ {
		b.do(meta.OpenStream{Identity: at(node), StreamID: 1},
			meta.RecordTransfer{Identity: at(node), StreamID: 1, Epoch: node, Boundary: 2 * node},
			meta.CloseStream{Identity: at(node), StreamID: 1, Epoch: node})
	}
	b.reached(meta.KindRecordTransfer, "TOO_MANY_DEBTS", 2)
	b.do(meta.ForceCloseStream{StreamID: 1, Epoch: 66, WriteOff: true})
	b.reached(meta.KindForceCloseStream, "APPLIED", 1)
	if losses := b.model.Streams()[0].Losses; losses != 1 {
		t.Fatalf("adjoining losses are merged, these are %d", losses)
	}
}

func TestBoundOfLosses(t *testing.T) {
	b := newBounds(t, 1)
	b.do(meta.PrepareObjects{Identity: at(1), Count: 1000}, meta.PrepareObjects{Identity: at(1), Count: 10})
	for epoch := uint64(1); epoch <= 1001; epoch++ {
		end := b.end()
		b.do(meta.OpenStream{Identity: at(1), StreamID: 1},
			meta.CommitObjects{Identity: at(1), Objects: []meta.Object{{ObjectID: epoch, Slices: []meta.Slice{
				{StreamID: 1, StreamEpoch: epoch, StartOffset: end, EndOffset: end + 1}}}}},
			meta.RecordTransfer{Identity: at(1), StreamID: 1, Epoch: epoch, Boundary: end + 2},
			meta.ForceCloseStream{StreamID: 1, Epoch: epoch, WriteOff: true})
	}
	b.reached(meta.KindForceCloseStream, "TOO_LARGE", 1)
	b.do(meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1001, StartOffset: 2},
		meta.ForceCloseStream{StreamID: 1, Epoch: 1001, WriteOff: true})
	b.reached(meta.KindForceCloseStream, "APPLIED", 1001)
}

func TestBoundOfDroppedRanges(t *testing.T) {
	b := newBounds(t, 1)
	b.do(meta.PrepareObjects{Identity: at(1), Count: 40})
	for epoch := uint64(1); epoch <= 40; epoch++ {
		b.do(meta.OpenStream{Identity: at(1), StreamID: 1},
			meta.CommitObjects{Identity: at(1), Objects: []meta.Object{{ObjectID: epoch, Slices: []meta.Slice{
				{StreamID: 1, StreamEpoch: epoch, StartOffset: epoch - 1, EndOffset: epoch}}}}},
			meta.CloseStream{Identity: at(1), StreamID: 1, Epoch: epoch})
	}
	b.do(meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 40, StartOffset: 50})
	for _, left := range []uint64{40 - 16 + 1, 40 - 32 + 1, 1} {
		b.do(meta.OpenStream{Identity: at(1), StreamID: 1})
		b.do(meta.CloseStream{Identity: at(1), StreamID: 1, Epoch: b.model.Streams()[0].Epoch})
		b.reached(meta.KindTrimStream, "APPLIED", 1)
		if got := b.model.Streams()[0].Ranges; got != left {
			t.Fatalf("%d ranges left, not %d", got, left)
		}
	}
}

func TestBoundOfInstances(t *testing.T) {
	b := newBounds(t, 1)
	register := func(instance byte) meta.Command {
		return meta.RegisterNode{NodeID: 1, Instance: [16]byte{1, instance}}
	}
	for i := range byte(29) {
		b.do(register(2 + i))
	}
	for i := byte(29); i >= 15; i-- {
		b.do(register(i))
	}
	b.reached(meta.KindRegisterNode, "NODE_EPOCH_STALE", 15)
	b.do(register(14)) // the seventeenth
	b.reached(meta.KindRegisterNode, "APPLIED", 1+29+1)
}

func TestBoundOfSources(t *testing.T) {
	b := newBounds(t, 1)
	b.do(meta.OpenStream{Identity: at(1), StreamID: 1}, meta.PrepareObjects{Identity: at(1), Count: 9})
	slices := func(from, n uint64) (out []meta.Slice) {
		for i := range n {
			out = append(out, meta.Slice{StreamID: 1, StreamEpoch: 1, StartOffset: from + i, EndOffset: from + i + 1})
		}
		return out
	}
	commit := func(id, from, n uint64) meta.Command {
		return meta.CommitObjects{Identity: at(1), Objects: []meta.Object{{ObjectID: id, Slices: slices(from, n)}}}
	}
	compact := func(result, end uint64, sources ...uint64) meta.Command {
		return meta.CompactObjects{Identity: at(1), Sources: sources, Objects: []meta.Object{{ObjectID: result,
			Slices: []meta.Slice{{StreamID: 1, StartOffset: 0, EndOffset: end}}}}}
	}
	b.do(commit(1, 0, 999), commit(2, 999, 1), commit(3, 1000, 9001), commit(4, 0, 10_001))
	b.reached(meta.KindCommitObjects, "TOO_LARGE", 1)
	b.do(compact(5, 10_001, 1, 2, 3))
	b.reached(meta.KindCompactObjects, "TOO_LARGE", 1)
	thousand := meta.ReclaimObjects{Limit: 1000}
	nine := []meta.Command{thousand, thousand, thousand, thousand, thousand, thousand, thousand, thousand, thousand}
	b.do(meta.Atomic{Commands: append(nine[:9:9], thousand, meta.ForgetObjects{ObjectIDs: []uint64{1}})})
	b.do(meta.Atomic{Commands: append(nine[:9:9], compact(5, 999, 1))}) // 9000, a source, its 999 slices, a slice
	b.do(meta.Atomic{Commands: append(nine[:9:9], meta.ReclaimObjects{Limit: 2}, compact(5, 999, 1))})
	b.reached(meta.KindAtomic, "TOO_LARGE", 3)
	b.do(meta.Atomic{Commands: append(nine[:8:8], meta.ReclaimObjects{Limit: 999}, compact(5, 999, 1))})
	b.reached(meta.KindAtomic, "APPLIED", 1)
}

func TestBoundOfBytes(t *testing.T) {
	b := newBounds(t, 1)
	put := meta.PutKey{Key: "k", Value: bytes.Repeat([]byte{1}, 256<<10)}
	b.do(put, meta.Atomic{Commands: []meta.Command{put, put, put}})
	b.reached(meta.KindAtomic, "REDUNDANT", 1)
	b.do(meta.Atomic{Commands: []meta.Command{put, put, put, put}}) // has no encoding
	put.Value = append(put.Value, 1)
	b.do(put)
	b.reached(meta.KindPutKey, "TOO_LARGE", 1)
}

func TestBoundOfEpochs(t *testing.T) {
	b := newBounds(t, 1)
	const last = 1<<63 - 1
	me := meta.Identity{NodeID: 1, NodeEpoch: last}
	b.do(meta.RegisterNode{NodeID: 1, Epoch: last, Instance: [16]byte{9}},
		meta.RegisterNode{NodeID: 1, Instance: [16]byte{10}},
		meta.OpenStream{Identity: me, StreamID: 1, Epoch: last},
		meta.CloseStream{Identity: me, StreamID: 1, Epoch: last},
		meta.OpenStream{Identity: me, StreamID: 1},
		meta.OpenStream{Identity: me, StreamID: 1, Epoch: last})
	b.reached(meta.KindRegisterNode, "TOO_LARGE", 1)
	b.reached(meta.KindOpenStream, "TOO_LARGE", 1)
	b.reached(meta.KindOpenStream, "STREAM_EPOCH_STALE", 1)
}

func TestBoundOfClients(t *testing.T) {
	b := newBounds(t, 1)
	const clients = 65_536
	put := func(client int, sequence, oldest uint64) meta.Proposal {
		id := [16]byte{0xee, byte(client >> 16), byte(client >> 8), byte(client)}
		return meta.Proposal{Request: &meta.Request{Client: id, Sequence: sequence, Oldest: oldest},
			Command: meta.PutKey{Key: "k", Value: []byte{byte(client), byte(client >> 8)}, IfVersion: 1 << 60}}
	}
	var row []meta.Proposal
	for client := range clients {
		if row = append(row, put(client, 1, 1)); len(row) == 256 {
			b.row(row...)
			row = nil
		}
	}
	b.row(put(0, 1, 1))                       // is remembered, and seen again
	b.row(put(clients, 1, 1))                 // one too many: client 1 is forgotten
	b.row(put(1, 2, 2), put(0, 1, 1))         // unknown; still remembered
	b.row(put(2, 1, 1), put(2, 2, 2))         // remembered, and goes on
	b.row(put(1, 1, 1), put(3, 1, 1))         // judged anew, in place of client 3; and that in place of client 4
	b.row(put(4, 2, 2), put(2, 2, 2))         // forgotten; remembered
	b.reached(meta.KindPutKey, "REPEATED", 4) // clients 0 twice, 2 twice
	b.reached(meta.KindPutKey, "REQUEST_EXPIRED", 2)
}
