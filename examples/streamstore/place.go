package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file:// buckets
	_ "gocloud.dev/blob/s3blob"   // s3:// buckets

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/examples/streamstore/store"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
	"github.com/headwaterdb/headwater/sqllog/postgres"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// place is where everything is kept, as flags say it.
type place struct {
	db, bucket string
	node       uint64
	ttl        time.Duration
}

func (p *place) flags(name string, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("streamstore "+name, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&p.db, "db", "sqlite:streamstore.db", "the Headwater database: `sqlite:PATH`, postgres://… or mysql://…")
	f.StringVar(&p.bucket, "bucket", "file://streamstore-bucket", "the bucket's `URL`; a directory is made where it is missing")
	f.Uint64Var(&p.node, "node", 1000, "the `id` under which this process joins the cluster")
	f.DurationVar(&p.ttl, "ttl", 3*time.Second, "how long a node's sign of life may stand still before a peer takes over")
	return f
}

// opened is a place in use.
type opened struct {
	log    oplog.Log
	hw     *headwater.Store
	bucket *blob.Bucket
}

// open opens database and bucket; it makes them where create is set and they are missing.
func (p *place) open(ctx context.Context, create bool) (*opened, error) {
	log, err := openLog(ctx, p.db, create)
	if err != nil {
		return nil, err
	}
	o := &opened{log: log}
	if create {
		if err := store.Create(ctx, log); err != nil {
			o.close()
			return nil, err
		}
	}
	if o.hw, err = headwater.Open(ctx, log, headwater.Options{}); err != nil {
		o.close()
		return nil, err
	}
	if _, err := o.hw.Linearize(ctx); err != nil {
		o.close()
		return nil, err
	}
	if o.bucket, err = openBucket(ctx, p.bucket); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// openLog opens the log in the database that db names. Without create it must hold a cluster.
func openLog(ctx context.Context, db string, create bool) (oplog.Log, error) {
	scheme, rest, _ := strings.Cut(db, ":")
	switch scheme {
	case "sqlite":
		return sqlite.Open(ctx, sqlite.Options{Path: rest, MustExist: !create})
	case "postgres", "postgresql":
		return postgres.Open(ctx, postgres.Options{DSN: db, MustExist: !create})
	case "mysql":
		return mysql.Open(ctx, mysql.Options{DSN: db, MustExist: !create})
	}
	return nil, fmt.Errorf("--db takes sqlite:PATH, postgres://… or mysql://…, not %q", scheme) // the rest may hold a password
}

// openBucket opens a bucket by URL. The URL of a directory may be relative; the directory is made where it is missing.
func openBucket(ctx context.Context, url string) (*blob.Bucket, error) {
	if dir, ok := strings.CutPrefix(url, "file://"); ok {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(abs, 0o755); err != nil {
			return nil, err
		}
		// Temporary files lie beside the bucket's, so that the rename at the end of an upload stays in one file system.
		url = "file://" + abs + "?no_tmp_dir=true&metadata=skip"
	}
	b, err := blob.OpenBucket(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	return b, nil
}

func (o *opened) close() {
	if o.bucket != nil {
		o.bucket.Close()
	}
	if o.hw != nil {
		o.hw.Close()
	}
	o.log.Close()
}
