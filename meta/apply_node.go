package meta

import "slices"

func (t *tx) registerNode(c RegisterNode) outcome {
	n := t.node(c.NodeID)
	var last uint64 // the highest epoch that the id ever had
	if n != nil {
		last = n.epoch
		if n.registered && n.instances[len(n.instances)-1] == c.Instance {
			return t.registerAgain(c, n)
		}
		if slices.Contains(n.instances, c.Instance) {
			return reject(CodeNodeEpochStale, "instance %x of node %d was replaced: the node id is at epoch %d", c.Instance, c.NodeID, last)
		}
	}
	epoch := c.Epoch
	if epoch == 0 {
		epoch = last + 1
	}
	level := max(c.FormatLevel, FirstFormat)
	switch {
	case epoch <= last:
		return reject(CodeNodeEpochStale, "node %d wants epoch %d, but the node id is at epoch %d", c.NodeID, epoch, last)
	case epoch >= maxNumber:
		return reject(CodeTooLarge, "node %d has used up its epochs: the last was %d", c.NodeID, last)
	case level < t.format:
		return reject(CodeFormatUnsupported, "node %d decodes format level %d, the cluster is at %d", c.NodeID, level, t.format)
	}
	next := &node{
		epoch: epoch, registered: true, address: c.Address, labels: c.Labels, format: level, renewals: 1, registeredIndex: t.index,
	}
	if n != nil {
		next.instances = append(next.instances, n.instances[max(0, len(n.instances)-(maxInstances-1)):]...)
	}
	next.instances = append(next.instances, c.Instance)
	t.setNode(c.NodeID, next)
	return applied(t.registration(c.NodeID, next))
}

// registerAgain answers a process that registers once more. Neither its epoch nor its fence changes, and its format
// level cannot have changed, for a process runs one build; so only address and labels count.
func (t *tx) registerAgain(c RegisterNode, n *node) outcome {
	if n.address == c.Address && slices.Equal(n.labels, c.Labels) {
		return redundant(t.registration(c.NodeID, n))
	}
	next := *n
	next.address, next.labels = c.Address, c.Labels
	t.setNode(c.NodeID, &next)
	return applied(t.registration(c.NodeID, &next))
}

func (t *tx) registration(id uint64, n *node) RegisterNodeResult {
	owned, owed := t.holdings(id)
	return RegisterNodeResult{Epoch: n.epoch, OwnedStreams: owned, OwedDebts: owed}
}

// holdings returns how many open streams a node owns and how many debts it has.
func (t *tx) holdings(id uint64) (streams, debts uint64) {
	t.work += 2
	owned, _ := t.owners.Get(id)
	owes, _ := t.debtors.Get(id)
	return uint64(owned.Len()), owes.debts
}

func (t *tx) renewNode(c RenewNode) outcome {
	if _, err := t.checkIdentity(c.Identity, 0); err != nil {
		return rejected(err)
	}
	next := *t.node(c.Identity.NodeID)
	next.renewals++
	t.setNode(c.Identity.NodeID, &next)
	return applied(RenewNodeResult{Renewals: next.renewals})
}

func (t *tx) unregisterNode(c UnregisterNode) outcome {
	n := t.liveNode(c.NodeID)
	if n == nil {
		return redundant(nil)
	}
	if err := checkNodeEpoch(c.NodeID, n, c.Epoch); err != nil {
		return rejected(err)
	}
	if streams, debts := t.holdings(c.NodeID); streams > 0 || debts > 0 {
		return reject(CodeNodeHasStreams, "node %d owns %d open streams and owes %d debts", c.NodeID, streams, debts)
	}
	t.setNode(c.NodeID, &node{epoch: n.epoch, instances: n.instances})
	return applied(nil)
}

func (t *tx) fenceNode(c FenceNode) outcome {
	operator := c.Rescuer == Identity{}
	if !operator {
		if _, err := t.checkIdentity(c.Rescuer, 0); err != nil {
			return rejected(err)
		}
		if c.Rescuer.NodeID == c.NodeID {
			return reject(CodeInvalidArgument, "node %d cannot be its own rescuer", c.NodeID)
		}
	}
	n := t.liveNode(c.NodeID)
	if n == nil {
		return reject(CodeNodeNotFound, "node %d is not registered", c.NodeID)
	}
	if err := checkNodeEpoch(c.NodeID, n, c.Epoch); err != nil {
		return rejected(err)
	}
	if c.Renewals != 0 && c.Renewals != n.renewals {
		return reject(CodeNodeAlive, "node %d has renewed: its counter is %d, not %d", c.NodeID, n.renewals, c.Renewals)
	}
	switch {
	case n.fenced && n.rescuer == c.Rescuer:
		return redundant(nil)
	case n.fenced && n.rescuer != (Identity{}) && t.actingNode(n.rescuer):
		return reject(CodeNodeClaimed, "node %d is claimed by node %d at epoch %d", c.NodeID, n.rescuer.NodeID, n.rescuer.NodeEpoch)
	case n.fenced && operator:
		// The claim that stands there has ended, if there is one at all; an operator's fence makes none.
		return redundant(nil)
	}
	next := *n
	next.fenced, next.rescuer = true, c.Rescuer
	t.setNode(c.NodeID, &next)
	return applied(nil)
}

// checkNodeEpoch compares the epoch that a command names with the registered one.
func checkNodeEpoch(id uint64, n *node, epoch uint64) *Error {
	switch {
	case epoch < n.epoch:
		return refuse(CodeNodeEpochStale, "node %d is at epoch %d, the command names epoch %d", id, n.epoch, epoch)
	case epoch > n.epoch:
		return refuse(CodeNodeEpochUnknown, "node %d is at epoch %d only, the command names epoch %d", id, n.epoch, epoch)
	}
	return nil
}

func (t *tx) setFormat(c SetFormat) outcome {
	lowest, _, some := t.levels.Min()
	switch {
	case c.Level <= t.format:
		return redundant(SetFormatResult{Level: t.format})
	case c.Level > t.format+1:
		return reject(CodeInvalidArgument, "format level %d is not the next after %d", c.Level, t.format)
	case !some:
		return reject(CodeFormatUnsupported, "no node is registered that decodes format level %d", c.Level)
	case lowest < c.Level:
		return reject(CodeFormatUnsupported, "a registered node decodes format level %d only, not %d", lowest, c.Level)
	}
	if t.rec != nil {
		t.rec.format(t, t.format, c.Level)
	}
	t.format = c.Level
	return applied(SetFormatResult(c))
}
