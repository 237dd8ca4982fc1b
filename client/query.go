package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

const (
	serviceName = "headwater.v1.Headwater"
	servicePath = "/" + serviceName + "/"
)

// The procedures.
const (
	methodPropose  = servicePath + "Propose"
	methodStatus   = servicePath + "Status"
	methodDryRun   = servicePath + "DryRun"
	methodSnapshot = servicePath + "Snapshot"
)

// methods is how long a try may take, in the form that the library is configured with. It bounds every procedure that asks
// and answers once but Snapshot and Status, and costs less than a context with a deadline around each call, as the library makes a
// context for it anyhow.
func methods(attempt time.Duration) string {
	var names []string
	all := pb.File_headwater_v1_headwater_proto.Services().ByName("Headwater").Methods()
	for i := range all.Len() {
		if m := all.Get(i); !m.IsStreamingServer() && m.Name() != "Snapshot" && m.Name() != "Status" {
			names = append(names, fmt.Sprintf(`{"service": %q, "method": %q}`, serviceName, m.Name()))
		}
	}
	return fmt.Sprintf(`{"methodConfig": [{"name": [%s], "timeout": "%.9fs"}]}`, strings.Join(names, ", "), attempt.Seconds())
}

// Counts counts what the state holds.
func (r Reader) Counts(ctx context.Context) (meta.Counts, At, error) {
	req, res := &pb.CountsRequest{}, &pb.CountsResponse{}
	at, err := query(ctx, r, servicePath+"Counts", req, func(m *pb.Read) { req.Read = m }, res)
	return api.ToCounts(res), at, err
}

// Node returns what is known of a node id; NODE_NOT_FOUND where it was never registered.
func (r Reader) Node(ctx context.Context, id uint64) (meta.Node, At, error) {
	req, res := &pb.GetNodeRequest{NodeId: id}, &pb.GetNodeResponse{}
	at, err := query(ctx, r, servicePath+"GetNode", req, func(m *pb.Read) { req.Read = m }, res)
	return api.ToNode(res.Node), at, err
}

// Nodes lists the registered nodes by id. The cursor is empty for the first page, then Page.Next; the limit is 1 to
// meta.MaxPage, or 0 for 100.
func (r Reader) Nodes(ctx context.Context, cursor string, limit int) (Page[meta.Node], error) {
	req, res := &pb.ListNodesRequest{Page: page(cursor, limit)}, &pb.ListNodesResponse{}
	at, err := query(ctx, r, servicePath+"ListNodes", req, func(m *pb.Read) { req.Read = m }, res)
	return pageOf(res.Nodes, api.ToNode, res.NextCursor, at, err)
}

// Stream returns a stream by id; STREAM_NOT_FOUND where there is none.
func (r Reader) Stream(ctx context.Context, id uint64) (meta.Stream, At, error) {
	return r.stream(ctx, &pb.GetStreamRequest{StreamId: id})
}

// StreamByName returns a stream by name; STREAM_NOT_FOUND where there is none.
func (r Reader) StreamByName(ctx context.Context, name string) (meta.Stream, At, error) {
	return r.stream(ctx, &pb.GetStreamRequest{Name: name})
}

func (r Reader) stream(ctx context.Context, req *pb.GetStreamRequest) (meta.Stream, At, error) {
	res := &pb.GetStreamResponse{}
	at, err := query(ctx, r, servicePath+"GetStream", req, func(m *pb.Read) { req.Read = m }, res)
	return api.ToStream(res.Stream), at, err
}

// Streams lists all streams by id; cursor and limit as in Nodes.
func (r Reader) Streams(ctx context.Context, cursor string, limit int) (Page[meta.Stream], error) {
	return r.streams(ctx, &pb.ListStreamsRequest{Page: page(cursor, limit)})
}

// StreamsByName lists the streams whose name begins with prefix, by name; cursor and limit as in Nodes.
func (r Reader) StreamsByName(ctx context.Context, prefix, cursor string, limit int) (Page[meta.Stream], error) {
	return r.streams(ctx, &pb.ListStreamsRequest{Page: page(cursor, limit), NamePrefix: prefix})
}

// StreamsByOwner lists the open streams of a node by id; cursor and limit as in Nodes.
func (r Reader) StreamsByOwner(ctx context.Context, nodeID uint64, cursor string, limit int) (Page[meta.Stream], error) {
	return r.streams(ctx, &pb.ListStreamsRequest{Page: page(cursor, limit), Owner: nodeID})
}

// StreamsByLabel lists the streams that carry a label, by id; cursor and limit as in Nodes.
func (r Reader) StreamsByLabel(ctx context.Context, label meta.Label, cursor string, limit int) (Page[meta.Stream], error) {
	return r.streams(ctx, &pb.ListStreamsRequest{Page: page(cursor, limit), Label: &pb.LabelSelector{Name: label.Name, Value: label.Value}})
}

func (r Reader) streams(ctx context.Context, req *pb.ListStreamsRequest) (Page[meta.Stream], error) {
	res := &pb.ListStreamsResponse{}
	at, err := query(ctx, r, servicePath+"ListStreams", req, func(m *pb.Read) { req.Read = m }, res)
	return pageOf(res.Streams, api.ToStream, res.NextCursor, at, err)
}

// Ranges lists which node wrote which offsets of a stream; cursor and limit as in Nodes.
func (r Reader) Ranges(ctx context.Context, streamID uint64, cursor string, limit int) (Page[meta.Range], error) {
	req, res := &pb.ListRangesRequest{StreamId: streamID, Page: page(cursor, limit)}, &pb.ListRangesResponse{}
	at, err := query(ctx, r, servicePath+"ListRanges", req, func(m *pb.Read) { req.Read = m }, res)
	return pageOf(res.Ranges, api.ToRange, res.NextCursor, at, err)
}

// FindObjects says where a reader finds [start, end) of a stream; end 0 means the end of the stream, limit 0 means 100
// slices. See meta.State.FindObjects.
func (r Reader) FindObjects(ctx context.Context, streamID, start, end uint64, limit int) (meta.Found, At, error) {
	req := &pb.FindObjectsRequest{StreamId: streamID, StartOffset: start, EndOffset: end, Limit: uint32(min(max(limit, 0), 1<<30))}
	res := &pb.FindObjectsResponse{}
	at, err := query(ctx, r, servicePath+"FindObjects", req, func(m *pb.Read) { req.Read = m }, res)
	if err != nil {
		return meta.Found{}, at, err
	}
	return api.ToFound(res), at, nil
}

// FindOffset returns the first offset at or after a timestamp; found is false where every slice is older, and the
// offset then the stream's end.
func (r Reader) FindOffset(ctx context.Context, streamID uint64, timestamp int64) (offset uint64, found bool, at At, err error) {
	req, res := &pb.FindOffsetRequest{StreamId: streamID, Timestamp: timestamp}, &pb.FindOffsetResponse{}
	at, err = query(ctx, r, servicePath+"FindOffset", req, func(m *pb.Read) { req.Read = m }, res)
	return res.Offset, res.Found, at, err
}

// CompactionCandidates lists objects that hold small slices of a stream, those below smallBelow bytes (0: 1 MiB); cursor
// and limit as in Nodes.
func (r Reader) CompactionCandidates(ctx context.Context, streamID, smallBelow uint64, cursor string, limit int) (Page[meta.CompactionCandidate], error) {
	req := &pb.ListCompactionCandidatesRequest{StreamId: streamID, SmallBelow: smallBelow, Page: page(cursor, limit)}
	res := &pb.ListCompactionCandidatesResponse{}
	at, err := query(ctx, r, servicePath+"ListCompactionCandidates", req, func(m *pb.Read) { req.Read = m }, res)
	return pageOf(res.Candidates, api.ToCandidate, res.NextCursor, at, err)
}

// Object returns an object with its slices; OBJECT_NOT_FOUND where there is none, or none any more.
func (r Reader) Object(ctx context.Context, id uint64) (meta.ObjectRecord, At, error) {
	req, res := &pb.GetObjectRequest{ObjectId: id}, &pb.GetObjectResponse{}
	at, err := query(ctx, r, servicePath+"GetObject", req, func(m *pb.Read) { req.Read = m }, res)
	return api.ToObject(res.Object), at, err
}

// Objects lists the objects that the filter lets through; cursor and limit as in Nodes.
func (r Reader) Objects(ctx context.Context, filter meta.ObjectFilter, cursor string, limit int) (Page[meta.ObjectRecord], error) {
	req := &pb.ListObjectsRequest{Page: page(cursor, limit), State: pb.StoredObject_State(filter.State),
		ExpiredAt: filter.ExpiredAt, Brief: !filter.WithSlices}
	res := &pb.ListObjectsResponse{}
	at, err := query(ctx, r, servicePath+"ListObjects", req, func(m *pb.Read) { req.Read = m }, res)
	return pageOf(res.Objects, api.ToObject, res.NextCursor, at, err)
}

// Debts lists what was transferred and is not committed yet; cursor and limit as in Nodes.
func (r Reader) Debts(ctx context.Context, filter meta.DebtFilter, cursor string, limit int) (Page[meta.Debt], error) {
	req := &pb.ListTransfersRequest{Page: page(cursor, limit), StreamId: filter.StreamID, NodeId: filter.NodeID}
	res := &pb.ListTransfersResponse{}
	at, err := query(ctx, r, servicePath+"ListTransfers", req, func(m *pb.Read) { req.Read = m }, res)
	return pageOf(res.Debts, api.ToDebt, res.NextCursor, at, err)
}

// Losses returns all that was written off of a stream, at most 1,000 intervals, by offset.
func (r Reader) Losses(ctx context.Context, streamID uint64) ([]meta.Loss, At, error) {
	if streamID == 0 { // which the API reads as all streams
		return nil, At{}, &meta.Error{Code: meta.CodeStreamNotFound, Message: "there is no stream 0", Inner: -1}
	}
	req, res := &pb.ListTransfersRequest{Page: page("", 1), StreamId: streamID}, &pb.ListTransfersResponse{}
	at, err := query(ctx, r, servicePath+"ListTransfers", req, func(m *pb.Read) { req.Read = m }, res)
	return api.Each(res.Losses, api.ToLoss), at, err
}

// Key returns a key; KEY_NOT_FOUND where it is absent.
func (r Reader) Key(ctx context.Context, key string) (meta.Key, At, error) {
	req, res := &pb.GetKeyRequest{Key: key}, &pb.GetKeyResponse{}
	at, err := query(ctx, r, servicePath+"GetKey", req, func(m *pb.Read) { req.Read = m }, res)
	return api.ToKey(res.Key), at, err
}

// Keys lists the keys that begin with prefix, with their values, by key; cursor and limit as in Nodes.
func (r Reader) Keys(ctx context.Context, prefix, cursor string, limit int) (Page[meta.Key], error) {
	return r.keys(ctx, &pb.ListKeysRequest{Page: page(cursor, limit), Prefix: prefix})
}

// KeyNames is Keys without the values.
func (r Reader) KeyNames(ctx context.Context, prefix, cursor string, limit int) (Page[meta.Key], error) {
	return r.keys(ctx, &pb.ListKeysRequest{Page: page(cursor, limit), Prefix: prefix, KeysOnly: true})
}

func (r Reader) keys(ctx context.Context, req *pb.ListKeysRequest) (Page[meta.Key], error) {
	res := &pb.ListKeysResponse{}
	at, err := query(ctx, r, servicePath+"ListKeys", req, func(m *pb.Read) { req.Read = m }, res)
	return pageOf(res.Keys, api.ToKey, res.NextCursor, at, err)
}

// DryRun tells what the proposals would do if they came next, and what they would change, without proposing them. See
// DryRun of the embedded store.
func (r Reader) DryRun(ctx context.Context, proposals ...meta.Proposal) ([]meta.Answer, []meta.Change, At, error) {
	req, res := &pb.DryRunRequest{Commands: api.Each(proposals, api.FromProposal)}, &pb.DryRunResponse{}
	at, err := query(ctx, r, methodDryRun, req, func(m *pb.Read) { req.Read = m }, res)
	if err != nil {
		return nil, nil, at, err
	}
	changes := make([]meta.Change, len(res.Changes))
	for i, m := range res.Changes {
		if changes[i], err = api.ToChange(m); err != nil {
			return nil, nil, at, err
		}
	}
	return api.Each(res.Answers, api.ToAnswer), changes, at, nil
}
