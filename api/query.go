package api

import (
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// FromCounts returns c as a message; at is the caller's to set.
func FromCounts(c meta.Counts) *pb.CountsResponse {
	return &pb.CountsResponse{Nodes: c.Nodes, FencedNodes: c.FencedNodes, Streams: c.Streams, OpenStreams: c.OpenStreams,
		PreparedObjects: c.PreparedObjects, CommittedObjects: c.CommittedObjects, DeletableObjects: c.DeletableObjects,
		Slices: c.Slices, Debts: c.Debts, Keys: c.Keys, Clients: c.Clients, AnsweredRequests: c.Results}
}

// ToCounts returns the counts that m stands for.
func ToCounts(m *pb.CountsResponse) meta.Counts {
	return meta.Counts{Nodes: m.GetNodes(), FencedNodes: m.GetFencedNodes(), Streams: m.GetStreams(),
		OpenStreams: m.GetOpenStreams(), PreparedObjects: m.GetPreparedObjects(), CommittedObjects: m.GetCommittedObjects(),
		DeletableObjects: m.GetDeletableObjects(), Slices: m.GetSlices(), Debts: m.GetDebts(), Keys: m.GetKeys(),
		Clients: m.GetClients(), Results: m.GetAnsweredRequests()}
}

// FromFound returns f as a message; at is the caller's to set. It makes room for all slices at once. Attributes are
// shared with f.
func FromFound(f meta.Found) *pb.FindObjectsResponse {
	m := &pb.FindObjectsResponse{StartOffset: f.StartOffset, EndOffset: f.EndOffset,
		Stop: pb.FindObjectsResponse_Stop(f.Stop), StreamStartOffset: f.StreamStartOffset,
		StreamEndOffset: f.StreamEndOffset}
	switch f.Stop {
	case meta.StopDebt:
		m.Debt = FromDebt(f.Debt)
	case meta.StopLoss:
		m.Loss = FromLoss(f.Loss)
	}
	if len(f.Slices) == 0 {
		return m
	}
	room := make([]struct {
		found pb.FoundSlice
		slice pb.Slice
	}, len(f.Slices))
	m.Slices = make([]*pb.FoundSlice, len(f.Slices))
	for i := range f.Slices {
		s, r := &f.Slices[i], &room[i]
		fillSlice(&r.slice, &s.Slice)
		r.found.ObjectId, r.found.ObjectSize, r.found.Attributes, r.found.Slice = s.ObjectID, s.ObjectSize, s.Attributes, &r.slice
		m.Slices[i] = &r.found
	}
	return m
}

// ToFound returns the answer that m stands for. Attributes are shared with m.
func ToFound(m *pb.FindObjectsResponse) meta.Found {
	f := meta.Found{StartOffset: m.GetStartOffset(), EndOffset: m.GetEndOffset(), Stop: meta.Stop(m.GetStop()),
		Debt: ToDebt(m.GetDebt()), Loss: ToLoss(m.GetLoss()), StreamStartOffset: m.GetStreamStartOffset(),
		StreamEndOffset: m.GetStreamEndOffset()}
	f.Slices = Each(m.GetSlices(), func(s *pb.FoundSlice) meta.FoundSlice {
		return meta.FoundSlice{ObjectID: s.GetObjectId(), ObjectSize: s.GetObjectSize(), Attributes: s.GetAttributes(),
			Slice: toSlice(s.GetSlice())}
	})
	return f
}

// FromCandidate returns c as a message.
func FromCandidate(c meta.CompactionCandidate) *pb.CompactionCandidate {
	return &pb.CompactionCandidate{ObjectId: c.ObjectID, ObjectSize: c.ObjectSize, SmallSlices: c.SmallSlices,
		SmallBytes: c.SmallBytes}
}

// ToCandidate returns the candidate that m stands for.
func ToCandidate(m *pb.CompactionCandidate) meta.CompactionCandidate {
	return meta.CompactionCandidate{ObjectID: m.GetObjectId(), ObjectSize: m.GetObjectSize(),
		SmallSlices: m.GetSmallSlices(), SmallBytes: m.GetSmallBytes()}
}
