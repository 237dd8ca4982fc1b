package main

import (
	"context"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// openPostgres opens the log in a PostgreSQL database. A database without a cluster becomes one only where that was asked
// for in so many words: it may be the wrong one, or empty because it is being restored.
func openPostgres(ctx context.Context, address string, why purpose) (oplog.Log, error) {
	o, err := postgresOptions(address)
	if err != nil {
		return nil, err
	}
	o.ReadOnly = why == toRead
	o.MustExist = why != toInit && why != toBegin
	log, err := postgres.Open(ctx, o)
	if err != nil || why != toInit {
		return log, err
	}
	return begun(ctx, log)
}

// postgresOptions takes the parameters of an address that are ours out of it.
func postgresOptions(address string) (o postgres.Options, err error) {
	notify := true
	rest, err := takeOurs(address, "docs/databases/postgresql.md", map[string]any{
		"prefix": &o.Prefix, "max_connections": &o.MaxConnections, "max_value_bytes": &o.MaxValueBytes,
		"poll_interval": &o.PollInterval, "idle_poll_interval": &o.IdlePollInterval,
		"statement_timeout": &o.StatementTimeout, "connect_timeout": &o.ConnectTimeout, "retry_timeout": &o.RetryTimeout,
		"schema": &o.Schema, "notify": &notify, "turnstile": &o.Turnstile, "allow_fsync_off": &o.AllowFsyncOff,
	})
	o.DSN, o.NoNotify = "postgres:"+rest, !notify
	return o, err
}
