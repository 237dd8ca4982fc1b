package server

import (
	"context"
	"math"

	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// limitOf reads the limit of a page or a search, whose bounds package meta judges.
func limitOf(n uint32) int { return int(min(uint64(n), math.MaxInt)) }

func (s *service) counts(ctx context.Context, r *pb.CountsRequest) (*pb.CountsResponse, error) {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	m := api.FromCounts(v.State.Counts())
	m.At = s.at(v)
	return m, nil
}

func (s *service) getNode(ctx context.Context, r *pb.GetNodeRequest) (*pb.GetNodeResponse, error) {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	n, ok := v.State.Node(r.GetNodeId())
	if !ok {
		return nil, notFound(meta.CodeNodeNotFound, "node %d was never registered", r.GetNodeId())
	}
	return &pb.GetNodeResponse{At: s.at(v), Node: api.FromNode(n)}, nil
}

func (s *service) listNodes(ctx context.Context, r *pb.ListNodesRequest) (*pb.ListNodesResponse, error) {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	p, err := v.State.Nodes(r.GetPage().GetCursor(), limitOf(r.GetPage().GetLimit()))
	if err != nil {
		return nil, err
	}
	return &pb.ListNodesResponse{At: s.at(v), Nodes: api.Each(p.Items, api.FromNode), NextCursor: p.Next}, nil
}

func (s *service) getStream(ctx context.Context, r *pb.GetStreamRequest) (*pb.GetStreamResponse, error) {
	if (r.GetStreamId() == 0) == (r.GetName() == "") {
		return nil, invalid("streamId or name: exactly one of the two is needed")
	}
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	st, ok := meta.Stream{}, false
	if r.GetName() != "" {
		st, ok = v.State.StreamByName(r.GetName())
	} else {
		st, ok = v.State.Stream(r.GetStreamId())
	}
	switch {
	case ok:
		return &pb.GetStreamResponse{At: s.at(v), Stream: api.FromStream(st)}, nil
	case r.GetName() != "":
		return nil, notFound(meta.CodeStreamNotFound, "there is no stream %q", clip(r.GetName()))
	}
	return nil, notFound(meta.CodeStreamNotFound, "there is no stream %d", r.GetStreamId())
}

func (s *service) listStreams(ctx context.Context, r *pb.ListStreamsRequest) (*pb.ListStreamsResponse, error) {
	asked := 0
	for _, is := range []bool{r.GetNamePrefix() != "", r.GetOwner() != 0, r.GetLabel() != nil} {
		if is {
			asked++
		}
	}
	if asked > 1 {
		return nil, invalid("namePrefix, owner and label: at most one of the three")
	}
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	var p meta.Page[meta.Stream]
	cursor, limit := r.GetPage().GetCursor(), limitOf(r.GetPage().GetLimit())
	switch {
	case r.GetNamePrefix() != "":
		p, err = v.State.StreamsByName(r.GetNamePrefix(), cursor, limit)
	case r.GetOwner() != 0:
		p, err = v.State.StreamsByOwner(r.GetOwner(), cursor, limit)
	case r.GetLabel() != nil:
		p, err = v.State.StreamsByLabel(meta.Label{Name: r.GetLabel().GetName(), Value: r.GetLabel().GetValue()}, cursor, limit)
	default:
		p, err = v.State.Streams(cursor, limit)
	}
	if err != nil {
		return nil, err
	}
	return &pb.ListStreamsResponse{At: s.at(v), Streams: api.Each(p.Items, api.FromStream), NextCursor: p.Next}, nil
}

func (s *service) listRanges(ctx context.Context, r *pb.ListRangesRequest) (*pb.ListRangesResponse, error) {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	p, err := v.State.Ranges(r.GetStreamId(), r.GetPage().GetCursor(), limitOf(r.GetPage().GetLimit()))
	if err != nil {
		return nil, err
	}
	return &pb.ListRangesResponse{At: s.at(v), Ranges: api.Each(p.Items, api.FromRange), NextCursor: p.Next}, nil
}

func (s *service) findObjects(ctx context.Context, r *pb.FindObjectsRequest) (*pb.FindObjectsResponse, error) {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	f, err := v.State.FindObjects(r.GetStreamId(), r.GetStartOffset(), r.GetEndOffset(), limitOf(r.GetLimit()))
	if err != nil {
		return nil, err
	}
	m := api.FromFound(f)
	m.At = s.at(v)
	return m, nil
}

func (s *service) findOffset(ctx context.Context, r *pb.FindOffsetRequest) (*pb.FindOffsetResponse, error) {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	offset, found, err := v.State.FindOffset(r.GetStreamId(), r.GetTimestamp())
	if err != nil {
		return nil, err
	}
	return &pb.FindOffsetResponse{At: s.at(v), Found: found, Offset: offset}, nil
}

func (s *service) listCandidates(ctx context.Context, r *pb.ListCompactionCandidatesRequest) (*pb.ListCompactionCandidatesResponse, error) {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	p, err := v.State.CompactionCandidates(r.GetStreamId(), r.GetSmallBelow(), r.GetPage().GetCursor(), limitOf(r.GetPage().GetLimit()))
	if err != nil {
		return nil, err
	}
	return &pb.ListCompactionCandidatesResponse{At: s.at(v), Candidates: api.Each(p.Items, api.FromCandidate), NextCursor: p.Next}, nil
}

func (s *service) getObject(ctx context.Context, r *pb.GetObjectRequest) (*pb.GetObjectResponse, error) {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	o, ok := v.State.Object(r.GetObjectId())
	if !ok {
		return nil, notFound(meta.CodeObjectNotFound, "object %d is not there: never handed out, or forgotten", r.GetObjectId())
	}
	return &pb.GetObjectResponse{At: s.at(v), Object: api.FromObject(o)}, nil
}

func (s *service) listObjects(ctx context.Context, r *pb.ListObjectsRequest) (*pb.ListObjectsResponse, error) {
	if r.GetExpiredAt() != 0 && r.GetState() != pb.StoredObject_PREPARED {
		return nil, invalid("expiredAt: goes with state PREPARED only")
	}
	if _, known := pb.StoredObject_State_name[int32(r.GetState())]; !known {
		return nil, invalid("state %d: there is no such state", r.GetState())
	}
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	filter := meta.ObjectFilter{State: meta.ObjectState(r.GetState()), ExpiredAt: r.GetExpiredAt(), WithSlices: !r.GetBrief()}
	p, err := v.State.Objects(filter, r.GetPage().GetCursor(), limitOf(r.GetPage().GetLimit()))
	if err != nil {
		return nil, err
	}
	return &pb.ListObjectsResponse{At: s.at(v), Objects: api.Each(p.Items, api.FromObject), NextCursor: p.Next}, nil
}

func (s *service) listTransfers(ctx context.Context, r *pb.ListTransfersRequest) (*pb.ListTransfersResponse, error) {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	if id := r.GetStreamId(); id != 0 {
		if _, ok := v.State.Stream(id); !ok {
			return nil, notFound(meta.CodeStreamNotFound, "there is no stream %d", id)
		}
	}
	filter := meta.DebtFilter{StreamID: r.GetStreamId(), NodeID: r.GetNodeId()}
	p, err := v.State.Debts(filter, r.GetPage().GetCursor(), limitOf(r.GetPage().GetLimit()))
	if err != nil {
		return nil, err
	}
	m := &pb.ListTransfersResponse{At: s.at(v), Debts: api.Each(p.Items, api.FromDebt), NextCursor: p.Next}
	if r.GetStreamId() != 0 && r.GetPage().GetCursor() == "" { // all of them with the first page: a stream has 1,000 at most
		losses, err := v.State.Losses(r.GetStreamId(), "", meta.MaxPage)
		if err != nil {
			return nil, err
		}
		m.Losses = api.Each(losses.Items, api.FromLoss)
	}
	return m, nil
}

func (s *service) getKey(ctx context.Context, r *pb.GetKeyRequest) (*pb.GetKeyResponse, error) {
	if r.GetKey() == "" {
		return nil, invalid("key: must not be empty")
	}
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	k, ok := v.State.Key(r.GetKey())
	if !ok {
		return nil, notFound(meta.CodeKeyNotFound, "there is no key %q", clip(r.GetKey()))
	}
	return &pb.GetKeyResponse{At: s.at(v), Key: api.FromKey(k)}, nil
}

func (s *service) listKeys(ctx context.Context, r *pb.ListKeysRequest) (*pb.ListKeysResponse, error) {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return nil, err
	}
	list := v.State.Keys
	if r.GetKeysOnly() {
		list = v.State.KeyNames
	}
	p, err := list(r.GetPrefix(), r.GetPage().GetCursor(), limitOf(r.GetPage().GetLimit()))
	if err != nil {
		return nil, err
	}
	return &pb.ListKeysResponse{At: s.at(v), Keys: api.Each(p.Items, api.FromKey), NextCursor: p.Next}, nil
}
