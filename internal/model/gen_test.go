package model_test

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/headwaterdb/headwater/internal/model"
	"github.com/headwaterdb/headwater/meta"
)

// profile bends the choice of one run, so that some runs crowd onto one stream and others spread out.
type profile struct {
	nodes, streams, keys uint64
	burst                uint64 // the most slices of an object
	boosted              [2]meta.Kind
}

// gen makes commands that are right, or nearly so, in the state that the model holds.
type gen struct {
	profile
	m         *model.Model
	r         *rand.Rand // of the command that is being made
	instances map[uint64]byte
	clients   [4]struct{ next, oldest uint64 }
	history   []meta.Proposal // the last ones, oldest first
}

func newGen(m *model.Model, p profile) *gen {
	g := &gen{profile: p, m: m, instances: map[uint64]byte{}}
	for i := range g.clients {
		g.clients[i].next, g.clients[i].oldest = 1, 1
	}
	return g
}

// chance is true in percent of a hundred cases.
func (g *gen) chance(percent int) bool { return g.r.IntN(100) < percent }

// upTo draws from 0 to n.
func (g *gen) upTo(n uint64) uint64 { return g.r.Uint64N(n + 1) }

func pick[T any](g *gen, from []T) (v T, ok bool) {
	if len(from) == 0 {
		return v, false
	}
	return from[g.r.IntN(len(from))], true
}

// weights says how often a kind is drawn.
var weights = map[meta.Kind]int{
	meta.KindRegisterNode: 7, meta.KindRenewNode: 2, meta.KindUnregisterNode: 3, meta.KindFenceNode: 5,
	meta.KindCreateStream: 5, meta.KindOpenStream: 14, meta.KindCloseStream: 5, meta.KindTrimStream: 7,
	meta.KindLabelStream: 2, meta.KindDeleteStream: 2, meta.KindRecordTransfer: 9, meta.KindForceCloseStream: 4,
	meta.KindPrepareObjects: 7, meta.KindCommitObjects: 24, meta.KindCompactObjects: 9, meta.KindReclaimObjects: 4,
	meta.KindForgetObjects: 3, meta.KindPutKey: 5, meta.KindDeleteKey: 2, meta.KindCheckKey: 2, meta.KindAtomic: 7,
	meta.KindSetFormat: 1,
}

// proposal makes the next proposal from a seed.
func (g *gen) proposal(seed uint64) meta.Proposal {
	g.r = rand.New(rand.NewPCG(seed, 1))
	if again, ok := pick(g, g.history); ok && g.chance(9) {
		if again.Request == nil || g.chance(70) {
			return again
		}
		again.Request = g.request()
		return again
	}
	c := g.command()
	p := meta.Proposal{Stamp: int64(g.upTo(1000)) + 1, Command: c}
	needs := false
	switch c.(type) {
	case meta.PrepareObjects, meta.Atomic:
		needs = true
	}
	_, never := c.(meta.RenewNode)
	if needs != g.chance(3) || !never && g.chance(40) || never && g.chance(3) {
		p.Request = g.request()
	}
	g.history = append(g.history, p)
	if len(g.history) > 40 {
		g.history = g.history[1:]
	}
	return p
}

// request numbers a command, now and then wrongly.
func (g *gen) request() *meta.Request {
	i := g.r.IntN(len(g.clients))
	c := &g.clients[i]
	r := &meta.Request{Client: [16]byte{0xc0, byte(i)}, Sequence: c.next, Oldest: c.oldest}
	switch {
	case g.chance(80):
		c.next++
		if g.chance(30) {
			c.oldest += g.upTo(min(c.next-c.oldest, 4))
			r.Oldest = min(c.oldest, r.Sequence)
		}
	case g.chance(30): // another payload, or the same one by luck
		r.Sequence = max(1, r.Sequence-g.upTo(min(3, r.Sequence)))
		r.Oldest = g.upTo(1)
	case g.chance(30): // expired
		r.Sequence = max(1, c.oldest-1)
		r.Oldest = g.upTo(r.Sequence)
	case g.chance(30): // a client that nobody knows
		r.Client = [16]byte{0xc1, byte(g.upTo(3))}
		r.Sequence = 1 + g.upTo(2)
		r.Oldest = g.upTo(r.Sequence)
	case g.chance(40):
		r.Oldest = r.Sequence + 1
	case g.chance(40):
		r.Sequence = max(r.Oldest, 1) + 255 + g.upTo(1)
	case g.chance(50):
		r.Sequence = 0
	default:
		r.Client = [16]byte{}
	}
	return r
}

// command makes one command, now and then with one field bent.
func (g *gen) command() meta.Command {
	c := g.straight(g.kind())
	if g.chance(14) {
		c = g.bend(c)
	}
	return c
}

func (g *gen) kind() meta.Kind {
	if g.chance(25) {
		return g.boosted[g.r.IntN(len(g.boosted))]
	}
	total := 0
	for _, w := range weights {
		total += w
	}
	n := g.r.IntN(total)
	for _, k := range meta.Kinds() {
		if n -= weights[k]; n < 0 {
			return k
		}
	}
	panic("the weights do not add up")
}

func (g *gen) straight(k meta.Kind) meta.Command {
	switch k {
	case meta.KindRegisterNode:
		return g.registerNode()
	case meta.KindRenewNode:
		return meta.RenewNode{Identity: g.actor()}
	case meta.KindUnregisterNode:
		id := g.someNode()
		return meta.UnregisterNode{NodeID: id.NodeID, Epoch: id.NodeEpoch}
	case meta.KindFenceNode:
		return g.fenceNode()
	case meta.KindCreateStream:
		return meta.CreateStream{Identity: g.actor(), Name: g.name(), Labels: g.labels()}
	case meta.KindOpenStream:
		return g.openStream()
	case meta.KindCloseStream:
		return g.closeStream()
	case meta.KindTrimStream:
		return g.trimStream()
	case meta.KindLabelStream:
		return meta.LabelStream{StreamID: g.stream().ID, Labels: g.labels()}
	case meta.KindDeleteStream:
		return g.deleteStream()
	case meta.KindRecordTransfer:
		return g.recordTransfer()
	case meta.KindForceCloseStream:
		st := g.stream()
		return meta.ForceCloseStream{StreamID: st.ID, Epoch: st.Epoch, WriteOff: g.chance(50), Reason: "by hand"}
	case meta.KindPutKey:
		return g.putKey()
	case meta.KindDeleteKey:
		key, version := g.key()
		return meta.DeleteKey{Identity: g.perhaps(), Key: key, IfVersion: version}
	case meta.KindCheckKey:
		key, version := g.key()
		return meta.CheckKey{Key: key, IfVersion: version, IfAbsent: version == 0}
	case meta.KindAtomic:
		return g.atomic()
	case meta.KindSetFormat:
		return meta.SetFormat{Level: g.upTo(4)}
	}
	return g.objectCommand(k)
}

// atomic makes commands that see the effects of those before them.
func (g *gen) atomic() meta.Command {
	outer := g.m
	defer func() { g.m = outer }()
	g.m = outer.Clone()
	c := meta.Atomic{}
	for range 1 + g.upTo(4) {
		kind := g.kind()
		for kind == meta.KindAtomic || (kind == meta.KindSetFormat || kind == meta.KindRenewNode) && !g.chance(5) {
			kind = g.kind()
		}
		inner := g.straight(kind)
		if g.chance(4) {
			inner = g.bend(inner)
		}
		c.Commands = append(c.Commands, inner)
		p := meta.Proposal{Command: inner}
		if kind == meta.KindPrepareObjects {
			p.Request = &meta.Request{Client: [16]byte{0xff}, Sequence: g.m.Index()%200 + 1}
		}
		g.m.Step(outer.Index()+1, 0, p)
	}
	return c
}

// Nodes.

// identityOf returns a registered node's present identity.
func (g *gen) identityOf(id uint64) meta.Identity {
	return meta.Identity{NodeID: id, NodeEpoch: g.m.Node(id).Epoch}
}

// alive lists the nodes that may act.
func (g *gen) alive() (out []meta.Identity) {
	for _, id := range g.m.Nodes() {
		if n := g.m.Node(id); !n.Fenced {
			out = append(out, g.identityOf(id))
		}
	}
	return out
}

// someNode is any node, registered in most cases.
func (g *gen) someNode() meta.Identity {
	if id, ok := pick(g, g.m.Nodes()); ok && g.chance(93) {
		return g.identityOf(id)
	}
	return meta.Identity{NodeID: 1 + g.upTo(g.nodes), NodeEpoch: 1 + g.upTo(2)}
}

// actor is a node that may act, in most cases.
func (g *gen) actor() meta.Identity {
	if id, ok := pick(g, g.alive()); ok && g.chance(93) {
		return id
	}
	id := g.someNode()
	if g.chance(30) {
		id.NodeEpoch = max(1, id.NodeEpoch+g.upTo(2)-1)
	}
	return id
}

// perhaps is an actor or nobody.
func (g *gen) perhaps() meta.Identity {
	if g.chance(60) {
		return meta.Identity{}
	}
	return g.actor()
}

// as is the node id with its present epoch, where it is registered; else some actor.
func (g *gen) as(node uint64) meta.Identity {
	if slices.Contains(g.m.Nodes(), node) && g.chance(95) {
		return g.identityOf(node)
	}
	return g.actor()
}

// rescue finds who may act for a fenced node.
func (g *gen) rescue(failed uint64) (meta.Identity, bool) {
	if !slices.Contains(g.m.Nodes(), failed) {
		return meta.Identity{}, false
	}
	n := g.m.Node(failed)
	return n.Rescuer, n.Fenced && n.Rescuer != (meta.Identity{}) && slices.Contains(g.alive(), n.Rescuer)
}

func (g *gen) registerNode() meta.Command {
	id := 1 + g.upTo(g.nodes-1)
	for _, other := range g.m.Nodes() {
		if g.m.Node(other).Fenced && g.chance(50) {
			id = other // it comes back
		}
	}
	c := meta.RegisterNode{NodeID: id, FormatLevel: g.upTo(3), Labels: g.labels()}
	if g.chance(50) {
		c.FormatLevel = 9
	}
	if g.chance(40) {
		c.Address = "10.0.0.1:" + string('0'+rune(g.upTo(2)))
	}
	if slices.Contains(g.m.Nodes(), id) && g.chance(35) {
		c.Epoch = g.m.Node(id).Epoch + g.upTo(2)
	}
	switch {
	case g.chance(70):
		g.instances[id]++
		c.Instance = [16]byte{byte(id), g.instances[id], 1}
	case g.chance(50) && slices.Contains(g.m.Nodes(), id): // the present process again
		n := g.m.Node(id)
		c.Instance = n.Instance
		if g.chance(70) {
			c.Address, c.Labels = n.Address, n.Labels
		}
	default:
		c.Instance = [16]byte{byte(id), g.instances[id] - byte(g.upTo(20)), 1}
	}
	return c
}

func (g *gen) fenceNode() meta.Command {
	failed := g.someNode()
	c := meta.FenceNode{NodeID: failed.NodeID, Epoch: failed.NodeEpoch}
	if g.chance(75) {
		c.Rescuer = g.actor()
		if c.Rescuer.NodeID == c.NodeID && g.chance(80) {
			c.Rescuer = g.actor()
		}
	}
	if slices.Contains(g.m.Nodes(), failed.NodeID) && g.chance(40) {
		c.Renewals = g.m.Node(failed.NodeID).Renewals
		switch {
		case g.chance(20):
			c.Renewals++
		case c.Renewals > 1 && g.chance(30): // it has renewed since
			c.Renewals -= 1 + g.upTo(min(c.Renewals-1, 3)-1)
		}
	}
	return c
}

// Keys, names and labels.

func (g *gen) putKey() meta.Command {
	key, version := g.key()
	return meta.PutKey{Identity: g.perhaps(), Key: key, Value: []byte{'a' + byte(g.upTo(2))}, IfVersion: version,
		IfAbsent: version == 0 && g.chance(50)}
}

// key is a key and perhaps a version to ask for.
func (g *gen) key() (key string, version uint64) {
	key = "k" + string('0'+rune(g.upTo(g.keys)))
	switch {
	case g.chance(2):
		return strings.Repeat("k", 1025), 0
	case g.chance(50):
		return key, 0
	}
	for _, k := range g.m.Keys() {
		if k.Key == key {
			return key, k.Version + g.upTo(9)/9
		}
	}
	return key, g.upTo(300)
}

func (g *gen) name() string { return "s" + string('0'+rune(g.upTo(g.streams-1))) }

func (g *gen) labels() []meta.Label {
	all := []meta.Label{{Name: "team", Value: "x"}, {Name: "zone", Value: "a"}, {Name: "zone", Value: "b"}}
	switch g.upTo(5) {
	case 0:
		return all[:1]
	case 1:
		return all[:2]
	case 2:
		return []meta.Label{all[2], all[0]}
	}
	return nil
}
