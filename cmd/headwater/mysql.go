package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// openMySQL opens the log in a MariaDB or MySQL database. A database without a cluster becomes one only where that was
// asked for in so many words: it may be the wrong one, or empty because it is being restored.
func openMySQL(ctx context.Context, address string, why purpose) (oplog.Log, error) {
	o, err := mysqlOptions(address)
	if err != nil {
		return nil, err
	}
	o.ReadOnly = why == toRead
	o.MustExist = why != toInit && why != toBegin
	log, err := mysql.Open(ctx, o)
	if err != nil || why != toInit {
		return log, err
	}
	return begun(ctx, log)
}

// mysqlOptions takes the parameters of an address that are ours out of it.
func mysqlOptions(address string) (o mysql.Options, err error) {
	rest, err := takeOurs(address, "docs/databases/mysql.md", func(name, value string) error { return setMySQL(&o, name, value) })
	o.DSN = "mysql:" + rest
	return o, err
}

func setMySQL(o *mysql.Options, name, value string) (err error) {
	durations := map[string]*time.Duration{"poll_interval": &o.PollInterval, "idle_poll_interval": &o.IdlePollInterval,
		"statement_timeout": &o.StatementTimeout, "connect_timeout": &o.ConnectTimeout, "retry_timeout": &o.RetryTimeout}
	if d := durations[name]; d != nil {
		*d, err = time.ParseDuration(value)
		return err
	}
	switch name {
	case "prefix":
		o.Prefix = value
	case "max_connections":
		o.MaxConnections, err = strconv.Atoi(value)
	case "max_value_bytes":
		o.MaxValueBytes, err = strconv.Atoi(value)
	case "require_durable":
		o.RequireDurable, err = strconv.ParseBool(value)
	case "tidb_pessimistic":
		o.TiDBPessimistic, err = strconv.ParseBool(value)
	default:
		err = fmt.Errorf("no parameter %s", name)
	}
	return err
}
