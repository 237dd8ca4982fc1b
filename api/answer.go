package api

import (
	"errors"
	"fmt"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// FromAnswer returns a as a message. An error that is none of package meta's is FAILED of unspecified kind, which a client
// reads as an unknown outcome.
func FromAnswer(a meta.Answer) *pb.Answer {
	m := &pb.Answer{Index: a.Index, Position: uint32(a.Position), FirstIndex: a.FirstIndex,
		FirstPosition: uint32(a.FirstPosition)}
	var refused *meta.Error
	switch {
	case a.Err == nil:
		m.Status = fromStatus(a.Status)
		m.Result = FromResult(a.Result)
	case errors.As(a.Err, &refused):
		m.Status = pb.Answer_REJECTED
		m.Code = refused.Code.String()
		m.Message = validText(refused.Message)
		m.Inner = fromInner(refused.Inner)
		m.Current = fromCurrent(refused.Current)
	default:
		m.Status = pb.Answer_FAILED
		m.Message = text(a.Err)
		m.Failure = &pb.Failure{Kind: failureKind(a.Err)}
	}
	return m
}

// ToAnswer returns the answer that m stands for. A status that this build does not know, and a result that is not readable,
// give an error that wraps meta.ErrOutcomeUnknown.
func ToAnswer(m *pb.Answer) meta.Answer {
	a := meta.Answer{Index: m.GetIndex(), Position: int(m.GetPosition()), FirstIndex: m.GetFirstIndex(),
		FirstPosition: int(m.GetFirstPosition())}
	switch m.GetStatus() {
	case pb.Answer_APPLIED, pb.Answer_REDUNDANT:
		res, err := ToResult(m.Result)
		if err != nil {
			a.Err = fmt.Errorf("read result: %w: %w", err, meta.ErrOutcomeUnknown)
			return a
		}
		a.Status, a.Result = toStatus(m.Status), res
	case pb.Answer_REJECTED:
		a.Status, a.Err = meta.Rejected, toError(m.Code, m.Message, m.Inner, m.Current)
	case pb.Answer_FAILED:
		a.Err = toFailure(m.Failure.GetKind(), m.Message)
	default:
		a.Err = fmt.Errorf("answer has status %d: %w", m.GetStatus(), meta.ErrOutcomeUnknown)
	}
	return a
}

func fromStatus(s meta.Status) pb.Answer_Status {
	switch s {
	case meta.Applied:
		return pb.Answer_APPLIED
	case meta.Redundant:
		return pb.Answer_REDUNDANT
	case meta.Rejected:
		return pb.Answer_REJECTED
	}
	return pb.Answer_STATUS_UNSPECIFIED
}

func toStatus(s pb.Answer_Status) meta.Status {
	switch s {
	case pb.Answer_APPLIED:
		return meta.Applied
	case pb.Answer_REDUNDANT:
		return meta.Redundant
	case pb.Answer_REJECTED:
		return meta.Rejected
	}
	return 0
}

func fromInner(i int) *int32 {
	v := int32(i)
	return &v
}

func fromCurrent(k *meta.Key) *pb.Key {
	if k == nil {
		return nil
	}
	return FromKey(*k)
}

// FromResult returns res as a message; nil for nil and for meta.NoResult.
func FromResult(res meta.Result) *pb.Result {
	switch r := res.(type) {
	case meta.RegisterNodeResult:
		return &pb.Result{Result: &pb.Result_RegisterNode{RegisterNode: &pb.RegisterNodeResult{Epoch: r.Epoch,
			OwnedStreams: r.OwnedStreams, OwedDebts: r.OwedDebts}}}
	case meta.RenewNodeResult:
		return &pb.Result{Result: &pb.Result_RenewNode{RenewNode: &pb.RenewNodeResult{Renewals: r.Renewals}}}
	case meta.CreateStreamResult:
		return &pb.Result{Result: &pb.Result_CreateStream{CreateStream: &pb.CreateStreamResult{StreamId: r.StreamID}}}
	case meta.OpenStreamResult:
		return &pb.Result{Result: &pb.Result_OpenStream{OpenStream: &pb.OpenStreamResult{Epoch: r.Epoch,
			StartOffset: r.StartOffset, EndOffset: r.EndOffset}}}
	case meta.CloseStreamResult:
		return &pb.Result{Result: &pb.Result_CloseStream{CloseStream: &pb.CloseStreamResult{EndOffset: r.EndOffset}}}
	case meta.TrimStreamResult:
		return &pb.Result{Result: &pb.Result_TrimStream{TrimStream: &pb.TrimStreamResult{StartOffset: r.StartOffset,
			EndOffset: r.EndOffset}}}
	case meta.RecordTransferResult:
		return &pb.Result{Result: &pb.Result_RecordTransfer{RecordTransfer: &pb.RecordTransferResult{
			StartOffset: r.StartOffset, Boundary: r.Boundary}}}
	case meta.PrepareObjectsResult:
		return &pb.Result{Result: &pb.Result_PrepareObjects{PrepareObjects: &pb.PrepareObjectsResult{
			FirstObjectId: r.FirstObjectID, Count: r.Count}}}
	case meta.CommitObjectsResult:
		return &pb.Result{Result: &pb.Result_CommitObjects{CommitObjects: &pb.CommitObjectsResult{
			DroppedSlices: r.DroppedSlices}}}
	case meta.ReclaimObjectsResult:
		return &pb.Result{Result: &pb.Result_ReclaimObjects{ReclaimObjects: &pb.ReclaimObjectsResult{
			ReleasedSlices: r.ReleasedSlices, DeletableObjects: r.DeletableObjects}}}
	case meta.ForgetObjectsResult:
		return &pb.Result{Result: &pb.Result_ForgetObjects{ForgetObjects: &pb.ForgetObjectsResult{Forgotten: r.Forgotten}}}
	case meta.PutKeyResult:
		return &pb.Result{Result: &pb.Result_PutKey{PutKey: &pb.PutKeyResult{Version: r.Version}}}
	case meta.SetFormatResult:
		return &pb.Result{Result: &pb.Result_SetFormat{SetFormat: &pb.SetFormatResult{Level: r.Level}}}
	case meta.AtomicResult:
		m := &pb.AtomicResult{Answers: make([]*pb.InnerAnswer, len(r.Answers))}
		for i, a := range r.Answers {
			m.Answers[i] = &pb.InnerAnswer{Status: fromStatus(a.Status), Result: FromResult(a.Result)}
		}
		return &pb.Result{Result: &pb.Result_Atomic{Atomic: m}}
	}
	return nil
}

// ToResult returns the result that m stands for: nil where m is nil. A result that this build does not know is an
// error.
func ToResult(m *pb.Result) (meta.Result, error) {
	if m == nil {
		return nil, nil
	}
	if a := m.GetAtomic(); a != nil {
		return toAtomicResult(a)
	}
	return toPlainResult(m)
}

func toAtomicResult(m *pb.AtomicResult) (meta.Result, error) {
	var res meta.AtomicResult
	for i, a := range m.Answers {
		inner := meta.InnerAnswer{Status: toStatus(a.GetStatus())}
		if a.GetResult() != nil {
			r, err := toPlainResult(a.Result)
			if err != nil {
				return nil, fmt.Errorf("answer %d of atomic: %w", i, err)
			}
			inner.Result = r
		}
		res.Answers = append(res.Answers, inner)
	}
	return res, nil
}

// toPlainResult returns a result other than that of atomic.
func toPlainResult(m *pb.Result) (meta.Result, error) {
	switch r := m.Result.(type) {
	case *pb.Result_RegisterNode:
		return meta.RegisterNodeResult{Epoch: r.RegisterNode.GetEpoch(), OwnedStreams: r.RegisterNode.GetOwnedStreams(),
			OwedDebts: r.RegisterNode.GetOwedDebts()}, nil
	case *pb.Result_RenewNode:
		return meta.RenewNodeResult{Renewals: r.RenewNode.GetRenewals()}, nil
	case *pb.Result_CreateStream:
		return meta.CreateStreamResult{StreamID: r.CreateStream.GetStreamId()}, nil
	case *pb.Result_OpenStream:
		return meta.OpenStreamResult{Epoch: r.OpenStream.GetEpoch(), StartOffset: r.OpenStream.GetStartOffset(),
			EndOffset: r.OpenStream.GetEndOffset()}, nil
	case *pb.Result_CloseStream:
		return meta.CloseStreamResult{EndOffset: r.CloseStream.GetEndOffset()}, nil
	case *pb.Result_TrimStream:
		return meta.TrimStreamResult{StartOffset: r.TrimStream.GetStartOffset(), EndOffset: r.TrimStream.GetEndOffset()}, nil
	case *pb.Result_RecordTransfer:
		return meta.RecordTransferResult{StartOffset: r.RecordTransfer.GetStartOffset(),
			Boundary: r.RecordTransfer.GetBoundary()}, nil
	case *pb.Result_PrepareObjects:
		return meta.PrepareObjectsResult{FirstObjectID: r.PrepareObjects.GetFirstObjectId(),
			Count: r.PrepareObjects.GetCount()}, nil
	case *pb.Result_CommitObjects:
		return meta.CommitObjectsResult{DroppedSlices: r.CommitObjects.GetDroppedSlices()}, nil
	case *pb.Result_ReclaimObjects:
		return meta.ReclaimObjectsResult{ReleasedSlices: r.ReclaimObjects.GetReleasedSlices(),
			DeletableObjects: r.ReclaimObjects.GetDeletableObjects()}, nil
	case *pb.Result_ForgetObjects:
		return meta.ForgetObjectsResult{Forgotten: r.ForgetObjects.GetForgotten()}, nil
	case *pb.Result_PutKey:
		return meta.PutKeyResult{Version: r.PutKey.GetVersion()}, nil
	case *pb.Result_SetFormat:
		return meta.SetFormatResult{Level: r.SetFormat.GetLevel()}, nil
	}
	return nil, fmt.Errorf("result of a kind that this program does not know (%T)", m.Result)
}
