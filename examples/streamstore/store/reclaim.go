package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/headwaterdb/headwater/meta"
)

// Reclaimer deletes the bytes of objects that nothing reads any more.
type Reclaimer struct {
	Node   *Node
	Bucket *blob.Bucket
	// Grace is how long a deletable object's bytes are kept: longer than any reader goes on with a view it has loaded.
	Grace time.Duration
}

// Reclaim gives up prepared objects whose deadline has passed, releases what compaction, trimming and deletion left
// behind, waits for Grace, deletes the bytes and forgets the objects. It returns how many.
func (r *Reclaimer) Reclaim(ctx context.Context, now time.Time) (int, error) {
	for {
		did, err := propose(ctx, r.Node, meta.ReclaimObjects{Time: now.UnixMilli(), Limit: 1000})
		if err != nil {
			return 0, fmt.Errorf("reclaim objects: %w", err)
		}
		if did.ReleasedSlices == 0 && did.DeletableObjects == 0 {
			break
		}
	}
	ids, err := r.deletable()
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(r.Grace):
	}
	for some := range slices.Chunk(ids, 1000) {
		if err := r.forget(ctx, some); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

func (r *Reclaimer) deletable() ([]uint64, error) {
	var ids []uint64
	for cursor := ""; ; {
		page, err := r.Node.State().Objects(meta.ObjectFilter{State: meta.ObjectDeletable}, cursor, meta.MaxPage)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			ids = append(ids, o.ID)
		}
		if cursor = page.Next; cursor == "" {
			return ids, nil
		}
	}
}

// forget deletes the bytes first: whoever is killed in between finds the object deletable still, and does it again.
func (r *Reclaimer) forget(ctx context.Context, ids []uint64) error {
	for _, id := range ids {
		if err := r.Bucket.Delete(ctx, objectKey(id)); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return fmt.Errorf("delete object %d: %w", id, err)
		}
	}
	_, err := propose(ctx, r.Node, meta.ForgetObjects{ObjectIDs: ids})
	if err != nil {
		return fmt.Errorf("forget %d objects: %w", len(ids), err)
	}
	return nil
}

// Leaks compares the bucket with the metadata, while nobody writes: ids whose bytes lie in the bucket without anybody knowing them, and ids
// of committed objects whose bytes are missing. A writer that slept past its deadline between prepare and upload leaves the
// first kind; Sweep deletes it, which is safe because a forgotten id is never handed out or committed again.
func Leaks(ctx context.Context, state *meta.State, b *blob.Bucket) (unknown, missing []uint64, err error) {
	listed, err := ListBucket(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	for cursor := ""; ; {
		page, err := state.Objects(meta.ObjectFilter{}, cursor, meta.MaxPage)
		if err != nil {
			return nil, nil, err
		}
		for _, o := range page.Items {
			if !listed[o.ID] && o.State == meta.ObjectCommitted {
				missing = append(missing, o.ID)
			}
			delete(listed, o.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for id := range listed {
		unknown = append(unknown, id)
	}
	return unknown, missing, nil
}

// Sweep deletes the bytes of the given objects, which nobody knows.
func Sweep(ctx context.Context, b *blob.Bucket, ids []uint64) error {
	for _, id := range ids {
		if err := b.Delete(ctx, objectKey(id)); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return fmt.Errorf("delete object %d: %w", id, err)
		}
	}
	return nil
}
