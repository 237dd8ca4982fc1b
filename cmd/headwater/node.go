package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/spf13/cobra"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

func (a *app) nodeCommand() *cobra.Command {
	return noun("node", "Nodes: the processes that write streams", `  headwater node list
  headwater node show 1
  headwater node fence 1`,
		a.nodeList(), a.nodeShow(), a.nodeRegister(), a.nodeRenew(), a.nodeUnregister(), a.nodeFence())
}

var nodeColumns = []column[*headwaterv1.Node]{
	{"id", func(n *headwaterv1.Node) string { return number(n.GetId()) }},
	{"epoch", func(n *headwaterv1.Node) string { return number(n.GetEpoch()) }},
	{"state", nodeState},
	{"address", func(n *headwaterv1.Node) string { return text(n.GetAddress()) }},
	{"renewals", func(n *headwaterv1.Node) string { return number(n.GetRenewals()) }},
	{"owns", func(n *headwaterv1.Node) string { return number(n.GetOwnedStreams()) }},
	{"owes", func(n *headwaterv1.Node) string { return number(n.GetOwedDebts()) }},
	{"format", func(n *headwaterv1.Node) string { return number(n.GetFormatLevel()) }},
	{"labels", func(n *headwaterv1.Node) string { return labels(n.GetLabels()) }},
}

func nodeState(n *headwaterv1.Node) string {
	switch {
	case n.GetFenced() && n.GetRescuer() != nil:
		return fmt.Sprintf("fenced, claimed by %s", identity(n.GetRescuer()))
	case n.GetFenced():
		return "fenced"
	case !n.GetRegistered():
		return "unregistered"
	}
	return "registered"
}

func identity(i *headwaterv1.Identity) string {
	if i.GetNodeId() == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", i.GetNodeId(), i.GetNodeEpoch())
}

func (a *app) nodeList() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List nodes by id", Args: cobra.NoArgs,
		Example: "  headwater node list\n  headwater node list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				p := newPrinter(a, nodeColumns)
				err := list(limit, func(page *headwaterv1.Page) ([]*headwaterv1.Node, string, error) {
					r, err := call(ctx, c.rpc.ListNodes, &headwaterv1.ListNodesRequest{Read: c.read, Page: page})
					return r.GetNodes(), r.GetNextCursor(), err
				}, p.add)
				return firstError(err, p.close())
			})
		},
	}
	limitFlag(c, &limit)
	return a.reads(c)
}

func (a *app) nodeShow() *cobra.Command {
	return a.reads(&cobra.Command{
		Use: "show NODE", Short: "Show a node", Args: cobra.ExactArgs(1),
		Example: "  headwater node show 1",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("node", args[0])
			if err != nil {
				return err
			}
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				r, err := call(ctx, c.rpc.GetNode, &headwaterv1.GetNodeRequest{Read: c.read, NodeId: id})
				if err != nil {
					return err
				}
				return newPrinter(a, nodeColumns).show(r.GetNode())
			})
		},
	})
}

func (a *app) nodeRegister() *cobra.Command {
	r := &headwaterv1.RegisterNode{}
	var instance string
	c := &cobra.Command{
		Use: "register NODE", Short: "Register a node at a new epoch", Args: cobra.ExactArgs(1),
		Long: `Register a node at a new epoch. What the node's earlier process still has in flight is refused from then on.

The instance stands for one process: the same one registered again is redundant. It is drawn at random unless given.`,
		Example: "  headwater node register 1 --address 10.0.0.1:9092 --label zone=a",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.NodeId, err = parseID("node", args[0]); err != nil {
				return err
			}
			if r.Instance, err = instanceOf(instance); err != nil {
				return err
			}
			return a.proposeOne(cmd, func(context.Context, *cluster) (*headwaterv1.Command, error) {
				return &headwaterv1.Command{Command: &headwaterv1.Command_RegisterNode{RegisterNode: r}}, nil
			})
		},
	}
	f := c.Flags()
	f.Uint64Var(&r.Epoch, "epoch", 0, "epoch to register at; 0: the next one")
	f.StringVar(&instance, "instance", "", "16 bytes in `base64` that stand for the process; empty: random ones")
	f.StringVar(&r.Address, "address", "", "where the node can be reached")
	labelsFlag(c, &r.Labels, "label as `NAME=VALUE`; may be repeated")
	f.Uint64Var(&r.FormatLevel, "format-level", 1, "highest format level that the node's build decodes")
	return a.writes(c)
}

func instanceOf(s string) ([]byte, error) {
	if s == "" {
		b := make([]byte, 16)
		_, _ = rand.Read(b) // never fails
		return b, nil
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != 16 {
		return nil, usagef("--instance takes 16 bytes in base64")
	}
	return b, nil
}

func (a *app) nodeRenew() *cobra.Command {
	return a.writes(&cobra.Command{
		Use: "renew NODE[:EPOCH]", Short: "Give a sign of life for a node", Args: cobra.ExactArgs(1),
		Example: "  headwater node renew 1:2",
		RunE: func(cmd *cobra.Command, args []string) error {
			var who identityFlag
			if err := who.Set(args[0]); err != nil {
				return asUsage(err)
			}
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (*headwaterv1.Command, error) {
				id, err := who.required(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_RenewNode{
					RenewNode: &headwaterv1.RenewNode{Identity: id}}}, err
			})
		},
	})
}

func (a *app) nodeUnregister() *cobra.Command {
	return a.writes(&cobra.Command{
		Use: "unregister NODE[:EPOCH]", Short: "Remove a node that owns no open stream and owes nothing", Args: cobra.ExactArgs(1),
		Example: "  headwater node unregister 1:2",
		RunE: func(cmd *cobra.Command, args []string) error {
			var who identityFlag
			if err := who.Set(args[0]); err != nil {
				return asUsage(err)
			}
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (*headwaterv1.Command, error) {
				id, err := who.required(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_UnregisterNode{
					UnregisterNode: &headwaterv1.UnregisterNode{NodeId: id.GetNodeId(), Epoch: id.GetNodeEpoch()}}}, err
			})
		},
	})
}

func (a *app) nodeFence() *cobra.Command {
	var rescuer identityFlag
	var renewals uint64
	c := &cobra.Command{
		Use: "fence NODE[:EPOCH]", Short: "Stop a node: it changes nothing until it registers again", Args: cobra.ExactArgs(1),
		Long: `Stop a node: it changes nothing until it registers again as a new process.

With --as the named node claims it and may close its streams and commit for it; without, no claim is made and any
node may claim it later.`,
		Example: "  headwater node fence 1\n  headwater node fence 1:2 --as 3 --if-renewals 17",
		RunE: func(cmd *cobra.Command, args []string) error {
			var who identityFlag
			if err := who.Set(args[0]); err != nil {
				return asUsage(err)
			}
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (*headwaterv1.Command, error) {
				id, err := who.required(ctx, c)
				if err != nil {
					return nil, err
				}
				by, err := rescuer.resolve(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_FenceNode{FenceNode: &headwaterv1.FenceNode{
					NodeId: id.GetNodeId(), Epoch: id.GetNodeEpoch(), Renewals: renewals, Rescuer: by}}}, err
			})
		},
	}
	c.Flags().Uint64Var(&renewals, "if-renewals", 0, "only if the node's renewal counter is `N`; 0: whatever it is")
	acting(c, &rescuer, "claim the node")
	return a.writes(c)
}

// limitFlag gives a list its bound.
func limitFlag(c *cobra.Command, limit *int) {
	c.Flags().IntVar(limit, "limit", 0, "list at most this many `records`; 0: all")
	check(c, func() error {
		if *limit < 0 {
			return usagef("--limit takes a whole number from 0, not \"%d\"", *limit)
		}
		return nil
	})
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
