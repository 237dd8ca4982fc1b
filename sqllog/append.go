package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// Init is oplog.Log's.
func (l *Log) Init(ctx context.Context, genesis []byte) error {
	if len(genesis) > oplog.MaxPayload {
		return fmt.Errorf("init: genesis of %d bytes, at most %d are allowed: %w", len(genesis), oplog.MaxPayload, oplog.ErrTooLarge)
	}
	// Where a cluster is there already, a look says so without waiting for the right to write.
	if _, err := l.Bounds(ctx); err == nil {
		return fmt.Errorf("init: %w", oplog.ErrExists)
	}
	if err := l.createTables(ctx); err != nil {
		return fmt.Errorf("init: create the tables: %w", err)
	}
	n, err := l.exec(ctx, l.c.Dialect.Statements.Genesis, values{Payload: notNil(genesis)})
	switch {
	case errors.Is(err, oplog.ErrConflict) || err == nil && n == 0:
		return fmt.Errorf("init: %w", oplog.ErrExists)
	case err != nil:
		return fmt.Errorf("init: %w", err)
	}
	l.c.Signal.appended(0)
	return nil
}

func (l *Log) createTables(ctx context.Context) error {
	if err := l.enter(ctx); err != nil {
		return notStarted(writes, err)
	}
	defer l.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	for tries := l.newTries(); ; {
		err := l.c.Dialect.CreateTables(ctx)
		if err == nil {
			return nil
		}
		if v := l.verdict(err); !v.Retry || !tries.pause(ctx) {
			return l.meaning(writes, true, v, err)
		}
	}
}

// exec runs one writing statement of the pool and returns how many rows it affected.
func (l *Log) exec(ctx context.Context, s Statement, v values) (n int64, err error) {
	err = l.do(ctx, writes, func(ctx context.Context, conn *sql.Conn) error {
		res, err := conn.ExecContext(ctx, s.Text, s.args(v)...)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	return n, err
}

// notNil makes sure that no bytes are stored as no bytes, not as NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// attempt is one Append between its caller and the goroutine that runs its statement. Its state tells the caller who
// gives up whether a statement has been handed to the database.
type attempt struct {
	at      oplog.Index
	mark    []byte // of the row before
	payload []byte
	state   atomic.Int32
	left    chan struct{} // closed when the caller has given up: no further try
}

const (
	idle      = iota // nothing is with the database, and nothing has been that was not refused
	sending          // a statement is with the database, or its answer is on the way to the caller
	abandoned        // the caller has left: nothing may be sent
)

// Append is oplog.Log's.
//
// Appends of one log go one by one over a connection of their own. The statement runs in a goroutine and with a context
// of the log's, so that a caller who gives up neither cancels it on the server nor leaves a connection in a half-done
// state; the next append waits until the answer is there. A caller who gives up before the statement was sent, or
// between two tries of one that the database refused, is told for certain that nothing was appended.
func (l *Log) Append(ctx context.Context, at oplog.Index, mark, payload []byte) error {
	if err := oplog.CheckAppend(at, len(payload), l.c.Info.MaxPayload); err != nil {
		return err
	}
	if err := l.enter(ctx); err != nil {
		return fmt.Errorf("append row %d: %w", at, notStarted(writes, err))
	}
	defer l.leave()
	select {
	case l.append.slot <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("append row %d: %w", at, notStarted(writes, ctx.Err()))
	case <-l.life.Done():
		return fmt.Errorf("append row %d: %w", at, oplog.ErrClosed)
	}
	a := &attempt{at: at, mark: notNil(mark), payload: notNil(payload), left: make(chan struct{})}
	done := make(chan error, 1)
	l.running.Go(func() {
		err := l.appendRow(a)
		<-l.append.slot
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return l.giveUp(ctx.Err(), a, done)
	}
}

// giveUp is the end of an Append whose caller's context has ended with cause.
func (l *Log) giveUp(cause error, a *attempt, done <-chan error) error {
	close(a.left)
	definite := fmt.Errorf("append row %d: %w: given up before it was sent: %w", a.at, oplog.ErrUnavailable, cause)
	if a.state.CompareAndSwap(idle, abandoned) {
		return definite
	}
	grace := time.NewTimer(l.c.Grace)
	defer grace.Stop()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%w: %w", err, cause)
		}
		return nil
	case <-grace.C:
	}
	if a.state.CompareAndSwap(idle, abandoned) {
		return definite
	}
	unknown := oplog.ErrUnknown
	if l.c.Dialect.Replicated {
		unknown = oplog.ErrNotDurable // nobody will hear what the answer says of it
	}
	return fmt.Errorf("append row %d: %w: no answer yet: %w", a.at, unknown, cause)
}

// appendRow sends the statement until there is an answer that stands. It holds the slot of l.append.
func (l *Log) appendRow(a *attempt) error {
	tries := l.newTries()
	for {
		conn, err := l.append.get(l.life)
		sent := err == nil && a.state.CompareAndSwap(idle, sending)
		var n int64
		switch {
		case sent:
			n, err = l.send(conn, a)
		case err == nil: // abandoned: nobody listens any more
			return oplog.ErrUnavailable
		}
		switch {
		case err == nil && n == 1:
			l.c.Signal.appended(a.at)
			return nil
		case err == nil && n == 0:
			return fmt.Errorf("append row %d: %w", a.at, oplog.ErrConflict)
		case err == nil:
			return fmt.Errorf("append row %d: %w: %d rows were inserted", a.at, oplog.ErrUnknown, n)
		}
		v := l.verdict(err)
		if v.Drop {
			l.append.drop()
		}
		if v.Retry { // the database has nothing of it, so whoever gives up now may be told so
			a.state.CompareAndSwap(sending, idle)
			if !a.given() && tries.pause(l.life) {
				continue
			}
		}
		if l.life.Err() != nil && (v.Retry || !sent) {
			err, v.Err = oplog.ErrClosed, oplog.ErrClosed
		}
		return fmt.Errorf("append row %d: %w", a.at, l.meaning(writes, sent, v, err))
	}
}

func (a *attempt) given() bool {
	select {
	case <-a.left:
		return true
	default:
		return false
	}
}

// send hands the statement to the database once. Its context does not end with the log: Close waits for the answer.
func (l *Log) send(conn *sql.Conn, a *attempt) (int64, error) {
	ctx := context.WithoutCancel(l.life)
	if l.c.StatementTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.c.StatementTimeout)
		defer cancel()
	}
	if l.c.Dialect.Append != nil {
		return l.c.Dialect.Append(ctx, conn, a.at, a.mark, a.payload)
	}
	s := l.c.Dialect.Statements.Append
	res, err := conn.ExecContext(ctx, s.Text, s.args(values{At: int64(a.at), Before: int64(a.at) - 1, Mark: a.mark, Payload: a.payload})...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

var _ oplog.Leaper = (*Log)(nil)

// Leap is oplog.Leaper's. It is the statement of an append with another predecessor, so what excludes a truncation from that
// excludes it from this.
func (l *Log) Leap(ctx context.Context, from, to oplog.Index, mark, payload []byte) error {
	if err := oplog.CheckLeap(from, to, len(payload), l.c.Info.MaxPayload); err != nil {
		return err
	}
	n, err := l.exec(ctx, l.c.Dialect.Statements.Append, values{At: int64(to), Before: int64(from), Mark: notNil(mark), Payload: notNil(payload)})
	switch {
	case err != nil:
		return fmt.Errorf("leap from row %d to %d: %w", from, to, err)
	case n == 0:
		return fmt.Errorf("leap from row %d to %d: %w", from, to, oplog.ErrConflict)
	}
	l.c.Signal.appended(to)
	return nil
}
