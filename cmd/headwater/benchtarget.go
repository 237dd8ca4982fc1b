package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/internal/bench"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/session"
)

// benchTargets are where bench puts its load, and what is told about them.
type benchTargets struct {
	targets []bench.Target
	server  string // the version of the server's program; empty: in this process
	backend string
	// logNow tells where the log is now; of servers only the rows are known, and ok is false where they do not say.
	logNow   func() (l benchLog, ok bool)
	snapshot func(ctx context.Context) (index uint64, err error) // on the first node of this process
	close    func() error
}

// logCounts counts what the nodes of this process do to the log.
type logCounts struct{ rows, commands, bytes, conflicts atomic.Int64 }

// openNodes opens n nodes on the database of --db, each with a log of its own, as n processes would have.
func (a *app) openNodes(ctx context.Context, n int, why purpose, snapshots int) (_ *benchTargets, err error) {
	counts := new(logCounts)
	b := &benchTargets{logNow: counts.now}
	var closing []func() error
	b.close = func() error {
		var errs []error
		for i := len(closing) - 1; i >= 0; i-- {
			errs = append(errs, closing[i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			_ = b.close()
		}
	}()
	for i := range n {
		log, err := openLog(ctx, a.db, why)
		if err != nil {
			return nil, err
		}
		closing = append(closing, log.Close)
		var o headwater.Options
		o.Engine.SnapshotInterval = snapshots
		o.Engine.Events.Appended = func(_ oplog.Index, commands, bytes int, _ time.Duration) {
			counts.rows.Add(1)
			counts.commands.Add(int64(commands))
			counts.bytes.Add(int64(bytes))
		}
		o.Engine.Events.Conflict = func(oplog.Index) { counts.conflicts.Add(1) }
		changed := make(chan struct{}, 1)
		notify(&o.Engine.Events.StateOf, changed)
		store, err := headwater.Open(ctx, log, o)
		if err != nil {
			return nil, databaseError(err)
		}
		closing = append(closing, store.Close)
		if err := a.catchUp(ctx, store, changed); err != nil {
			return nil, err
		}
		if c := store.Status().Condition; stuck(c) {
			return nil, unavailable(fmt.Errorf("node %d is %s", i+1, c), "headwater status tells why")
		}
		if i == 0 {
			b.snapshot = store.Snapshot
		}
		b.targets = append(b.targets, storeTarget{Proposer: session.New().Wrap(store), store: store})
		b.backend = store.Status().Backend
	}
	return b, nil
}

// openClients opens n clients of each server; gather is client.Options'.
func (a *app) openClients(ctx context.Context, n, gather int) (*benchTargets, error) {
	servers := a.server
	if len(servers) == 0 {
		servers = []string{defaultServer}
	}
	b := &benchTargets{}
	var clients []*client.Client
	b.close = func() error {
		var errs []error
		for _, c := range clients {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
	for range n { // neighbouring callers go to different servers
		for _, s := range servers {
			url, err := serverURL(s)
			if err != nil {
				return nil, errors.Join(err, b.close())
			}
			c, err := client.Open(ctx, client.Options{Endpoints: []string{url}, Gather: gather})
			if err != nil {
				return nil, errors.Join(unavailable(err, "is a server running there? headwater serve starts one"), b.close())
			}
			clients = append(clients, c)
			b.targets = append(b.targets, clientTarget{c})
		}
	}
	b.logNow = func() (benchLog, bool) { return rowsOf(clients[0]) }
	cluster := ""
	for i, s := range servers {
		st, err := clients[i].Status(ctx)
		if err != nil {
			return nil, firstError(unavailable(err, ""), b.close())
		}
		if i > 0 && st.ClusterID != cluster {
			return nil, firstError(usagef("the servers %s and %s are of different clusters, %s and %s: measure one at a time",
				servers[0], s, cluster, st.ClusterID), b.close())
		}
		cluster, b.server, b.backend = st.ClusterID, st.Version, st.Backend
	}
	return b, nil
}

// rowsOf asks a server where its log is.
func rowsOf(c *client.Client) (l benchLog, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := c.Status(ctx)
	return benchLog{Rows: int64(st.AppliedIndex)}, err == nil
}

// storeTarget is a node in this process.
type storeTarget struct {
	meta.Proposer
	store *headwater.Store
}

func (t storeTarget) view(ctx context.Context, f bench.Fresh) (*headwater.View, error) {
	switch {
	case f.Linearizable:
		return t.store.Linearize(ctx)
	case f.AtLeast > 0:
		return t.store.Wait(ctx, f.AtLeast)
	}
	return t.store.View(), nil
}

// Counts is bench.Target's.
func (t storeTarget) Counts(ctx context.Context) (meta.Counts, error) {
	v, err := t.store.Linearize(ctx)
	if err != nil {
		return meta.Counts{}, err
	}
	return v.State.Counts(), nil
}

// Stream is bench.Target's.
func (t storeTarget) Stream(ctx context.Context, f bench.Fresh, id uint64) (meta.Stream, error) {
	v, err := t.view(ctx, f)
	if err != nil {
		return meta.Stream{}, err
	}
	s, ok := v.State.Stream(id)
	if !ok {
		return s, &meta.Error{Code: meta.CodeStreamNotFound, Message: fmt.Sprintf("there is no stream %d", id), Inner: -1}
	}
	return s, nil
}

// Find is bench.Target's.
func (t storeTarget) Find(ctx context.Context, f bench.Fresh, stream, start uint64, limit int) (meta.Found, error) {
	v, err := t.view(ctx, f)
	if err != nil {
		return meta.Found{}, err
	}
	return v.State.FindObjects(stream, start, 0, limit)
}

// Key is bench.Target's.
func (t storeTarget) Key(ctx context.Context, f bench.Fresh, key string) (meta.Key, error) {
	v, err := t.view(ctx, f)
	if err != nil {
		return meta.Key{}, err
	}
	k, ok := v.State.Key(key)
	if !ok {
		return k, &meta.Error{Code: meta.CodeKeyNotFound, Message: fmt.Sprintf("there is no key %q", key), Inner: -1}
	}
	return k, nil
}

// Deletable is bench.Target's.
func (t storeTarget) Deletable(_ context.Context, limit int) ([]uint64, error) {
	p, err := t.store.View().State.Objects(meta.ObjectFilter{State: meta.ObjectDeletable}, "", limit)
	return idsOf(p.Items), err
}

// Wait is bench.Target's.
func (t storeTarget) Wait(ctx context.Context, index uint64) error {
	_, err := t.store.Wait(ctx, index)
	return err
}

// clientTarget is a client of a server.
type clientTarget struct{ *client.Client }

func (t clientTarget) reading(f bench.Fresh) client.Reader {
	return t.Reading(client.Read{Local: !f.Linearizable && f.AtLeast == 0, AtLeast: f.AtLeast, Linearizable: f.Linearizable})
}

// Counts is bench.Target's.
func (t clientTarget) Counts(ctx context.Context) (meta.Counts, error) {
	c, _, err := t.reading(bench.Fresh{Linearizable: true}).Counts(ctx)
	return c, err
}

// Stream is bench.Target's.
func (t clientTarget) Stream(ctx context.Context, f bench.Fresh, id uint64) (meta.Stream, error) {
	s, _, err := t.reading(f).Stream(ctx, id)
	return s, err
}

// Find is bench.Target's.
func (t clientTarget) Find(ctx context.Context, f bench.Fresh, stream, start uint64, limit int) (meta.Found, error) {
	found, _, err := t.reading(f).FindObjects(ctx, stream, start, 0, limit)
	return found, err
}

// Key is bench.Target's.
func (t clientTarget) Key(ctx context.Context, f bench.Fresh, key string) (meta.Key, error) {
	k, _, err := t.reading(f).Key(ctx, key)
	return k, err
}

// Deletable is bench.Target's.
func (t clientTarget) Deletable(ctx context.Context, limit int) ([]uint64, error) {
	p, err := t.Objects(ctx, meta.ObjectFilter{State: meta.ObjectDeletable}, "", limit)
	return idsOf(p.Items), err
}

// Wait is bench.Target's.
func (t clientTarget) Wait(ctx context.Context, index uint64) error {
	_, _, err := t.reading(bench.Fresh{AtLeast: index}).Counts(ctx)
	return err
}

func idsOf(objects []meta.ObjectRecord) []uint64 {
	ids := make([]uint64, len(objects))
	for i, o := range objects {
		ids[i] = o.ID
	}
	return ids
}
