package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headwaterdb/headwater"
)

// restoredJSON is what restore tells; numbers that may be large are strings, as in the API.
type restoredJSON struct {
	ClusterID   string `json:"clusterId"`
	Incarnation string `json:"incarnation"`
	LastIndex   uint64 `json:"lastIndex,string"`
	FirstIndex  uint64 `json:"firstIndex,string"`
}

func (a *app) restoreCommand() *cobra.Command {
	var stopped bool
	c := &cobra.Command{
		Use: "restore", Short: "Begin a new history after acknowledged rows were lost", Args: cobra.NoArgs,
		Long: `Begin a new history of a cluster, after its database was set back to an older state: a backup was restored, or an
asynchronous standby promoted. What is there stays. Row indexes, versions of keys, ids of streams and objects, and all
epochs rise beyond what the lost rows can have used, and the history gets a new incarnation: nothing is handed out twice,
and no index, epoch or version of before is taken for one of this history.

Stop all servers and everything that writes to the bucket first, and say so with --stopped. Afterwards start them again:
nodes register anew and open their streams anew. A run that was broken off is repeated and goes on.`,
		Example: "  headwater restore --db sqlite:headwater.db --stopped",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if !stopped {
				return usagef("stop all servers and everything that writes to the bucket, and say so with --stopped")
			}
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			log, err := openLog(ctx, a.db, toWrite)
			if err != nil {
				return err
			}
			defer func() { err = firstError(err, log.Close()) }()
			r, err := headwater.Restore(ctx, log)
			if err != nil {
				return databaseError(err)
			}
			if a.output == "json" {
				return json.NewEncoder(a.out).Encode(restoredJSON{r.ClusterID, r.Incarnation, r.LastIndex, r.FirstIndex})
			}
			fmt.Fprintf(a.out, "cluster %s goes on after index %d at index %d, incarnation %s\n", r.ClusterID, r.LastIndex, r.FirstIndex, r.Incarnation)
			return nil
		},
	}
	c.Flags().StringVar(&a.db, "db", defaultDB, "`database` that was set back")
	c.Flags().DurationVar(&a.timeout, "timeout", 0, "give up after this long; 0 waits")
	c.Flags().BoolVar(&stopped, "stopped", false, "your word that all servers and writers of this cluster are stopped")
	a.formats(c)
	return c
}
