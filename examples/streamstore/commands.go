package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/headwaterdb/headwater/examples/streamstore/store"
	"github.com/headwaterdb/headwater/meta"
)

func list(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var p place
	f := p.flags("ls", stderr)
	if err := f.Parse(args); err != nil {
		return err
	}
	o, err := p.open(ctx, false)
	if err != nil {
		return err
	}
	defer o.close()
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintln(t, "BYTES\tEPOCH\tNODE\tNAME")
	for cursor := ""; ; {
		page, err := o.hw.View().State.StreamsByName(f.Arg(0), cursor, meta.MaxPage)
		if err != nil {
			return err
		}
		for _, s := range page.Items {
			fmt.Fprintf(t, "%d\t%d\t%d\t%s\n", s.EndOffset-s.StartOffset, s.Epoch, s.Owner.NodeID, s.Name)
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

func cat(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var p place
	f := p.flags("cat", stderr)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return errors.New("cat takes one stream name")
	}
	o, err := p.open(ctx, false)
	if err != nil {
		return err
	}
	defer o.close()
	s, known := o.hw.View().State.StreamByName(f.Arg(0))
	if !known {
		return fmt.Errorf("no stream %q", f.Arg(0))
	}
	_, err = store.NewReader(func() *meta.State { return o.hw.View().State }, o.bucket).Copy(ctx, stdout, s.ID, 0)
	return err
}

func compact(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var p place
	f := p.flags("compact", stderr)
	target := f.Uint64("target", 8<<20, "merge into objects of about so many `bytes`")
	if err := f.Parse(args); err != nil {
		return err
	}
	return p.as(ctx, "compactor", func(o *opened, n *store.Node) error {
		c := store.Compactor{Node: n, Bucket: o.bucket, Target: *target}
		from, to, err := c.Run(ctx)
		if err == nil {
			fmt.Fprintf(stdout, "merged %d objects into %d\n", from, to)
		}
		return err
	})
}

func reclaim(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var p place
	f := p.flags("reclaim", stderr)
	grace := f.Duration("grace", 5*time.Second, "how long readers may go on with a view they have loaded")
	sweep := f.Bool("sweep", false, "also delete bytes in the bucket that the metadata does not know")
	if err := f.Parse(args); err != nil {
		return err
	}
	return p.as(ctx, "reclaimer", func(o *opened, n *store.Node) error {
		r := store.Reclaimer{Node: n, Bucket: o.bucket, Grace: *grace}
		deleted, err := r.Reclaim(ctx, time.Now())
		if err != nil {
			return err
		}
		unknown, missing, err := store.Leaks(ctx, n.State(), o.bucket)
		if err != nil {
			return err
		}
		if *sweep {
			if err := store.Sweep(ctx, o.bucket, unknown); err != nil {
				return err
			}
		}
		fmt.Fprintf(stdout, "deleted %d objects; in the bucket and unknown: %d; known and missing: %d\n", deleted, len(unknown), len(missing))
		return nil
	})
}

// as joins the cluster as a node for one piece of work.
func (p *place) as(ctx context.Context, address string, do func(*opened, *store.Node) error) error {
	o, err := p.open(ctx, false)
	if err != nil {
		return err
	}
	defer o.close()
	n, err := store.Join(ctx, o.hw, p.node, address, p.ttl)
	if err != nil {
		return err
	}
	return do(o, n)
}
