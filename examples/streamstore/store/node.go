// Package store is a small stream store in the manner of the systems that Headwater is for: records of many streams
// are batched into objects in a bucket, and Headwater knows which object holds which offsets. Offsets count bytes here,
// so a stream is a file that grows at its end.
//
// It shows how the library is meant to be used, step by step: a process joins as a node (node.go), writes (writer.go),
// reads (reader.go), merges small objects (compact.go), deletes what nothing reads any more (reclaim.go), and takes over
// from a node that died (rescue.go). It is an example, not a product: nothing is cached, and a reader sees only what
// was committed.
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/session"
)

// ErrFenced ends a node whose identity was taken away: a newer process registered under its id, or a peer fenced it.
// Nothing it sends can change the cluster any more, so it stops.
var ErrFenced = errors.New("this node was fenced")

// Node is this process as a node of the cluster. All methods may be called at once.
type Node struct {
	hw       *headwater.Store
	requests meta.Proposer // hw, with a request on every command
	identity meta.Identity
	ttl      time.Duration
}

// Join registers this process under the node id, at the next epoch: whatever an earlier process under this id still has
// under way is void from now on. The ttl is how long its sign of life may stand still before a peer may fence it.
func Join(ctx context.Context, hw *headwater.Store, id uint64, address string, ttl time.Duration) (*Node, error) {
	n := &Node{hw: hw, requests: session.New().Wrap(hw), ttl: ttl}
	register := meta.RegisterNode{NodeID: id, Address: address, FormatLevel: meta.MaxFormat}
	if _, err := rand.Read(register.Instance[:]); err != nil {
		return nil, fmt.Errorf("draw an instance: %w", err)
	}
	r, err := propose(ctx, n, register)
	if err != nil {
		return nil, fmt.Errorf("register node %d: %w", id, err)
	}
	n.identity = meta.Identity{NodeID: id, NodeEpoch: r.Epoch}
	return n, nil
}

// Identity returns the node's id and epoch.
func (n *Node) Identity() meta.Identity { return n.identity }

// State returns the current state of the metadata: a pointer load.
func (n *Node) State() *meta.State { return n.hw.View().State }

// Live renews the node's sign of life until ctx ends, and returns ErrFenced as soon as the node is fenced.
func (n *Node) Live(ctx context.Context) error {
	tick := time.NewTicker(n.ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		_, err := meta.Propose(ctx, n.hw, meta.RenewNode{Identity: n.identity})
		if fenced(err) {
			return ErrFenced
		}
	}
}

// Propose proposes each command with a request: sent twice by whatever mishap, it has one effect.
func (n *Node) Propose(ctx context.Context, proposals ...meta.Proposal) []meta.Answer {
	return n.requests.Propose(ctx, proposals...)
}

// propose sends one command with a request and returns its result.
func propose[R meta.Result](ctx context.Context, n *Node, c meta.CommandOf[R]) (R, error) {
	r, err := meta.Propose(ctx, n, c)
	if fenced(err) {
		err = fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return r, err
}

func fenced(err error) bool {
	code := meta.CodeOf(err)
	return code == meta.CodeNodeEpochStale || code == meta.CodeNodeFenced
}
