package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/heap"
	"github.com/headwaterdb/headwater/internal/liveness"
	"github.com/headwaterdb/headwater/server"
)

const (
	defaultDB     = "sqlite:headwater.db"
	defaultListen = "127.0.0.1:4640"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	listen    string
	pprof     string
	create    bool
	nodeTTL   time.Duration
	drain     time.Duration
	logLevel  slog.Level
	logFormat string
	store     headwater.Options
}

func (a *app) serveCommand() *cobra.Command {
	o := &serveOptions{}
	c := &cobra.Command{
		Use: "serve", Short: "Serve a cluster's metadata", Args: cobra.NoArgs,
		Long: `Serve a cluster's metadata over gRPC, gRPC-Web and plain JSON over HTTP, all on one port.

Any number of servers may share one database; with SQLite they must be on one machine. A SQLite file that is missing,
or has no tables yet, becomes a new cluster; any other database only with --init. A server whose tables are missing
does not quietly start a new, empty cluster.

With --node-ttl the server watches the nodes' renewal counters by its own clock, and fences a node whose counter stood
still that long.

The first SIGINT or SIGTERM ends it in order: calls under way are answered, within --drain. The second one kills.`,
		Example: `  headwater serve
  headwater serve --db sqlite:/var/lib/headwater/meta.db --listen 0.0.0.0:4640 --node-ttl 10s
  HEADWATER_DB='postgres://headwater:SECRET@db.example/meta?sslmode=verify-full' headwater serve
  HEADWATER_DB=sqlite:meta.db HEADWATER_LOG_FORMAT=json headwater serve`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&a.db, "db", defaultDB, "`database` that holds the log: sqlite:PATH, postgres://… or mysql://…")
	f.StringVar(&o.listen, "listen", defaultListen, "`address` to listen on; port 0 takes a free one")
	f.StringVar(&o.pprof, "pprof", "", "serve profiles of this process on this `address` of this machine, for go tool pprof; empty: nowhere")
	f.BoolVar(&o.create, "init", false, "make the database a new cluster if there is none")
	f.StringVar(&o.store.ClusterID, "cluster-id", "", "refuse any cluster but the one with this `id`")
	f.DurationVar(&o.nodeTTL, "node-ttl", 0, "fence a node whose renewal counter stands still this long; 0: never")
	f.IntVar(&o.store.Engine.SnapshotInterval, "snapshot-interval", 1024, "`rows` between snapshots; negative: never")
	f.IntVar(&o.store.Engine.KeepRows, "keep-rows", 0, "`rows` kept below the snapshot; 0: as many as the interval, negative: none")
	f.IntVar(&o.store.Engine.RowBytes, "row-bytes", 1<<20, "budget in `bytes` for the commands of one row, at most 8388608; a larger command is alone in its row")
	f.IntVar(&o.store.Engine.QueueCommands, "queue", 65536, "most `commands` that may wait to be appended; more are refused as overloaded")
	f.BoolVar(&o.store.Engine.HaltOnDivergence, "halt-on-divergence", false, "halt at the first digest that contradicts ours, instead of rebuilding first")
	f.DurationVar(&o.drain, "drain", 10*time.Second, "at the end, wait this long for calls under way")
	f.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "least `level` of what is logged: debug, info, warn or error")
	f.Lookup("log-level").DefValue = "info" // as it is written everywhere else
	complete(c, "log-level", "debug", "info", "warn", "error")
	f.StringVar(&o.logFormat, "log-format", "text", "`format` of the log: text or json; with json nothing else is written")
	complete(c, "log-format", "text", "json")
	return c
}

// validate refuses flags that make no sense.
func (o *serveOptions) validate() error {
	switch {
	case o.nodeTTL != 0 && o.nodeTTL < liveness.MinTTL:
		return fmt.Errorf("--node-ttl is %v, at least %v is needed, or 0 for none", o.nodeTTL, liveness.MinTTL)
	case o.store.Engine.QueueCommands < 1:
		return fmt.Errorf("--queue is %d, at least 1 is needed", o.store.Engine.QueueCommands)
	case o.drain < 0:
		return fmt.Errorf("--drain is %v, at least 0 is needed", o.drain)
	}
	return o.store.Validate()
}

// serve opens the database, listens, and serves until ctx ends.
func (a *app) serve(ctx context.Context, o *serveOptions) (err error) {
	defer heap.Hold()()
	logger, err := newLogger(a, o)
	if err != nil {
		return err
	}
	// A command line that is wrong must not have made a database either.
	if err := o.validate(); err != nil {
		return asUsage(err)
	}
	if _, _, err := backendOf(a.db); err != nil {
		return err
	}
	// Listening comes first: a port that is taken must not have made a database.
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return listenError(o.listen, err)
	}
	defer listener.Close()
	if o.pprof != "" {
		profiles, err := listenPprof(o.pprof)
		if err != nil {
			return err
		}
		p := servePprof(profiles)
		defer func() { _ = p.close() }()
		logger.Info("serving profiles", "address", profiles.Addr().String())
	}
	why := toCreate
	if o.create {
		why = toInit
	}
	log, err := openLog(ctx, a.db, why)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, log.Close()) }()
	changed := listen(&o.store, logger)
	store, err := headwater.Open(ctx, log, o.store)
	if err != nil {
		return databaseError(err)
	}
	defer func() { err = firstError(err, store.Close()) }()
	return a.run(ctx, o, logger, listener, store, changed)
}

// run serves on the listener until ctx ends, and then ends in order: no new calls, those under way answered or given
// up, the observer, and last (by the caller) the store and the log.
func (a *app) run(ctx context.Context, o *serveOptions, logger *slog.Logger, listener net.Listener, store *headwater.Store, changed <-chan struct{}) error {
	srv := server.New(store, server.Options{Version: version(), Logger: logger})
	var running sync.WaitGroup
	watching, stopWatching := context.WithCancel(ctx)
	defer running.Wait()
	defer stopWatching()
	if o.nodeTTL != 0 {
		observer, err := newObserver(o.nodeTTL, store, logger)
		if err != nil {
			return asUsage(err)
		}
		running.Go(func() { observer.Run(watching) })
	}
	running.Go(func() { tellConditions(watching, changed, store, logger) })
	failed := make(chan error, 1)
	running.Go(func() { failed <- srv.Serve(listener) })
	st := store.Status()
	logger.Info("serving", "address", listener.Addr().String(), "database", st.Backend, "location", st.Location,
		"cluster", st.ClusterID, "index", st.AppliedIndex, "condition", st.Condition)
	for _, w := range st.Warnings {
		logger.Warn("database setting", "warning", w)
	}
	if !strings.EqualFold(o.logFormat, "json") { // what reads JSON lines stumbles over anything else
		a.greet(listener.Addr())
	}
	select {
	case err := <-failed:
		return unavailable(fmt.Errorf("serve: %w", err), "")
	case <-ctx.Done():
	}
	logger.Info("ending", "drain", o.drain.String())
	drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.drain)
	defer cancel()
	if err := srv.Shutdown(drained); err != nil {
		logger.Warn("calls were cut off", "after", o.drain.String())
	}
	return nil
}

func listenError(address string, err error) error {
	hint := ""
	var malformed *net.AddrError
	switch {
	case errors.As(err, &malformed):
		return usagef("--listen takes HOST:PORT, for example 127.0.0.1:4640: %w", err)
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "another program listens there, perhaps another headwater serve; --listen takes another address, and port 0 a free one"
	case errors.Is(err, syscall.EACCES):
		hint = "ports below 1024 need a permission; --listen takes another address"
	}
	return unavailable(fmt.Errorf("listen on %s: %w", address, cause(err)), hint)
}

// cause is what the operating system said, without the chain around it.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// greet prints where the server is and what to try, in lines that work as they stand.
func (a *app) greet(addr net.Addr) {
	base := "http://" + reachableAddress(addr)
	const j = `-H 'Content-Type: application/json'`
	fmt.Fprintf(a.err, `
Headwater is listening on %[1]s. Try, in another terminal:

  curl -s %[2]s -d '{}' %[1]s/headwater.v1.Headwater/Status
  curl -s %[2]s -d '{"commands": [{"putKey": {"key": "greeting", "value": "aGVsbG8="}}]}' %[1]s/headwater.v1.Headwater/Propose
  curl -s %[2]s -d '{"key": "greeting"}' %[1]s/headwater.v1.Headwater/GetKey
  headwater status --server %[1]s

`, base, j)
}

// reachableAddress is the address under which this machine reaches what listens on addr.
func reachableAddress(addr net.Addr) string {
	t, ok := addr.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(t.Port))
}

func newLogger(a *app, o *serveOptions) (*slog.Logger, error) {
	h := &slog.HandlerOptions{Level: o.logLevel}
	switch strings.ToLower(o.logFormat) {
	case "text":
		return slog.New(slog.NewTextHandler(a.err, h)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.err, h)), nil
	}
	return nil, usagef("--log-format takes text or json")
}
