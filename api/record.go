package api

import (
	"encoding/hex"
	"fmt"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// Each translates every element of a list; nil for an empty one.
func Each[T, U any](in []T, translate func(T) U) []U {
	if len(in) == 0 {
		return nil
	}
	out := make([]U, len(in))
	for i := range in {
		out[i] = translate(in[i])
	}
	return out
}

// FromNode returns n as a message.
func FromNode(n meta.Node) *pb.Node {
	m := &pb.Node{Id: n.ID, Epoch: n.Epoch, Registered: n.Registered, Address: n.Address, Labels: fromLabels(n.Labels),
		FormatLevel: n.FormatLevel, Renewals: n.Renewals, Fenced: n.Fenced, Rescuer: fromIdentity(n.Rescuer),
		RegisteredIndex: n.RegisteredIndex, OwnedStreams: n.OwnedStreams, OwedDebts: n.OwedDebts}
	if n.Instance != [16]byte{} {
		m.Instance = n.Instance[:]
	}
	return m
}

// ToNode returns the node that m stands for.
func ToNode(m *pb.Node) meta.Node {
	return meta.Node{ID: m.GetId(), Epoch: m.GetEpoch(), Registered: m.GetRegistered(), Instance: toID(m.GetInstance()),
		Address: m.GetAddress(), Labels: toLabels(m.GetLabels()), FormatLevel: m.GetFormatLevel(),
		Renewals: m.GetRenewals(), Fenced: m.GetFenced(), Rescuer: toIdentity(m.GetRescuer()),
		RegisteredIndex: m.GetRegisteredIndex(), OwnedStreams: m.GetOwnedStreams(), OwedDebts: m.GetOwedDebts()}
}

// FromStream returns s as a message.
func FromStream(s meta.Stream) *pb.Stream {
	m := &pb.Stream{Id: s.ID, Name: s.Name, Labels: fromLabels(s.Labels), Epoch: s.Epoch, Open: s.Open,
		Owner: fromIdentity(s.Owner), StartOffset: s.StartOffset, EndOffset: s.EndOffset, ReservedFor: s.ReservedFor,
		Ranges: s.Ranges, Debts: s.Debts, Losses: s.Losses, Slices: s.Slices}
	if t := s.Transfer; t != nil {
		m.Transfer = &pb.Transfer{ToNode: t.ToNode, StartOffset: t.StartOffset, Boundary: t.Boundary}
	}
	return m
}

// ToStream returns the stream that m stands for.
func ToStream(m *pb.Stream) meta.Stream {
	s := meta.Stream{ID: m.GetId(), Name: m.GetName(), Labels: toLabels(m.GetLabels()), Epoch: m.GetEpoch(),
		Open: m.GetOpen(), Owner: toIdentity(m.GetOwner()), StartOffset: m.GetStartOffset(), EndOffset: m.GetEndOffset(),
		ReservedFor: m.GetReservedFor(), Ranges: m.GetRanges(), Debts: m.GetDebts(), Losses: m.GetLosses(),
		Slices: m.GetSlices()}
	if t := m.GetTransfer(); t != nil {
		s.Transfer = &meta.Transfer{ToNode: t.ToNode, StartOffset: t.StartOffset, Boundary: t.Boundary}
	}
	return s
}

// FromRange returns r as a message.
func FromRange(r meta.Range) *pb.Range {
	return &pb.Range{StreamId: r.StreamID, StreamEpoch: r.Epoch, NodeId: r.NodeID, StartOffset: r.StartOffset,
		EndOffset: r.EndOffset, Sealed: r.Sealed}
}

// ToRange returns the range that m stands for.
func ToRange(m *pb.Range) meta.Range {
	return meta.Range{StreamID: m.GetStreamId(), Epoch: m.GetStreamEpoch(), NodeID: m.GetNodeId(),
		StartOffset: m.GetStartOffset(), EndOffset: m.GetEndOffset(), Sealed: m.GetSealed()}
}

// FromDebt returns d as a message.
func FromDebt(d meta.Debt) *pb.Debt {
	return &pb.Debt{StreamId: d.StreamID, StreamEpoch: d.StreamEpoch, NodeId: d.NodeID, StartOffset: d.StartOffset,
		Boundary: d.Boundary}
}

// ToDebt returns the debt that m stands for.
func ToDebt(m *pb.Debt) meta.Debt {
	return meta.Debt{StreamID: m.GetStreamId(), StreamEpoch: m.GetStreamEpoch(), NodeID: m.GetNodeId(),
		StartOffset: m.GetStartOffset(), Boundary: m.GetBoundary()}
}

// FromLoss returns l as a message.
func FromLoss(l meta.Loss) *pb.Loss {
	return &pb.Loss{StreamId: l.StreamID, StartOffset: l.StartOffset, EndOffset: l.EndOffset}
}

// ToLoss returns the loss that m stands for.
func ToLoss(m *pb.Loss) meta.Loss {
	return meta.Loss{StreamID: m.GetStreamId(), StartOffset: m.GetStartOffset(), EndOffset: m.GetEndOffset()}
}

// FromObject returns o as a message. Byte slices are shared with o.
func FromObject(o meta.ObjectRecord) *pb.StoredObject {
	return &pb.StoredObject{Id: o.ID, State: pb.StoredObject_State(o.State), NodeId: o.Owner, Deadline: o.Deadline,
		Size: o.Size, Attributes: o.Attributes, Slices: fromSlices(o.Slices), SliceCount: o.SliceCount,
		LiveSlices: o.LiveSlices, CommittedIndex: o.CommittedIndex, DeletableIndex: o.DeletableIndex,
		DeletableStamp: o.DeletableStamp}
}

// ToObject returns the object that m stands for. Byte slices are shared with m.
func ToObject(m *pb.StoredObject) meta.ObjectRecord {
	return meta.ObjectRecord{ID: m.GetId(), State: meta.ObjectState(m.GetState()), Owner: m.GetNodeId(),
		Deadline: m.GetDeadline(), Size: m.GetSize(), Attributes: m.GetAttributes(), Slices: toSlices(m.GetSlices()),
		SliceCount: m.GetSliceCount(), LiveSlices: m.GetLiveSlices(), CommittedIndex: m.GetCommittedIndex(),
		DeletableIndex: m.GetDeletableIndex(), DeletableStamp: m.GetDeletableStamp()}
}

// FromStoredSlice returns s as a message.
func FromStoredSlice(s meta.StoredSlice) *pb.StoredSlice {
	return &pb.StoredSlice{ObjectId: s.ObjectID, StartOffset: s.StartOffset, Slice: fromSlice(s.Slice)}
}

// ToStoredSlice returns the slice that m stands for.
func ToStoredSlice(m *pb.StoredSlice) meta.StoredSlice {
	return meta.StoredSlice{ObjectID: m.GetObjectId(), StartOffset: m.GetStartOffset(), Slice: toSlice(m.GetSlice())}
}

// FromKey returns k as a message. The value is shared with k.
func FromKey(k meta.Key) *pb.Key { return &pb.Key{Key: k.Key, Value: k.Value, Version: k.Version} }

// ToKey returns the key that m stands for. The value is shared with m.
func ToKey(m *pb.Key) meta.Key {
	return meta.Key{Key: m.GetKey(), Value: m.GetValue(), Version: m.GetVersion()}
}

// FromRecord returns r as a message; nil for nil.
func FromRecord(r meta.Record) *pb.Record {
	switch r := r.(type) {
	case meta.Node:
		return &pb.Record{Record: &pb.Record_Node{Node: FromNode(r)}}
	case meta.Stream:
		return &pb.Record{Record: &pb.Record_Stream{Stream: FromStream(r)}}
	case meta.Range:
		return &pb.Record{Record: &pb.Record_Range{Range: FromRange(r)}}
	case meta.Debt:
		return &pb.Record{Record: &pb.Record_Debt{Debt: FromDebt(r)}}
	case meta.Loss:
		return &pb.Record{Record: &pb.Record_Loss{Loss: FromLoss(r)}}
	case meta.ObjectRecord:
		return &pb.Record{Record: &pb.Record_Object{Object: FromObject(r)}}
	case meta.StoredSlice:
		return &pb.Record{Record: &pb.Record_Slice{Slice: FromStoredSlice(r)}}
	case meta.Key:
		return &pb.Record{Record: &pb.Record_Key{Key: FromKey(r)}}
	case meta.ClientRecord:
		return &pb.Record{Record: &pb.Record_Client{Client: &pb.Client{Client: r.Client[:], Oldest: r.Oldest,
			Results: r.Results, LastSeenIndex: r.LastSeenIndex, LastSeenPosition: uint32(r.LastSeenPosition)}}}
	case meta.AnswerRecord:
		return &pb.Record{Record: &pb.Record_Answered{Answered: fromAnswerRecord(r)}}
	case meta.ClusterRecord:
		return &pb.Record{Record: &pb.Record_Cluster{Cluster: fromClusterRecord(r)}}
	}
	return nil
}

func fromAnswerRecord(r meta.AnswerRecord) *pb.Answered {
	m := &pb.Answered{Client: r.Client[:], Sequence: r.Sequence, FirstIndex: r.FirstIndex,
		FirstPosition: uint32(r.FirstPosition), PayloadHash: hex.EncodeToString(r.PayloadHash[:]),
		Status: fromStatus(r.Status), Result: FromResult(r.Result)}
	if r.Status == meta.Rejected {
		m.Code, m.Inner = r.Code.String(), fromInner(r.Inner)
	}
	return m
}

func fromClusterRecord(r meta.ClusterRecord) *pb.ClusterState {
	m := &pb.ClusterState{Index: r.Index, FormatLevel: r.FormatLevel, NextStreamId: r.NextStreamID,
		NextObjectId: r.NextObjectID}
	if r.Digest != [16]byte{} { // a change of the format level has none
		m.Digest = hex.EncodeToString(r.Digest[:])
	}
	return m
}

// ToRecord returns the record that m stands for; nil for nil. A record that this build does not know, and one that is not
// readable, is an error.
func ToRecord(m *pb.Record) (meta.Record, error) {
	if m == nil {
		return nil, nil
	}
	switch r := m.Record.(type) {
	case *pb.Record_Node:
		return ToNode(r.Node), nil
	case *pb.Record_Stream:
		return ToStream(r.Stream), nil
	case *pb.Record_Range:
		return ToRange(r.Range), nil
	case *pb.Record_Debt:
		return ToDebt(r.Debt), nil
	case *pb.Record_Loss:
		return ToLoss(r.Loss), nil
	case *pb.Record_Object:
		return ToObject(r.Object), nil
	case *pb.Record_Slice:
		return ToStoredSlice(r.Slice), nil
	case *pb.Record_Key:
		return ToKey(r.Key), nil
	case *pb.Record_Client:
		c := r.Client
		return meta.ClientRecord{Client: toID(c.GetClient()), Oldest: c.GetOldest(), Results: c.GetResults(),
			LastSeenIndex: c.GetLastSeenIndex(), LastSeenPosition: int(c.GetLastSeenPosition())}, nil
	case *pb.Record_Answered:
		return toAnswerRecord(r.Answered)
	case *pb.Record_Cluster:
		return toClusterRecord(r.Cluster)
	}
	return nil, fmt.Errorf("record of a kind that this program does not know (%T)", m.Record)
}

func toAnswerRecord(m *pb.Answered) (meta.Record, error) {
	hash, err := toHex(m.GetPayloadHash())
	if err != nil {
		return nil, fmt.Errorf("read payloadHash: %w", err)
	}
	res, err := ToResult(m.GetResult())
	if err != nil {
		return nil, err
	}
	r := meta.AnswerRecord{Client: toID(m.GetClient()), Sequence: m.GetSequence(), FirstIndex: m.GetFirstIndex(),
		FirstPosition: int(m.GetFirstPosition()), PayloadHash: hash, Status: toStatus(m.GetStatus()), Inner: -1,
		Result: res}
	if m.GetCode() != "" {
		code, ok := ToCode(m.Code)
		if !ok {
			return nil, fmt.Errorf("code %q is not known to this program", m.Code)
		}
		r.Code = code
	}
	if m.Inner != nil {
		r.Inner = int(*m.Inner)
	}
	return r, nil
}

func toClusterRecord(m *pb.ClusterState) (meta.Record, error) {
	digest, err := toHex(m.GetDigest())
	if err != nil {
		return nil, fmt.Errorf("read digest: %w", err)
	}
	return meta.ClusterRecord{Index: m.GetIndex(), FormatLevel: m.GetFormatLevel(), NextStreamID: m.GetNextStreamId(),
		NextObjectID: m.GetNextObjectId(), Digest: digest}, nil
}

// toID reads 16 bytes; any other number of them reads as zeros.
func toID(b []byte) (id [16]byte) {
	if len(b) == len(id) {
		copy(id[:], b)
	}
	return id
}

// toHex reads 32 hexadecimal digits, or none.
func toHex(s string) (id [16]byte, err error) {
	b, err := hex.DecodeString(s)
	if err == nil && len(b) != 0 && len(b) != len(id) {
		err = fmt.Errorf("%d bytes in %q, must be %d", len(b), s, len(id))
	}
	copy(id[:], b)
	return id, err
}

// FromChange returns c as a message.
func FromChange(c meta.Change) *pb.Change {
	return &pb.Change{Command: uint32(c.Command), Kind: string(c.Kind), Key: c.Key, Old: FromRecord(c.Old),
		New: FromRecord(c.New)}
}

// ToChange returns the change that m stands for.
func ToChange(m *pb.Change) (meta.Change, error) {
	old, err := ToRecord(m.GetOld())
	if err != nil {
		return meta.Change{}, err
	}
	now, err := ToRecord(m.GetNew())
	if err != nil {
		return meta.Change{}, err
	}
	return meta.Change{Command: int(m.GetCommand()), Kind: meta.ChangeKind(m.GetKind()), Key: m.GetKey(), Old: old,
		New: now}, nil
}
