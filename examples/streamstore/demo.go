package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/headwaterdb/headwater/examples/streamstore/store"
	"github.com/headwaterdb/headwater/meta"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	dir     string
	dbs     []string // the writers take them in turn: one database, or the members of one cluster of databases
	src     string
	writers int
	kills   int
	seed    uint64
	target  int
	ttl     time.Duration
}

// summary is what the demo did.
type summary struct {
	files, bytes                   int64
	kills, restarts, takeovers     int
	transfers                      int
	objects, merged, into, deleted int
	rows                           uint64
	loading, total                 time.Duration
}

func demo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o demoOptions
	f := flag.NewFlagSet("streamstore demo", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.dir, "dir", "", "work in this `directory` and keep it; by default a temporary one is made and removed")
	f.Func("db", "keep the metadata here instead of in a SQLite file: `postgres://…` or mysql://…; given several times, the writers\ntake the addresses in turn", func(s string) error {
		o.dbs = append(o.dbs, s)
		return nil
	})
	f.StringVar(&o.src, "src", "", "the `directory` to store; by default the source tree of Go")
	f.IntVar(&o.writers, "writers", 3, "how many writer processes")
	f.IntVar(&o.kills, "kills", 12, "how often a writer is killed with -9")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of the kills")
	f.IntVar(&o.target, "object-size", 256<<10, "writers flush an object at so many `bytes`")
	f.DurationVar(&o.ttl, "ttl", time.Second, "how long a node's sign of life may stand still")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "streamstore-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.dir = dir
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if o.src == "" {
		root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return fmt.Errorf("ask go for its source tree (or name one with --src): %w", err)
		}
		o.src = filepath.Join(strings.TrimSpace(string(root)), "src")
	}
	fmt.Fprintf(stderr, "storing %s in %s, %d writers, seed %d\n", o.src, o.dir, o.writers, o.seed)
	s, err := runDemo(ctx, o, newDisplay(stderr))
	if err != nil {
		return fmt.Errorf("%w (repeat with --seed %d)", err, o.seed)
	}
	s.print(stdout)
	return nil
}

func (o demoOptions) place(node uint64) place {
	db := "sqlite:" + filepath.Join(o.dir, "headwater.db")
	if n := uint64(len(o.dbs)); n > 0 {
		db = o.dbs[node%n]
	}
	return place{db: db, bucket: "file://" + filepath.Join(o.dir, "bucket"), node: node, ttl: o.ttl}
}

// runDemo stores the tree while writers are killed, hands streams over between live nodes, compacts, reclaims, and then
// proves that every file is there byte for byte and that the bucket holds nothing else.
func runDemo(ctx context.Context, o demoOptions, d *display) (s summary, err error) {
	defer d.close()
	begin := time.Now()
	files, err := listFiles(o.src, 0, 1)
	if err != nil {
		return s, err
	}
	p := o.place(1000)
	at, err := p.open(ctx, true)
	if err != nil {
		return s, err
	}
	defer at.close()
	s.files = int64(len(files))

	if err := loadAll(ctx, o, d, len(files), &s); err != nil {
		return s, fmt.Errorf("load: %w", err)
	}
	s.loading = time.Since(begin)

	node, err := store.Join(ctx, at.hw, p.node, "demo", o.ttl)
	if err != nil {
		return s, err
	}
	if s.transfers, err = transferAll(ctx, at, o.ttl); err != nil {
		return s, fmt.Errorf("transfer: %w", err)
	}
	if err := tidy(ctx, at, node, d, &s); err != nil {
		return s, err
	}
	if s.bytes, err = verify(ctx, at, o.src, files, d); err != nil {
		return s, fmt.Errorf("verify: %w", err)
	}
	st := at.hw.Status()
	s.rows, s.total = st.AppliedIndex, time.Since(begin)
	return s, nil
}

// tidy merges small objects and deletes what is left over, until the bucket holds what the metadata knows and no more.
func tidy(ctx context.Context, at *opened, node *store.Node, d *display, s *summary) error {
	s.objects = int(node.State().Counts().CommittedObjects)
	bar := d.bar("compact", int64(s.objects))
	c := store.Compactor{Node: node, Bucket: at.bucket, Target: 8 << 20, Progress: func(n int) { bar.add(int64(n)) }}
	var err error
	if s.merged, s.into, err = c.Run(ctx); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	bar.done()
	// The writers are gone, so prepared objects need not wait for their deadline: they are reclaimed as of tomorrow.
	r := store.Reclaimer{Node: node, Bucket: at.bucket, Grace: 100 * time.Millisecond}
	if s.deleted, err = r.Reclaim(ctx, time.Now().Add(24*time.Hour)); err != nil {
		return err
	}
	unknown, missing, err := store.Leaks(ctx, node.State(), at.bucket)
	if err != nil {
		return err
	}
	if len(unknown) > 0 || len(missing) > 0 {
		return fmt.Errorf("the bucket and the metadata differ: %d objects leaked %v, %d missing %v", len(unknown), unknown, len(missing), missing)
	}
	return nil
}

// verify reads every stream back and compares it with its file.
func verify(ctx context.Context, at *opened, src string, files []string, d *display) (bytes int64, err error) {
	bar := d.bar("verify", int64(len(files)))
	state := func() *meta.State { return at.hw.View().State }
	reader := store.NewReader(state, at.bucket)
	for _, name := range files {
		want, err := os.ReadFile(filepath.Join(src, name))
		if err != nil {
			return bytes, err
		}
		s, known := state().StreamByName(name)
		if !known {
			return bytes, fmt.Errorf("stream %q is missing", name)
		}
		h := sha256.New()
		end, err := reader.Copy(ctx, h, s.ID, 0)
		if err != nil {
			return bytes, fmt.Errorf("read stream %q: %w", name, err)
		}
		if sum := sha256.Sum256(want); end != uint64(len(want)) || string(h.Sum(nil)) != string(sum[:]) {
			return bytes, fmt.Errorf("stream %q differs from its file: %d of %d bytes", name, end, len(want))
		}
		bytes += int64(len(want))
		bar.add(1)
	}
	bar.done()
	return bytes, nil
}

func (s summary) print(w io.Writer) {
	fmt.Fprintf(w, `every file reads back byte for byte, and the bucket holds nothing else

  files               %d (%.1f MiB)
  writers killed      %d: %d came back as the same node, %d were taken over from
  handed over         %d streams between live nodes, with bytes still owed
  objects             %d, of which %d were merged into %d
  deleted             %d objects that nothing reads any more
  rows in the log     %d
  time                %s to store, %s in all
`, s.files, float64(s.bytes)/(1<<20), s.kills, s.restarts, s.takeovers, s.transfers, s.objects, s.merged, s.into, s.deleted,
		s.rows, s.loading.Round(time.Millisecond*100), s.total.Round(time.Millisecond*100))
}
