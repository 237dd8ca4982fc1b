package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/headwaterdb/headwater/oplog"
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
	gate   gate
}

func (d *direct) owned() bool    { return true }
func (d *direct) idle(n int) int { return n }

func (d *direct) location() string { return describe(d.config) }

func (d *direct) connect(ctx context.Context) (c *stdlib.Conn, err error) {
	err = d.gate.pass(ctx, func() error {
		raw, err := stdlib.GetConnector(*d.config.Copy(), stdlib.OptionShouldPing(neverPing)).Connect(ctx)
		if err != nil {
			return unveil(err)
		}
		c = raw.(*stdlib.Conn)
		return nil
	})
	return c, err
}

func (d *direct) dedicated(ctx context.Context) (c *pgx.Conn, err error) {
	err = d.gate.pass(ctx, func() (err error) {
		c, err = pgx.ConnectConfig(ctx, d.config.Copy())
		return unveil(err)
	})
	return c, err
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

// gate paces attempts to connect while they fail. All methods may be called at once.
type gate struct {
	turn chan struct{} // holds a value while somebody tries after a failure; made by the first use
	once sync.Once

	mu     sync.Mutex // guards the rest
	pause  time.Duration
	next   time.Time // no attempt before
	reason error     // of the last failure; nil: the last attempt succeeded
}

// The first and the longest pause between two attempts.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// pass tries once: at once while all is well; after a failure when its turn has come and the pause is over.
func (g *gate) pass(ctx context.Context, try func() error) error {
	g.once.Do(func() { g.turn = make(chan struct{}, 1) })
	if _, reason := g.closed(); reason != nil {
		select {
		case g.turn <- struct{}{}:
			defer func() { <-g.turn }()
		case <-ctx.Done():
			return shut(reason, ctx.Err())
		}
		if wait, reason := g.closed(); reason != nil && wait > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return shut(reason, ctx.Err())
			}
		}
	}
	err := try()
	if err == nil || ctx.Err() == nil { // an attempt that its caller broke off says nothing
		g.tell(err)
	}
	return err
}

func shut(reason, end error) error {
	return fmt.Errorf("%w: the last attempt to connect: %w; then %w", oplog.ErrUnavailable, reason, end)
}

// closed returns for how long nobody may try, and why; nil where the last attempt succeeded.
func (g *gate) closed() (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.next), g.reason
}

func (g *gate) tell(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reason = err
	if err == nil {
		g.pause = 0
		return
	}
	g.pause = min(max(2*g.pause, firstPause), longestPause)
	g.next = time.Now().Add(g.pause + rand.N(g.pause/4)) // so that nodes do not come all at once
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
