package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

func (a *app) statusCommand() *cobra.Command {
	return a.reach(&cobra.Command{
		Use: "status", Short: "Tell how a node stands, and whether it can take commands", Args: cobra.NoArgs,
		Long: `Tell how a node stands: the server's, or with --db one that is opened on the database for the question.

The condition is one of

  ready        it holds the newest row and takes commands
  catching up  it is behind the newest row of the log
  gap          a row is missing and no snapshot covers it; ends when either appears
  halted       a row cannot be decoded or applied
  diverged     its state contradicts the writers of the log
  rewound      the log holds less than it has applied

Reads are answered in all of them. The exit code is 0 for the first two and 3 for the others.`,
		Example: "  headwater status\n  headwater status --db sqlite:headwater.db -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				st, err := call(ctx, c.rpc.Status, &headwaterv1.StatusRequest{})
				if err != nil {
					return err
				}
				if err := a.printStatus(st); err != nil {
					return err
				}
				return statusOutcome(st)
			})
		},
	})
}

func condition(st *headwaterv1.StatusResponse) string {
	return strings.ToLower(strings.ReplaceAll(st.GetCondition().String(), "_", " "))
}

// statusOutcome says how the program ends for a node in this condition.
func statusOutcome(st *headwaterv1.StatusResponse) error {
	switch st.GetCondition() {
	case headwaterv1.StatusResponse_READY, headwaterv1.StatusResponse_CATCHING_UP:
		return nil
	case headwaterv1.StatusResponse_HALTED:
		return unavailable(errors.New(conditionText(st)), "reads go on; headwater check --db … examines the whole log")
	}
	return unavailable(errors.New(conditionText(st)), "")
}

// conditionText is the condition with its reason, in one line.
func conditionText(st *headwaterv1.StatusResponse) string {
	s := condition(st)
	if st.GetReason() != "" {
		s += ": " + st.GetReason()
	}
	return s
}

func (a *app) printStatus(st *headwaterv1.StatusResponse) error {
	if a.output == "json" {
		return a.printJSON(st)
	}
	tab := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tab, "%s\t%s\n", name, value)
		}
	}
	row("condition", condition(st))
	row("reason", text(st.GetReason()))
	row("reason index", numberOrNone(st.GetReasonIndex()))
	row("applied index", number(st.GetAppliedIndex()))
	row("digest", st.GetDigest())
	row("newest index", number(st.GetNewestIndex()))
	row("snapshot index", snapshotText(st))
	row("behind", behindText(st.GetBehindMs()))
	row("cluster", st.GetClusterId())
	row("incarnation", st.GetIncarnation())
	row("format level", number(st.GetFormatLevel()))
	row("queued", numberOrNone(st.GetQueued()))
	row("in flight", numberOrNone(st.GetInFlight()))
	row("healed faults", numberOrNone(st.GetHealedFaults()))
	row("database", text(st.GetBackend())+" at "+text(st.GetLocation()))
	row("database error", text(st.GetDatabaseError()))
	for _, w := range st.GetWarnings() {
		row("warning", text(w))
	}
	counts := st.GetCounts()
	row("nodes", fmt.Sprintf("%d (%d fenced)", counts.GetNodes(), counts.GetFencedNodes()))
	row("streams", fmt.Sprintf("%d (%d open)", counts.GetStreams(), counts.GetOpenStreams()))
	row("objects", fmt.Sprintf("%d prepared, %d committed, %d deletable", counts.GetPreparedObjects(),
		counts.GetCommittedObjects(), counts.GetDeletableObjects()))
	row("slices", number(counts.GetSlices()))
	row("debts", number(counts.GetDebts()))
	row("keys", number(counts.GetKeys()))
	row("clients", fmt.Sprintf("%d (%d answers remembered)", counts.GetClients(), counts.GetAnsweredRequests()))
	row("version", st.GetVersion())
	return tab.Flush()
}

func snapshotText(st *headwaterv1.StatusResponse) string {
	if st.GetSnapshotIndex() == 0 && st.GetSnapshotSize() == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", st.GetSnapshotIndex(), size(st.GetSnapshotSize()))
}

func behindText(ms uint64) string {
	if ms == 0 {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).String()
}
