package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// ours begins the parameters of a database's address that are for the log; the driver gets the others.
const ours = "headwater_"

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
	if _, err = log.Bounds(ctx); errors.Is(err, oplog.ErrNoCluster) {
		_, err = headwater.Init(ctx, log)
		if errors.Is(err, oplog.ErrExists) { // another process was quicker
			err = nil
		}
	}
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	return log, nil
}

// postgresOptions takes the parameters of an address that are ours out of it. An error repeats the name of a parameter,
// and nothing else of the address.
func postgresOptions(address string) (o postgres.Options, err error) {
	rest, query, _ := strings.Cut(address, "?")
	var others []string
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		name, mine := strings.CutPrefix(key, ours)
		if !mine {
			others = append(others, pair)
			continue
		}
		if value, err = url.QueryUnescape(value); err == nil {
			err = setPostgres(&o, name, value)
		}
		if err != nil {
			return o, usagef("--db: the parameter %s has no value that it can have; see docs/postgres.md", key)
		}
	}
	o.DSN = "postgres:" + rest
	if query = strings.Join(others, "&"); query != "" {
		o.DSN += "?" + query
	}
	return o, nil
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
	case "max_connections":
		o.MaxConnections, err = strconv.Atoi(value)
	case "allow_fsync_off":
		o.AllowFsyncOff, err = strconv.ParseBool(value)
	default:
		err = fmt.Errorf("no parameter %s", name)
	}
	return err
}

// printSQL returns the statements with which an administrator prepares the database at db for the two roles.
func printSQL(db, nodeRole, readerRole string) (string, error) {
	scheme, address, _ := strings.Cut(db, ":")
	if scheme != "postgres" && scheme != "postgresql" {
		return "", usagef("--print-sql is for --db postgres://…; a file needs no preparation")
	}
	o, err := postgresOptions(address)
	if err != nil {
		return "", err
	}
	text, err := postgres.PrintSQL(o, nodeRole, readerRole)
	if err != nil {
		return "", usagef("--db: %v", err)
	}
	return text, nil
}
