package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
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
	text   string
	parsed bool // the server has the statement
	shared bool // each message may reach another session: the statement is sent every time
}

// newWire takes a connection over from the driver.
func newWire(c *pgx.Conn, text string, shared bool) (*wire, error) {
	h, err := c.PgConn().Hijack()
	if err != nil {
		return nil, err
	}
	return &wire{net: h.Conn, msgs: h.Frontend, text: text, shared: shared}, nil
}

// appendRow is the dialect's Append: on the wire of the pinned connection, which the first append makes.
func (s *session) appendRow(ctx context.Context, sc *sql.Conn, at oplog.Index, payload []byte) (n int64, err error) {
	if s.readOnly {
		return 0, oplog.ErrReadOnly
	}
	var failed error
	err = sc.Raw(func(dc any) error {
		c := dc.(*conn)
		if c.wire == nil {
			if failed = s.makeWire(ctx, c); failed != nil {
				return nil
			}
		}
		start := time.Now()
		n, failed = c.wire.append(ctx, int64(at), payload)
		if failed != nil && time.Since(start) >= s.statement {
			c.expire()
		}
		failed = c.judge(failed)
		return nil
	})
	if failed == nil {
		failed = err
	}
	if failed == nil && n > 0 || errors.Is(failed, oplog.ErrUnknown) {
		s.tell()
	}
	return n, s.doubt(failed)
}

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
		return staleError{} // a new one may find it writable again
	}
	own, l := c.Conn.Conn(), c.found
	if !s.source.owned() {
		c.returned = true
		_ = c.Conn.Close()
		if own, err = s.source.dedicated(ctx); err != nil {
			return unsent(err)
		}
		if l, err = s.settle(ctx, own); err != nil {
			closeNow(own)
			return unsent(err)
		}
	}
	if c.wire, err = newWire(own, s.append, l.pooled); err != nil {
		return unsent(err)
	}
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

// append sends the statement and waits for the end of its transaction. Only the server's ReadyForQuery, which follows
// the commit, ends it well: the count of rows comes before. The deadline of ctx ends the waiting and nothing else.
func (w *wire) append(ctx context.Context, at int64, payload []byte) (int64, error) {
	if hungUp(w.net) {
		return 0, hungUpError{}
	}
	deadline, _ := ctx.Deadline() // zero: none
	if err := w.net.SetDeadline(deadline); err != nil {
		return 0, unsent(err)
	}
	if !w.parsed || w.shared {
		w.msgs.SendParse(&pgproto3.Parse{Query: w.text, ParameterOIDs: []uint32{pgtype.Int8OID, pgtype.ByteaOID, pgtype.Int8OID}})
	}
	w.msgs.SendBind(&pgproto3.Bind{ParameterFormatCodes: []int16{pgx.BinaryFormatCode},
		Parameters: [][]byte{binary.BigEndian.AppendUint64(nil, uint64(at)), payload, binary.BigEndian.AppendUint64(nil, uint64(at-1))}})
	w.msgs.SendExecute(&pgproto3.Execute{})
	w.msgs.SendSync(&pgproto3.Sync{})
	switch err := w.msgs.Flush(); {
	case pgconn.SafeToRetry(err):
		return 0, err
	case err != nil:
		return 0, noAnswer(err)
	}
	return w.answer()
}

// hungUpError is the error of an append that was not sent because the server had ended the connection while it was idle,
// as a restart does.
type hungUpError struct{}

func (hungUpError) Error() string { return "the server ended the connection" }

// SafeToRetry tells the classifier that nothing was sent.
func (hungUpError) SafeToRetry() bool { return true }

// staleError is the error of an append that was not sent because its connection is from when the server was read-only.
type staleError struct{}

func (staleError) Error() string { return "the connection was opened when the server was read-only" }

// SafeToRetry tells the classifier that nothing was sent.
func (staleError) SafeToRetry() bool { return true }

// answer reads what the server says to one append.
func (w *wire) answer() (n int64, failed error) {
	var warned error
	for {
		msg, err := w.msgs.Receive()
		if err != nil {
			switch {
			case failed != nil: // the server said why before it closed the connection
				return 0, failed
			case warned != nil:
				return 0, warned
			}
			return 0, noAnswer(err)
		}
		switch m := msg.(type) {
		case *pgproto3.ParseComplete:
			w.parsed = true
		case *pgproto3.CommandComplete:
			n = pgconn.NewCommandTag(string(m.CommandTag)).RowsAffected()
		case *pgproto3.ErrorResponse:
			failed = pgconn.ErrorResponseToPgError(m)
			if m.SeverityUnlocalized == "FATAL" || m.SeverityUnlocalized == "PANIC" {
				return 0, failed
			}
		case *pgproto3.NoticeResponse:
			if m.SeverityUnlocalized == "WARNING" {
				warned = fmt.Errorf("the server warns: %s (SQLSTATE %s): %w", m.Message, m.Code, warning(m.Code))
			}
		case *pgproto3.ReadyForQuery:
			switch {
			case failed != nil:
				return 0, failed
			case warned != nil:
				return 0, warned
			case m.TxStatus != 'I':
				return 0, fmt.Errorf("the statement did not commit by itself: the session was handed over in a transaction: %w", oplog.ErrUnknown)
			}
			return n, nil
		}
	}
}

// warning is what a warning with this code makes of a success. The two codes are those with which the server says that it
// no longer waits for a synchronous standby: because it was cancelled, or because the session was ended.
func warning(code string) error {
	if code == "01000" || code == "57P01" {
		return oplog.ErrNotDurable
	}
	return oplog.ErrUnknown
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
