package main

import (
	"context"

	"github.com/spf13/cobra"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

// streamTarget is the stream a command is about, at the epoch that was given or, without one, at the one it has now.
type streamTarget struct{ id, epoch uint64 }

func findTarget(ctx context.Context, c *cluster, arg string, epoch uint64) (streamTarget, error) {
	if _, named := streamName(arg); !named && epoch != 0 {
		id, err := parseID("stream", arg)
		return streamTarget{id, epoch}, err
	}
	s, err := findStream(ctx, c, arg)
	if err != nil {
		return streamTarget{}, err
	}
	if epoch == 0 {
		epoch = s.GetEpoch()
	}
	return streamTarget{s.GetId(), epoch}, nil
}

func epochFlag(c *cobra.Command, epoch *uint64) {
	c.Flags().Uint64Var(epoch, "epoch", 0, "stream epoch; 0: the one it has now")
}

func (a *app) streamCreate() *cobra.Command {
	var who identityFlag
	m := &headwaterv1.CreateStream{}
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a stream, closed and empty", Args: cobra.ExactArgs(1),
		Example: "  headwater stream create orders-0 --as 1 --label topic=orders",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (_ *headwaterv1.Command, err error) {
				m.Name = args[0]
				m.Identity, err = who.required(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_CreateStream{CreateStream: m}}, err
			})
		},
	}
	acting(c, &who, "create it")
	labelsFlag(c, &m.Labels, "label as `NAME=VALUE`; may be repeated")
	return a.writes(c)
}

func (a *app) streamOpen() *cobra.Command {
	var who identityFlag
	m := &headwaterv1.OpenStream{}
	c := a.streamArg(&cobra.Command{
		Use: "open STREAM", Short: "Make a node the owner of a closed stream",
		Example: "  headwater stream open orders-0 --as 1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (*headwaterv1.Command, error) {
				s, err := findTarget(ctx, c, args[0], max(m.Epoch, 1))
				if err != nil {
					return nil, err
				}
				m.StreamId = s.id
				m.Identity, err = who.required(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_OpenStream{OpenStream: m}}, err
			})
		},
	})
	acting(c, &who, "open it")
	c.Flags().Uint64Var(&m.Epoch, "epoch", 0, "stream epoch to open at; 0: the next one")
	return a.writes(c)
}

func (a *app) streamClose() *cobra.Command {
	var who identityFlag
	var epoch uint64
	m := &headwaterv1.CloseStream{}
	c := a.streamArg(&cobra.Command{
		Use: "close STREAM", Short: "End the ownership of an open stream",
		Example: "  headwater stream close orders-0 --as 1\n  headwater stream close orders-0 --as 3 --on-behalf-of 1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (*headwaterv1.Command, error) {
				s, err := findTarget(ctx, c, args[0], epoch)
				if err != nil {
					return nil, err
				}
				m.StreamId, m.Epoch = s.id, s.epoch
				m.Identity, err = who.required(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_CloseStream{CloseStream: m}}, err
			})
		},
	})
	acting(c, &who, "close it")
	c.Flags().Uint64Var(&m.OnBehalfOf, "on-behalf-of", 0, "a fenced `node` on which the acting node holds the claim")
	epochFlag(c, &epoch)
	return a.writes(c)
}

func (a *app) streamTrim() *cobra.Command {
	var who identityFlag
	var epoch uint64
	m := &headwaterv1.TrimStream{}
	c := a.streamArg(&cobra.Command{
		Use: "trim STREAM", Short: "Move the start of a stream: what lies below is no longer readable",
		Example: "  headwater stream trim orders-0 --start 50 --as 1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("start") {
				return usagef("--start OFFSET is needed: up to where?")
			}
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (*headwaterv1.Command, error) {
				s, err := findTarget(ctx, c, args[0], epoch)
				if err != nil {
					return nil, err
				}
				m.StreamId, m.Epoch = s.id, s.epoch
				m.Identity, err = who.required(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_TrimStream{TrimStream: m}}, err
			})
		},
	})
	acting(c, &who, "trim it")
	c.Flags().Uint64Var(&m.StartOffset, "start", 0, "the new first `offset`")
	epochFlag(c, &epoch)
	return a.writes(c)
}

func (a *app) streamLabel() *cobra.Command {
	m := &headwaterv1.LabelStream{}
	c := a.streamArg(&cobra.Command{
		Use: "label STREAM", Short: "Replace the labels of a stream",
		Example: "  headwater stream label orders-0 --label topic=orders --label team=shop\n  headwater stream label orders-0",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (*headwaterv1.Command, error) {
				s, err := findTarget(ctx, c, args[0], 1)
				m.StreamId = s.id
				return &headwaterv1.Command{Command: &headwaterv1.Command_LabelStream{LabelStream: m}}, err
			})
		},
	})
	labelsFlag(c, &m.Labels, "label as `NAME=VALUE`; may be repeated; without any, all are removed")
	return a.writes(c)
}

func (a *app) streamDelete() *cobra.Command {
	var who identityFlag
	var epoch uint64
	m := &headwaterv1.DeleteStream{}
	c := a.streamArg(&cobra.Command{
		Use: "delete STREAM", Short: "Remove a closed stream",
		Example: "  headwater stream delete orders-0",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (*headwaterv1.Command, error) {
				s, err := findTarget(ctx, c, args[0], epoch)
				if err != nil {
					return nil, err
				}
				m.StreamId, m.Epoch = s.id, s.epoch
				m.Identity, err = who.resolve(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_DeleteStream{DeleteStream: m}}, err
			})
		},
	})
	acting(c, &who, "delete it")
	epochFlag(c, &epoch)
	return a.writes(c)
}

func (a *app) streamForceClose() *cobra.Command {
	var epoch uint64
	m := &headwaterv1.ForceCloseStream{}
	c := a.streamArg(&cobra.Command{
		Use: "force-close STREAM", Short: "Close a stream for its owner, as an operator",
		Long: `Close a stream for its owner, as an operator.

What earlier owners still owe stays owed, unless --write-off is given: then it is recorded as lost, readers are told
so and go on behind it, and a reservation is lifted. That cannot be taken back.`,
		Example: "  headwater stream force-close orders-0 --reason \"node 3 burnt down\" --write-off",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (*headwaterv1.Command, error) {
				s, err := findTarget(ctx, c, args[0], epoch)
				m.StreamId, m.Epoch = s.id, s.epoch
				return &headwaterv1.Command{Command: &headwaterv1.Command_ForceCloseStream{ForceCloseStream: m}}, err
			})
		},
	})
	c.Flags().BoolVar(&m.WriteOff, "write-off", false, "record what is owed as lost")
	c.Flags().StringVar(&m.Reason, "reason", "", "why, for people; it stands in the log")
	epochFlag(c, &epoch)
	return a.writes(c)
}

// streamTransfer is also transfer record.
func (a *app) streamTransfer() *cobra.Command {
	c := a.transferRecord()
	c.Use = "transfer STREAM"
	c.Example = "  headwater stream transfer orders-0 --as 1 --to 2 --boundary 225"
	return c
}
