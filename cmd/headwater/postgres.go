package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

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
	rest, err := takeOurs(address, "docs/databases/postgresql.md", func(name, value string) error { return setPostgres(&o, name, value) })
	o.DSN = "postgres:" + rest
	return o, err
}

func setPostgres(o *postgres.Options, name, value string) (err error) {
	durations := map[string]*time.Duration{"poll_interval": &o.PollInterval, "idle_poll_interval": &o.IdlePollInterval,
		"statement_timeout": &o.StatementTimeout, "connect_timeout": &o.ConnectTimeout, "retry_timeout": &o.RetryTimeout}
	if d := durations[name]; d != nil {
		*d, err = time.ParseDuration(value)
		return err
	}
	switch name {
	case "prefix":
		o.Prefix = value
	case "schema":
		o.Schema = value
	case "notify":
		var on bool
		on, err = strconv.ParseBool(value)
		o.NoNotify = !on
	case "turnstile":
		o.Turnstile, err = strconv.ParseBool(value)
	case "max_connections":
		o.MaxConnections, err = strconv.Atoi(value)
	case "max_value_bytes":
		o.MaxValueBytes, err = strconv.Atoi(value)
	case "allow_fsync_off":
		o.AllowFsyncOff, err = strconv.ParseBool(value)
	default:
		err = fmt.Errorf("no parameter %s", name)
	}
	return err
}
