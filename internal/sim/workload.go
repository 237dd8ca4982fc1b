package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/meta"
)

// ctxRoot is the context of calls that only their own deadline ends.
var ctxRoot = context.Background()

// command makes a command that has some chance in the state that n shows, as programs would that know the state a moment
// late, act for a process that is gone by now, or are wrong.
func (c *client) command(n *node) meta.Command {
	w := c.w
	me := w.actor(n)
	if n.epoch == 0 && w.chance(70) {
		return meta.RegisterNode{NodeID: uint64(n.id), Instance: n.instance, Address: n.name(), FormatLevel: w.level(1 + w.s.dice.IntN(2))}
	}
	switch dice := w.s.dice.IntN(100); {
	case dice < 25:
		return c.key(me)
	case dice < 30:
		return meta.Atomic{Commands: []meta.Command{c.key(me), c.key(me)}}
	case dice < 37:
		return meta.CreateStream{Identity: me, Name: fmt.Sprintf("s%d", w.s.dice.IntN(12))}
	case dice < 75:
		return c.stream(n, me)
	case dice < 82:
		return meta.PrepareObjects{Identity: me, Count: uint64(1 + w.s.dice.IntN(3)), Deadline: w.s.clock(n.g).Add(w.between(0, 20*time.Second)).UnixMilli()}
	case dice < 88:
		return meta.RenewNode{Identity: me}
	case dice < 92:
		return meta.ReclaimObjects{Time: w.s.clock(n.g).UnixMilli(), Limit: uint64(1 + w.s.dice.IntN(5))}
	case dice < 94:
		return c.forget(n)
	case dice < 97:
		return c.fence(n, me)
	case dice < 98:
		return meta.SetFormat{Level: uint64(1 + w.s.dice.IntN(2))}
	case dice < 99:
		return meta.UnregisterNode{NodeID: me.NodeID, Epoch: me.NodeEpoch}
	default: // a second process with the same id
		return meta.RegisterNode{NodeID: me.NodeID, Instance: w.s.random(), FormatLevel: w.level(1)}
	}
}

// level is what a process says that it decodes. In a cluster that is about to be upgraded all say the next one, mostly.
func (w *world) level(l int) uint64 {
	if w.cfg.Raise && w.chance(98) {
		l = meta.MaxFormat + 1
	}
	return uint64(l)
}

// actor is who acts: mostly the node, sometimes an earlier process of it or another one.
func (w *world) actor(n *node) meta.Identity {
	id := meta.Identity{NodeID: uint64(n.id), NodeEpoch: max(n.epoch, 1)}
	switch {
	case w.chance(5):
		id.NodeID = uint64(1 + w.s.dice.IntN(len(w.nodes)))
	case w.chance(8) && id.NodeEpoch > 1:
		id.NodeEpoch--
	case w.chance(3):
		id.NodeEpoch++
	}
	return id
}

func (c *client) key(me meta.Identity) meta.Command {
	w := c.w
	key := fmt.Sprintf("k%d", w.s.dice.IntN(8))
	value := []byte(fmt.Sprintf("v%d", w.s.dice.IntN(1000)))
	if w.chance(5) {
		value = make([]byte, 200+w.s.dice.IntN(400))
	}
	if w.chance(50) {
		me = meta.Identity{}
	}
	var version uint64
	if n := c.home; n.view != nil && w.chance(40) {
		if k, ok := n.view.State.Key(key); ok {
			version = k.Version
		}
	}
	switch dice := w.s.dice.IntN(10); {
	case dice < 6:
		return meta.PutKey{Identity: me, Key: key, Value: value, IfVersion: version}
	case dice < 8:
		return meta.PutKey{Identity: me, Key: key, Value: value, IfAbsent: true}
	default:
		return meta.DeleteKey{Identity: me, Key: key, IfVersion: version}
	}
}

// stream does something to a stream that n shows.
func (c *client) stream(n *node, me meta.Identity) meta.Command {
	w := c.w
	page, _ := n.store.View().State.Streams("", 50)
	if len(page.Items) == 0 {
		return meta.CreateStream{Identity: me, Name: "s0"}
	}
	st := page.Items[w.s.dice.IntN(len(page.Items))]
	for range 3 { // rather one that it may do something to
		if st.Owner.NodeID != uint64(n.id) && st.Open {
			st = page.Items[w.s.dice.IntN(len(page.Items))]
		}
	}
	if !st.Open {
		switch dice := w.s.dice.IntN(10); {
		case dice < 7:
			return meta.OpenStream{Identity: me, StreamID: st.ID, Epoch: uint64(w.s.dice.IntN(2)) * (st.Epoch + 1)}
		case dice < 8:
			return meta.DeleteStream{Identity: me, StreamID: st.ID, Epoch: st.Epoch}
		}
	}
	switch dice := w.s.dice.IntN(100); {
	case dice < 55:
		return c.commit(n, me, st)
	case dice < 65:
		return meta.CloseStream{Identity: me, StreamID: st.ID, Epoch: st.Epoch}
	case dice < 75:
		return meta.TrimStream{Identity: me, StreamID: st.ID, Epoch: st.Epoch, StartOffset: st.StartOffset + uint64(w.s.dice.IntN(10))}
	case dice < 85:
		return meta.RecordTransfer{Identity: me, StreamID: st.ID, Epoch: st.Epoch, ToNode: uint64(w.s.dice.IntN(len(w.nodes) + 1)), Boundary: st.EndOffset + uint64(w.s.dice.IntN(8))}
	case dice < 92:
		return meta.LabelStream{StreamID: st.ID, Labels: []meta.Label{{Name: "a", Value: fmt.Sprint(w.s.dice.IntN(3))}}}
	default:
		return meta.ForceCloseStream{StreamID: st.ID, Epoch: st.Epoch, WriteOff: w.chance(50), Reason: "an operator"}
	}
}

// commit commits an object that the node has prepared, or asks for one.
func (c *client) commit(n *node, me meta.Identity, st meta.Stream) meta.Command {
	w := c.w
	page, _ := n.store.View().State.Objects(meta.ObjectFilter{State: meta.ObjectPrepared}, "", 20)
	start := st.EndOffset
	if st.Transfer != nil && w.chance(70) {
		start = st.Transfer.StartOffset
	}
	for _, o := range page.Items {
		if o.Owner != me.NodeID || w.chance(30) {
			continue
		}
		return meta.CommitObjects{Identity: me, Objects: []meta.Object{{ObjectID: o.ID, Size: 100, Slices: []meta.Slice{
			{StreamID: st.ID, StreamEpoch: st.Epoch, StartOffset: start, EndOffset: start + uint64(1+w.s.dice.IntN(8)), Length: 100},
		}}}}
	}
	return meta.PrepareObjects{Identity: me, Count: 2, Deadline: w.s.clock(n.g).Add(10 * time.Second).UnixMilli()}
}

func (c *client) forget(n *node) meta.Command {
	page, _ := n.store.View().State.Objects(meta.ObjectFilter{State: meta.ObjectDeletable}, "", 20)
	if len(page.Items) == 0 {
		return meta.ForgetObjects{ObjectIDs: []uint64{1}}
	}
	return meta.ForgetObjects{ObjectIDs: []uint64{page.Items[c.w.s.dice.IntN(len(page.Items))].ID}}
}

func (c *client) fence(n *node, me meta.Identity) meta.Command {
	other := uint64(1 + c.w.s.dice.IntN(len(c.w.nodes)))
	known, _ := n.store.View().State.Node(other)
	f := meta.FenceNode{NodeID: other, Epoch: known.Epoch, Renewals: known.Renewals}
	if other != me.NodeID {
		f.Rescuer = me
	}
	return f
}
