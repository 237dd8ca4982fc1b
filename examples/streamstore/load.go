package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headwaterdb/headwater/examples/streamstore/store"
)

// progress is what a writer process reports, a JSON line each, on standard output.
type progress struct {
	Files   int      `json:"files"`             // stored since the last report
	Bytes   int64    `json:"bytes"`             // of them
	Rescued []uint64 `json:"rescued,omitempty"` // nodes this one took over from
}

// loader stores the files of one share, a stream for each.
type loader struct {
	*opened
	node   *store.Node
	src    string
	target int
	report func(progress)
}

// How many files are opened, written and closed together.
const filesAtOnce = 64

func load(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var p place
	f := p.flags("load", stderr)
	src := f.String("src", ".", "the `directory` to store")
	part := f.Int("part", 0, "which share of the files is this process's, from 0")
	parts := f.Int("parts", 1, "how many shares there are")
	target := f.Int("object-size", 256<<10, "flush an object at so many `bytes`")
	if err := f.Parse(args); err != nil {
		return err
	}
	files, err := listFiles(*src, *part, *parts)
	if err != nil {
		return err
	}
	o, err := p.open(ctx, true)
	if err != nil {
		return err
	}
	defer o.close()
	node, err := store.Join(ctx, o.hw, p.node, fmt.Sprintf("pid-%d", os.Getpid()), p.ttl)
	if err != nil {
		return err
	}
	out := json.NewEncoder(stdout)
	l := &loader{opened: o, node: node, src: *src, target: *target, report: func(p progress) { out.Encode(p) }}
	return l.run(ctx, files, p.ttl)
}

// run stores the files while it gives signs of life and watches those of the others.
func (l *loader) run(ctx context.Context, files []string, ttl time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	rescues := make(chan []uint64, 16)
	g.Go(func() error { return l.node.Live(ctx) })
	g.Go(func() error { return watch(ctx, l.node, ttl, rescues) })
	g.Go(func() error {
		defer cancel()
		return l.store(ctx, files, rescues)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func watch(ctx context.Context, n *store.Node, ttl time.Duration, rescues chan<- []uint64) error {
	r := store.NewRescuer(n)
	tick := time.NewTicker(ttl / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			rescued, err := r.Look(ctx, now)
			if err != nil {
				return err
			}
			if len(rescued) > 0 {
				rescues <- rescued
			}
		}
	}
}

// store goes through the files until each is stored whole. Files whose stream is still held by a node that died wait
// until somebody has taken over from it.
func (l *loader) store(ctx context.Context, files []string, rescues <-chan []uint64) error {
	w := store.NewWriter(l.node, l.bucket, l.target)
	for len(files) > 0 {
		var held []string
		for len(files) > 0 {
			n := min(len(files), filesAtOnce)
			later, err := l.group(ctx, w, files[:n])
			if err != nil {
				return err
			}
			held, files = append(held, later...), files[n:]
			select {
			case r := <-rescues:
				l.report(progress{Rescued: r})
			default:
			}
		}
		if files = held; len(files) > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case r := <-rescues:
				l.report(progress{Rescued: r})
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	return nil
}

// group stores some files and returns those that cannot be opened yet.
func (l *loader) group(ctx context.Context, w *store.Writer, names []string) (held []string, err error) {
	todo, done := make([]string, 0, len(names)), progress{}
	sizes := map[string]int64{}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(l.src, name))
		if err != nil {
			return nil, err
		}
		sizes[name] = info.Size()
		s, known := l.node.State().StreamByName(name)
		if known && !s.Open && s.Epoch > 0 && s.EndOffset == uint64(info.Size()) {
			continue // a writer before us stored it
		}
		todo = append(todo, name)
	}
	streams, err := w.Open(ctx, todo)
	if err != nil {
		return nil, err
	}
	var open []*store.Stream
	for i, s := range streams {
		if s == nil {
			held = append(held, todo[i])
			continue
		}
		data, err := os.ReadFile(filepath.Join(l.src, todo[i]))
		if err != nil {
			return nil, err
		}
		// A writer before us may have stored a part; we go on where it is committed to.
		if err := w.Append(ctx, s, data[s.Next:]); err != nil {
			return nil, err
		}
		open = append(open, s)
		done.Files, done.Bytes = done.Files+1, done.Bytes+sizes[todo[i]]
	}
	if err := w.Flush(ctx); err != nil {
		return nil, err
	}
	if err := w.Close(ctx, open); err != nil {
		return nil, err
	}
	l.report(done)
	return held, nil
}

// listFiles returns the regular files of a share, by path relative to dir.
func listFiles(dir string, part, parts int) (files []string, err error) {
	i := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if i++; i%parts == part {
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	})
	return files, err
}
