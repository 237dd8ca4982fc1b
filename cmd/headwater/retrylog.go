package main

import (
	"log/slog"
	"sync"
	"time"
)

// retryLogInterval is how often the log tells of operations of one kind that are tried again.
const retryLogInterval = 5 * time.Second

// retryLog tells the log of what is tried again. A database that is away for hours makes several retries a second, and
// the log may be on the same disk, which may be full: each kind of operation is told of at once, and from then on once in
// an interval, with how many were left out.
type retryLog struct {
	logger *slog.Logger
	now    func() time.Time

	mu   sync.Mutex // guards said
	said map[string]saidRetry
}

type saidRetry struct {
	at      time.Time
	leftOut int
}

func newRetryLog(logger *slog.Logger, now func() time.Time) *retryLog {
	return &retryLog{logger: logger, now: now, said: map[string]saidRetry{}}
}

// tell is replica.Events' Retry.
func (r *retryLog) tell(what string, err error, pause time.Duration) {
	now := r.now()
	r.mu.Lock()
	last, before := r.said[what]
	if before && now.Sub(last.at) < retryLogInterval {
		last.leftOut++
		r.said[what] = last
		r.mu.Unlock()
		return
	}
	r.said[what] = saidRetry{at: now}
	r.mu.Unlock()
	r.logger.Warn("trying again", "what", what, "pause", pause, "error", err, "untold", last.leftOut)
}
