package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/api/headwater/v1/headwaterv1connect"
	"github.com/headwaterdb/headwater/meta"
)

const defaultServer = "http://127.0.0.1:4640"

// maxPage is the most records a query gives at once.
const maxPage = 1000

// cluster is where a command goes: a server, or a database that this process opened itself.
//
// Both answer through the same API, so that a command is written once. For a database the service runs inside this
// process, on a listener in memory.
type cluster struct {
	rpc headwaterv1connect.HeadwaterClient
	// Proposer carries commands: the client, which tries again where that is safe, or the store itself.
	meta.Proposer
	read  *headwaterv1.Read
	close func() error
}

// purpose is what a command opens a database for.
type purpose int

const (
	toRead   purpose = iota // nothing is written, not even a snapshot
	toWrite                 // proposals, snapshots
	toCreate                // as toWrite; a new SQLite file becomes a cluster
	toInit                  // as toWrite; any database without a cluster becomes one
	toBegin                 // the caller makes it a cluster
)

// reach gives a command the flags that say where the cluster is.
func (a *app) reach(c *cobra.Command) *cobra.Command {
	f := c.Flags()
	f.StringSliceVar(&a.server, "server", nil, "`URL` of a server; several, separated by commas, are tried in turn")
	f.StringVar(&a.db, "db", "", "`database` to open directly: sqlite:PATH, postgres://… or mysql://…")
	f.DurationVar(&a.timeout, "timeout", 30*time.Second, "give up after this long; 0 waits")
	exclusive(c, "server", "db")
	a.formats(c)
	return c
}

// formats gives a command the flag that chooses between table and JSON.
func (a *app) formats(c *cobra.Command) {
	a.output = "table"
	c.Flags().VarP((*outputFlag)(&a.output), "output", "o", "`table` for people or json for programs")
	complete(c, "output", "table", "json")
}

// outputFlag is a flag that takes table or json.
type outputFlag string

func (o *outputFlag) String() string { return string(*o) }

func (o *outputFlag) Type() string { return "table or json" }

func (o *outputFlag) Set(s string) error {
	if s != "table" && s != "json" {
		return fmt.Errorf("%q is neither table nor json", s)
	}
	*o = outputFlag(s)
	return nil
}

// reads gives a command the flags that say how fresh its answer must be.
func (a *app) reads(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.fresh, "fresh", false, "ask the database for the newest index first, and wait for it")
	c.Flags().Uint64Var(&a.atLeast, "at-least", 0, "wait until this `index` is visible")
	return a.reach(c)
}

// longRunning lets a command take its time unless --timeout says otherwise.
func (a *app) longRunning(c *cobra.Command) {
	c.Flags().Lookup("timeout").DefValue = "0s"
}

// with opens the cluster, runs do on it within the time allowed, and closes it.
func (a *app) with(cmd *cobra.Command, why purpose, do func(ctx context.Context, c *cluster) error) (err error) {
	ctx := cmd.Context()
	if a.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
	}
	c, err := a.open(ctx, why)
	if err != nil {
		return err
	}
	defer func() {
		if e := c.close(); err == nil {
			err = e
		}
	}()
	return do(ctx, c)
}

func (a *app) open(ctx context.Context, why purpose) (*cluster, error) {
	// Two addresses in the environment are no mistake: a server never stands in the way of another process.
	if len(a.server) == 0 && a.db != "" {
		return a.openDatabase(ctx, why)
	}
	servers := a.server
	if len(servers) == 0 {
		servers = []string{defaultServer}
	}
	for i, s := range servers {
		u, err := serverURL(s)
		if err != nil {
			return nil, err
		}
		servers[i] = u
	}
	return a.dial(ctx, servers), nil
}

func (a *app) readOptions() *headwaterv1.Read {
	return &headwaterv1.Read{Linearizable: a.fresh, AtLeastIndex: a.atLeast}
}

// serverURL checks an address and adds the scheme where it is missing.
func serverURL(s string) (string, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	// The address may hold a password: it is not repeated.
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return "", usagef("--server takes http://HOST:PORT or https://HOST:PORT")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// call makes one unary call; its error knows its exit code.
func call[Q, A any](ctx context.Context, f func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), q *Q) (*A, error) {
	r, err := f(ctx, connect.NewRequest(q))
	if err != nil {
		return nil, reachable(rpcError(err), err)
	}
	return r.Msg, nil
}

// reachable adds what to do about a server that is not there, or hangs up.
func reachable(e, cause error) error {
	var x *exitError
	// Connect gives a connection that was reset the code of a call that its caller has ended.
	hungUp := connect.CodeOf(cause) == connect.CodeCanceled && !connect.IsWireError(cause) && !errors.Is(cause, context.Canceled)
	if errors.As(e, &x) && x.hint == "" && (hungUp || connect.CodeOf(cause) == connect.CodeUnavailable) {
		x.hint = "is a server running there? headwater serve starts one; --db opens a database without a server"
	}
	return e
}

// list prints pages of records until there are no more, or limit is reached (0: all).
func list[T any](limit int, fetch func(*headwaterv1.Page) ([]T, string, error), add func(T) error) error {
	page := &headwaterv1.Page{Limit: maxPage}
	for shown := 0; ; {
		if limit > 0 {
			page.Limit = uint32(min(maxPage, limit-shown))
		}
		records, next, err := fetch(page)
		if err != nil {
			return err
		}
		for _, r := range records {
			if err := add(r); err != nil {
				return err
			}
		}
		shown += len(records)
		if next == "" || limit > 0 && shown >= limit {
			return nil
		}
		page.Cursor = next
	}
}
