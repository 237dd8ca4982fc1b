package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"
	"github.com/headwaterdb/headwater/api"
	"github.com/headwaterdb/headwater/meta"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// attempt is how one try of a call ended.
type attempt struct {
	err error
	// unsure says that what was asked for may have been done, or may yet be.
	unsure bool
	// again says that another try, best with another server, may end differently.
	again bool
	// halted says that this server will not do better until somebody looks after it.
	halted bool
}

// judge tells what an error of a try means. over is why the whole call has ended, if it has.
func (c *Client) judge(over, err error) attempt {
	st, ok := status.FromError(err)
	if !ok {
		return attempt{err: err, unsure: true}
	}
	if over != nil {
		return attempt{err: over, unsure: true}
	}
	if c.closed() {
		return attempt{err: fmt.Errorf("%s: %w", st.Message(), meta.ErrClosed), unsure: true}
	}
	a := attempt{err: fromStatus(st)}
	switch {
	case meta.CodeOf(a.err) != 0 || errors.Is(a.err, meta.ErrIncarnation): // the server has judged
	case errors.Is(a.err, meta.ErrHalted):
		a.again, a.halted = true, true
	case errors.Is(a.err, meta.ErrOverloaded):
		a.again = true
	default:
		switch st.Code() {
		// Whoever is between here and the server says these, or the server's library before it calls anybody.
		case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.InvalidArgument:
		// Canceled is a stream that was cut off on the way, since the caller's context has not ended. DeadlineExceeded is
		// the end of the try, or of the server's patience. Internal is broken on the way too, or a panic in the server.
		case codes.Unavailable, codes.Unknown, codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.Internal:
			a.again, a.unsure = true, unsure(a.err)
		default: // as ResourceExhausted, of an answer that is too large to be read
			a.unsure = unsure(a.err)
		}
	}
	return a
}

// fromStatus returns the error that a server meant: one of package meta where the status has a detail that says so.
func fromStatus(st *status.Status) error {
	e := connect.NewError(connect.Code(st.Code()), errors.New(st.Message()))
	for _, d := range st.Proto().GetDetails() {
		m, err := d.UnmarshalNew()
		if err != nil {
			continue
		}
		if detail, err := connect.NewErrorDetail(m); err == nil {
			e.AddDetail(detail)
		}
	}
	if err := api.FromStatus(e); err != error(e) {
		return err
	}
	return st.Err()
}

// round goes through the servers for one call, which may take several rounds.
type round struct {
	c      *Client
	ctx    context.Context
	end    time.Time // of the call, where ctx has no deadline; zero: none
	tries  int
	halted int
	pause  time.Duration
}

// round begins a call. Without a deadline of its context it ends after Options.Timeout: a time that is looked at, since a
// context with a deadline would cost each call a timer and a link to ctx, and the tries have theirs.
func (c *Client) round(ctx context.Context) round {
	r := round{c: c, ctx: ctx}
	if _, ok := ctx.Deadline(); !ok {
		r.end = time.Now().Add(c.o.Timeout)
	}
	return r
}

// over returns why the call has ended: the error of its context; nil while it has not.
func (r *round) over() error {
	if err := r.ctx.Err(); err != nil || r.end.IsZero() || time.Now().Before(r.end) {
		return err
	}
	return context.DeadlineExceeded
}

// try calls one server once, for AttemptTimeout at most, which the connection knows (see methods).
func (r *round) try(e *endpoint, method string, req, res any) attempt {
	if r.c.closed() {
		return attempt{err: fmt.Errorf("call %s: %w", method, meta.ErrClosed)}
	}
	ctx, cancel := r.ctx, func() {}
	switch {
	case !r.end.IsZero() && time.Until(r.end) < r.c.o.AttemptTimeout:
		ctx, cancel = context.WithDeadline(ctx, r.end)
	case method == methodStatus: // the connection knows no bound for it, since Open has more patience
		ctx, cancel = context.WithTimeout(ctx, r.c.o.AttemptTimeout)
	}
	defer cancel()
	// The library fills in the peer when the call got a stream of a connection. Without one, nothing was sent.
	var p peer.Peer
	err := e.conn.Invoke(ctx, method, req, res, grpc.Peer(&p))
	if err == nil {
		return attempt{}
	}
	a := r.c.judge(r.over(), err)
	a.unsure = a.unsure && p.Addr != nil
	return a
}

// next says after a try that failed whether there is another, waiting where all servers have been tried. It has moved
// on to the next server then.
func (r *round) next(e *endpoint, a attempt) bool {
	if !a.again {
		return false
	}
	r.tries++
	if a.halted {
		r.halted++
	}
	r.c.leave(e)
	if r.tries%len(r.c.endpoints) != 0 {
		return r.over() == nil
	}
	if r.halted == len(r.c.endpoints) { // every one of them, in one round
		return false
	}
	r.halted = 0
	r.pause = min(max(2*r.pause, pauseMin), pauseMax)
	// A pause drawn from all lengths, so that clients that failed together do not come back together.
	pause := time.Duration(rand.Int64N(int64(r.pause)) + 1)
	if !r.end.IsZero() {
		pause = min(pause, time.Until(r.end))
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return r.over() == nil
	case <-r.c.closing: // which the next try tells
		return true
	case <-r.ctx.Done():
		return false
	}
}

// endpoint returns the server in use.
func (c *Client) endpoint() *endpoint {
	return c.endpoints[c.current.Load()%uint64(len(c.endpoints))]
}

// leave moves on from e to the next server, unless somebody has already.
func (c *Client) leave(e *endpoint) {
	at := c.current.Load()
	if c.endpoints[at%uint64(len(c.endpoints))] == e {
		c.current.CompareAndSwap(at, at+1)
	}
}

// call calls a method that changes nothing, on server after server until one answers or ctx ends. It returns the one
// that answered.
func (c *Client) call(ctx context.Context, method string, req, res proto.Message) (*endpoint, error) {
	for r := c.round(ctx); ; {
		e := c.endpoint()
		a := r.try(e, method, req, res)
		if a.err == nil {
			return e, nil
		}
		if !r.next(e, a) {
			return nil, ended(r.over(), a.err)
		}
		proto.Reset(res)
	}
}

// ended adds why the call has ended, if it has, to the error of the last try.
func ended(over, err error) error {
	if over != nil && !errors.Is(err, over) {
		return fmt.Errorf("%w; the last try: %w", over, err)
	}
	return err
}
