package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

func (a *app) streamCommand() *cobra.Command {
	return noun("stream", "Streams: their owners, offsets and data", `  headwater stream list --prefix orders-
  headwater stream show orders-0
  headwater stream objects orders-0 --start 100
  headwater stream force-close orders-0 --reason "node 3 is gone"`,
		a.streamList(), a.streamShow(), a.streamRanges(), a.streamObjects(), a.streamOffset(),
		a.streamCreate(), a.streamOpen(), a.streamClose(), a.streamTrim(), a.streamLabel(), a.streamDelete(),
		a.streamForceClose(), a.streamTransfer())
}

var streamColumns = []column[*headwaterv1.Stream]{
	{"id", func(s *headwaterv1.Stream) string { return number(s.GetId()) }},
	{"name", func(s *headwaterv1.Stream) string { return text(s.GetName()) }},
	{"epoch", func(s *headwaterv1.Stream) string { return number(s.GetEpoch()) }},
	{"state", streamState},
	{"owner", func(s *headwaterv1.Stream) string { return identity(s.GetOwner()) }},
	{"start", func(s *headwaterv1.Stream) string { return number(s.GetStartOffset()) }},
	{"end", func(s *headwaterv1.Stream) string { return number(s.GetEndOffset()) }},
	{"slices", func(s *headwaterv1.Stream) string { return number(s.GetSlices()) }},
	{"ranges", func(s *headwaterv1.Stream) string { return number(s.GetRanges()) }},
	{"debts", func(s *headwaterv1.Stream) string { return number(s.GetDebts()) }},
	{"losses", func(s *headwaterv1.Stream) string { return number(s.GetLosses()) }},
	{"labels", func(s *headwaterv1.Stream) string { return labels(s.GetLabels()) }},
}

func streamState(s *headwaterv1.Stream) string {
	switch {
	case s.GetOpen():
		return "open"
	case s.GetReservedFor() != 0:
		return fmt.Sprintf("closed, reserved for %d", s.GetReservedFor())
	}
	return "closed"
}

// findStream finds a stream by what a person gives: digits are an id, anything else is a name, and name:… is a name
// whatever it looks like.
func findStream(ctx context.Context, c *cluster, arg string) (*headwaterv1.Stream, error) {
	q := &headwaterv1.GetStreamRequest{Read: c.read}
	if name, ok := streamName(arg); ok {
		q.Name = name
	} else {
		id, err := parseID("stream", arg)
		if err != nil {
			return nil, err
		}
		q.StreamId = id
	}
	r, err := call(ctx, c.rpc.GetStream, q)
	return r.GetStream(), err
}

func streamName(arg string) (string, bool) {
	if name, ok := strings.CutPrefix(arg, "name:"); ok {
		return name, true
	}
	return arg, arg == "" || strings.Trim(arg, "0123456789") != ""
}

// streamArg is the Args and completion of a command about one stream.
func (a *app) streamArg(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ExactArgs(1)
	if !strings.Contains(c.Long, "digits") {
		c.Long = strings.TrimSpace(c.Long+"\n\nSTREAM is a name, or an id where it is all digits; write name:123 for a name like that.") + "\n"
		if strings.HasPrefix(c.Long, "STREAM") {
			c.Long = c.Short + ".\n\n" + c.Long
		}
	}
	c.ValidArgsFunction = a.completeStreams
	return c
}

// completeStreams offers the names of streams to the shell: a few, and quickly or not at all.
func (a *app) completeStreams(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || fromEnvironment(cmd.Flags()) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.timeout = time.Second
	var names []string
	_ = a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
		r, err := call(ctx, c.rpc.ListStreams, &headwaterv1.ListStreamsRequest{NamePrefix: prefix,
			Page: &headwaterv1.Page{Limit: 50}})
		for _, s := range r.GetStreams() {
			names = append(names, s.GetName())
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) streamList() *cobra.Command {
	q := &headwaterv1.ListStreamsRequest{}
	var limit int
	var label string
	c := &cobra.Command{
		Use: "list", Short: "List streams: all by id, or by prefix, owner or label", Args: cobra.NoArgs,
		Example: "  headwater stream list --prefix orders-\n  headwater stream list --owner 1 -o json\n  headwater stream list --label topic=orders",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if label != "" {
				name, value, ok := strings.Cut(label, "=")
				if !ok {
					return usagef("--label takes NAME=VALUE")
				}
				q.Label = &headwaterv1.LabelSelector{Name: name, Value: value}
			}
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				p := newPrinter(a, streamColumns)
				err := list(limit, func(page *headwaterv1.Page) ([]*headwaterv1.Stream, string, error) {
					q.Read, q.Page = c.read, page
					r, err := call(ctx, c.rpc.ListStreams, clone(q))
					return r.GetStreams(), r.GetNextCursor(), err
				}, p.add)
				return firstError(err, p.close())
			})
		},
	}
	c.Flags().StringVar(&q.NamePrefix, "prefix", "", "only names that begin like this, in order of the name")
	c.Flags().Uint64Var(&q.Owner, "owner", 0, "only open streams of this `node`")
	c.Flags().StringVar(&label, "label", "", "only streams with this label, `NAME=VALUE`")
	exclusive(c, "prefix", "owner", "label")
	limitFlag(c, &limit)
	return a.reads(c)
}

func (a *app) streamShow() *cobra.Command {
	return a.reads(a.streamArg(&cobra.Command{
		Use: "show STREAM", Short: "Show a stream",
		Example: "  headwater stream show orders-0\n  headwater stream show 1 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				s, err := findStream(ctx, c, args[0])
				if err != nil {
					return err
				}
				return newPrinter(a, streamColumns).show(s)
			})
		},
	}))
}

var rangeColumns = []column[*headwaterv1.Range]{
	{"epoch", func(r *headwaterv1.Range) string { return number(r.GetStreamEpoch()) }},
	{"node", func(r *headwaterv1.Range) string { return number(r.GetNodeId()) }},
	{"start", func(r *headwaterv1.Range) string { return number(r.GetStartOffset()) }},
	{"end", func(r *headwaterv1.Range) string { return number(r.GetEndOffset()) }},
	{"sealed", func(r *headwaterv1.Range) string { return yes(r.GetSealed()) }},
}

func (a *app) streamRanges() *cobra.Command {
	var limit int
	c := a.streamArg(&cobra.Command{
		Use: "ranges STREAM", Short: "List which node wrote which offsets at which epoch",
		Example: "  headwater stream ranges orders-0",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				s, err := findStream(ctx, c, args[0])
				if err != nil {
					return err
				}
				p := newPrinter(a, rangeColumns)
				err = list(limit, func(page *headwaterv1.Page) ([]*headwaterv1.Range, string, error) {
					r, err := call(ctx, c.rpc.ListRanges, &headwaterv1.ListRangesRequest{Read: c.read, Page: page, StreamId: s.GetId()})
					return r.GetRanges(), r.GetNextCursor(), err
				}, p.add)
				return firstError(err, p.close())
			})
		},
	})
	limitFlag(c, &limit)
	return a.reads(c)
}
