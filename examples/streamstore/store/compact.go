package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gocloud.dev/blob"

	"github.com/headwaterdb/headwater/meta"
)

// Compactor merges small objects into larger ones, in which the slices of a stream lie side by side. Any live node may
// compact any objects; readers switch over in one step.
type Compactor struct {
	Node   *Node
	Bucket *blob.Bucket
	// Target is the size in bytes that a merged object should have. Objects above half of it are left alone.
	Target uint64
	// Progress is told how many objects were looked at; nil: nobody is.
	Progress func(looked int)
}

// The rules take at most so many slices and sources in one compaction.
const (
	maxSourceSlices = 10_000
	maxSources      = 1000
)

// Run looks once at all committed objects and merges the small ones, neighbours by id together. It returns how many
// objects went into how many.
func (c *Compactor) Run(ctx context.Context) (sources, results int, err error) {
	var group []meta.ObjectRecord
	var bytes uint64
	var count int
	merge := func() error {
		if len(group) > 1 {
			if err := c.merge(ctx, group); err != nil {
				return err
			}
			sources += len(group)
			results++
		}
		group, bytes, count = nil, 0, 0
		return nil
	}
	cursor := ""
	for {
		// One state for the page; what changes meanwhile makes CompactObjects refuse, and nothing is lost.
		page, err := c.Node.State().Objects(meta.ObjectFilter{State: meta.ObjectCommitted, WithSlices: true}, cursor, 100)
		if err != nil {
			return sources, results, err
		}
		for _, o := range page.Items {
			if o.Size > c.Target/2 {
				continue
			}
			if bytes+o.Size > c.Target || count+len(o.Slices) > maxSourceSlices || len(group) == maxSources {
				if err := merge(); err != nil {
					return sources, results, err
				}
			}
			group, bytes, count = append(group, o), bytes+o.Size, count+len(o.Slices)
		}
		if c.Progress != nil {
			c.Progress(len(page.Items))
		}
		if cursor = page.Next; cursor == "" {
			return sources, results, merge()
		}
	}
}

type sourceSlice struct {
	meta.Slice
	objectID uint64
}

// merge writes the live slices of the sources into one new object and swaps it in.
func (c *Compactor) merge(ctx context.Context, sources []meta.ObjectRecord) error {
	state := c.Node.State()
	ids := make([]uint64, len(sources))
	var live []sourceSlice
	for i, o := range sources {
		ids[i] = o.ID
		for _, s := range o.Slices {
			stream, there := state.Stream(s.StreamID)
			if there && s.EndOffset > stream.StartOffset {
				live = append(live, sourceSlice{s, o.ID})
			}
		}
	}
	slices.SortFunc(live, func(a, b sourceSlice) int {
		return cmp.Or(cmp.Compare(a.StreamID, b.StreamID), cmp.Compare(a.StartOffset, b.StartOffset))
	})
	command := meta.CompactObjects{Identity: c.Node.identity, Sources: ids}
	if len(live) > 0 {
		data, merged, err := c.gather(ctx, live)
		if err != nil {
			return err
		}
		prepared, err := prepare(ctx, c.Node, 1)
		if err != nil {
			return err
		}
		object, err := upload(ctx, c.Bucket, prepared[0], data, merged)
		if err != nil {
			return err
		}
		command.Objects = []meta.Object{object}
	}
	_, err := propose(ctx, c.Node, command)
	switch meta.CodeOf(err) {
	case meta.CodeCoverageMismatch, meta.CodeObjectNotFound:
		return nil // a stream was trimmed or deleted, or somebody else compacted them, since we looked
	}
	if err != nil {
		return fmt.Errorf("compact %d objects: %w", len(ids), err)
	}
	return nil
}

// gather reads the slices and lays them side by side; slices of a stream that adjoin become one.
func (c *Compactor) gather(ctx context.Context, live []sourceSlice) (data []byte, merged []meta.Slice, err error) {
	for _, s := range live {
		part, err := readRange(ctx, c.Bucket, s.objectID, s.Position, s.Length)
		if err != nil {
			return nil, nil, err
		}
		if n := len(merged); n > 0 && merged[n-1].StreamID == s.StreamID && merged[n-1].EndOffset == s.StartOffset {
			last := &merged[n-1]
			last.EndOffset, last.Length = s.EndOffset, last.Length+s.Length
			last.StreamEpoch, last.MaxTimestamp = max(last.StreamEpoch, s.StreamEpoch), max(last.MaxTimestamp, s.MaxTimestamp)
		} else {
			moved := s.Slice
			moved.Position = uint64(len(data))
			merged = append(merged, moved)
		}
		data = append(data, part...)
	}
	return data, merged, nil
}
