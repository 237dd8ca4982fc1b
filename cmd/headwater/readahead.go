package main

import (
	"context"
	"sync"
)

// readAhead bounds how many bytes of the input wait for an answer. A line that is longer than all that is allowed goes
// alone.
type readAhead struct {
	mu     sync.Mutex // guards the fields below
	most   int
	used   int
	change chan struct{} // closed and replaced when bytes are given back
}

func newReadAhead(most int) *readAhead { return &readAhead{most: most, change: make(chan struct{})} }

// take waits until n bytes fit; false when ctx ends first.
func (r *readAhead) take(ctx context.Context, n int) bool {
	for {
		r.mu.Lock()
		if r.used == 0 || r.used+n <= r.most {
			r.used += n
			r.mu.Unlock()
			return true
		}
		change := r.change
		r.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return false
		}
	}
}

// give gives back n bytes that were taken.
func (r *readAhead) give(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	close(r.change)
	r.change = make(chan struct{})
}
