package sqllog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// Log is an oplog.Log in a SQL database. It uses at most one connection to append, one to look for changes, and one
// for each other call under way, all of the pool that it was given.
type Log struct {
	c      Config
	life   context.Context // ends with Close
	end    context.CancelFunc
	append pinned
	watch  pinned
	sure   atomic.Bool // the dialect hears of every row: no need to poll often

	looked  atomic.Pointer[lastLook]
	rowSize atomic.Int64 // of the rows read last, in bytes on average; 0: not known

	mu      sync.Mutex // guards closed, and that nothing enters after Close
	closed  bool
	running sync.WaitGroup // calls under way, statements that outlive their call, the listener
}

var _ oplog.Log = (*Log)(nil)

// New returns a log on c.DB. It does not touch the database; it starts c.Dialect.Listen, if there is one.
func New(c Config) (*Log, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	l := &Log{c: c, life: life, end: end, append: newPinned(c.DB), watch: newPinned(c.DB)}
	if c.Dialect.Listen != nil {
		l.running.Go(func() { c.Dialect.Listen(life, c.Signal.Wake, c.Signal.appended, l.sure.Store) })
	}
	return l, nil
}

// Info is oplog.Log's.
func (l *Log) Info() oplog.Info { return l.c.Info }

// Close is oplog.Log's. It waits for the statements under way, each of which ends with its own result, and for the
// listener; what only waits (for a lock, a connection, rows) ends at once with ErrClosed.
func (l *Log) Close() error {
	l.mu.Lock()
	already := l.closed
	l.closed = true
	l.mu.Unlock()
	if already {
		return nil
	}
	l.end()
	l.running.Wait()
	l.append.drop()
	l.watch.drop()
	if err := l.c.DB.Close(); err != nil {
		return fmt.Errorf("close the log: %w", err)
	}
	return nil
}

// enter begins a call, which must leave; ErrClosed after Close.
func (l *Log) enter(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return oplog.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.running.Add(1)
	return nil
}

func (l *Log) leave() { l.running.Done() }

// effect says what an operation does to the database, and so what an error with an unknown outcome is called.
type effect int

const (
	reads effect = iota
	writes
)

// do runs f on a connection of the pool, again and again while the database refuses it for the moment, until it has an
// answer, ctx ends, the lock timeout is over or the log is closed.
func (l *Log) do(ctx context.Context, e effect, f func(ctx context.Context, conn *sql.Conn) error) error {
	if err := l.enter(ctx); err != nil {
		return notStarted(e, err)
	}
	defer l.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	tries := l.newTries()
	for {
		sent, v, err := l.try(ctx, f)
		switch {
		case err == nil:
			return nil
		case v.Retry && tries.pause(ctx):
			continue
		case l.life.Err() != nil:
			err = oplog.ErrClosed
		case v.Retry && ctx.Err() != nil:
			err = fmt.Errorf("%w: %w", err, ctx.Err())
		}
		return l.meaning(e, sent, v, err)
	}
}

// try runs f once, within the statement timeout. sent says whether f was reached at all.
func (l *Log) try(ctx context.Context, f func(ctx context.Context, conn *sql.Conn) error) (sent bool, v Verdict, err error) {
	if l.c.StatementTimeout > 0 {
		outer := ctx
		inner, cancel := context.WithTimeout(ctx, l.c.StatementTimeout)
		ctx = inner
		defer func() {
			if err != nil && isContext(err) && inner.Err() != nil && outer.Err() == nil { // not the caller's end
				v, err = Verdict{Err: oplog.ErrUnknown, Drop: true}, fmt.Errorf("no answer within %v", l.c.StatementTimeout)
			}
			cancel()
		}()
	}
	conn, err := l.c.DB.Conn(ctx)
	if err != nil {
		return false, l.verdict(err), err
	}
	defer conn.Close()
	if err := f(ctx, conn); err != nil {
		v := l.verdict(err)
		if v.Drop {
			discard(conn)
		}
		return true, v, err
	}
	return true, Verdict{}, nil
}

// meaning turns an error and its verdict into what the caller is told: always a sentinel or the context's error.
func (l *Log) meaning(e effect, sent bool, v Verdict, err error) error {
	known := v.Err
	switch {
	case !sent && (isContext(err) || errors.Is(err, oplog.ErrClosed)):
		return notStarted(e, err)
	case isContext(err) && e == reads && !v.Retry:
		return err
	case known == oplog.ErrUnknown && (e == reads || !sent):
		known = oplog.ErrUnavailable
	}
	if errors.Is(err, known) {
		return err
	}
	return fmt.Errorf("%w: %w", known, err)
}

// notStarted is the error of a call that changed nothing because it was closed or given up first.
func notStarted(e effect, err error) error {
	if e == writes && !errors.Is(err, oplog.ErrClosed) {
		return fmt.Errorf("%w: not started: %w", oplog.ErrUnavailable, err)
	}
	return err
}

// discard makes database/sql close the connection instead of using it again.
func discard(conn *sql.Conn) { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }

// tries paces repeated tries of one operation.
type tries struct {
	until time.Time
	next  time.Duration
}

const longestPause = 20 * time.Millisecond

func (l *Log) newTries() tries {
	return tries{until: time.Now().Add(l.c.LockTimeout), next: time.Millisecond}
}

// pause waits before the next try, a random time that grows with the tries. It returns false where there must be none.
func (t *tries) pause(ctx context.Context) bool {
	if !time.Now().Before(t.until) {
		return false
	}
	timer := time.NewTimer(t.next/2 + rand.N(t.next))
	defer timer.Stop()
	t.next = min(2*t.next, longestPause)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pinned is one connection that is kept apart from the pool for one kind of statement, and the right to use it.
type pinned struct {
	db   *sql.DB
	slot chan struct{} // holds a value while somebody uses conn
	conn *sql.Conn     // nil until it is needed
}

func newPinned(db *sql.DB) pinned { return pinned{db: db, slot: make(chan struct{}, 1)} }

// get returns the connection. The caller must hold the slot.
func (p *pinned) get(ctx context.Context) (*sql.Conn, error) {
	if p.conn == nil {
		conn, err := p.db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		p.conn = conn
	}
	return p.conn, nil
}

// drop closes the connection for good. The caller must hold the slot.
func (p *pinned) drop() {
	if p.conn != nil {
		discard(p.conn)
		p.conn.Close()
		p.conn = nil
	}
}
