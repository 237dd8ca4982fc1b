package meta

import (
	"fmt"

	"github.com/headwaterdb/headwater/internal/wire"
)

// The encoding of a result: one byte, the number of the command that it answers (0: no result), then its fields. It
// stands in the request memory and in snapshots, whose version covers it; a result that changes gets a new number.

// AppendResult appends the encoding of res to b and returns it. A nil res, and a NoResult, is one byte.
func AppendResult(b []byte, res Result) []byte {
	fields := func(k Kind, vs ...uint64) []byte {
		b = append(b, byte(k))
		for _, v := range vs {
			b = wire.AppendUvarint(b, v)
		}
		return b
	}
	switch res := res.(type) {
	case RegisterNodeResult:
		return fields(KindRegisterNode, res.Epoch, res.OwnedStreams, res.OwedDebts)
	case RenewNodeResult:
		return fields(KindRenewNode, res.Renewals)
	case CreateStreamResult:
		return fields(KindCreateStream, res.StreamID)
	case OpenStreamResult:
		return fields(KindOpenStream, res.Epoch, res.StartOffset, res.EndOffset)
	case CloseStreamResult:
		return fields(KindCloseStream, res.EndOffset)
	case TrimStreamResult:
		return fields(KindTrimStream, res.StartOffset, res.EndOffset)
	case RecordTransferResult:
		return fields(KindRecordTransfer, res.StartOffset, res.Boundary)
	case PrepareObjectsResult:
		return fields(KindPrepareObjects, res.FirstObjectID, res.Count)
	case CommitObjectsResult:
		return fields(KindCommitObjects, res.DroppedSlices)
	case ReclaimObjectsResult:
		return fields(KindReclaimObjects, res.ReleasedSlices, res.DeletableObjects)
	case ForgetObjectsResult:
		return fields(KindForgetObjects, res.Forgotten)
	case PutKeyResult:
		return fields(KindPutKey, res.Version)
	case SetFormatResult:
		return fields(KindSetFormat, res.Level)
	case AtomicResult:
		b = wire.AppendUvarint(append(b, byte(KindAtomic)), uint64(len(res.Answers)))
		for _, a := range res.Answers {
			b = AppendResult(append(b, byte(a.Status)), a.Result)
		}
		return b
	default:
		return append(b, 0)
	}
}

// DecodeResult decodes what AppendResult wrote, nil where there was no result. It takes all of b and nothing else.
func DecodeResult(b []byte) (Result, error) {
	r := wire.NewReader(b)
	res := decodeResult(&r, true)
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("decode result: %w", err)
	}
	return res, nil
}

func decodeResult(r *wire.Reader, outer bool) Result {
	switch k := Kind(r.Byte()); k {
	case 0:
		return nil
	case KindRegisterNode:
		return RegisterNodeResult{Epoch: r.Uvarint(), OwnedStreams: r.Uvarint(), OwedDebts: r.Uvarint()}
	case KindRenewNode:
		return RenewNodeResult{Renewals: r.Uvarint()}
	case KindCreateStream:
		return CreateStreamResult{StreamID: r.Uvarint()}
	case KindOpenStream:
		return OpenStreamResult{Epoch: r.Uvarint(), StartOffset: r.Uvarint(), EndOffset: r.Uvarint()}
	case KindCloseStream:
		return CloseStreamResult{EndOffset: r.Uvarint()}
	case KindTrimStream:
		return TrimStreamResult{StartOffset: r.Uvarint(), EndOffset: r.Uvarint()}
	case KindRecordTransfer:
		return RecordTransferResult{StartOffset: r.Uvarint(), Boundary: r.Uvarint()}
	case KindPrepareObjects:
		return PrepareObjectsResult{FirstObjectID: r.Uvarint(), Count: r.Uvarint()}
	case KindCommitObjects:
		return CommitObjectsResult{DroppedSlices: r.Uvarint()}
	case KindReclaimObjects:
		return ReclaimObjectsResult{ReleasedSlices: r.Uvarint(), DeletableObjects: r.Uvarint()}
	case KindForgetObjects:
		return ForgetObjectsResult{Forgotten: r.Uvarint()}
	case KindPutKey:
		return PutKeyResult{Version: r.Uvarint()}
	case KindSetFormat:
		return SetFormatResult{Level: r.Uvarint()}
	case KindAtomic:
		if outer {
			return decodeAtomicResult(r)
		}
		fallthrough
	default:
		r.Fail(fmt.Errorf("no result has the number %d here", k))
		return nil
	}
}

func decodeAtomicResult(r *wire.Reader) Result {
	n := r.Count(2)
	var res AtomicResult
	if n > 0 {
		res.Answers = make([]InnerAnswer, 0, n)
	}
	for i := 0; i < n && r.Err() == nil; i++ {
		status := Status(r.Byte())
		if status != Applied && status != Redundant && r.Err() == nil {
			r.Fail(fmt.Errorf("%w: status %d", wire.ErrForm, status))
		}
		res.Answers = append(res.Answers, InnerAnswer{Status: status, Result: decodeResult(r, false)})
	}
	return res
}
