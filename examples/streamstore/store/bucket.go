package store

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gocloud.dev/blob"
)

const prefix = "objects/"

// objectKey is where the bytes of an object lie in the bucket. An id is handed out once, so a key is written once.
func objectKey(id uint64) string { return fmt.Sprintf("%s%020d", prefix, id) }

func objectID(key string) (uint64, bool) {
	id, err := strconv.ParseUint(strings.TrimPrefix(key, prefix), 10, 64)
	return id, err == nil && strings.HasPrefix(key, prefix)
}

// readRange returns length bytes of an object from position on.
func readRange(ctx context.Context, b *blob.Bucket, id, position, length uint64) ([]byte, error) {
	r, err := b.NewRangeReader(ctx, objectKey(id), int64(position), int64(length), nil)
	if err != nil {
		return nil, fmt.Errorf("open object %d: %w", id, err)
	}
	defer r.Close()
	data := make([]byte, length)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("read %d bytes at %d of object %d: %w", length, position, id, err)
	}
	return data, nil
}

// ListBucket returns the ids of all objects whose bytes lie in the bucket.
func ListBucket(ctx context.Context, b *blob.Bucket) (map[uint64]bool, error) {
	ids := map[uint64]bool{}
	for it := b.List(&blob.ListOptions{Prefix: prefix}); ; {
		o, err := it.Next(ctx)
		if err == io.EOF {
			return ids, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list bucket: %w", err)
		}
		if id, ok := objectID(o.Key); ok {
			ids[id] = true
		}
	}
}
