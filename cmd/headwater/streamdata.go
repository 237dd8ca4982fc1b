package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

var foundColumns = []column[*headwaterv1.FoundSlice]{
	{"start", func(f *headwaterv1.FoundSlice) string { return number(f.GetSlice().GetStartOffset()) }},
	{"end", func(f *headwaterv1.FoundSlice) string { return number(f.GetSlice().GetEndOffset()) }},
	{"object", func(f *headwaterv1.FoundSlice) string { return number(f.GetObjectId()) }},
	{"object size", func(f *headwaterv1.FoundSlice) string { return size(f.GetObjectSize()) }},
	{"position", func(f *headwaterv1.FoundSlice) string { return number(f.GetSlice().GetPosition()) }},
	{"length", func(f *headwaterv1.FoundSlice) string { return number(f.GetSlice().GetLength()) }},
	{"epoch", func(f *headwaterv1.FoundSlice) string { return number(f.GetSlice().GetStreamEpoch()) }},
	{"max timestamp", func(f *headwaterv1.FoundSlice) string { return numberOrNone(f.GetSlice().GetMaxTimestamp()) }},
	{"attributes", func(f *headwaterv1.FoundSlice) string { return content(f.GetAttributes()) }},
}

func (a *app) streamObjects() *cobra.Command {
	q := &headwaterv1.FindObjectsRequest{}
	c := a.streamArg(&cobra.Command{
		Use: "objects STREAM", Short: "Find the objects that hold an interval of a stream",
		Long: `Find the objects that hold an interval of a stream, in offset order.

Where the answer stops, and why, is told on standard error: at the end, at the limit, at records that a node still
owes, or at records that were written off. With -o json the whole answer is one object.`,
		Example: "  headwater stream objects orders-0\n  headwater stream objects orders-0 --start 100 --end 200 --limit 10",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				s, err := findStream(ctx, c, args[0])
				if err != nil {
					return err
				}
				q.Read, q.StreamId = c.read, s.GetId()
				r, err := call(ctx, c.rpc.FindObjects, q)
				if err != nil {
					return err
				}
				return a.printFound(r)
			})
		},
	})
	c.Flags().Uint64Var(&q.StartOffset, "start", 0, "first `offset` wanted")
	c.Flags().Uint64Var(&q.EndOffset, "end", 0, "`offset` before which to stop; 0: the end of the stream")
	c.Flags().Uint32Var(&q.Limit, "limit", 100, "at most this many slices, up to 10000")
	return a.reads(c)
}

func (a *app) printFound(r *headwaterv1.FindObjectsResponse) error {
	if a.output == "json" {
		return a.printJSON(r)
	}
	p := newPrinter(a, foundColumns)
	for _, f := range r.GetSlices() {
		if err := p.add(f); err != nil {
			return err
		}
	}
	if err := p.close(); err != nil {
		return err
	}
	why := "the end"
	switch r.GetStop() {
	case headwaterv1.FindObjectsResponse_LIMIT:
		why = "the limit"
	case headwaterv1.FindObjectsResponse_DEBT:
		d := r.GetDebt()
		why = fmt.Sprintf("node %d still owes what follows, up to %d", d.GetNodeId(), d.GetBoundary())
	case headwaterv1.FindObjectsResponse_LOSS:
		why = fmt.Sprintf("what follows is lost, up to %d", r.GetLoss().GetEndOffset())
	}
	fmt.Fprintf(a.err, "offsets %d to %d; stops at %d: %s\n", r.GetStartOffset(), r.GetEndOffset(), r.GetEndOffset(), why)
	return nil
}

func (a *app) streamOffset() *cobra.Command {
	q := &headwaterv1.FindOffsetRequest{}
	c := a.streamArg(&cobra.Command{
		Use: "offset STREAM", Short: "Find the first offset at or after a timestamp",
		Example: "  headwater stream offset orders-0 --timestamp 1700000000000",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				s, err := findStream(ctx, c, args[0])
				if err != nil {
					return err
				}
				q.Read, q.StreamId = c.read, s.GetId()
				r, err := call(ctx, c.rpc.FindOffset, q)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(r)
				}
				fmt.Fprintln(a.out, r.GetOffset())
				if !r.GetFound() {
					fmt.Fprintln(a.err, "every record is older; this is the end of the stream")
				}
				return nil
			})
		},
	})
	c.Flags().Int64Var(&q.Timestamp, "timestamp", 0, "in the unit that the writers of the stream use")
	return a.reads(c)
}
