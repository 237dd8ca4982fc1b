package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/api"
	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

func (a *app) logCommand() *cobra.Command {
	q := &headwaterv1.ReadLogRequest{}
	c := a.reach(&cobra.Command{
		Use: "log", Short: "Show the rows of the log, decoded", Args: cobra.NoArgs,
		Long: `Show the rows of the log, decoded, from the oldest one there is or from --from on, up to the newest one.

With --db the rows are read as they stand in the database, also while servers use it, and also rows that no node can
go past: those are shown with the reason why they cannot be decoded, and the exit code is then 1.`,
		Example: "  headwater log --from 100 --limit 10\n  headwater log --db sqlite:headwater.db -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.showLog(cmd, q)
		},
	})
	c.Flags().Uint64Var(&q.FromIndex, "from", 0, "first `index` to show")
	c.Flags().Uint64Var(&q.Limit, "limit", 0, "at most this many rows; 0: all")
	a.longRunning(c)
	return c
}

var rowColumns = []column[*headwaterv1.Row]{
	{"index", func(r *headwaterv1.Row) string { return number(r.GetIndex()) }},
	{"writer", func(r *headwaterv1.Row) string { return short(r.GetWriter()) }},
	{"batch", func(r *headwaterv1.Row) string { return number(r.GetBatch()) }},
	{"applied", func(r *headwaterv1.Row) string { return number(r.GetWriterApplied()) }},
	{"bytes", func(r *headwaterv1.Row) string { return number(r.GetBytes()) }},
	{"time", rowTime},
	{"commands", rowCommands},
}

func short(s string) string { return s[:min(len(s), 8)] }

func rowTime(r *headwaterv1.Row) string {
	if len(r.GetCommands()) == 0 {
		return ""
	}
	return moment(r.GetCommands()[0].GetStamp())
}

// rowCommands tells what is in a row: the kinds of its commands, counted, or what is wrong with it.
func rowCommands(r *headwaterv1.Row) string {
	switch {
	case r.GetUndecodable() != "":
		return "UNDECODABLE: " + text(r.GetUndecodable())
	case r.GetClusterId() != "":
		return "genesis of cluster " + r.GetClusterId()
	}
	var kinds []string
	counts := map[string]int{}
	for _, c := range r.GetCommands() {
		k := kindOf(c)
		if counts[k]++; counts[k] == 1 {
			kinds = append(kinds, k)
		}
	}
	for i, k := range kinds {
		if counts[k] > 1 {
			kinds[i] = fmt.Sprintf("%d×%s", counts[k], k)
		}
	}
	return strings.Join(kinds, " ")
}

// kindOf names the command as its JSON field does.
func kindOf(c *headwaterv1.Command) string {
	m := c.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("command")); f != nil {
		return f.JSONName()
	}
	return "unknown"
}

func (a *app) showLog(cmd *cobra.Command, q *headwaterv1.ReadLogRequest) error {
	p := newPrinter(a, rowColumns)
	var bad []uint64
	show := func(r *headwaterv1.Row) error {
		if r.GetUndecodable() != "" {
			bad = append(bad, r.GetIndex())
		}
		return p.add(r)
	}
	read := a.logOfServer
	if len(a.server) == 0 && a.db != "" {
		read = a.logOfDatabase
	}
	err := firstError(read(cmd, q, show), p.close())
	if err == nil && len(bad) > 0 {
		return refused(fmt.Errorf("%d of the rows cannot be decoded, the first at index %d", len(bad), bad[0]),
			"headwater check --db … examines the whole log")
	}
	return err
}

func (a *app) logOfServer(cmd *cobra.Command, q *headwaterv1.ReadLogRequest, show func(*headwaterv1.Row) error) error {
	return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
		stream, err := c.rpc.ReadLog(ctx, connect.NewRequest(q))
		if err != nil {
			return reachable(rpcError(err), err)
		}
		defer stream.Close()
		for stream.Receive() {
			if err := show(stream.Msg().GetRow()); err != nil {
				return err
			}
		}
		if err := stream.Err(); err != nil {
			return reachable(rpcError(err), err)
		}
		return nil
	})
}

func (a *app) logOfDatabase(cmd *cobra.Command, q *headwaterv1.ReadLogRequest, show func(*headwaterv1.Row) error) (err error) {
	ctx, cancel := a.bounded(cmd.Context())
	defer cancel()
	log, err := openLog(ctx, a.db, toRead)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, log.Close()) }()
	return headwater.ReadLog(ctx, log, q.GetFromIndex(), int(min(q.GetLimit(), math.MaxInt)), func(r headwater.LogRow) error {
		return show(rowOf(r))
	})
}

// rowOf is a row in the form of the API, as a server gives it.
func rowOf(r headwater.LogRow) *headwaterv1.Row {
	return &headwaterv1.Row{Index: r.Index, Incarnation: r.Incarnation, Writer: r.Writer, Batch: r.Batch,
		WriterApplied: r.WriterApplied, WriterDigest: r.WriterDigest, Bytes: uint32(r.Bytes), ClusterId: r.ClusterID,
		Commands: api.Each(r.Proposals, api.FromProposal), Undecodable: strings.ToValidUTF8(r.Undecodable, "\ufffd")}
}
