package meta_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

func TestRegisterNode(t *testing.T) {
	t.Parallel()
	base := []meta.Command{
		meta.RegisterNode{NodeID: 1, Instance: instance("1a"), Address: "a:1", Labels: labels("zone", "a")},
	}
	full := base[0].(meta.RegisterNode)
	seventeen := make([]meta.Command, 0, 17)
	for i := range 17 {
		seventeen = append(seventeen, registerNode(1, fmt.Sprintf("start %d", i)))
	}
	with := func(change func(*meta.RegisterNode)) meta.RegisterNode {
		c := full
		change(&c)
		return c
	}
	gone := meta.UnregisterNode{NodeID: 1, Epoch: 1}
	runClauses(t, base, []clause{
		{name: "an unknown id, epoch 0: the next one, 1", cmd: registerNode(2, "2a"), want: "applied",
			result: meta.RegisterNodeResult{Epoch: 1}, check: func(t *testing.T, c *world) {
				want := meta.Node{ID: 2, Epoch: 1, Registered: true, Instance: instance("2a"), FormatLevel: 1, Renewals: 1, RegisteredIndex: 2}
				if diff := cmp.Diff(want, c.node(2)); diff != "" {
					t.Error(diff)
				}
			}},
		{name: "an unknown id, any epoch", cmd: meta.RegisterNode{NodeID: 2, Epoch: 7, Instance: instance("2a")}, want: "applied",
			result: meta.RegisterNodeResult{Epoch: 7}},
		{name: "same instance, nothing differs: redundant", cmd: full, want: "redundant", result: meta.RegisterNodeResult{Epoch: 1}},
		{name: "same instance: the epoch sent is ignored", cmd: with(func(c *meta.RegisterNode) { c.Epoch = 9 }), want: "redundant",
			result: meta.RegisterNodeResult{Epoch: 1}},
		{name: "same instance: the format level cannot have changed", cmd: with(func(c *meta.RegisterNode) { c.FormatLevel = 9 }), want: "redundant",
			result: meta.RegisterNodeResult{Epoch: 1}},
		{name: "same instance, other address: updated", cmd: with(func(c *meta.RegisterNode) { c.Address = "b:1" }), want: "applied",
			result: meta.RegisterNodeResult{Epoch: 1}, check: func(t *testing.T, c *world) {
				if n := c.node(1); n.Address != "b:1" || n.Epoch != 1 || n.Renewals != 1 {
					t.Errorf("got %+v", n)
				}
			}},
		{name: "same instance, other labels: updated, a fence stays",
			given: []meta.Command{fenceNode(1, 1, meta.Identity{})},
			cmd:   with(func(c *meta.RegisterNode) { c.Labels = nil }), want: "applied",
			check: func(t *testing.T, c *world) {
				if n := c.node(1); !n.Fenced || len(n.Labels) != 0 {
					t.Errorf("got %+v", n)
				}
			}},
		{name: "an instance seen before", given: []meta.Command{registerNode(1, "1b")}, cmd: full, want: "NODE_EPOCH_STALE"},
		{name: "an instance seen before, with a higher epoch", given: []meta.Command{registerNode(1, "1b")},
			cmd: with(func(c *meta.RegisterNode) { c.Epoch = 9 }), want: "NODE_EPOCH_STALE"},
		{name: "the last 16 instances are kept: the second of 17", given: seventeen, cmd: registerNode(1, "start 1"), want: "NODE_EPOCH_STALE"},
		{name: "the last 16 instances are kept: the first of 17 is forgotten", given: seventeen, cmd: registerNode(1, "start 0"), want: "applied",
			result: meta.RegisterNodeResult{Epoch: 19}},
		{name: "an instance seen before it was unregistered", given: []meta.Command{gone}, cmd: full, want: "NODE_EPOCH_STALE"},
		{name: "the instance of another node id is nothing special", cmd: registerNode(2, "1a"), want: "applied"},
		{name: "epoch equal", cmd: meta.RegisterNode{NodeID: 1, Epoch: 1, Instance: instance("1b")}, want: "NODE_EPOCH_STALE"},
		{name: "epoch below", given: []meta.Command{meta.RegisterNode{NodeID: 1, Epoch: 5, Instance: instance("1b")}},
			cmd: meta.RegisterNode{NodeID: 1, Epoch: 4, Instance: instance("1c")}, want: "NODE_EPOCH_STALE"},
		{name: "epochs never go back after unregistering", given: []meta.Command{gone}, cmd: registerNode(1, "1b"), want: "applied",
			result: meta.RegisterNodeResult{Epoch: 2}},
		{name: "epoch equal to the one before unregistering", given: []meta.Command{gone},
			cmd: meta.RegisterNode{NodeID: 1, Epoch: 1, Instance: instance("1b")}, want: "NODE_EPOCH_STALE"},
		{name: "format level below the cluster's",
			given: []meta.Command{meta.RegisterNode{NodeID: 1, Instance: instance("1b"), FormatLevel: 2}, meta.SetFormat{Level: 2}},
			cmd:   registerNode(2, "2a"), want: "FORMAT_UNSUPPORTED"},
		{name: "a stale epoch goes before the format level",
			given: []meta.Command{meta.RegisterNode{NodeID: 1, Instance: instance("1b"), FormatLevel: 2}, meta.SetFormat{Level: 2}},
			cmd:   meta.RegisterNode{NodeID: 1, Epoch: 1, Instance: instance("1c")}, want: "NODE_EPOCH_STALE"},
		{name: "a new instance lifts the fence and starts the counter anew",
			given: []meta.Command{meta.RenewNode{Identity: at(1, 1)}, registerNode(2, "2a"), fenceNode(1, 1, at(2, 1))},
			cmd:   registerNode(1, "1b"), want: "applied", check: func(t *testing.T, c *world) {
				if n := c.node(1); n.Fenced || n.Rescuer != (meta.Identity{}) || n.Renewals != 1 || n.Epoch != 2 {
					t.Errorf("got %+v", n)
				}
			}},
		{name: "it tells how many streams the node owns and owes",
			given: []meta.Command{createStream("a"), createStream("b"), openStream(at(1, 1), 1, 0), openStream(at(1, 1), 2, 0), recordTransfer(at(1, 1), 2, 1, 0, 5)},
			cmd:   registerNode(1, "1b"), want: "applied", result: meta.RegisterNodeResult{Epoch: 2, OwnedStreams: 1, OwedDebts: 1}},
		{name: "epochs are used up", given: []meta.Command{meta.RegisterNode{NodeID: 1, Epoch: 1<<63 - 1, Instance: instance("1b")}},
			cmd: registerNode(1, "1c"), want: "TOO_LARGE"},
		{name: "node id missing", cmd: registerNode(0, "x"), want: "INVALID_ARGUMENT"},
		{name: "epoch beyond 2^63", cmd: meta.RegisterNode{NodeID: 2, Epoch: 1 << 63, Instance: instance("2a")}, want: "TOO_LARGE"},
	})
}

func TestRenewNode(t *testing.T) {
	t.Parallel()
	runClauses(t, nodes, []clause{
		{name: "counts", given: []meta.Command{meta.RenewNode{Identity: at(1, 1)}}, cmd: meta.RenewNode{Identity: at(1, 1)}, want: "applied",
			result: meta.RenewNodeResult{Renewals: 3}},
		{name: "unknown node", cmd: meta.RenewNode{Identity: at(9, 1)}, want: "NODE_NOT_FOUND"},
		{name: "unregistered node", given: []meta.Command{meta.UnregisterNode{NodeID: 1, Epoch: 1}}, cmd: meta.RenewNode{Identity: at(1, 1)}, want: "NODE_NOT_FOUND"},
		{name: "epoch below", given: []meta.Command{registerNode(1, "1b")}, cmd: meta.RenewNode{Identity: at(1, 1)}, want: "NODE_EPOCH_STALE"},
		{name: "epoch above", cmd: meta.RenewNode{Identity: at(1, 2)}, want: "NODE_EPOCH_UNKNOWN"},
		{name: "fenced", given: []meta.Command{fenceNode(1, 1, at(2, 1))}, cmd: meta.RenewNode{Identity: at(1, 1)}, want: "NODE_FENCED"},
		{name: "a stale epoch goes before the fence", given: []meta.Command{registerNode(1, "1b"), fenceNode(1, 2, at(2, 1))}, cmd: meta.RenewNode{Identity: at(1, 1)}, want: "NODE_EPOCH_STALE"},
		{name: "an unknown epoch goes before the fence", given: []meta.Command{fenceNode(1, 1, at(2, 1))}, cmd: meta.RenewNode{Identity: at(1, 2)}, want: "NODE_EPOCH_UNKNOWN"},
	})
}

func TestUnregisterNode(t *testing.T) {
	t.Parallel()
	owning := []meta.Command{createStream("a"), openStream(at(1, 1), 1, 0)}
	owing := append(owning[:2:2], recordTransfer(at(1, 1), 1, 1, 0, 5))
	gone := meta.UnregisterNode{NodeID: 1, Epoch: 1}
	runClauses(t, nodes, []clause{
		{name: "registered", cmd: gone, want: "applied", check: func(t *testing.T, c *world) {
			if n := c.node(1); n.Registered || n.Epoch != 1 || n.Instance != ([16]byte{}) {
				t.Errorf("got %+v", n)
			}
		}},
		{name: "unknown: redundant", cmd: meta.UnregisterNode{NodeID: 9, Epoch: 1}, want: "redundant"},
		{name: "gone already: redundant whatever the epoch", given: []meta.Command{gone}, cmd: meta.UnregisterNode{NodeID: 1, Epoch: 5}, want: "redundant"},
		{name: "epoch below", given: []meta.Command{registerNode(1, "1b")}, cmd: gone, want: "NODE_EPOCH_STALE"},
		{name: "epoch above", cmd: meta.UnregisterNode{NodeID: 1, Epoch: 2}, want: "NODE_EPOCH_UNKNOWN"},
		{name: "the epoch goes before the streams", given: owning, cmd: meta.UnregisterNode{NodeID: 1, Epoch: 2}, want: "NODE_EPOCH_UNKNOWN"},
		{name: "open streams", given: owning, cmd: gone, want: "NODE_HAS_STREAMS"},
		{name: "debts", given: owing, cmd: gone, want: "NODE_HAS_STREAMS"},
		{name: "closed streams do not count", given: append(owning[:2:2], closeStream(at(1, 1), 1, 1)), cmd: gone, want: "applied"},
		{name: "debts of a deleted stream are gone", given: append(owing[:3:3], meta.DeleteStream{StreamID: 1, Epoch: 1}), cmd: gone, want: "applied"},
		{name: "a fenced node", given: []meta.Command{fenceNode(1, 1, at(2, 1))}, cmd: gone, want: "applied"},
	})
}

func TestFenceNode(t *testing.T) {
	t.Parallel()
	operator := meta.Identity{}
	claimed := []meta.Command{fenceNode(1, 1, at(2, 1))}
	counted := func(renewals uint64, rescuer meta.Identity) meta.FenceNode {
		return meta.FenceNode{NodeID: 1, Epoch: 1, Renewals: renewals, Rescuer: rescuer}
	}
	rescuerIs := func(want meta.Identity) func(*testing.T, *world) {
		return func(t *testing.T, c *world) {
			if n := c.node(1); !n.Fenced || n.Rescuer != want {
				t.Errorf("fenced %v, rescuer %v, want %v", n.Fenced, n.Rescuer, want)
			}
		}
	}
	runClauses(t, nodes, []clause{
		{name: "by a rescuer", cmd: claimed[0], want: "applied", check: rescuerIs(at(2, 1))},
		{name: "by an operator: no claim", cmd: fenceNode(1, 1, operator), want: "applied", check: rescuerIs(operator)},
		{name: "identity of the rescuer: unknown", cmd: fenceNode(1, 1, at(9, 1)), want: "NODE_NOT_FOUND"},
		{name: "identity of the rescuer: stale", given: []meta.Command{registerNode(2, "2b")}, cmd: claimed[0], want: "NODE_EPOCH_STALE"},
		{name: "identity of the rescuer: unknown epoch", cmd: fenceNode(1, 1, at(2, 2)), want: "NODE_EPOCH_UNKNOWN"},
		{name: "identity of the rescuer: fenced", given: []meta.Command{fenceNode(2, 1, at(3, 1))}, cmd: claimed[0], want: "NODE_FENCED"},
		{name: "the rescuer's identity goes before rescuer = failed", given: []meta.Command{registerNode(1, "1b")}, cmd: fenceNode(1, 2, at(1, 1)), want: "NODE_EPOCH_STALE"},
		{name: "rescuer = failed", cmd: fenceNode(1, 1, at(1, 1)), want: "INVALID_ARGUMENT"},
		{name: "rescuer = failed goes before the failed node's epoch", cmd: fenceNode(1, 7, at(1, 1)), want: "INVALID_ARGUMENT"},
		{name: "failed: unknown", cmd: fenceNode(9, 1, at(2, 1)), want: "NODE_NOT_FOUND"},
		{name: "failed: unregistered", given: []meta.Command{meta.UnregisterNode{NodeID: 1, Epoch: 1}}, cmd: claimed[0], want: "NODE_NOT_FOUND"},
		{name: "failed: stale, it came back", given: []meta.Command{registerNode(1, "1b")}, cmd: claimed[0], want: "NODE_EPOCH_STALE"},
		{name: "failed: unknown epoch", cmd: fenceNode(1, 2, at(2, 1)), want: "NODE_EPOCH_UNKNOWN"},
		{name: "counter differs", given: []meta.Command{meta.RenewNode{Identity: at(1, 1)}}, cmd: counted(1, at(2, 1)), want: "NODE_ALIVE"},
		{name: "counter differs, for an operator", cmd: counted(2, operator), want: "NODE_ALIVE"},
		{name: "counter equal", given: []meta.Command{meta.RenewNode{Identity: at(1, 1)}}, cmd: counted(2, at(2, 1)), want: "applied"},
		{name: "the counter goes before the same claim", given: claimed, cmd: counted(7, at(2, 1)), want: "NODE_ALIVE"},
		{name: "same claim: redundant", given: claimed, cmd: claimed[0], want: "redundant"},
		{name: "claimed by another live rescuer", given: claimed, cmd: fenceNode(1, 1, at(3, 1)), want: "NODE_CLAIMED"},
		{name: "claimed by a live rescuer, also for an operator", given: claimed, cmd: fenceNode(1, 1, operator), want: "NODE_CLAIMED"},
		{name: "the claim ended: the rescuer is fenced", given: append(claimed[:1:1], fenceNode(2, 1, operator)), cmd: fenceNode(1, 1, at(3, 1)), want: "applied", check: rescuerIs(at(3, 1))},
		{name: "the claim ended: the rescuer is gone", given: append(claimed[:1:1], meta.UnregisterNode{NodeID: 2, Epoch: 1}), cmd: fenceNode(1, 1, at(3, 1)), want: "applied", check: rescuerIs(at(3, 1))},
		{name: "the claim ended: the rescuer is at another epoch", given: append(claimed[:1:1], registerNode(2, "2b")), cmd: fenceNode(1, 1, at(3, 1)), want: "applied", check: rescuerIs(at(3, 1))},
		{name: "the same node claims again at its new epoch", given: append(claimed[:1:1], registerNode(2, "2b")), cmd: fenceNode(1, 1, at(2, 2)), want: "applied", check: rescuerIs(at(2, 2))},
		{name: "an operator on a node fenced by an operator: redundant", given: []meta.Command{fenceNode(1, 1, operator)}, cmd: fenceNode(1, 1, operator), want: "redundant"},
		{name: "an operator on a node whose claim ended: redundant", given: append(claimed[:1:1], registerNode(2, "2b")), cmd: fenceNode(1, 1, operator), want: "redundant"},
		{name: "any node may claim what an operator fenced", given: []meta.Command{fenceNode(1, 1, operator)}, cmd: fenceNode(1, 1, at(3, 1)), want: "applied", check: rescuerIs(at(3, 1))},
	})
}

func TestSetFormat(t *testing.T) {
	t.Parallel()
	newer := []meta.Command{meta.RegisterNode{NodeID: 1, Instance: instance("1"), FormatLevel: 3}}
	mixed := append(newer[:1:1], registerNode(2, "2"))
	runClauses(t, nil, []clause{
		{name: "the next level", given: newer, cmd: meta.SetFormat{Level: 2}, want: "applied", result: meta.SetFormatResult{Level: 2},
			check: func(t *testing.T, c *world) {
				if l := c.s.FormatLevel(); l != 2 {
					t.Errorf("level %d", l)
				}
			}},
		{name: "equal: redundant", cmd: meta.SetFormat{Level: 1}, want: "redundant", result: meta.SetFormatResult{Level: 1}},
		{name: "lower: redundant", given: append(newer[:1:1], meta.SetFormat{Level: 2}), cmd: meta.SetFormat{Level: 1}, want: "redundant", result: meta.SetFormatResult{Level: 2}},
		{name: "above present + 1", given: newer, cmd: meta.SetFormat{Level: 3}, want: "INVALID_ARGUMENT"},
		{name: "above present + 1 goes before the nodes", cmd: meta.SetFormat{Level: 1<<64 - 1}, want: "INVALID_ARGUMENT"},
		{name: "no node registered", cmd: meta.SetFormat{Level: 2}, want: "FORMAT_UNSUPPORTED"},
		{name: "one does not support it; none given is 1", given: mixed, cmd: meta.SetFormat{Level: 2}, want: "FORMAT_UNSUPPORTED"},
		{name: "a fenced one counts", given: append(mixed[:2:2], fenceNode(2, 1, meta.Identity{})), cmd: meta.SetFormat{Level: 2}, want: "FORMAT_UNSUPPORTED"},
		{name: "an unregistered one does not count", given: append(mixed[:2:2], meta.UnregisterNode{NodeID: 2, Epoch: 1}), cmd: meta.SetFormat{Level: 2}, want: "applied"},
		{name: "all unregistered", given: append(newer[:1:1], meta.UnregisterNode{NodeID: 1, Epoch: 1}), cmd: meta.SetFormat{Level: 2}, want: "FORMAT_UNSUPPORTED"},
	})
}
