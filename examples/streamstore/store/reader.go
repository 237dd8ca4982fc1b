package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/headwaterdb/headwater/meta"
)

// ErrOwed says that a stream cannot be read further yet: a node that gave it away still owes what follows.
var ErrOwed = errors.New("the next bytes are still owed")

// ErrLost says that what follows was written off.
var ErrLost = errors.New("the next bytes were written off")

// Reader reads streams from the bucket. It needs a view of the metadata and no node identity.
type Reader struct {
	state  func() *meta.State
	bucket *blob.Bucket
}

// NewReader returns a reader that asks state for the current state whenever it needs one.
func NewReader(state func() *meta.State, b *blob.Bucket) *Reader {
	return &Reader{state: state, bucket: b}
}

// How many slices one question to the metadata returns, and how often a reader asks again when an object was
// compacted away between question and read.
const (
	slicesPerQuestion = 256
	maxMoved          = 8
)

// Copy writes the stream's bytes from offset on to w, up to the end of what is committed, and returns the offset after
// the last byte written.
func (r *Reader) Copy(ctx context.Context, w io.Writer, streamID, offset uint64) (uint64, error) {
	for moved := 0; ; {
		found, err := r.state().FindObjects(streamID, offset, 0, slicesPerQuestion)
		if err != nil {
			return offset, err
		}
		next, err := r.copyFound(ctx, w, offset, found)
		switch {
		case gcerrors.Code(err) == gcerrors.NotFound && moved < maxMoved:
			// Compacted and deleted since we asked: the current view knows where the bytes are now.
			moved++
			offset = next
			continue
		case err != nil:
			return next, err
		}
		offset = next
		switch found.Stop {
		case meta.StopEnd:
			return offset, nil
		case meta.StopDebt:
			return offset, fmt.Errorf("stream %d at offset %d: %w by node %d up to %d", streamID, offset, ErrOwed, found.Debt.NodeID, found.Debt.Boundary)
		case meta.StopLoss:
			return offset, fmt.Errorf("stream %d at offset %d: %w up to %d", streamID, offset, ErrLost, found.Loss.EndOffset)
		}
		moved = 0
	}
}

func (r *Reader) copyFound(ctx context.Context, w io.Writer, offset uint64, found meta.Found) (uint64, error) {
	offset = max(offset, found.StartOffset)
	for _, f := range found.Slices {
		skip := offset - f.Slice.StartOffset
		data, err := readRange(ctx, r.bucket, f.ObjectID, f.Slice.Position+skip, f.Slice.Length-skip)
		if err != nil {
			return offset, err
		}
		if _, err := w.Write(data); err != nil {
			return offset, err
		}
		offset = f.Slice.EndOffset
	}
	return offset, nil
}
