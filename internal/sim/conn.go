package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// conn is a node's way to the database: an oplog.Log, as package sqllog is one, over a network on which everything
// takes time, answers get lost, and statements arrive that everybody had forgotten.
type conn struct {
	w    *world
	n    *node
	life int // of the node whose connections these are

	appending *exchange // the append under way, or the last one; the next waits until it is answered
	turn      *tx
}

// plan is what becomes of one call.
type plan struct {
	refuse  error           // the answer, without anything having been sent
	send    time.Duration   // on the way to the server
	pauses  []time.Duration // inside the statement
	reply   time.Duration   // on the way back
	lose    bool            // the answer is lost and the connection with it
	drop    time.Duration   // the connection is lost this long after the call, and the statement goes on; 0: it is not
	lag     time.Duration   // a read sees what was there that long ago
	frozen  *state          // a read sees this; nil: what is there
	partial bool            // a read returns fewer rows than there are
	// Where a script makes a statement wait; nil: nowhere.
	beforeArrival, afterLook, beforeCommit *gate
	hollow                                 bool // the row is there and its synchronous standby does not have it
}

// exchange is a statement between its caller and the server.
type exchange struct {
	done   bool
	res    any
	err    error
	waiter *task
}

func (e *exchange) answer(s *sched, res any, err error) {
	if e.done {
		return
	}
	e.done, e.res, e.err = true, res, err
	if e.waiter != nil {
		s.wake(e.waiter)
	}
}

// op names a call for plans, traces and scripts.
type op string

const (
	opAppend       op = "append"
	opRead         op = "read"
	opNewest       op = "newest"
	opBounds       op = "bounds"
	opTurn         op = "turn"
	opPart         op = "write part"
	opCommit       op = "commit snapshot"
	opSweep        op = "sweep"
	opOpenSnapshot op = "open snapshot"
	opReadPart     op = "read part"
	opTruncate     op = "truncate"
)

func (o op) writes() bool {
	switch o {
	case opAppend, opPart, opCommit, opSweep, opTruncate:
		return true
	}
	return false
}

// dead reports whether the process whose connections these are is gone.
func (c *conn) dead() bool { return c.n.life != c.life || c.n.down }

// call sends a statement and waits for its answer.
func (c *conn) call(ctx context.Context, o op, at oplog.Index, run func(x *tx, p *plan) (any, error)) (any, error) {
	if c.dead() {
		return nil, oplog.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, c.notStarted(o, err)
	}
	s := c.w.s
	if o == opAppend {
		for c.appending != nil && !c.appending.done {
			c.appending.waiter = s.current
			s.park(ctx, -1, nil, nil)
			if err := ctx.Err(); err != nil {
				return nil, c.notStarted(o, err)
			}
			if c.dead() {
				return nil, oplog.ErrClosed
			}
		}
	}
	p := c.w.plan(c.n, o, at)
	if p.refuse != nil {
		s.sleep(p.send)
		c.w.note("%s %s %d: %v", c.n.name(), o, at, p.refuse)
		return nil, p.refuse
	}
	e := &exchange{waiter: s.current}
	if o == opAppend {
		c.appending = e
	}
	c.w.db.serve(c, o, at, &p, e, run)
	if p.drop > 0 {
		s.after(p.drop, func() { e.answer(s, nil, c.lost(o)) })
	}
	for !e.done {
		s.park(ctx, -1, nil, nil)
		switch {
		case c.dead():
			return nil, oplog.ErrClosed
		case e.done:
		case ctx.Err() != nil:
			e.waiter = nil
			c.w.note("%s %s %d: given up", c.n.name(), o, at)
			if o.writes() {
				return nil, fmt.Errorf("%w: no answer yet: %w", c.lost(o), ctx.Err())
			}
			return nil, ctx.Err()
		}
	}
	if c.dead() {
		return nil, oplog.ErrClosed
	}
	if o.writes() || e.err != nil {
		c.w.note("%s %s %d: %s", c.n.name(), o, at, result(e))
	}
	return e.res, e.err
}

// result tells how an exchange ended.
func result(e *exchange) string {
	if n, ok := e.res.(int); ok && e.err == nil {
		return fmt.Sprintf("%d rows", n)
	}
	return outcome(e.err)
}

func outcome(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}

func (c *conn) notStarted(o op, err error) error {
	if o.writes() {
		return fmt.Errorf("%w: not started: %w", oplog.ErrUnavailable, err)
	}
	return err
}

// lost is what a caller is told whose connection went.
func (c *conn) lost(o op) error {
	switch {
	case o == opAppend && c.w.cfg.Rates[faultHollow] > 0: // a database with a synchronous standby
		return oplog.ErrNotDurable
	case o.writes():
		return oplog.ErrUnknown
	}
	return oplog.ErrUnavailable
}

// meaning is what an error of the server means to the engine.
func (c *conn) meaning(o op, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errDuplicate):
		return fmt.Errorf("%w: %w", oplog.ErrConflict, err)
	case errors.Is(err, errFull):
		return oplog.ErrFull
	case errors.Is(err, errReadOnly):
		return oplog.ErrReadOnly
	case errors.Is(err, errKilled):
		return c.lost(o)
	case errors.Is(err, errDeadlock), errors.Is(err, errBusy):
		return fmt.Errorf("%w: %w", oplog.ErrUnavailable, err)
	}
	return err
}

// deadlockTries is how many times a statement is sent that was the victim of a deadlock.
const deadlockTries = 3

// serve runs a statement on the server, whatever becomes of its caller.
func (db *database) serve(c *conn, o op, at oplog.Index, p *plan, e *exchange, run func(x *tx, p *plan) (any, error)) {
	s, era := db.s, db.era
	s.start("statement", db.g, func() {
		s.sleep(p.send)
		p.beforeArrival.pass(s)
		var res any
		var err error
		for try := 1; ; try++ {
			if db.down || db.era != era { // what was on its way to a server that died does not reach the next one
				e.answer(s, nil, c.meaning(o, errKilled))
				return
			}
			x := db.begin(string(o), c.n.id)
			x.pauses, x.look, x.gate = p.pauses, p.afterLook, p.beforeCommit
			if res, err = run(x, p); err != nil {
				x.end()
			}
			if !errors.Is(err, errDeadlock) {
				break
			}
			c.w.count("deadlock")
			if try == deadlockTries {
				break
			}
			s.sleep(c.w.between(100*time.Microsecond, time.Millisecond))
		}
		err = c.meaning(o, err)
		s.sleep(p.reply)
		switch {
		case p.lose:
			res, err = nil, c.lost(o)
		case p.hollow && err == nil:
			res, err = nil, oplog.ErrNotDurable
		}
		e.answer(s, res, err)
	})
}

// Init is not simulated: a cluster is there from the beginning.
func (c *conn) Init(context.Context, []byte) error { return oplog.ErrExists }

// Append is oplog.Log's.
func (c *conn) Append(ctx context.Context, at oplog.Index, mark, payload []byte) error {
	if err := oplog.CheckAppend(at, len(payload), c.w.cfg.MaxPayload); err != nil {
		return err
	}
	c.w.attempted(c.n, at, payload)
	payload = bytes.Clone(payload)
	res, err := c.call(ctx, opAppend, at, func(x *tx, p *plan) (any, error) {
		if c.turn != nil && !c.turn.killed && !c.dead() {
			x.end()
			x, c.turn = c.turn, nil
			x.task = x.db.s.current
			x.what, x.pauses, x.look, x.gate = string(opAppend), p.pauses, p.afterLook, p.beforeCommit
		}
		n, err := x.appendRow(at, mark, payload)
		if err != nil {
			x.end()
		}
		if n == 1 && p.hollow {
			c.w.hollow(at)
		}
		return n, err
	})
	if err == nil && res.(int) == 0 {
		err = oplog.ErrConflict
	}
	if err != nil {
		return fmt.Errorf("append row %d: %w", at, err)
	}
	return nil
}

// view is what a reading statement sees.
func (x *tx) view(p *plan) *state {
	switch {
	case p.frozen != nil:
		return p.frozen
	case p.lag > 0:
		return x.db.old(p.lag)
	}
	return x.db.state
}

// Read is oplog.Log's.
func (c *conn) Read(ctx context.Context, after oplog.Index, maxBytes int) ([]oplog.Row, error) {
	res, err := c.call(ctx, opRead, after, func(x *tx, p *plan) (any, error) {
		st := x.view(p)
		i, found := 0, false
		if after != oplog.Beginning {
			if i, found = st.find(after); found {
				i++
			}
		}
		var rows []oplog.Row
		size := 0
		for ; i < len(st.rows) && len(rows) < oplog.MaxRead; i++ {
			if size += len(st.rows[i].Payload); size > maxBytes && len(rows) > 0 {
				break
			}
			rows = append(rows, oplog.Row{Index: st.rows[i].Index, Payload: bytes.Clone(st.rows[i].Payload)})
		}
		if p.partial && len(rows) > 1 {
			rows = rows[:1+c.w.s.dice.IntN(len(rows)-1)]
		}
		return rows, x.commit()
	})
	if err != nil {
		return nil, fmt.Errorf("read rows after %d: %w", after, err)
	}
	return res.([]oplog.Row), nil
}

// Newest is oplog.Log's.
func (c *conn) Newest(ctx context.Context) (oplog.Index, error) {
	res, err := c.call(ctx, opNewest, 0, func(x *tx, p *plan) (any, error) {
		i, _ := x.db.state.newest()
		return i, x.commit()
	})
	if err != nil {
		return 0, fmt.Errorf("look for the newest row: %w", err)
	}
	return res.(oplog.Index), nil
}

// Bounds is oplog.Log's.
func (c *conn) Bounds(ctx context.Context) (oplog.Bounds, error) {
	res, err := c.call(ctx, opBounds, 0, func(x *tx, p *plan) (any, error) {
		st := x.view(p)
		b := oplog.Bounds{Empty: len(st.rows) == 0, Snapshot: st.snap.info, Authoritative: p.lag == 0 && p.frozen == nil && !x.db.readOnly}
		if !b.Empty {
			b.Oldest = st.rows[0].Index
			newest := st.rows[len(st.rows)-1]
			b.Newest, b.Mark = newest.Index, bytes.Clone(oplog.Mark(newest.Payload))
		}
		return b, x.commit()
	})
	if err != nil {
		return oplog.Bounds{}, fmt.Errorf("look at the bounds: %w", err)
	}
	return res.(oplog.Bounds), nil
}

// waitCall is a Wait under way.
type waitCall struct {
	w     *world
	after oplog.Index
	task  *task
}

// grown wakes the waiter, a moment later.
func (w *waitCall) grown(st *state) {
	if newest, ok := st.newest(); ok && newest > w.after {
		t, turn := w.task, w.task.turn
		w.w.s.after(w.w.pollDelay(), func() {
			if t.turn == turn {
				w.w.s.wake(t)
			}
		})
	}
}

// Wait is oplog.Log's.
func (c *conn) Wait(ctx context.Context, after oplog.Index) error {
	s, db := c.w.s, c.w.db
	call := &waitCall{c.w, after, s.current}
	db.waits = append(db.waits, call)
	defer func() {
		for i, w := range db.waits {
			if w == call {
				db.waits = append(db.waits[:i], db.waits[i+1:]...)
				break
			}
		}
	}()
	for {
		if c.dead() {
			return oplog.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		newest, ok := db.state.newest()
		if ok && newest > after && !c.n.deaf {
			return nil
		}
		if !s.park(ctx, s.now+c.w.cfg.Poll, nil, nil) && c.w.chance(10) {
			return nil // early, for no reason
		}
	}
}

// Truncate is oplog.Log's.
func (c *conn) Truncate(ctx context.Context, below oplog.Index, limit int) (int, error) {
	res, err := c.call(ctx, opTruncate, below, func(x *tx, p *plan) (any, error) { return x.truncate(below, limit) })
	if err != nil {
		return 0, fmt.Errorf("truncate: %w", err)
	}
	return res.(int), nil
}

// Info is oplog.Log's.
func (c *conn) Info() oplog.Info {
	return oplog.Info{Backend: "simulated " + c.w.db.d.Name, Location: "nowhere", MaxPayload: c.w.cfg.MaxPayload}
}

// Close is oplog.Log's.
func (c *conn) Close() error { return nil }

// turnConn is a conn to a database with a turnstile.
type turnConn struct{ *conn }

// turnLasts is how long a turn lasts that nobody uses.
const turnLasts = 500 * time.Millisecond

type turnAnswer struct {
	rows   []oplog.Row
	newest oplog.Index
}

// Turn is oplog.Turnstile's.
func (c turnConn) Turn(ctx context.Context, after oplog.Index, maxBytes int) ([]oplog.Row, oplog.Index, error) {
	gone := false
	res, err := c.call(ctx, opTurn, after, func(x *tx, p *plan) (any, error) {
		if err := x.lock(turnKey, true, 2*time.Second); err != nil {
			return nil, err
		}
		if gone || c.dead() {
			x.end()
			return nil, errKilled
		}
		c.PassTurn(ctx)
		c.turn = x
		x.db.s.after(turnLasts, func() {
			if c.turn == x {
				c.PassTurn(ctx)
			}
		})
		st := x.db.state
		a := turnAnswer{}
		a.newest, _ = st.newest()
		size := 0
		for _, r := range st.rows {
			if size += len(r.Payload); r.Index > after && (size <= maxBytes || len(a.rows) == 0) {
				a.rows = append(a.rows, oplog.Row{Index: r.Index, Payload: bytes.Clone(r.Payload)})
			}
		}
		return a, nil
	})
	if err != nil {
		gone = true
		c.PassTurn(ctx)
		return nil, 0, fmt.Errorf("wait for a turn: %w", err)
	}
	a := res.(turnAnswer)
	return a.rows, a.newest, nil
}

// PassTurn is oplog.Turnstile's.
func (c turnConn) PassTurn(context.Context) {
	if x := c.turn; x != nil {
		c.turn = nil
		x.end()
	}
}
