package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

func (a *app) transferCommand() *cobra.Command {
	return noun("transfer", "Transfers: what was promised and is not there yet", `  headwater transfer list
  headwater transfer list --stream orders-0
  headwater transfer record orders-0 --as 1 --to 2 --boundary 225`, a.transferList(), a.transferRecord())
}

var debtColumns = []column[*headwaterv1.Debt]{
	{"stream", func(d *headwaterv1.Debt) string { return number(d.GetStreamId()) }},
	{"epoch", func(d *headwaterv1.Debt) string { return number(d.GetStreamEpoch()) }},
	{"owed by", func(d *headwaterv1.Debt) string { return number(d.GetNodeId()) }},
	{"start", func(d *headwaterv1.Debt) string { return number(d.GetStartOffset()) }},
	{"boundary", func(d *headwaterv1.Debt) string { return number(d.GetBoundary()) }},
}

func (a *app) transferList() *cobra.Command {
	q := &headwaterv1.ListTransfersRequest{}
	var limit int
	var stream string
	c := &cobra.Command{
		Use: "list", Short: "List debts: records that nodes still have to commit", Args: cobra.NoArgs,
		Long: `List debts: records that nodes still have to commit for streams that they gave away.

For one stream, what was written off is told as well: on standard error, and with -o json as records with an endOffset.`,
		Example: "  headwater transfer list\n  headwater transfer list --node 3\n  headwater transfer list --stream orders-0",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				if stream != "" {
					s, err := findStream(ctx, c, stream)
					if err != nil {
						return err
					}
					q.StreamId = s.GetId()
				}
				p := newPrinter(a, debtColumns)
				var losses []*headwaterv1.Loss
				err := list(limit, func(page *headwaterv1.Page) ([]*headwaterv1.Debt, string, error) {
					q.Read, q.Page = c.read, page
					r, err := call(ctx, c.rpc.ListTransfers, clone(q))
					losses = append(losses, r.GetLosses()...)
					return r.GetDebts(), r.GetNextCursor(), err
				}, p.add)
				return firstError(err, p.close(), a.printLosses(losses))
			})
		},
	}
	c.Flags().StringVar(&stream, "stream", "", "only of this `stream` (name or id)")
	c.Flags().Uint64Var(&q.NodeId, "node", 0, "only what this `node` owes")
	exclusive(c, "stream", "node")
	limitFlag(c, &limit)
	return a.reads(c)
}

func (a *app) printLosses(losses []*headwaterv1.Loss) error {
	for _, l := range losses {
		if a.output != "json" {
			fmt.Fprintf(a.err, "lost: stream %d, offsets %d to %d\n", l.GetStreamId(), l.GetStartOffset(), l.GetEndOffset())
			continue
		}
		if err := a.printJSON(l); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) transferRecord() *cobra.Command {
	var who identityFlag
	var epoch uint64
	m := &headwaterv1.RecordTransfer{}
	c := a.streamArg(&cobra.Command{
		Use: "record STREAM", Short: "Hand a stream to another node while its last records are being uploaded",
		Long: `Hand a stream to another node while its last records are still being uploaded: the stream closes, the next owner goes
on from the boundary, and the acting node owes what lies between the stream's end and the boundary.`,
		Example: "  headwater transfer record orders-0 --as 1 --to 2 --boundary 225",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("boundary") {
				return usagef("--boundary OFFSET is needed: from where does the next owner go on?")
			}
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (*headwaterv1.Command, error) {
				s, err := findTarget(ctx, c, args[0], epoch)
				if err != nil {
					return nil, err
				}
				m.StreamId, m.Epoch = s.id, s.epoch
				m.Identity, err = who.required(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_RecordTransfer{RecordTransfer: m}}, err
			})
		},
	})
	acting(c, &who, "give it away")
	c.Flags().Uint64Var(&m.ToNode, "to", 0, "the next owner; 0: any `node`")
	c.Flags().Uint64Var(&m.Boundary, "boundary", 0, "`offset` from which the next owner goes on")
	epochFlag(c, &epoch)
	return a.writes(c)
}
