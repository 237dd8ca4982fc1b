package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headwaterdb/headwater"
)

func (a *app) checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "check", Short: "Examine a database offline, and print what is wrong", Args: cobra.NoArgs,
		Long: `Examine a database offline: rows dense and whole, every command decoded, the snapshot decoded, the rows applied again,
and the digests of their writers and of the snapshot compared with the replay's. Nothing is written; servers may have
the database open meanwhile.

What was looked at is printed, and each fault on a line of its own. The exit code is 1 where there is one, and 3 where
the database could not be read.`,
		Example: "  headwater check --db sqlite:headwater.db",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx := cmd.Context()
			log, err := openLog(ctx, a.db, toRead)
			if err != nil {
				return err
			}
			defer func() { err = firstError(err, log.Close()) }()
			b := a.newCountBar("check")
			r, err := headwater.Check(ctx, log, b.set)
			b.done()
			if err != nil {
				return databaseError(err)
			}
			if err := a.printReport(&r); err != nil {
				return err
			}
			if !r.OK() {
				return refused(fmt.Errorf("%s found", counted(len(r.Faults), "fault")), "")
			}
			return nil
		},
	}
	c.Flags().StringVar(&a.db, "db", defaultDB, "`database` to examine")
	a.formats(c)
	return c
}

// reportJSON is a report with the field names of the API's style; numbers that may be large are strings, as there.
type reportJSON struct {
	OK             bool     `json:"ok"`
	Faults         []string `json:"faults"`
	ClusterID      string   `json:"clusterId"`
	Incarnation    string   `json:"incarnation"`
	OldestIndex    uint64   `json:"oldestIndex,string"`
	NewestIndex    uint64   `json:"newestIndex,string"`
	Rows           uint64   `json:"rows,string"`
	Commands       uint64   `json:"commands,string"`
	Replayed       uint64   `json:"replayedRows,string"`
	SnapshotIndex  uint64   `json:"snapshotIndex,string"`
	SnapshotSize   int64    `json:"snapshotSize,string"`
	SnapshotDigest string   `json:"snapshotDigest"`
	Digest         string   `json:"digest"`
	DigestIndex    uint64   `json:"digestIndex,string"`
}

func (a *app) printReport(r *headwater.CheckReport) error {
	if a.output == "json" {
		faults := append([]string{}, r.Faults...) // an empty list, not null
		return json.NewEncoder(a.out).Encode(reportJSON{r.OK(), faults, r.ClusterID, r.Incarnation, r.OldestIndex,
			r.NewestIndex, r.Rows, r.Commands, r.Replayed, r.SnapshotIndex, r.SnapshotSize, r.SnapshotDigest, r.Digest,
			r.DigestIndex})
	}
	tab := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tab, "cluster\t%s\nincarnation\t%s\n", orDash(r.ClusterID), orDash(r.Incarnation))
	fmt.Fprintf(tab, "rows\t%d to %d: %d rows, %d commands\n", r.OldestIndex, r.NewestIndex, r.Rows, r.Commands)
	fmt.Fprintf(tab, "replayed\t%d rows\n", r.Replayed)
	if r.SnapshotIndex != 0 || r.SnapshotDigest != "" {
		fmt.Fprintf(tab, "snapshot\tindex %d, %s, digest %s\n", r.SnapshotIndex, size(uint64(max(r.SnapshotSize, 0))), orDash(r.SnapshotDigest))
	} else {
		fmt.Fprintf(tab, "snapshot\tnone\n")
	}
	fmt.Fprintf(tab, "digest\t%s at index %d\n", orDash(r.Digest), r.DigestIndex)
	for _, f := range r.Faults {
		fmt.Fprintf(tab, "FAULT\t%s\n", printable(f))
	}
	if r.OK() {
		fmt.Fprintf(tab, "faults\tnone\n")
	}
	return tab.Flush()
}
