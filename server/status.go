package server

import (
	"context"
	"fmt"
	"math"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
)

var conditions = map[headwater.Condition]pb.StatusResponse_Condition{
	headwater.CatchingUp: pb.StatusResponse_CATCHING_UP,
	headwater.Ready:      pb.StatusResponse_READY,
	headwater.Gap:        pb.StatusResponse_GAP,
	headwater.Halted:     pb.StatusResponse_HALTED,
	headwater.Diverged:   pb.StatusResponse_DIVERGED,
	headwater.Rewound:    pb.StatusResponse_REWOUND,
	headwater.Closed:     pb.StatusResponse_CLOSED,
}

func (s *service) status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	st, v := s.store.Status(), s.store.View()
	counts := api.FromCounts(v.State.Counts())
	counts.At = s.at(v)
	return &pb.StatusResponse{
		Condition: conditions[st.Condition], Reason: valid(st.Reason), ReasonIndex: st.ReasonIndex,
		AppliedIndex: st.AppliedIndex, Digest: st.Digest, NewestIndex: st.NewestIndex,
		SnapshotIndex: st.SnapshotIndex, SnapshotSize: uint64(max(st.SnapshotSize, 0)),
		ClusterId: st.ClusterID, Incarnation: st.Incarnation, FormatLevel: st.FormatLevel,
		Queued: count(st.Queued), InFlight: count(st.InFlight), BehindMs: uint64(max(st.Behind.Milliseconds(), 0)),
		DatabaseError: valid(st.DatabaseError), Backend: valid(st.Backend), Location: valid(st.Location),
		Warnings: api.Each(st.Warnings, valid), Version: s.o.Version, HealedFaults: count(st.HealedFaults),
		Counts: counts,
	}, nil
}

func count(n int) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// readLog sends rows as they stand in the log.
func (s *service) readLog(ctx context.Context, r *pb.ReadLogRequest, send func(*pb.ReadLogResponse) error) error {
	limit := int(min(r.GetLimit(), math.MaxInt))
	err := s.store.ReadLog(ctx, r.GetFromIndex(), limit, func(row headwater.LogRow) error {
		return send(&pb.ReadLogResponse{Row: fromRow(row)})
	})
	if err != nil {
		return fmt.Errorf("read the log from %d: %w", r.GetFromIndex(), err)
	}
	return nil
}

func fromRow(r headwater.LogRow) *pb.Row {
	return &pb.Row{Index: r.Index, Incarnation: r.Incarnation, Writer: r.Writer, Batch: r.Batch,
		WriterApplied: r.WriterApplied, WriterDigest: r.WriterDigest, Bytes: count(r.Bytes), ClusterId: r.ClusterID,
		Commands: api.Each(r.Proposals, api.FromProposal), Undecodable: valid(r.Undecodable)}
}

// export sends a whole view. The view is pinned by the call, so what is sent is of one index however long it takes.
func (s *service) export(ctx context.Context, r *pb.ExportRequest, send func(*pb.ExportResponse) error) error {
	v, err := s.view(ctx, r.GetRead())
	if err != nil {
		return err
	}
	for rec := range v.State.Export() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := send(&pb.ExportResponse{Record: api.FromRecord(rec)}); err != nil {
			return err
		}
	}
	return nil
}
