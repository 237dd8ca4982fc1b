package main

import (
	"context"
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
}

// openLog opens the log that --db names. Its errors never repeat an address, which may hold a password.
func openLog(ctx context.Context, db string, why purpose) (oplog.Log, error) {
	scheme, address, _ := strings.Cut(db, ":")
	i := slices.IndexFunc(backends, func(b backend) bool { return b.scheme == scheme })
	if i < 0 || address == "" {
		known := make([]string, len(backends))
		for i, b := range backends {
			known[i] = b.scheme + ":ADDRESS"
		}
		return nil, usagef("--db takes one of: %s; for example sqlite:headwater.db", strings.Join(known, ", "))
	}
	log, err := backends[i].open(ctx, address, why)
	if err != nil {
		return nil, databaseError(db, err)
	}
	return log, nil
}

// databaseError adds what to do about a database that cannot be used.
func databaseError(db string, err error) error {
	return unavailable(fmt.Errorf("open database: %w", err), databaseHint(db, err))
}
