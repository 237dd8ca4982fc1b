//go:build unix

package nemesis_test

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
	"github.com/headwaterdb/headwater/sqllog/postgres"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// server is a database server that can be harmed.
type server interface {
	Addr() string
	Kill(t testing.TB)
	Stop(t testing.TB)
	Pause(t testing.TB)
	Resume(t testing.TB)
}

// database is where the log of one round is kept.
type database struct {
	server   server // nil: a file
	start    func(t testing.TB)
	protocol proxy.Protocol
	append   string // how the statement of an append begins
	// dsn is what a daemon is told; the address stands for the server's.
	dsn func(address string) string
	// open opens the log past all networks.
	open func(ctx context.Context) (oplog.Log, error)
}

// kind is a kind of database; its servers live as long as the test that calls begin, and each round has tables of its own.
type kind struct {
	name  string
	begin func(t testing.TB) func(t testing.TB) database
}

// silence is what daemons are told of how long the database may be silent: less than operators give it, so that a round
// sees more.
const silence = 2 * time.Second

var kinds = []kind{
	{"SQLite", func(testing.TB) func(testing.TB) database {
		return func(t testing.TB) database {
			path := filepath.Join(t.TempDir(), "headwater.db")
			return database{
				dsn:  func(string) string { return "sqlite:" + path },
				open: func(ctx context.Context) (oplog.Log, error) { return sqlite.Open(ctx, sqlite.Options{Path: path}) },
			}
		}
	}},
	{"PostgreSQL", func(t testing.TB) func(testing.TB) database {
		s := dbtest.NewPostgres(t)
		return func(t testing.TB) database {
			prefix := dbtest.Prefix()
			return database{
				server: s, start: s.Start, protocol: proxy.Postgres,
				append: "insert into " + prefix + "_log (idx, payload) select",
				dsn:    onServer(s.DSN("postgres", "postgres"), prefix, "&"),
				open: func(ctx context.Context) (oplog.Log, error) {
					return postgres.Open(ctx, postgres.Options{DSN: s.DSN("postgres", "postgres"), Prefix: prefix, StatementTimeout: silence})
				},
			}
		}
	}},
	{"MariaDB", func(t testing.TB) func(testing.TB) database {
		s := dbtest.NewMariaDB(t)
		return func(t testing.TB) database {
			prefix := dbtest.Prefix()
			return database{
				server: s, start: func(t testing.TB) { s.Start(t) }, protocol: proxy.MySQL,
				append: "insert into " + prefix + "_log (idx, payload) select",
				dsn:    onServer(s.DSN("root"), prefix, "?"),
				open: func(ctx context.Context) (oplog.Log, error) {
					return mysql.Open(ctx, mysql.Options{DSN: s.DSN("root"), Prefix: prefix, StatementTimeout: silence})
				},
			}
		}
	}},
}

// onServer makes a DSN lead to another address, with our parameters.
func onServer(dsn, prefix, and string) func(address string) string {
	return func(address string) string {
		u, err := url.Parse(dsn)
		if err != nil {
			panic(err) // the harness's own text
		}
		u.Host = address
		return fmt.Sprintf("%s%sheadwater_prefix=%s&headwater_statement_timeout=%v&headwater_connect_timeout=%v", u, and, prefix, silence, silence)
	}
}
