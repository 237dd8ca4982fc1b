package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"gocloud.dev/blob"

	"github.com/headwaterdb/headwater/meta"
)

// Writer appends to streams that its node owns. It gathers what many streams append into one object, uploads it and
// commits it: prepare → upload → commit. A Writer is used by one goroutine.
type Writer struct {
	node   *Node
	bucket *blob.Bucket
	target int // flush once an object has this many bytes

	prepared []uint64 // ids that were handed out to us and are not used yet
	expires  time.Time
	buffer   []byte
	slices   []meta.Slice
}

// Stream is a stream that is open for appending by this node.
type Stream struct {
	ID    uint64
	Epoch uint64
	Next  uint64 // the offset of the next byte appended
}

// How many ids are prepared at once, and how long they may wait for their upload. A writer that dies leaves at most
// that many, and ReclaimObjects gives them up after the deadline.
const (
	prepareCount  = 8
	prepareExpiry = 30 * time.Second
)

// NewWriter returns a writer that makes objects of about target bytes.
func NewWriter(n *Node, b *blob.Bucket, target int) *Writer {
	return &Writer{node: n, bucket: b, target: target}
}

// Open creates the streams where they are missing and makes this node their owner. The answer at i belongs to names[i];
// it is nil where another live node has the stream open.
func (w *Writer) Open(ctx context.Context, names []string) ([]*Stream, error) {
	creates := make([]meta.Proposal, len(names))
	for i, name := range names {
		creates[i].Command = meta.CreateStream{Identity: w.node.identity, Name: name}
	}
	opens := make([]meta.Proposal, len(names))
	for i, a := range w.node.Propose(ctx, creates...) {
		if a.Err != nil {
			return nil, fmt.Errorf("create stream %q: %w", names[i], wrapFenced(a.Err))
		}
		opens[i].Command = meta.OpenStream{Identity: w.node.identity, StreamID: a.Result.(meta.CreateStreamResult).StreamID}
	}
	streams := make([]*Stream, len(names))
	for i, a := range w.node.Propose(ctx, opens...) {
		switch meta.CodeOf(a.Err) {
		case meta.CodeStreamNotClosed, meta.CodeStreamReserved:
			continue
		}
		if a.Err != nil {
			return nil, fmt.Errorf("open stream %q: %w", names[i], wrapFenced(a.Err))
		}
		r := a.Result.(meta.OpenStreamResult)
		streams[i] = &Stream{ID: opens[i].Command.(meta.OpenStream).StreamID, Epoch: r.Epoch, Next: r.EndOffset}
	}
	return streams, nil
}

// Append adds data at the end of a stream. It is durable once Flush has returned without an error.
func (w *Writer) Append(ctx context.Context, s *Stream, data []byte) error {
	for len(data) > 0 {
		part := data[:min(len(data), w.target)]
		data = data[len(part):]
		w.add(s, part)
		if len(w.buffer) >= w.target {
			if err := w.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// add puts part into the object at hand, behind the stream's last slice where that adjoins.
func (w *Writer) add(s *Stream, part []byte) {
	now, n := time.Now().UnixMilli(), uint64(len(part))
	if i := len(w.slices) - 1; i >= 0 && w.slices[i].StreamID == s.ID && w.slices[i].StreamEpoch == s.Epoch {
		w.slices[i].EndOffset, w.slices[i].Length, w.slices[i].MaxTimestamp = s.Next+n, w.slices[i].Length+n, now
	} else {
		w.slices = append(w.slices, meta.Slice{
			StreamID: s.ID, StreamEpoch: s.Epoch, StartOffset: s.Next, EndOffset: s.Next + n,
			Position: uint64(len(w.buffer)), Length: n, MaxTimestamp: now,
		})
	}
	w.buffer = append(w.buffer, part...)
	s.Next += n
}

// Flush uploads what was appended and commits it.
func (w *Writer) Flush(ctx context.Context) error {
	if len(w.buffer) == 0 {
		return nil
	}
	id, err := w.objectID(ctx)
	if err != nil {
		return err
	}
	object, err := upload(ctx, w.bucket, id, w.buffer, w.slices)
	if err != nil {
		return err
	}
	_, err = propose(ctx, w.node, meta.CommitObjects{Identity: w.node.identity, Objects: []meta.Object{object}})
	if err != nil {
		return fmt.Errorf("commit object %d: %w", id, err)
	}
	w.buffer, w.slices = w.buffer[:0], w.slices[:0]
	return nil
}

// upload writes the bytes of an object and returns what is to be committed.
func upload(ctx context.Context, b *blob.Bucket, id uint64, data []byte, slices []meta.Slice) (meta.Object, error) {
	if err := b.WriteAll(ctx, objectKey(id), data, nil); err != nil {
		return meta.Object{}, fmt.Errorf("upload object %d: %w", id, err)
	}
	sum := sha256.Sum256(data)
	return meta.Object{ObjectID: id, Size: uint64(len(data)), Attributes: sum[:], Slices: slices}, nil
}

// objectID returns a prepared id. Ids that have waited half their time are left to ReclaimObjects: an upload that
// began too late could end after the reclaimer had deleted the object.
func (w *Writer) objectID(ctx context.Context) (uint64, error) {
	if len(w.prepared) == 0 || time.Now().After(w.expires) {
		ids, err := prepare(ctx, w.node, prepareCount)
		if err != nil {
			return 0, err
		}
		w.prepared, w.expires = ids, time.Now().Add(prepareExpiry/2)
	}
	id := w.prepared[0]
	w.prepared = w.prepared[1:]
	return id, nil
}

func prepare(ctx context.Context, n *Node, count uint64) ([]uint64, error) {
	r, err := propose(ctx, n, meta.PrepareObjects{Identity: n.identity, Count: count,
		Deadline: time.Now().Add(prepareExpiry).UnixMilli()})
	if err != nil {
		return nil, fmt.Errorf("prepare %d objects: %w", count, err)
	}
	ids := make([]uint64, r.Count)
	for i := range ids {
		ids[i] = r.FirstObjectID + uint64(i)
	}
	return ids, nil
}

// Close gives the streams up. What was appended must have been flushed.
func (w *Writer) Close(ctx context.Context, streams []*Stream) error {
	closes := make([]meta.Proposal, len(streams))
	for i, s := range streams {
		closes[i].Command = meta.CloseStream{Identity: w.node.identity, StreamID: s.ID, Epoch: s.Epoch}
	}
	for i, a := range w.node.Propose(ctx, closes...) {
		if a.Err != nil {
			return fmt.Errorf("close stream %d: %w", streams[i].ID, wrapFenced(a.Err))
		}
	}
	return nil
}

// Transfer hands a stream to another node at once, although what was appended last is not uploaded yet: the next owner
// goes on at s.Next, and this node owes what lies before. The next Flush pays.
func (w *Writer) Transfer(ctx context.Context, s *Stream, to uint64) error {
	_, err := propose(ctx, w.node, meta.RecordTransfer{Identity: w.node.identity, StreamID: s.ID, Epoch: s.Epoch,
		ToNode: to, Boundary: s.Next})
	if err != nil {
		return fmt.Errorf("transfer stream %d to node %d: %w", s.ID, to, err)
	}
	return nil
}

func wrapFenced(err error) error {
	if fenced(err) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return err
}
