package postgres

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/headwaterdb/headwater/sqllog"
)

// source is where connections come from.
type source interface {
	// connect makes a connection of database/sql.
	connect(ctx context.Context) (*stdlib.Conn, error)
	// dedicated makes a connection that its owner keeps and closes.
	dedicated(ctx context.Context) (*pgx.Conn, error)
	// owned reports whether the sessions are ours, so that their settings may be changed.
	owned() bool
	// idle is how many of at most n connections stay open while there is nothing to do.
	idle(n int) int
	// location tells where, without a secret.
	location() string
}

// direct opens connections by itself.
type direct struct {
	config *pgx.ConnConfig
	gate   sqllog.Gate
}

func (d *direct) owned() bool    { return true }
func (d *direct) idle(n int) int { return n }

func (d *direct) location() string { return describe(d.config) }

func (d *direct) connect(ctx context.Context) (c *stdlib.Conn, err error) {
	err = d.gate.Pass(ctx, func() error {
		config, connected := uncancelling(d.config)
		raw, err := stdlib.GetConnector(*config, stdlib.OptionShouldPing(neverPing)).Connect(ctx)
		if err != nil {
			return unveil(err)
		}
		connected()
		c = raw.(*stdlib.Conn)
		return nil
	})
	return c, err
}

func (d *direct) dedicated(ctx context.Context) (c *pgx.Conn, err error) {
	err = d.gate.Pass(ctx, func() (err error) {
		config, connected := uncancelling(d.config)
		c, err = pgx.ConnectConfig(ctx, config)
		connected()
		return unveil(err)
	})
	return c, err
}

var errNoCancel = errors.New("statements are not cancelled on the server")

// uncancelling returns a configuration for one connection, and what must be called when it is made. From then on the
// driver's requests to cancel statements, each over another connection, go nowhere: our reads are short, the server's
// statement timeout ends what is not, and PgBouncer 1.18 dies of such requests now and then.
func uncancelling(config *pgx.ConnConfig) (c *pgx.ConnConfig, connected func()) {
	c = config.Copy()
	var made atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if made.Load() {
			return nil, errNoCancel
		}
		return dial(ctx, network, address)
	}
	return c, func() { made.Store(true) }
}

// neverPing: a connection is tried before it is used again by conn.ResetSession, which gives up sooner.
func neverPing(context.Context, stdlib.ShouldPingParams) bool { return false }

// unveil takes the driver's error apart: it holds the configuration with the password.
func unveil(err error) error {
	var e *pgconn.ConnectError
	if errors.As(err, &e) {
		return attempts{errors.Unwrap(e)}
	}
	return err
}

// attempts is what became of the attempts at all addresses, which the driver tells on a line each.
type attempts struct{ error }

func (a attempts) Error() string {
	return strings.Join(slices.Compact(strings.Split(a.error.Error(), "\n")), "; ")
}

func (a attempts) Unwrap() error { return a.error }

// describe tells where a configuration leads.
func describe(c *pgx.ConnConfig) string {
	hosts := []string{hostPort(c.Host, c.Port)}
	for _, f := range c.Fallbacks { // TLS and no TLS of one host are two
		if h := hostPort(f.Host, f.Port); h != hosts[len(hosts)-1] {
			hosts = append(hosts, h)
		}
	}
	return "postgres://" + c.User + "@" + strings.Join(hosts, ",") + "/" + c.Database
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// prepareConfig adds to the configuration what the log needs. config is not used afterwards.
func prepareConfig(config *pgx.ConnConfig, o Options) *pgx.ConnConfig {
	dialer := &net.Dialer{
		Timeout: o.ConnectTimeout,
		// A server that has gone without a goodbye is noticed after some 11 s where nothing is under way, and by the
		// limit for unanswered data or the statement timeout where something is.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
		Control:         userTimeout(o.StatementTimeout),
	}
	config.DialFunc = dialer.DialContext
	if config.ConnectTimeout == 0 || config.ConnectTimeout > o.ConnectTimeout {
		config.ConnectTimeout = o.ConnectTimeout // of one address
	}
	if _, ok := config.RuntimeParams["application_name"]; !ok {
		config.RuntimeParams["application_name"] = "headwater" // poolers know it
	}
	return config
}

// borrowed takes connections from a pool of the program's.
type borrowed struct{ pool *pgxpool.Pool }

func (b *borrowed) owned() bool      { return false }
func (b *borrowed) idle(int) int     { return 0 }
func (b *borrowed) location() string { return describe(b.pool.Config().ConnConfig) }

func (b *borrowed) connect(ctx context.Context) (*stdlib.Conn, error) {
	raw, err := stdlib.GetPoolConnector(b.pool, stdlib.OptionShouldPing(neverPing)).Connect(ctx)
	if err != nil {
		return nil, unveil(err)
	}
	return raw.(*stdlib.Conn), nil
}

func (b *borrowed) dedicated(ctx context.Context) (*pgx.Conn, error) {
	c, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, unveil(err)
	}
	return c.Hijack(), nil
}
