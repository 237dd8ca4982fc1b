package api

import (
	"slices"
	"strings"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// ToProposal returns what m asks for. It refuses, with an *meta.Error INVALID_ARGUMENT, what stands for no command: none
// set, ids of another length than 16 bytes, a request or stamp inside atomic, and fields that this build does not
// know, since a condition that is not understood must not be passed over. It judges no other limit: see meta.Validate.
// Byte slices are shared with m.
func ToProposal(m *pb.Command) (meta.Proposal, error) {
	if m == nil {
		return meta.Proposal{}, invalid("command is missing")
	}
	p := meta.Proposal{Stamp: m.Stamp}
	t := translation{}
	t.known(m, "command")
	if q := m.Request; q != nil {
		t.known(q, "request")
		p.Request = &meta.Request{Client: t.id("request.client", q.Client), Sequence: q.Sequence, Oldest: q.Oldest}
	}
	p.Command = t.command(m, true)
	if t.err != nil {
		return meta.Proposal{}, t.err
	}
	return p, nil
}

// translation keeps the first thing that is wrong.
type translation struct{ err *meta.Error }

func (t *translation) fail(format string, args ...any) {
	if t.err == nil {
		t.err = invalid(format, args...)
	}
}

// known refuses a message with fields that this build does not know.
func (t *translation) known(m proto.Message, name string) {
	if b := m.ProtoReflect().GetUnknown(); len(b) > 0 {
		number, _, _ := protowire.ConsumeTag(b)
		t.fail("%s has the unknown field number %d", name, number)
	}
}

// id takes 16 bytes, or none, which reads as zeros.
func (t *translation) id(field string, b []byte) (id [16]byte) {
	if len(b) != 0 && len(b) != len(id) {
		t.fail("%s has %d bytes, must have %d", field, len(b), len(id))
		return id
	}
	copy(id[:], b)
	return id
}

func (t *translation) command(m *pb.Command, outer bool) meta.Command {
	switch c := m.Command.(type) {
	case *pb.Command_RegisterNode, *pb.Command_RenewNode, *pb.Command_UnregisterNode, *pb.Command_FenceNode:
		return t.node(m)
	case *pb.Command_CreateStream, *pb.Command_OpenStream, *pb.Command_CloseStream, *pb.Command_TrimStream,
		*pb.Command_LabelStream, *pb.Command_DeleteStream, *pb.Command_RecordTransfer, *pb.Command_ForceCloseStream:
		return t.stream(m)
	case *pb.Command_PrepareObjects, *pb.Command_CommitObjects, *pb.Command_CompactObjects,
		*pb.Command_ReclaimObjects, *pb.Command_ForgetObjects:
		return t.object(m)
	case *pb.Command_PutKey, *pb.Command_DeleteKey, *pb.Command_CheckKey:
		return t.key(m)
	case *pb.Command_SetFormat:
		if c.SetFormat != nil {
			t.known(c.SetFormat, "setFormat")
		}
		return meta.SetFormat{Level: c.SetFormat.GetLevel()}
	case *pb.Command_Atomic:
		if !outer {
			t.fail("atomic may not stand inside atomic")
			return nil
		}
		return t.atomic(c.Atomic)
	}
	t.fail("command is missing")
	return nil
}

func (t *translation) atomic(m *pb.Atomic) meta.Command {
	if m == nil {
		return meta.Atomic{}
	}
	t.known(m, "atomic")
	var a meta.Atomic
	if len(m.Commands) > 0 {
		a.Commands = make([]meta.Command, len(m.Commands))
	}
	for i, c := range m.Commands {
		if t.err != nil {
			return nil
		}
		switch {
		case c == nil:
			t.fail("command is missing")
		case c.Request != nil:
			t.fail("request may not stand inside atomic")
		case c.Stamp != 0:
			t.fail("stamp may not stand inside atomic")
		default:
			t.known(c, "command")
			a.Commands[i] = t.command(c, false)
		}
		if t.err != nil {
			t.err.Inner = i
		}
	}
	return a
}

func (t *translation) node(m *pb.Command) meta.Command {
	switch c := m.Command.(type) {
	case *pb.Command_RegisterNode:
		if c := c.RegisterNode; c != nil {
			t.known(c, "registerNode")
			return meta.RegisterNode{NodeID: c.NodeId, Epoch: c.Epoch, Instance: t.id("instance", c.Instance),
				Address: c.Address, Labels: toLabels(c.Labels), FormatLevel: c.FormatLevel}
		}
	case *pb.Command_RenewNode:
		if c := c.RenewNode; c != nil {
			t.known(c, "renewNode")
			return meta.RenewNode{Identity: t.identity(c.Identity)}
		}
	case *pb.Command_UnregisterNode:
		if c := c.UnregisterNode; c != nil {
			t.known(c, "unregisterNode")
			return meta.UnregisterNode{NodeID: c.NodeId, Epoch: c.Epoch}
		}
	case *pb.Command_FenceNode:
		if c := c.FenceNode; c != nil {
			t.known(c, "fenceNode")
			return meta.FenceNode{NodeID: c.NodeId, Epoch: c.Epoch, Renewals: c.Renewals, Rescuer: t.identity(c.Rescuer)}
		}
	}
	t.fail("command is missing")
	return nil
}

func (t *translation) stream(m *pb.Command) meta.Command {
	switch c := m.Command.(type) {
	case *pb.Command_CreateStream:
		if c := c.CreateStream; c != nil {
			t.known(c, "createStream")
			return meta.CreateStream{Identity: t.identity(c.Identity), Name: c.Name, Labels: toLabels(c.Labels)}
		}
	case *pb.Command_OpenStream:
		if c := c.OpenStream; c != nil {
			t.known(c, "openStream")
			return meta.OpenStream{Identity: t.identity(c.Identity), StreamID: c.StreamId, Epoch: c.Epoch}
		}
	case *pb.Command_CloseStream:
		if c := c.CloseStream; c != nil {
			t.known(c, "closeStream")
			return meta.CloseStream{Identity: t.identity(c.Identity), OnBehalfOf: c.OnBehalfOf, StreamID: c.StreamId,
				Epoch: c.Epoch}
		}
	case *pb.Command_TrimStream:
		if c := c.TrimStream; c != nil {
			t.known(c, "trimStream")
			return meta.TrimStream{Identity: t.identity(c.Identity), StreamID: c.StreamId, Epoch: c.Epoch,
				StartOffset: c.StartOffset}
		}
	case *pb.Command_LabelStream:
		if c := c.LabelStream; c != nil {
			t.known(c, "labelStream")
			return meta.LabelStream{StreamID: c.StreamId, Labels: toLabels(c.Labels)}
		}
	case *pb.Command_DeleteStream:
		if c := c.DeleteStream; c != nil {
			t.known(c, "deleteStream")
			return meta.DeleteStream{Identity: t.identity(c.Identity), StreamID: c.StreamId, Epoch: c.Epoch}
		}
	case *pb.Command_RecordTransfer:
		if c := c.RecordTransfer; c != nil {
			t.known(c, "recordTransfer")
			return meta.RecordTransfer{Identity: t.identity(c.Identity), StreamID: c.StreamId, Epoch: c.Epoch,
				ToNode: c.ToNode, Boundary: c.Boundary}
		}
	case *pb.Command_ForceCloseStream:
		if c := c.ForceCloseStream; c != nil {
			t.known(c, "forceCloseStream")
			return meta.ForceCloseStream{StreamID: c.StreamId, Epoch: c.Epoch, WriteOff: c.WriteOff, Reason: c.Reason}
		}
	}
	t.fail("command is missing")
	return nil
}

func (t *translation) object(m *pb.Command) meta.Command {
	switch c := m.Command.(type) {
	case *pb.Command_PrepareObjects:
		if c := c.PrepareObjects; c != nil {
			t.known(c, "prepareObjects")
			return meta.PrepareObjects{Identity: t.identity(c.Identity), Count: c.Count, Deadline: c.Deadline}
		}
	case *pb.Command_CommitObjects:
		if c := c.CommitObjects; c != nil {
			t.known(c, "commitObjects")
			return meta.CommitObjects{Identity: t.identity(c.Identity), OnBehalfOf: c.OnBehalfOf,
				Objects: t.objects(c.Objects)}
		}
	case *pb.Command_CompactObjects:
		if c := c.CompactObjects; c != nil {
			t.known(c, "compactObjects")
			return meta.CompactObjects{Identity: t.identity(c.Identity), Sources: c.Sources, Objects: t.objects(c.Objects)}
		}
	case *pb.Command_ReclaimObjects:
		if c := c.ReclaimObjects; c != nil {
			t.known(c, "reclaimObjects")
			return meta.ReclaimObjects{Time: c.Time, Limit: c.Limit}
		}
	case *pb.Command_ForgetObjects:
		if c := c.ForgetObjects; c != nil {
			t.known(c, "forgetObjects")
			return meta.ForgetObjects{ObjectIDs: c.ObjectIds}
		}
	}
	t.fail("command is missing")
	return nil
}

func (t *translation) key(m *pb.Command) meta.Command {
	switch c := m.Command.(type) {
	case *pb.Command_PutKey:
		if c := c.PutKey; c != nil {
			t.known(c, "putKey")
			return meta.PutKey{Identity: t.identity(c.Identity), Key: c.Key, Value: c.Value, IfAbsent: c.IfAbsent,
				IfVersion: c.IfVersion}
		}
	case *pb.Command_DeleteKey:
		if c := c.DeleteKey; c != nil {
			t.known(c, "deleteKey")
			return meta.DeleteKey{Identity: t.identity(c.Identity), Key: c.Key, IfVersion: c.IfVersion}
		}
	case *pb.Command_CheckKey:
		if c := c.CheckKey; c != nil {
			t.known(c, "checkKey")
			return meta.CheckKey{Key: c.Key, IfAbsent: c.IfAbsent, IfVersion: c.IfVersion}
		}
	}
	t.fail("command is missing")
	return nil
}

func (t *translation) identity(m *pb.Identity) meta.Identity {
	if m == nil {
		return meta.Identity{}
	}
	t.known(m, "identity")
	return toIdentity(m)
}

func toIdentity(m *pb.Identity) meta.Identity {
	return meta.Identity{NodeID: m.GetNodeId(), NodeEpoch: m.GetNodeEpoch()}
}

// toLabels returns the labels sorted by name.
func toLabels(m map[string]string) []meta.Label {
	if len(m) == 0 {
		return nil
	}
	out := make([]meta.Label, 0, len(m))
	for name, value := range m {
		out = append(out, meta.Label{Name: name, Value: value})
	}
	slices.SortFunc(out, func(a, b meta.Label) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// objects makes room for all slices of all objects at once.
func (t *translation) objects(ms []*pb.Object) []meta.Object {
	if len(ms) == 0 {
		return nil
	}
	total := 0
	for _, m := range ms {
		total += len(m.GetSlices())
	}
	room := make([]meta.Slice, 0, total)
	out := make([]meta.Object, len(ms))
	for i, m := range ms {
		if m == nil {
			t.fail("object %d is missing", i)
			return nil
		}
		t.known(m, "object")
		out[i] = meta.Object{ObjectID: m.ObjectId, Size: m.Size, Attributes: m.Attributes}
		if len(m.Slices) == 0 {
			continue
		}
		start := len(room)
		for _, s := range m.Slices {
			if s != nil {
				t.known(s, "slice")
			}
			room = append(room, toSlice(s))
		}
		out[i].Slices = room[start:len(room):len(room)]
	}
	return out
}

func toSlice(m *pb.Slice) meta.Slice {
	return meta.Slice{StreamID: m.GetStreamId(), StreamEpoch: m.GetStreamEpoch(), StartOffset: m.GetStartOffset(),
		EndOffset: m.GetEndOffset(), Position: m.GetPosition(), Length: m.GetLength(), MaxTimestamp: m.GetMaxTimestamp()}
}

func toSlices(ms []*pb.Slice) []meta.Slice {
	if len(ms) == 0 {
		return nil
	}
	out := make([]meta.Slice, len(ms))
	for i, m := range ms {
		out[i] = toSlice(m)
	}
	return out
}
