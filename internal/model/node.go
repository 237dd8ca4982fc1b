package model

import (
	"slices"

	"github.com/headwaterdb/headwater/meta"
)

// keptInstances is how many instances of a node id are remembered.
const keptInstances = 16

// node is a node id that was registered at some time.
type node struct {
	epoch      uint64
	registered bool
	instances  [][16]byte // oldest first; while registered the last one is the present one
	address    string
	labels     []meta.Label
	format     uint64
	renewals   uint64
	fenced     bool
	rescuer    meta.Identity
	since      uint64 // row of the registration
}

// identity checks who acts: nil if it is a live node at its epoch.
func (s *state) identity(id meta.Identity) *meta.Error {
	n := s.nodes[id.NodeID]
	switch {
	case n == nil || !n.registered:
		return refusal(meta.CodeNodeNotFound)
	case id.NodeEpoch < n.epoch:
		return refusal(meta.CodeNodeEpochStale)
	case id.NodeEpoch > n.epoch:
		return refusal(meta.CodeNodeEpochUnknown)
	case n.fenced:
		return refusal(meta.CodeNodeFenced)
	}
	return nil
}

// optional checks an identity that need not be given.
func (s *state) optional(id meta.Identity) *meta.Error {
	if id == (meta.Identity{}) {
		return nil
	}
	return s.identity(id)
}

// actsAs checks who acts, and returns the node that the rules then read as the owner.
func (s *state) actsAs(id meta.Identity, onBehalfOf uint64) (owner uint64, err *meta.Error) {
	if err := s.identity(id); err != nil {
		return 0, err
	}
	if onBehalfOf == 0 {
		return id.NodeID, nil
	}
	n := s.nodes[onBehalfOf]
	if n == nil || !n.registered || !n.fenced || n.rescuer != id {
		return 0, refusal(meta.CodeNodeNotClaimed)
	}
	return onBehalfOf, nil
}

func (s *state) owned(id uint64) (open, owed uint64) {
	for _, st := range s.streams {
		if st.deleted {
			continue
		}
		if st.open && st.owner.NodeID == id {
			open++
		}
		for _, d := range st.debts {
			if d.NodeID == id {
				owed++
			}
		}
	}
	return open, owed
}

func (s *state) registerNode(at place, c meta.RegisterNode) verdict {
	n := s.nodes[c.NodeID]
	if n == nil {
		n = &node{}
		s.nodes[c.NodeID] = n
	}
	result := func() meta.RegisterNodeResult {
		open, owed := s.owned(c.NodeID)
		return meta.RegisterNodeResult{Epoch: n.epoch, OwnedStreams: open, OwedDebts: owed}
	}
	labels := sortedLabels(c.Labels)
	if n.registered && n.instances[len(n.instances)-1] == c.Instance {
		if n.address == c.Address && slices.Equal(n.labels, labels) {
			return redundant(result())
		}
		n.address, n.labels = c.Address, labels
		return applied(result())
	}
	if slices.Contains(n.instances, c.Instance) {
		return reject(meta.CodeNodeEpochStale)
	}
	epoch := c.Epoch
	if epoch == 0 {
		epoch = n.epoch + 1
		if epoch >= limit63 {
			return reject(meta.CodeTooLarge)
		}
	}
	if epoch <= n.epoch {
		return reject(meta.CodeNodeEpochStale)
	}
	if max(c.FormatLevel, 1) < s.format {
		return reject(meta.CodeFormatUnsupported)
	}
	instances := append(n.instances, c.Instance)
	if len(instances) > keptInstances {
		instances = instances[len(instances)-keptInstances:]
	}
	*n = node{epoch: epoch, registered: true, instances: instances, address: c.Address, labels: labels,
		format: max(c.FormatLevel, 1), renewals: 1, since: at.index}
	return applied(result())
}

func (s *state) renewNode(c meta.RenewNode) verdict {
	if err := s.identity(c.Identity); err != nil {
		return refused(err)
	}
	n := s.nodes[c.Identity.NodeID]
	n.renewals++
	return applied(meta.RenewNodeResult{Renewals: n.renewals})
}

func (s *state) unregisterNode(c meta.UnregisterNode) verdict {
	n := s.nodes[c.NodeID]
	if n == nil || !n.registered {
		return redundant(nil)
	}
	if c.Epoch < n.epoch {
		return reject(meta.CodeNodeEpochStale)
	}
	if c.Epoch > n.epoch {
		return reject(meta.CodeNodeEpochUnknown)
	}
	if open, owed := s.owned(c.NodeID); open > 0 || owed > 0 {
		return reject(meta.CodeNodeHasStreams)
	}
	*n = node{epoch: n.epoch, instances: n.instances}
	return applied(nil)
}

func (s *state) fenceNode(c meta.FenceNode) verdict {
	if err := s.optional(c.Rescuer); err != nil {
		return refused(err)
	}
	if c.Rescuer.NodeID == c.NodeID {
		return reject(meta.CodeInvalidArgument)
	}
	n := s.nodes[c.NodeID]
	switch {
	case n == nil || !n.registered:
		return reject(meta.CodeNodeNotFound)
	case c.Epoch < n.epoch:
		return reject(meta.CodeNodeEpochStale)
	case c.Epoch > n.epoch:
		return reject(meta.CodeNodeEpochUnknown)
	case c.Renewals != 0 && c.Renewals != n.renewals:
		return reject(meta.CodeNodeAlive)
	}
	if n.fenced {
		if n.rescuer == c.Rescuer {
			return redundant(nil)
		}
		if n.rescuer != (meta.Identity{}) && s.identity(n.rescuer) == nil {
			return reject(meta.CodeNodeClaimed)
		}
		if c.Rescuer == (meta.Identity{}) {
			return redundant(nil)
		}
	}
	n.fenced, n.rescuer = true, c.Rescuer
	return applied(nil)
}

func sortedLabels(labels []meta.Label) []meta.Label {
	out := slices.Clone(labels)
	slices.SortFunc(out, func(a, b meta.Label) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}
