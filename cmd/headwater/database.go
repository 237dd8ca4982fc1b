package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headwaterdb/headwater/oplog"
)

// backend is a kind of database that --db can name.
type backend struct {
	scheme string
	// open opens the log at the address behind the scheme. Where the purpose allows it and the database is new, it
	// is made a cluster.
	open func(ctx context.Context, address string, why purpose) (oplog.Log, error)
}

// backends is the table of openers. A new kind of database is a new line.
var backends = []backend{
	{"sqlite", openSQLite},
	{"postgres", openPostgres},
	{"postgresql", openPostgres},
	{"mysql", openMySQL},
}

// openLog opens the log that --db names. Its errors never repeat an address, which may hold a password.
func openLog(ctx context.Context, db string, why purpose) (oplog.Log, error) {
	kind, address, err := backendOf(db)
	if err != nil {
		return nil, err
	}
	log, err := kind.open(ctx, address, why)
	if err != nil {
		return nil, databaseError(err)
	}
	return log, nil
}

// backendOf takes what --db names apart.
func backendOf(db string) (kind backend, address string, err error) {
	scheme, address, _ := strings.Cut(db, ":")
	i := slices.IndexFunc(backends, func(b backend) bool { return b.scheme == scheme })
	if i < 0 || address == "" {
		known := make([]string, len(backends))
		for i, b := range backends {
			known[i] = b.scheme + ":ADDRESS"
		}
		return backend{}, "", usagef("--db takes one of: %s; for example sqlite:headwater.db", strings.Join(known, ", "))
	}
	return backends[i], address, nil
}

// databaseError adds what to do about a database that cannot be used.
func databaseError(err error) error {
	return unavailable(fmt.Errorf("open database: %w", err), databaseHint(err))
}

// hints say what to do about an error, by its kind.
var hints = []struct {
	err  error
	hint string
}{
	{oplog.ErrNoCluster, "headwater init --db … begins a cluster there; so do serve and bench with --init"},
	{oplog.ErrSchema, "the database belongs to another program, or to another version of this one; nothing was changed"},
	{oplog.ErrDenied, "this user may not open it"},
	{oplog.ErrReadOnly, "a cluster's database must be writable for this"},
	{oplog.ErrUnavailable, "the server may be away; a file's folder may be missing or not mounted, or another process may hold it locked; nothing was changed"},
	{oplog.ErrFull, "there is no room left; nothing was changed"},
	{oplog.ErrCorrupt, "restore it from a backup; nothing was changed"},
}

func databaseHint(err error) string {
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return h.hint
		}
	}
	return ""
}
