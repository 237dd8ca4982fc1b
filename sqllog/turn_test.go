package sqllog_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// TestTurnHolds: an append of the log waits while the log waits for a turn, and goes over the same connection; a wait that
// is given up costs the connection.
func TestTurnHolds(t *testing.T) {
	t.Parallel()
	f := &fake{exec: func(context.Context, string) (int64, error) { return 1, nil }}
	called, answer := make(chan struct{}), make(chan error)
	l := newLog(t, f, func(c *sqllog.Config) {
		c.Dialect.Turn = func(ctx context.Context, _ *sql.Conn, after int64, maxBytes int) ([]oplog.Row, oplog.Index, error) {
			if after != -1 || maxBytes != 7 {
				t.Errorf("after %d, %d bytes", after, maxBytes)
			}
			called <- struct{}{}
			select {
			case err := <-answer:
				return nil, 4, err
			case <-ctx.Done():
				return nil, 0, ctx.Err()
			}
		}
		c.Dialect.PassTurn = func(context.Context, *sql.Conn) error { return errOdd }
	})
	l.PassTurn(t.Context()) // without a connection there is none
	turned, appended := make(chan error, 1), make(chan error, 1)
	turn := func(ctx context.Context) {
		newest, err := oplog.Index(0), error(nil)
		if _, newest, err = l.Turn(ctx, oplog.Beginning, 7); err == nil && newest != 4 {
			t.Errorf("newest is %d", newest)
		}
		turned <- err
	}
	go turn(t.Context())
	<-called
	go func() { appended <- l.Append(t.Context(), 5, nil, nil) }()
	select {
	case err := <-appended:
		t.Errorf("an append beside the wait for a turn: %v", err)
	case answer <- nil:
	}
	if err := errors.Join(<-turned, <-appended); err != nil {
		t.Error(err)
	}
	if _, connections := f.seen("append"); connections != 1 {
		t.Errorf("%d connections, want one for turn and append", connections)
	}

	ctx, cancel := context.WithCancel(t.Context())
	go turn(ctx)
	<-called
	cancel()
	if err := <-turned; !errors.Is(err, oplog.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	go turn(t.Context())
	<-called
	answer <- oplog.ErrNoTurns
	if err := <-turned; !errors.Is(err, oplog.ErrNoTurns) {
		t.Errorf("no turns: %v", err)
	}
	if err := l.Append(t.Context(), 6, nil, nil); err != nil {
		t.Error(err)
	}
	l.PassTurn(t.Context()) // fails, and so takes the connection with it
	if err := l.Append(t.Context(), 7, nil, nil); err != nil {
		t.Error(err)
	}
	if _, connections := f.seen("append"); connections != 3 {
		t.Errorf("%d connections, want 3: one was given up, one was lost", connections)
	}
	go turn(t.Context())
	<-called
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-turned; !errors.Is(err, oplog.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, _, err := l.Turn(t.Context(), 0, 1); !errors.Is(err, oplog.ErrClosed) {
		t.Errorf("after it was closed: %v", err)
	}
}

// TestNoTurnstile: a dialect without says so.
func TestNoTurnstile(t *testing.T) {
	t.Parallel()
	l := newLog(t, &fake{}, func(c *sqllog.Config) { c.StatementTimeout = time.Second })
	if _, _, err := l.Turn(t.Context(), 0, 1); !errors.Is(err, oplog.ErrNoTurns) {
		t.Errorf("turn: %v", err)
	}
	l.PassTurn(t.Context())
}
