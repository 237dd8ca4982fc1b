package main

import (
	"context"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

func (a *app) exportCommand() *cobra.Command {
	c := a.reads(&cobra.Command{
		Use: "export", Short: "Write the whole state as JSON lines, in a fixed order", Args: cobra.NoArgs,
		Long: `Write the whole state of one view as JSON lines, one record a line, in a fixed order: two nodes at the same index
write the same bytes.`,
		Example: "  headwater export > state.jsonl\n  headwater export --db sqlite:headwater.db | sha256sum",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				stream, err := c.rpc.Export(ctx, connect.NewRequest(&headwaterv1.ExportRequest{Read: c.read}))
				if err != nil {
					return reachable(rpcError(err), err)
				}
				defer stream.Close()
				out := newLineWriter(a.out)
				for stream.Receive() {
					if err := out.message(stream.Msg().GetRecord()); err != nil {
						return err
					}
				}
				if err := stream.Err(); err != nil {
					_ = out.flush()
					return reachable(rpcError(err), err)
				}
				return out.flush()
			})
		},
	})
	_ = c.Flags().MarkHidden("output") // JSON lines whatever it says
	a.longRunning(c)
	return c
}
