package store

import (
	"context"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/meta"
)

// Rescuer watches the other nodes and takes over from those that died. It decides by its own monotonic clock and by
// the renewal counters in the state: whose counter stands still for the ttl is fenced *on the condition* that it still
// stands there, so a node that is merely slow to be seen is never fenced.
type Rescuer struct {
	node *Node
	seen map[uint64]sign
}

type sign struct {
	epoch, renewals uint64
	since           time.Time
}

// NewRescuer returns a rescuer that acts as n.
func NewRescuer(n *Node) *Rescuer { return &Rescuer{node: n, seen: map[uint64]sign{}} }

// Look compares the renewal counters with those of the last look, and returns the nodes it fenced and whose streams it
// closed. It is to be called a few times per ttl.
func (r *Rescuer) Look(ctx context.Context, now time.Time) (rescued []uint64, err error) {
	for cursor := ""; ; {
		page, err := r.node.State().Nodes(cursor, 100)
		if err != nil {
			return rescued, err
		}
		for _, n := range page.Items {
			if !r.dead(n, now) {
				continue
			}
			saved, err := r.rescue(ctx, n)
			if err != nil {
				return rescued, err
			}
			if saved {
				rescued = append(rescued, n.ID)
			}
		}
		if cursor = page.Next; cursor == "" {
			return rescued, nil
		}
	}
}

func (r *Rescuer) dead(n meta.Node, now time.Time) bool {
	if n.ID == r.node.identity.NodeID || !n.Registered {
		return false
	}
	if n.Fenced {
		return n.OwnedStreams > 0 // perhaps its rescuer died halfway
	}
	last, known := r.seen[n.ID]
	if !known || last.epoch != n.Epoch || last.renewals != n.Renewals {
		r.seen[n.ID] = sign{n.Epoch, n.Renewals, now}
		return false
	}
	return now.Sub(last.since) > r.node.ttl
}

// rescue fences a node and closes its streams on its behalf, so that anybody may open them.
func (r *Rescuer) rescue(ctx context.Context, n meta.Node) (bool, error) {
	fence := meta.FenceNode{NodeID: n.ID, Epoch: n.Epoch, Renewals: n.Renewals, Rescuer: r.node.identity}
	_, err := propose(ctx, r.node, fence)
	switch meta.CodeOf(err) {
	case meta.CodeNodeAlive, meta.CodeNodeClaimed, meta.CodeNodeEpochStale, meta.CodeNodeNotFound:
		return false, nil // it renewed, came back, went, or another node was faster
	}
	if err != nil {
		return false, fmt.Errorf("fence node %d: %w", n.ID, err)
	}
	for {
		page, err := r.node.State().StreamsByOwner(n.ID, "", 256)
		if err != nil || len(page.Items) == 0 {
			return err == nil, err
		}
		closes := make([]meta.Proposal, len(page.Items))
		for i, s := range page.Items {
			closes[i].Command = meta.CloseStream{Identity: r.node.identity, OnBehalfOf: n.ID, StreamID: s.ID, Epoch: s.Epoch}
		}
		for i, a := range r.node.Propose(ctx, closes...) {
			switch meta.CodeOf(a.Err) {
			case meta.CodeNodeNotClaimed, meta.CodeStreamNotOwned, meta.CodeStreamEpochStale:
				return false, nil // the claim passed on, or the node came back
			}
			if a.Err != nil {
				return false, fmt.Errorf("close stream %d for node %d: %w", page.Items[i].ID, n.ID, a.Err)
			}
		}
	}
}
