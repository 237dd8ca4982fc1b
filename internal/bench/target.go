package bench

import (
	"context"
	"errors"

	"github.com/headwaterdb/headwater/meta"
)

// Fresh says how new the view must be that answers a read. The zero Fresh takes whatever view is there.
type Fresh struct {
	AtLeast      uint64 // the view's index must have reached this
	Linearizable bool   // the view must hold everything that was answered to anybody before
}

// Target is a place to put load on: a node in this process, or a client of servers. All methods may be called at once
// from many goroutines, and each gives what package meta's queries give.
type Target interface {
	meta.Proposer
	// Counts counts what the cluster holds, linearizably.
	Counts(ctx context.Context) (meta.Counts, error)
	// Stream returns a stream by id.
	Stream(ctx context.Context, f Fresh, id uint64) (meta.Stream, error)
	// Find returns the slices of a stream from an offset on, at most limit.
	Find(ctx context.Context, f Fresh, stream, start uint64, limit int) (meta.Found, error)
	// Key returns a key.
	Key(ctx context.Context, f Fresh, key string) (meta.Key, error)
	// Deletable returns ids of objects whose bytes may be deleted, at most limit.
	Deletable(ctx context.Context, limit int) ([]uint64, error)
	// Wait returns when the target's view has reached index.
	Wait(ctx context.Context, index uint64) error
}

// ErrNotEmpty: the cluster holds something already, and load leaves much behind.
var ErrNotEmpty = errors.New("the cluster is not empty")

// empty reports whether a cluster holds nothing.
func empty(c meta.Counts) bool {
	return c.Nodes == 0 && c.Streams == 0 && objects(c) == 0 && c.Keys == 0
}

// objects is how many objects a cluster holds, in whatever state.
func objects(c meta.Counts) uint64 {
	return c.PreparedObjects + c.CommittedObjects + c.DeletableObjects
}
