package history

import (
	"slices"

	"github.com/headwaterdb/headwater/meta"
)

// maxNodes is how many node ids a history may have, from 1.
const maxNodes = 8

// nodes are all nodes. Each instance registers once.
type nodes [maxNodes + 1]node

type node struct {
	epoch    uint64 // 0: never registered
	instance [16]byte
	fenced   bool
	rescuer  meta.Identity
}

var nodeRules = rules[nodes]{equal: same[nodes], judge: nodes.judge, read: nodes.read}

// identity judges who acts.
func (n *nodes) identity(id meta.Identity) verdict {
	switch who := n[id.NodeID]; {
	case who.epoch == 0:
		return refused(meta.CodeNodeNotFound)
	case id.NodeEpoch < who.epoch:
		return refused(meta.CodeNodeEpochStale)
	case id.NodeEpoch > who.epoch:
		return refused(meta.CodeNodeEpochUnknown)
	case who.fenced:
		return refused(meta.CodeNodeFenced)
	}
	return verdict{}
}

func (n nodes) judge(c meta.Command, a *meta.Answer) (nodes, bool) {
	switch c := c.(type) {
	case meta.RegisterNode:
		v, epoch := n.register(c)
		if a == nil {
			return n, true
		}
		got, _ := a.Result.(meta.RegisterNodeResult) // what it owns is the streams' business
		return n, v.allows(a) && got.Epoch == epoch
	case meta.FenceNode:
		v := n.fence(c)
		return n, a == nil || v.allows(a)
	}
	if a == nil { // changes no node
		return n, true
	}
	id, onBehalfOf := identityOf(c)
	v := n.identity(id)
	if v.code == 0 && onBehalfOf != 0 {
		if who := n[onBehalfOf]; !who.fenced || who.rescuer != id {
			v = refused(meta.CodeNodeNotClaimed)
		}
	}
	if v.code != 0 {
		return n, v.allows(a)
	}
	return n, !ofNode(a) // whatever the other rules say
}

func (n *nodes) register(c meta.RegisterNode) (v verdict, epoch uint64) {
	who := &n[c.NodeID]
	if who.epoch > 0 && who.instance == c.Instance {
		return redundant(nil), who.epoch
	}
	*who = node{epoch: who.epoch + 1, instance: c.Instance}
	return applied(nil), who.epoch
}

func (n *nodes) fence(c meta.FenceNode) verdict {
	if c.Rescuer != (meta.Identity{}) {
		if v := n.identity(c.Rescuer); v.code != 0 {
			return v
		}
	}
	who := &n[c.NodeID]
	switch {
	case c.Rescuer.NodeID == c.NodeID:
		return refused(meta.CodeInvalidArgument)
	case who.epoch == 0:
		return refused(meta.CodeNodeNotFound)
	case c.Epoch < who.epoch:
		return refused(meta.CodeNodeEpochStale)
	case c.Epoch > who.epoch:
		return refused(meta.CodeNodeEpochUnknown)
	case who.fenced && who.rescuer == c.Rescuer:
		return redundant(nil)
	case who.fenced && who.rescuer != (meta.Identity{}) && n.identity(who.rescuer).code == 0:
		return refused(meta.CodeNodeClaimed)
	case who.fenced && c.Rescuer == (meta.Identity{}):
		return redundant(nil)
	}
	who.fenced, who.rescuer = true, c.Rescuer
	return applied(nil)
}

// identityOf returns who acts by a command; the zero identity where nobody has to.
func identityOf(c meta.Command) (id meta.Identity, onBehalfOf uint64) {
	switch c := c.(type) {
	case meta.RenewNode:
		return c.Identity, 0
	case meta.CreateStream:
		return c.Identity, 0
	case meta.OpenStream:
		return c.Identity, 0
	case meta.CloseStream:
		return c.Identity, c.OnBehalfOf
	case meta.TrimStream:
		return c.Identity, 0
	case meta.RecordTransfer:
		return c.Identity, 0
	case meta.PrepareObjects:
		return c.Identity, 0
	case meta.CommitObjects:
		return c.Identity, c.OnBehalfOf
	case meta.PutKey:
		return c.Identity, 0
	case meta.DeleteKey:
		return c.Identity, 0
	}
	return meta.Identity{}, 0
}

func (n nodes) read(r *Read) (nodes, bool) {
	registered := 0
	for _, who := range n {
		if who.epoch > 0 {
			registered++
		}
	}
	shows := func(rec meta.Record) bool {
		got, ok := rec.(meta.Node)
		return ok && got.ID <= maxNodes && n[got.ID] == node{got.Epoch, got.Instance, got.Fenced, got.Rescuer}
	}
	return n, len(r.Got) == registered && !slices.ContainsFunc(r.Got, func(rec meta.Record) bool { return !shows(rec) })
}

// objectRules are the counter of object ids: each is handed out once, without a gap.
var objectRules = rules[uint64]{
	init:  1,
	equal: same[uint64],
	judge: func(next uint64, c meta.Command, a *meta.Answer) (uint64, bool) {
		count := c.(meta.PrepareObjects).Count
		if ofNode(a) {
			return next, true
		}
		return next + count, a == nil || applied(meta.PrepareObjectsResult{FirstObjectID: next, Count: count}).allows(a)
	},
}

// nameRules are the names of streams, each at the place of its id, which begin at 1.
var nameRules = rules[[]string]{
	equal: slices.Equal[[]string],
	judge: func(names []string, c meta.Command, a *meta.Answer) ([]string, bool) {
		if ofNode(a) {
			return names, true
		}
		name := c.(meta.CreateStream).Name
		if i := slices.Index(names, name); i >= 0 {
			return names, a == nil || redundant(meta.CreateStreamResult{StreamID: uint64(i + 1)}).allows(a)
		}
		names = append(slices.Clip(names), name)
		return names, a == nil || applied(meta.CreateStreamResult{StreamID: uint64(len(names))}).allows(a)
	},
}
