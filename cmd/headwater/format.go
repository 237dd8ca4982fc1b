package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

func (a *app) formatCommand() *cobra.Command {
	return noun("format", "The format level: which commands the cluster's nodes understand", `  headwater format show
  headwater format set 2 --dry-run`, a.formatShow(), a.formatSet())
}

func (a *app) formatShow() *cobra.Command {
	return a.reach(&cobra.Command{
		Use: "show", Short: "Show the format level", Args: cobra.NoArgs,
		Example: "  headwater format show",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				st, err := call(ctx, c.rpc.Status, &headwaterv1.StatusRequest{})
				if err != nil {
					return err
				}
				if a.output == "json" {
					fmt.Fprintf(a.out, "{\"formatLevel\":\"%d\"}\n", st.GetFormatLevel())
					return nil
				}
				fmt.Fprintln(a.out, st.GetFormatLevel())
				return nil
			})
		},
	})
}

func (a *app) formatSet() *cobra.Command {
	return a.writes(&cobra.Command{
		Use: "set LEVEL", Short: "Raise the format level, once every program that reads the cluster knows it", Args: cobra.ExactArgs(1),
		Long: `Raise the format level by one, once every program that reads the cluster knows the new one.

Registered nodes are asked, so to say: the level is refused while one of them does not support it. Programs that only
read are not registered; upgrade them first. One that was missed halts until it is upgraded. A level is never lowered.`,
		Example: "  headwater format set 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			level, err := parseID("level", args[0])
			if err != nil {
				return err
			}
			return a.proposeOne(cmd, func(context.Context, *cluster) (*headwaterv1.Command, error) {
				return &headwaterv1.Command{Command: &headwaterv1.Command_SetFormat{
					SetFormat: &headwaterv1.SetFormat{Level: level}}}, nil
			})
		},
	})
}
