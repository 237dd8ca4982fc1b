package clustertest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// Limits writes what is as large as it may be, and reads it back from the writer's node, from one that replays the rows
// and from one that installs a snapshot: names, addresses, labels, keys, values and attributes, bytes of all values, the
// largest numbers, most slices, most objects, most commands in a row. open opens another log on the same, empty database.
func Limits(t *testing.T, open func() oplog.Log) {
	t.Helper()
	writer := Nodes(t, headwater.Options{}, open())[0]
	l := &limits{node: node()}
	l.write(t, writer)
	l.check(t, "the writer's node", writer)
	replayed := Nodes(t, headwater.Options{}, open())[0]
	l.check(t, "a node that replays", replayed)
	if _, err := writer.Snapshot(t.Context()); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	installed := Nodes(t, headwater.Options{}, open())[0]
	l.check(t, "a node that installs the snapshot", installed)
	Agree(t, []*headwater.Store{writer, replayed, installed})
}

// limits is what was written.
type limits struct {
	node    meta.RegisterNode
	name    string // of the stream
	stream  uint64
	keys    map[string][]byte
	objects []meta.Object
	last    uint64 // the object of the highest offset
}

// everyByte returns n bytes that go round all 256 values.
func everyByte(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// text returns n bytes of UTF-8 with characters of one to four bytes.
func text(n int) string {
	s := strings.Repeat("aé€𝄞", n/10)
	return s + strings.Repeat("z", n-len(s))
}

func node() meta.RegisterNode {
	n := meta.RegisterNode{NodeID: math.MaxUint64, Epoch: 1<<63 - 1, Instance: [16]byte(everyByte(256)[240:]), Address: text(meta.MaxAddressBytes), FormatLevel: 1}
	for i := range meta.MaxLabels {
		n.Labels = append(n.Labels, meta.Label{Name: fmt.Sprintf("%02d", i) + text(meta.MaxLabelBytes-2), Value: text(meta.MaxLabelBytes)})
	}
	return n
}

// write proposes everything.
func (l *limits) write(t *testing.T, s *headwater.Store) {
	t.Helper()
	sequence := uint64(0)
	must := func(c meta.Command) meta.Answer {
		t.Helper()
		sequence++
		a := s.Propose(t.Context(), meta.Proposal{Command: c, Request: &meta.Request{Client: [16]byte{0xff, 0, '\'', '\\'}, Sequence: sequence, Oldest: sequence}})[0]
		if a.Err != nil || a.Status != meta.Applied {
			t.Fatalf("%s: %v, %v", meta.KindOf(c), a.Status, a.Err)
		}
		return a
	}
	must(l.node)
	me := meta.Identity{NodeID: l.node.NodeID, NodeEpoch: l.node.Epoch}
	l.name = text(meta.MaxNameBytes)
	l.stream = must(meta.CreateStream{Identity: me, Name: l.name, Labels: l.node.Labels}).Result.(meta.CreateStreamResult).StreamID
	const epoch = 1<<63 - 1
	must(meta.OpenStream{Identity: me, StreamID: l.stream, Epoch: epoch})

	l.keys = map[string][]byte{text(meta.MaxKeyBytes): everyByte(meta.MaxValueBytes), "\x00": {}, "\x00\x01\n\r\x1a'\"\\%_\x7f": everyByte(256)}
	for key, value := range l.keys {
		must(meta.PutKey{Key: key, Value: value})
	}

	// As many slices as one commit may have, in as many objects as one command may name, of a stream that ends at the highest
	// offset there is: the last slice goes there, the others are one record long.
	first := must(meta.PrepareObjects{Identity: me, Count: meta.MaxPerCommand, Deadline: math.MaxInt64}).Result.(meta.PrepareObjectsResult).FirstObjectID
	offset := uint64(0)
	for i := range uint64(meta.MaxPerCommand) {
		o := meta.Object{ObjectID: first + i, Size: 1<<63 - 1, Attributes: everyByte(meta.MaxAttributesBytes)}
		for range meta.MaxSlices / meta.MaxPerCommand {
			o.Slices = append(o.Slices, meta.Slice{StreamID: l.stream, StreamEpoch: epoch, StartOffset: offset, EndOffset: offset + 1,
				Position: offset, Length: 1, MaxTimestamp: math.MinInt64})
			offset++
		}
		l.objects = append(l.objects, o)
	}
	end := &l.objects[len(l.objects)-1].Slices[meta.MaxSlices/meta.MaxPerCommand-1]
	end.EndOffset, end.Position, end.Length, end.MaxTimestamp = 1<<63-1, 1<<63-1, 1<<63-1, math.MaxInt64
	l.last = l.objects[len(l.objects)-1].ObjectID
	must(meta.CommitObjects{Identity: me, Objects: l.objects})

	var most []meta.Proposal
	for i := range 256 { // a row holds as many
		key := fmt.Sprintf("of 256/%d", i)
		l.keys[key] = []byte{byte(i)}
		most = append(most, meta.Proposal{Command: meta.PutKey{Key: key, Value: l.keys[key]}})
	}
	for i, a := range s.Propose(t.Context(), most...) {
		if a.Err != nil {
			t.Fatalf("command %d of 256: %v", i, a.Err)
		}
	}
	must(meta.ForceCloseStream{StreamID: l.stream, Epoch: epoch, Reason: text(meta.MaxReasonBytes)})
}

// check reads everything back.
func (l *limits) check(t *testing.T, where string, s *headwater.Store) {
	t.Helper()
	v, err := s.Linearize(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	same := func(what string, got, want any) {
		t.Helper()
		if !cmp.Equal(got, want) {
			t.Errorf("%s has another %s than was written", where, what)
		}
	}
	n, _ := v.State.Node(l.node.NodeID)
	same("node", meta.RegisterNode{NodeID: n.ID, Epoch: n.Epoch, Instance: n.Instance, Address: n.Address, Labels: n.Labels, FormatLevel: n.FormatLevel}, l.node)
	st, _ := v.State.StreamByName(l.name)
	same("stream", []uint64{st.ID, st.Epoch, st.EndOffset, st.Slices}, []uint64{l.stream, 1<<63 - 1, 1<<63 - 1, meta.MaxSlices})
	same("list of labels", st.Labels, l.node.Labels)
	for key, value := range l.keys {
		if k, ok := v.State.Key(key); !ok || !bytes.Equal(k.Value, value) {
			t.Errorf("%s has another value of a key of %d bytes than was written", where, len(key))
		}
	}
	for _, want := range l.objects {
		o, ok := v.State.Object(want.ObjectID)
		if !ok || o.Size != want.Size || !bytes.Equal(o.Attributes, want.Attributes) || !slices.Equal(o.Slices, want.Slices) {
			t.Fatalf("%s has another object %d than was written: %v", where, want.ObjectID, ok)
		}
	}
	found, err := v.State.FindObjects(l.stream, 1<<63-2, 1<<63-1, 1)
	if err != nil || len(found.Slices) != 1 || found.Slices[0].ObjectID != l.last {
		t.Errorf("%s finds %+v, %v at the highest offset, want object %d", where, found, err, l.last)
	}
}
