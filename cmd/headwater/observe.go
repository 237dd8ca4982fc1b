package main

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/liveness"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// listen makes the engine's events lines of the server's log. What comes with every row is told at level debug, and is not
// even asked of the engine where the log leaves that level out. The channel it returns gets a value when the node's condition
// may have changed; the engine must not be asked from within an event.
func listen(o *headwater.Options, logger *slog.Logger) <-chan struct{} {
	e := &o.Engine.Events
	if logger.Enabled(context.Background(), slog.LevelDebug) {
		e.Applied = func(index oplog.Index, commands int) {
			logger.Debug("applied", "index", uint64(index), "commands", commands)
		}
		e.Appended = func(index oplog.Index, commands, bytes int, took time.Duration) {
			logger.Debug("appended", "index", uint64(index), "commands", commands, "bytes", bytes, "took", took)
		}
		e.Conflict = func(index oplog.Index) {
			logger.Debug("lost the race for a slot", "index", uint64(index))
		}
		e.Truncated = func(below oplog.Index, rows int) {
			logger.Debug("truncated", "below", uint64(below), "rows", rows)
		}
	}
	retries := newRetryLog(logger, time.Now)
	e.Retry = retries.tell
	e.Snapshot = func(index oplog.Index, bytes int64, took time.Duration, err error) {
		if err != nil {
			logger.Warn("no snapshot", "index", uint64(index), "error", err)
			return
		}
		logger.Info("snapshot", "index", uint64(index), "bytes", bytes, "took", took)
	}
	e.Installed = func(index oplog.Index) {
		logger.Info("installed a snapshot", "index", uint64(index))
	}
	e.Diverged = func(index oplog.Index, writer string, healed bool) {
		logger.Error("digests differ", "index", uint64(index), "writer", writer, "healed", healed)
	}
	changed := make(chan struct{}, 1)
	notify(&e.StateOf, changed)
	return changed
}

// notify makes an event a value in a channel that has room for one.
func notify[T any](event *func(T), c chan<- struct{}) {
	*event = func(T) {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// tellConditions logs the node's condition whenever it changes, until ctx ends.
func tellConditions(ctx context.Context, changed <-chan struct{}, store *headwater.Store, logger *slog.Logger) {
	var last headwater.Condition
	for {
		if st := store.Status(); st.Condition != last {
			level := slog.LevelInfo
			if stuck(st.Condition) {
				level = slog.LevelError
			}
			logger.Log(ctx, level, "condition", "is", string(st.Condition), "was", string(last), "reason", st.Reason,
				"index", st.AppliedIndex)
			last = st.Condition
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// newObserver watches the nodes of the store's view.
func newObserver(ttl time.Duration, store *headwater.Store, logger *slog.Logger) (*liveness.Observer, error) {
	return liveness.New(liveness.Cluster{
		Proposer: store,
		Nodes: func() (iter.Seq[meta.Node], bool) {
			st := store.Status()
			return allNodes(store.View().State), st.Condition == headwater.Ready && st.DatabaseError == ""
		},
	}, liveness.Options{TTL: ttl, Fenced: func(n meta.Node, answer meta.Answer) {
		if answer.Err != nil {
			logger.Warn("did not fence node", "node", n.ID, "epoch", n.Epoch, "renewals", n.Renewals, "error", answer.Err)
			return
		}
		logger.Warn("fenced node: no sign of life", "node", n.ID, "epoch", n.Epoch, "renewals", n.Renewals, "ttl", ttl)
	}})
}

// allNodes goes through the nodes of a state, page by page.
func allNodes(s *meta.State) iter.Seq[meta.Node] {
	return func(yield func(meta.Node) bool) {
		for cursor := ""; ; {
			page, err := s.Nodes(cursor, meta.MaxPage)
			if err != nil { // the cursor is the one that the state gave
				return
			}
			for _, n := range page.Items {
				if !yield(n) {
					return
				}
			}
			if cursor = page.Next; cursor == "" {
				return
			}
		}
	}
}
