package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/headwaterdb/headwater/oplog"
)

// wire is a connection that does nothing but append, by the protocol's own messages.
//
// The driver is left out because of what it does when a call ends without an answer: it asks the server, over another
// connection, to cancel the statement. A statement that waits for a synchronous standby is committed already, and the
// cancellation makes its row visible although no standby has it. And the driver takes a success for a success even where
// the server warns that the row may not have been replicated.
type wire struct {
	net    net.Conn
	msgs   *pgproto3.Frontend
	parsed map[string]bool // the texts of the statements that the server has
	asked  []string        // those that it is being sent
	shared bool            // each message may reach another session: the statement is sent every time
	turns  bool            // the session is ours alone and can stand in line: see turn.go
	turn   bool            // a transaction is open, and has the turn
}

// newWire takes a connection over from the driver.
func newWire(c *pgx.Conn, shared bool) (*wire, error) {
	h, err := c.PgConn().Hijack()
	if err != nil {
		return nil, err
	}
	return &wire{net: h.Conn, msgs: h.Frontend, parsed: map[string]bool{}, shared: shared}, nil
}

// send puts one statement into the buffer. Where there are turns there are several, and the server keeps them by names.
func (w *wire) send(text string, types []uint32, values ...[]byte) {
	name := ""
	if w.turns {
		h := fnv.New64a()
		h.Write([]byte(text))
		name = "hw" + strconv.FormatUint(h.Sum64(), 36)
	}
	if w.shared || !w.parsed[text] {
		w.msgs.SendParse(&pgproto3.Parse{Name: name, Query: text, ParameterOIDs: types})
		w.asked = append(w.asked, text)
	}
	formats := []int16{pgx.BinaryFormatCode}
	w.msgs.SendBind(&pgproto3.Bind{PreparedStatement: name, ParameterFormatCodes: formats, Parameters: values, ResultFormatCodes: formats})
	w.msgs.SendExecute(&pgproto3.Execute{})
}

// flush has the server execute what was put into the buffer, before the deadline of ctx.
func (w *wire) flush(ctx context.Context) error {
	deadline, _ := ctx.Deadline() // zero: none
	if err := w.net.SetDeadline(deadline); err != nil {
		return unsent(err)
	}
	w.msgs.SendSync(&pgproto3.Sync{})
	switch err := w.msgs.Flush(); {
	case pgconn.SafeToRetry(err):
		return err
	case err != nil:
		return noAnswer(err)
	}
	return nil
}

// appendRow is the dialect's Append: on the wire of the pinned connection, which the first append makes.
func (s *session) appendRow(ctx context.Context, sc *sql.Conn, at oplog.Index, mark, payload []byte) (n int64, err error) {
	if s.readOnly {
		return 0, oplog.ErrReadOnly
	}
	var failed error
	err = sc.Raw(func(dc any) error {
		c := dc.(*conn)
		if failed = s.ready(ctx, c); failed != nil {
			return nil
		}
		start := time.Now()
		n, failed = c.wire.append(ctx, s.appendText(c.wire), int64(at), mark, payload)
		if failed != nil && time.Since(start) >= s.silence() {
			c.expire()
		}
		failed = c.judge(failed)
		return nil
	})
	if failed == nil {
		failed = err
	}
	s.blunt.Store(errors.Is(failed, oplog.ErrUnknown))
	switch {
	case failed == nil && n > 0:
		s.tell(at)
	case s.blunt.Load():
		s.tell(oplog.Beginning)
	}
	return n, s.doubt(failed)
}

// ready makes the pinned connection of c ready for an append or for a turn. Any error says that nothing was sent.
func (s *session) ready(ctx context.Context, c *conn) error {
	if c.age != s.age.Load() {
		return errOutlived
	}
	if c.wire == nil {
		return s.makeWire(ctx, c)
	}
	return nil
}

// silence is how long a statement goes without an answer before other connections are held to be dead as well: nearly the
// timeout, which begins a little before the statement.
func (s *session) silence() time.Duration { return s.statement * 9 / 10 }

// doubt adds to the error of an append whose row may be there that a synchronous standby may be without it: the server
// shows a row that still waited for one when its session was cancelled or ended, or when the server crashed.
func (s *session) doubt(err error) error {
	var e *pgconn.PgError
	unknown := errors.Is(err, oplog.ErrUnknown) || errors.As(err, &e) && !errors.Is(err, oplog.ErrUnavailable) && ofState(e.Code).Err == oplog.ErrUnknown
	if !unknown || errors.Is(err, oplog.ErrNotDurable) || !s.awaits() {
		return err
	}
	return fmt.Errorf("%w: there are synchronous standbys, or the server does not say: %w", oplog.ErrNotDurable, err)
}

// awaits reports whether commits wait for synchronous standbys. It asks the server, because that may have changed since
// the connections were opened, and so a server that does not answer in time counts as one where they do.
func (s *session) awaits() bool {
	ctx, cancel := context.WithTimeout(context.Background(), idleTrust)
	defer cancel()
	sc, err := s.db.Conn(ctx)
	if err != nil {
		return true
	}
	defer sc.Close()
	var l look
	err = sc.QueryRowContext(ctx, lookText).Scan(l.fields()...)
	_ = sc.Raw(func(any) error { return driver.ErrBadConn }) // what an append has failed on is not taken for sound
	return err != nil || l.standbys != ""
}

// makeWire turns the connection of c into a wire. A borrowed one is given back for another that the pool then forgets:
// first, because who holds one connection of a bounded pool and waits for another may wait for ever. Any error says that
// nothing was sent, and has the connection dropped.
func (s *session) makeWire(ctx context.Context, c *conn) (err error) {
	if c.found.readOnly == "on" && !c.used.IsZero() {
		return staleError("the connection was opened when the server was read-only") // a new one may find it writable again
	}
	own, l := c.Conn.Conn(), c.found
	if !s.source.owned() {
		c.returned = true
		_ = c.Conn.Close()
		if own, err = s.source.dedicated(ctx); err != nil {
			return unsent(err)
		}
		if l, err = s.settle(ctx, own); err == nil && !l.pooled { // it is ours now, for good
			err = set(ctx, own, l.kind().settings())
		}
		if err != nil {
			closeNow(own)
			return unsent(err)
		}
	}
	turns := false
	if s.turns && !l.pooled && l.kind().lines() {
		if turns, err = s.hasTurns(ctx, own); err != nil {
			closeNow(own)
			return unsent(err)
		}
	}
	if c.wire, err = newWire(own, l.pooled); err != nil {
		return unsent(err)
	}
	c.wire.turns = turns
	return nil
}

// unsent is the error of an append that was not sent.
func unsent(err error) error {
	if pgconn.SafeToRetry(err) {
		return err // the classifier knows it
	}
	if v := classify(err); v.Err != oplog.ErrUnknown {
		return fmt.Errorf("%w: %w", v.Err, err)
	}
	return fmt.Errorf("%w: not sent: %w", oplog.ErrUnavailable, err)
}

var appendTypes = []uint32{pgtype.Int8OID, pgtype.ByteaOID, pgtype.Int8OID, pgtype.ByteaOID}

// int8Value is a bigint as the protocol has it.
func int8Value(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// append sends the statement and waits for the end of its transaction. Only the server's ReadyForQuery, which follows
// the commit, ends it well: the count of rows comes before. The deadline of ctx ends the waiting and nothing else. In a
// turn the commit is sent along.
func (w *wire) append(ctx context.Context, text string, at int64, mark, payload []byte) (int64, error) {
	if hungUp(w.net) {
		return 0, hungUpError{}
	}
	w.send(text, appendTypes, int8Value(at), payload, int8Value(at-1), mark)
	if w.turn {
		w.send(commitText, nil)
	}
	if err := w.flush(ctx); err != nil {
		return 0, err
	}
	if w.turn {
		return w.answerInTurn(ctx)
	}
	a, err := w.answer()
	if err == nil && a.status != 'I' {
		err = fmt.Errorf("the statement did not commit by itself: the session was handed over in a transaction: %w", oplog.ErrUnknown)
	}
	return a.rows, err
}

// hungUpError is the error of an append that was not sent because the server had ended the connection while it was idle,
// as a restart does.
type hungUpError struct{}

func (hungUpError) Error() string { return "the server ended the connection" }

// SafeToRetry tells the classifier that nothing was sent.
func (hungUpError) SafeToRetry() bool { return true }

// staleError is the error of an append that was not sent because of what its connection is left over from.
type staleError string

// errOutlived: since the connection was made, another one has shown that the way to the server is dead.
const errOutlived = staleError("the connection is from before the server stopped answering")

func (e staleError) Error() string { return string(e) }

// SafeToRetry tells the classifier that nothing was sent.
func (staleError) SafeToRetry() bool { return true }

// answer is what the server said up to the end of an exchange.
type answer struct {
	rows   int64       // inserted, by the last statement that inserts
	value  []byte      // what the last statement that selects one column selected
	found  []oplog.Row // what those that select an index and a payload selected
	tag    string      // of the last statement
	status byte        // of the transaction: I none, T open, E failed
}

// answer reads what the server says to what was flushed.
func (w *wire) answer() (a answer, failed error) {
	var warning error
	for {
		msg, err := w.msgs.Receive()
		if err != nil {
			switch {
			case failed != nil: // the server said why before it closed the connection
				return a, failed
			case warning != nil:
				return a, warning
			}
			return a, noAnswer(err)
		}
		switch m := msg.(type) {
		case *pgproto3.ParseComplete:
			w.parsed[w.asked[0]] = true
			w.asked = w.asked[1:]
		case *pgproto3.DataRow:
			switch { // the message's memory is the driver's
			case len(m.Values) == 1:
				a.value = bytes.Clone(m.Values[0])
			case len(m.Values) == 2 && len(m.Values[0]) == 8:
				a.found = append(a.found, oplog.Row{Index: oplog.Index(binary.BigEndian.Uint64(m.Values[0])), Payload: append([]byte{}, m.Values[1]...)})
			}
		case *pgproto3.CommandComplete:
			tag := pgconn.NewCommandTag(string(m.CommandTag))
			if tag.Insert() {
				a.rows = tag.RowsAffected()
			}
			a.tag = tag.String()
		case *pgproto3.ErrorResponse:
			failed = pgconn.ErrorResponseToPgError(m)
			if m.SeverityUnlocalized == "FATAL" || m.SeverityUnlocalized == "PANIC" {
				return a, failed
			}
		case *pgproto3.NoticeResponse:
			if m.SeverityUnlocalized == "WARNING" {
				warning = warned(m.Message, m.Code)
			}
		case *pgproto3.ReadyForQuery:
			a.status, w.asked = m.TxStatus, nil // those behind an error were not looked at
			if failed == nil {
				failed = warning
			}
			return a, failed
		}
	}
}

// warned is what a warning makes of a success. Two codes are those with which the server says that it no longer waits for
// a synchronous standby: because it was cancelled, or because the session was ended.
func warned(message, code string) error {
	doubt := oplog.ErrUnknown
	if code == "01000" || code == "57P01" {
		doubt = oplog.ErrNotDurable
	}
	return fmt.Errorf("the server warns: %s (SQLSTATE %s): %w", message, code, doubt)
}

// noAnswer is the error of an append that was sent, in part or whole, and not answered.
func noAnswer(err error) error { return fmt.Errorf("no answer: %w: %w", oplog.ErrUnknown, err) }

// close says goodbye where that can be done at once.
func (w *wire) close() {
	_ = w.net.SetDeadline(time.Now().Add(100 * time.Millisecond))
	w.msgs.Send(&pgproto3.Terminate{})
	_ = w.msgs.Flush()
	_ = w.net.Close()
}
