package sqllog

import (
	"context"
	"errors"
	"fmt"

	"github.com/headwaterdb/headwater/oplog"
)

var _ oplog.Turnstile = (*Log)(nil)

// Turn is oplog.Turnstile's. It waits on the connection of the appends, so that the turn and the append that it is for
// cannot be on two, and no append of this log overtakes it. Nothing is written, so whoever gives up may just leave.
func (l *Log) Turn(ctx context.Context, after oplog.Index, maxBytes int) (rows []oplog.Row, newest oplog.Index, err error) {
	if l.c.Dialect.Turn == nil {
		return nil, 0, fmt.Errorf("wait for a turn: %w", oplog.ErrNoTurns)
	}
	err = l.pinned(ctx, func(ctx context.Context) error {
		conn, err := l.append.get(ctx)
		if err == nil {
			rows, newest, err = l.c.Dialect.Turn(ctx, conn, signed(after), max(maxBytes, 0))
		}
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("wait for a turn: %w", err)
	}
	return rows, newest, nil
}

// PassTurn is oplog.Turnstile's.
func (l *Log) PassTurn(ctx context.Context) {
	if l.c.Dialect.PassTurn == nil {
		return
	}
	_ = l.pinned(ctx, func(ctx context.Context) error { // where it fails, the turn ends with the connection
		if l.append.conn == nil {
			return nil
		}
		return l.c.Dialect.PassTurn(ctx, l.append.conn)
	})
}

// pinned runs f with the connection of the appends in its hands, until ctx or the log ends, or the statement timeout is
// over. The connection is dropped after any error but that there are no turns.
func (l *Log) pinned(ctx context.Context, f func(ctx context.Context) error) error {
	if err := l.enter(ctx); err != nil {
		return notStarted(writes, err)
	}
	defer l.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	if l.c.StatementTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.c.StatementTimeout)
		defer cancel()
	}
	select {
	case l.append.slot <- struct{}{}:
	case <-ctx.Done():
		return l.noTurn(ctx.Err())
	}
	defer func() { <-l.append.slot }()
	err := f(ctx)
	if err == nil || errors.Is(err, oplog.ErrNoTurns) {
		return err
	}
	l.append.drop()
	return l.noTurn(err)
}

// noTurn gives the error of a turn that was not got the sentinel that vouches that nothing was written.
func (l *Log) noTurn(err error) error {
	if l.life.Err() != nil {
		return oplog.ErrClosed
	}
	return fmt.Errorf("%w: %w", oplog.ErrUnavailable, err)
}
