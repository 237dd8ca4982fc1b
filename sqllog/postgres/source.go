package postgres

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/headwaterdb/headwater/oplog"
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
		config, a := d.attempt()
		raw, err := stdlib.GetConnector(*config, stdlib.OptionShouldPing(neverPing)).Connect(ctx)
		if err != nil {
			return a.explain(unveil(err))
		}
		a.made.Store(true)
		c = raw.(*stdlib.Conn)
		return nil
	})
	return c, err
}

func (d *direct) dedicated(ctx context.Context) (c *pgx.Conn, err error) {
	err = d.gate.Pass(ctx, func() (err error) {
		config, a := d.attempt()
		c, err = pgx.ConnectConfig(ctx, config)
		a.made.Store(err == nil)
		return a.explain(unveil(err))
	})
	return c, err
}

var errNoCancel = errors.New("statements are not cancelled on the server")

// attempt is one attempt to connect.
type attempt struct {
	made  atomic.Bool // the connection is there
	plain atomic.Bool // a server answered that it has no TLS
	must  bool        // nothing but TLS will do
}

// attempt returns a configuration for one connection. Once that is made, the driver's requests to cancel statements, each
// over another connection, go nowhere: our reads are short, the server's statement timeout ends what is not, and PgBouncer
// 1.18 dies of such requests now and then.
func (d *direct) attempt() (c *pgx.ConnConfig, a *attempt) {
	c = d.config.Copy()
	a = &attempt{must: c.TLSConfig != nil && !slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil })}
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if a.made.Load() {
			return nil, errNoCancel
		}
		n, err := dial(ctx, network, address)
		if t, ok := n.(*net.TCPConn); ok && a.must {
			n = &greeted{TCPConn: t, attempt: a}
		}
		return n, err
	}
	return c, a
}

// explain says that it is the settings that keep us out, where they do: the driver has no error for that.
func (a *attempt) explain(err error) error {
	if err != nil && a.must && a.plain.Load() && state(err) == "" {
		return fmt.Errorf("the server offers no TLS, and sslmode asks for it: %w: %w", oplog.ErrSettings, err)
	}
	return err
}

// greeted is a connection that looks at the first byte of a server that was asked for TLS: S, or N for no.
type greeted struct {
	*net.TCPConn
	attempt *attempt
	seen    bool
}

func (g *greeted) Read(b []byte) (int, error) {
	n, err := g.TCPConn.Read(b)
	if n > 0 && !g.seen {
		g.seen = true
		if b[0] == 'N' {
			g.attempt.plain.Store(true)
		}
	}
	return n, err
}

// neverPing: a connection is tried before it is used again by conn.ResetSession, which gives up sooner.
func neverPing(context.Context, stdlib.ShouldPingParams) bool { return false }

// unveil takes the driver's error apart: it holds the configuration with the password, and tells each attempt on a line.
func unveil(err error) error {
	var e *pgconn.ConnectError
	if errors.As(err, &e) {
		return sqllog.OneLine(errors.Unwrap(e))
	}
	return err
}

// errDSN never repeats what it was given: whatever a parser quotes may be the password.
var errDSN = fmt.Errorf("the connection string cannot be read: it must be postgres://user:password@host:port/database?sslmode=…, where @ / ? # and %% in a name or password are written as %%40 %%2F %%3F %%23 and %%25, or key=value pairs: %w", oplog.ErrSettings)

// parse reads a connection string.
func parse(dsn string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil || dsn == "" || doubtful(dsn) {
		return nil, errDSN
	}
	return config, nil
}

// doubtful reports whether a URL has an @ where the driver takes what stands before it for a host or a database, which
// everybody is shown: it may be a part of a password in which @ or / was not escaped.
func doubtful(dsn string) bool {
	scheme, rest, _ := strings.Cut(dsn, "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return false
	}
	rest, query, _ := strings.Cut(rest, "?")
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); strings.Contains(name, "@") {
			return true
		}
	}
	authority, database, _ := strings.Cut(rest, "/")
	return strings.Count(authority, "@") > 1 || strings.Contains(database, "@")
}

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
	config.OnNotice = noteWarning
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
