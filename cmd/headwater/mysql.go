package main

import (
	"context"

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
	rest, err := takeOurs(address, "docs/databases/mysql.md", map[string]any{
		"prefix": &o.Prefix, "max_connections": &o.MaxConnections, "max_value_bytes": &o.MaxValueBytes,
		"poll_interval": &o.PollInterval, "idle_poll_interval": &o.IdlePollInterval,
		"statement_timeout": &o.StatementTimeout, "connect_timeout": &o.ConnectTimeout, "retry_timeout": &o.RetryTimeout,
		"require_durable": &o.RequireDurable, "tidb_pessimistic": &o.TiDBPessimistic,
	})
	o.DSN = "mysql:" + rest
	return o, err
}
