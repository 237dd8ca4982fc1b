package postgres

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/headwaterdb/headwater/oplog"
)

// The turnstile: writers that lost a race stand in line for an advisory lock, which PostgreSQL hands from one to the next
// in the order in which they came.
//
//	lost → BEGIN, wait for the lock, newest index, rows not seen yet (one round trip) → INSERT, COMMIT (one round trip)
//
// The lock is the transaction's. So it goes with the commit, hence no sooner than the row can be seen by the next in line,
// and with the connection of whoever dies; and a session that has the lock and says nothing is ended by the server after
// turnPatience, whatever it is that keeps its process or the network. It needs no table, writes nothing, and no permission.
//
// Whoever has not lost appends without standing in line, but once it has met others only while nobody has the lock
// (politeText): it has seen its own last row without reading and would mostly be faster than one that must read in its
// turn. Before its first lost race a writer does not ask: alone it would pay for nothing. A writer that could not get a
// turn does not ask either (session.blunt), so that no lock, whoever holds it and for however long, is in the way of
// writing. Safety rests on none of this: the INSERT is the same, locks its predecessor and meets the primary key.
//
// There are no turns where sessions are shared by a pooler: those who wait would use up its connections to the server, and
// the one whose turn it is would wait for a connection to read with. Nor where the server has no advisory locks.

// turnPatience is how long the server waits for a session that has the turn.
const turnPatience = 500 * time.Millisecond

const commitText = "COMMIT"

// turnRows is the most rows that come with a turn.
const turnRows = 256

// turnTexts are executed in one exchange to get a turn; then the rows are read. The last selects the newest index. READ
// COMMITTED, so that all is looked at after the wait. They need no parameters.
func turnTexts(n names, owned bool) []string {
	texts := []string{"BEGIN ISOLATION LEVEL READ COMMITTED"}
	if !owned { // elsewhere it was set once for the connection
		texts = append(texts, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", turnPatience.Milliseconds()))
	}
	return append(texts, n.fill("SELECT pg_advisory_xact_lock({turn})"), n.fill("SELECT max(idx) FROM {log}"))
}

// hasTurns finds out whether the server has advisory locks. The error is of the connection.
func (s *session) hasTurns(ctx context.Context, c *pgx.Conn) (bool, error) {
	var got bool
	err := c.QueryRow(ctx, s.names.fill("SELECT pg_try_advisory_xact_lock({turn})"), pgx.QueryExecModeExec).Scan(&got)
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return false, nil
	}
	return err == nil, err
}

// appendText is the text of the append on w.
func (s *session) appendText(w *wire) string {
	if w.turns && !w.turn && s.stood.Load() && !s.blunt.Load() {
		return s.polite
	}
	return s.append
}

// waitTurn is the dialect's Turn.
func (s *session) waitTurn(ctx context.Context, sc *sql.Conn, after int64, maxBytes int) (rows []oplog.Row, newest oplog.Index, err error) {
	if s.readOnly {
		return nil, 0, oplog.ErrNoTurns
	}
	var failed error
	err = sc.Raw(func(dc any) error {
		c := dc.(*conn)
		if failed = s.ready(ctx, c); failed != nil {
			return nil
		}
		if !c.wire.turns {
			failed = oplog.ErrNoTurns
			return nil
		}
		rows, newest, failed = c.wire.wait(ctx, s.waits, s.read, after, maxBytes)
		failed = c.judge(failed)
		return nil
	})
	if failed == nil {
		failed = err
	}
	if !errors.Is(failed, oplog.ErrNoTurns) {
		s.blunt.Store(failed != nil)
	}
	if failed == nil {
		s.stood.Store(true)
	}
	return rows, newest, failed
}

// passTurn is the dialect's PassTurn.
func (s *session) passTurn(ctx context.Context, sc *sql.Conn) (err error) {
	var failed error
	err = sc.Raw(func(dc any) error {
		if w := dc.(*conn).wire; w != nil && w.turn {
			failed = w.end(ctx)
		}
		return nil
	})
	return errors.Join(failed, err)
}

// wait waits for the turn on w. After an error w is of no use any more.
func (w *wire) wait(ctx context.Context, texts []string, read string, after int64, maxBytes int) ([]oplog.Row, oplog.Index, error) {
	if w.turn {
		if err := w.end(ctx); err != nil {
			return nil, 0, err
		}
	}
	for _, text := range texts {
		w.send(text, nil)
	}
	w.send(read, []uint32{pgtype.Int8OID, pgtype.Int8OID, pgtype.Int8OID}, int8Value(after), int8Value(turnRows), int8Value(int64(maxBytes)))
	if err := w.flush(ctx); err != nil {
		return nil, 0, err
	}
	defer context.AfterFunc(ctx, func() { _ = w.net.SetReadDeadline(time.Unix(1, 0)) })()
	a, err := w.answer()
	switch {
	case err != nil:
		return nil, 0, err
	case a.status != 'T' || len(a.value) != 8:
		return nil, 0, fmt.Errorf("no turn: the log is empty or no transaction was begun: %w", oplog.ErrUnavailable)
	}
	w.turn = true
	return a.found, oplog.Index(binary.BigEndian.Uint64(a.value)), nil
}

// end ends the turn without a commit.
func (w *wire) end(ctx context.Context) error {
	w.turn = false
	w.send("ROLLBACK", nil)
	if err := w.flush(ctx); err != nil {
		return err
	}
	a, err := w.answer()
	if err == nil && a.status != 'I' {
		err = fmt.Errorf("the turn's transaction did not end: %w", oplog.ErrUnavailable)
	}
	return err
}

// answerInTurn reads what the server says to an append and the commit behind it. Where the append was refused, the commit
// was not looked at, and the transaction is ended here; if that fails too, the next use of w tells.
func (w *wire) answerInTurn(ctx context.Context) (int64, error) {
	w.turn = false
	a, err := w.answer()
	switch {
	case err != nil && a.status == 'E':
		_ = w.end(ctx)
		return 0, err
	case err != nil:
		return a.rows, err
	case a.status != 'I' || a.tag != commitText:
		return 0, fmt.Errorf("the turn ended with %q: %w", a.tag, oplog.ErrUnknown)
	}
	return a.rows, nil
}
