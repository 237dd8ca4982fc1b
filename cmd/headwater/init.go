package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/oplog"
)

func (a *app) initCommand() *cobra.Command {
	var only bool
	var nodeRole, readerRole string
	c := &cobra.Command{
		Use: "init", Short: "Make a database a new, empty cluster", Args: cobra.NoArgs,
		Long: "Make a database a new, empty cluster, and print its id. Where a cluster lives already nothing changes, and the exit code is 1.\n\n" +
			"On a server the role needs the right to create tables, or an administrator runs what --print-sql prints first.",
		Example: "  headwater init --db sqlite:headwater.db\n  headwater init --db postgres://db.example/meta --print-sql\n" +
			"  headwater init --db mysql://db.example/meta --print-sql --node-role headwater@10.0.0.%",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if only {
				text, err := printSQL(a.db, nodeRole, readerRole)
				if err == nil {
					fmt.Fprint(a.out, text)
				}
				return err
			}
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			log, err := openLog(ctx, a.db, toBegin)
			if err != nil {
				return err
			}
			defer func() { err = firstError(err, log.Close()) }()
			info, err := headwater.Init(ctx, log)
			if errors.Is(err, oplog.ErrExists) {
				return refused(fmt.Errorf("nothing done: %w", err), "headwater status --db … tells about it")
			}
			if err != nil {
				return databaseError(err)
			}
			if a.output == "json" {
				return json.NewEncoder(a.out).Encode(map[string]string{"clusterId": info.ClusterID, "incarnation": info.Incarnation})
			}
			fmt.Fprintf(a.out, "cluster %s\n", info.ClusterID)
			return nil
		},
	}
	c.Flags().StringVar(&a.db, "db", defaultDB, "`database` to begin a cluster in")
	c.Flags().DurationVar(&a.timeout, "timeout", 0, "give up after this long; 0 waits")
	c.Flags().BoolVar(&only, "print-sql", false, "only print the statements that prepare a server's database, for its administrator")
	c.Flags().StringVar(&nodeRole, "node-role", "headwater", "`role` as which the nodes connect, to whom --print-sql gives rights; on MySQL a user")
	c.Flags().StringVar(&readerRole, "reader-role", "headwater_reader", "`role` as which those connect who only read, to whom --print-sql gives rights; on MySQL a user")
	a.formats(c)
	return c
}
