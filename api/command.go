package api

import (
	"fmt"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// FromProposal returns p as a message. Byte slices and lists of ids are shared with p. A command that is missing, or none of package
// meta's, becomes a message without a command, which every receiver refuses.
func FromProposal(p meta.Proposal) *pb.Command {
	m := fromCommand(p.Command)
	m.Stamp = p.Stamp
	if q := p.Request; q != nil {
		m.Request = &pb.Request{Client: q.Client[:], Sequence: q.Sequence, Oldest: q.Oldest}
	}
	return m
}

func fromCommand(c meta.Command) *pb.Command {
	switch c := c.(type) {
	case meta.RegisterNode, meta.RenewNode, meta.UnregisterNode, meta.FenceNode:
		return fromNodeCommand(c)
	case meta.CreateStream, meta.OpenStream, meta.CloseStream, meta.TrimStream, meta.LabelStream, meta.DeleteStream,
		meta.RecordTransfer, meta.ForceCloseStream:
		return fromStreamCommand(c)
	case meta.PrepareObjects, meta.CommitObjects, meta.CompactObjects, meta.ReclaimObjects, meta.ForgetObjects:
		return fromObjectCommand(c)
	case meta.PutKey, meta.DeleteKey, meta.CheckKey:
		return fromKeyCommand(c)
	case meta.Atomic:
		inner := &pb.Atomic{Commands: make([]*pb.Command, len(c.Commands))}
		for i := range c.Commands {
			if _, nested := c.Commands[i].(meta.Atomic); nested { // refused by every receiver; the depth stays bounded
				inner.Commands[i] = &pb.Command{Command: &pb.Command_Atomic{Atomic: &pb.Atomic{}}}
				continue
			}
			inner.Commands[i] = fromCommand(c.Commands[i])
		}
		return &pb.Command{Command: &pb.Command_Atomic{Atomic: inner}}
	case meta.SetFormat:
		return &pb.Command{Command: &pb.Command_SetFormat{SetFormat: &pb.SetFormat{Level: c.Level}}}
	}
	return &pb.Command{}
}

func fromNodeCommand(c meta.Command) *pb.Command {
	switch c := c.(type) {
	case meta.RegisterNode:
		return &pb.Command{Command: &pb.Command_RegisterNode{RegisterNode: &pb.RegisterNode{NodeId: c.NodeID,
			Epoch: c.Epoch, Instance: c.Instance[:], Address: c.Address, Labels: fromLabels(c.Labels),
			FormatLevel: c.FormatLevel}}}
	case meta.RenewNode:
		return &pb.Command{Command: &pb.Command_RenewNode{RenewNode: &pb.RenewNode{Identity: fromIdentity(c.Identity)}}}
	case meta.UnregisterNode:
		return &pb.Command{Command: &pb.Command_UnregisterNode{UnregisterNode: &pb.UnregisterNode{NodeId: c.NodeID,
			Epoch: c.Epoch}}}
	case meta.FenceNode:
		return &pb.Command{Command: &pb.Command_FenceNode{FenceNode: &pb.FenceNode{NodeId: c.NodeID, Epoch: c.Epoch,
			Renewals: c.Renewals, Rescuer: fromIdentity(c.Rescuer)}}}
	}
	return &pb.Command{}
}

func fromStreamCommand(c meta.Command) *pb.Command {
	switch c := c.(type) {
	case meta.CreateStream:
		return &pb.Command{Command: &pb.Command_CreateStream{CreateStream: &pb.CreateStream{
			Identity: fromIdentity(c.Identity), Name: c.Name, Labels: fromLabels(c.Labels)}}}
	case meta.OpenStream:
		return &pb.Command{Command: &pb.Command_OpenStream{OpenStream: &pb.OpenStream{
			Identity: fromIdentity(c.Identity), StreamId: c.StreamID, Epoch: c.Epoch}}}
	case meta.CloseStream:
		return &pb.Command{Command: &pb.Command_CloseStream{CloseStream: &pb.CloseStream{
			Identity: fromIdentity(c.Identity), OnBehalfOf: c.OnBehalfOf, StreamId: c.StreamID, Epoch: c.Epoch}}}
	case meta.TrimStream:
		return &pb.Command{Command: &pb.Command_TrimStream{TrimStream: &pb.TrimStream{
			Identity: fromIdentity(c.Identity), StreamId: c.StreamID, Epoch: c.Epoch, StartOffset: c.StartOffset}}}
	case meta.LabelStream:
		return &pb.Command{Command: &pb.Command_LabelStream{LabelStream: &pb.LabelStream{StreamId: c.StreamID,
			Labels: fromLabels(c.Labels)}}}
	case meta.DeleteStream:
		return &pb.Command{Command: &pb.Command_DeleteStream{DeleteStream: &pb.DeleteStream{
			Identity: fromIdentity(c.Identity), StreamId: c.StreamID, Epoch: c.Epoch}}}
	case meta.RecordTransfer:
		return &pb.Command{Command: &pb.Command_RecordTransfer{RecordTransfer: &pb.RecordTransfer{
			Identity: fromIdentity(c.Identity), StreamId: c.StreamID, Epoch: c.Epoch, ToNode: c.ToNode,
			Boundary: c.Boundary}}}
	case meta.ForceCloseStream:
		return &pb.Command{Command: &pb.Command_ForceCloseStream{ForceCloseStream: &pb.ForceCloseStream{
			StreamId: c.StreamID, Epoch: c.Epoch, WriteOff: c.WriteOff, Reason: c.Reason}}}
	}
	return &pb.Command{}
}

func fromObjectCommand(c meta.Command) *pb.Command {
	switch c := c.(type) {
	case meta.PrepareObjects:
		return &pb.Command{Command: &pb.Command_PrepareObjects{PrepareObjects: &pb.PrepareObjects{
			Identity: fromIdentity(c.Identity), Count: c.Count, Deadline: c.Deadline}}}
	case meta.CommitObjects:
		return &pb.Command{Command: &pb.Command_CommitObjects{CommitObjects: &pb.CommitObjects{
			Identity: fromIdentity(c.Identity), OnBehalfOf: c.OnBehalfOf, Objects: fromObjects(c.Objects)}}}
	case meta.CompactObjects:
		return &pb.Command{Command: &pb.Command_CompactObjects{CompactObjects: &pb.CompactObjects{
			Identity: fromIdentity(c.Identity), Sources: c.Sources, Objects: fromObjects(c.Objects)}}}
	case meta.ReclaimObjects:
		return &pb.Command{Command: &pb.Command_ReclaimObjects{ReclaimObjects: &pb.ReclaimObjects{Time: c.Time,
			Limit: c.Limit}}}
	case meta.ForgetObjects:
		return &pb.Command{Command: &pb.Command_ForgetObjects{ForgetObjects: &pb.ForgetObjects{ObjectIds: c.ObjectIDs}}}
	}
	return &pb.Command{}
}

func fromKeyCommand(c meta.Command) *pb.Command {
	switch c := c.(type) {
	case meta.PutKey:
		return &pb.Command{Command: &pb.Command_PutKey{PutKey: &pb.PutKey{Identity: fromIdentity(c.Identity), Key: c.Key,
			Value: c.Value, IfAbsent: c.IfAbsent, IfVersion: c.IfVersion}}}
	case meta.DeleteKey:
		return &pb.Command{Command: &pb.Command_DeleteKey{DeleteKey: &pb.DeleteKey{Identity: fromIdentity(c.Identity),
			Key: c.Key, IfVersion: c.IfVersion}}}
	case meta.CheckKey:
		return &pb.Command{Command: &pb.Command_CheckKey{CheckKey: &pb.CheckKey{Key: c.Key, IfAbsent: c.IfAbsent,
			IfVersion: c.IfVersion}}}
	}
	return &pb.Command{}
}

// fromIdentity returns nil for no identity.
func fromIdentity(id meta.Identity) *pb.Identity {
	if id == (meta.Identity{}) {
		return nil
	}
	return &pb.Identity{NodeId: id.NodeID, NodeEpoch: id.NodeEpoch}
}

func fromLabels(labels []meta.Label) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	m := make(map[string]string, len(labels))
	for _, l := range labels {
		m[l.Name] = l.Value
	}
	return m
}

func fromObjects(objects []meta.Object) []*pb.Object {
	out := make([]*pb.Object, len(objects))
	for i := range objects {
		o := &objects[i]
		out[i] = &pb.Object{ObjectId: o.ObjectID, Size: o.Size, Attributes: o.Attributes, Slices: fromSlices(o.Slices)}
	}
	return out
}

// fromSlices makes room for all slices at once.
func fromSlices(all []meta.Slice) []*pb.Slice {
	if len(all) == 0 {
		return nil
	}
	room := make([]pb.Slice, len(all))
	out := make([]*pb.Slice, len(all))
	for i := range all {
		out[i] = &room[i]
		fillSlice(out[i], &all[i])
	}
	return out
}

func fillSlice(m *pb.Slice, s *meta.Slice) {
	m.StreamId, m.StreamEpoch = s.StreamID, s.StreamEpoch
	m.StartOffset, m.EndOffset = s.StartOffset, s.EndOffset
	m.Position, m.Length = s.Position, s.Length
	m.MaxTimestamp = s.MaxTimestamp
}

func fromSlice(s meta.Slice) *pb.Slice {
	m := new(pb.Slice)
	fillSlice(m, &s)
	return m
}

// invalid is the refusal of a message that stands for no command.
func invalid(format string, args ...any) *meta.Error {
	return &meta.Error{Code: meta.CodeInvalidArgument, Message: fmt.Sprintf(format, args...), Inner: -1}
}
