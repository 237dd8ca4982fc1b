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

// try calls one server once.
func (c *Client) try(ctx context.Context, e *endpoint, method string, req, res proto.Message) attempt {
	return c.tryWithin(ctx, c.o.AttemptTimeout, e, method, req, res)
}

func (c *Client) tryWithin(ctx context.Context, bound time.Duration, e *endpoint, method string, req, res proto.Message) attempt {
	if c.closed.Load() {
		return attempt{err: fmt.Errorf("call %s: %w", method, meta.ErrClosed)}
	}
	tctx := ctx
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > bound {
		var cancel context.CancelFunc
		tctx, cancel = context.WithTimeout(ctx, bound)
		defer cancel()
	}
	// The library fills in the peer when the call got a stream of a connection. Without one, nothing was sent.
	var p peer.Peer
	err := e.conn.Invoke(tctx, method, req, res, grpc.Peer(&p))
	if err == nil {
		return attempt{}
	}
	a := c.judge(ctx, err)
	a.unsure = a.unsure && p.Addr != nil
	return a
}

// judge tells what an error of a try means. ctx is the context of the whole call.
func (c *Client) judge(ctx context.Context, err error) attempt {
	st, ok := status.FromError(err)
	if !ok {
		return attempt{err: err, unsure: true}
	}
	if ctx.Err() != nil {
		return attempt{err: ctx.Err(), unsure: true}
	}
	if c.closed.Load() {
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
		// Canceled is a stream that was cut off on the way, since the caller's context has not ended. DeadlineExceeded is
		// the end of the try, or of the server's patience. Internal is broken on the way too, or a panic in the server.
		case codes.Unavailable, codes.Unknown, codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.Internal:
			a.again, a.unsure = true, unsure(a.err)
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
	tries  int
	halted int
	pause  time.Duration
}

// next says after a try that failed whether there is another, waiting where all servers have been tried. It has moved
// on to the next server then.
func (r *round) next(ctx context.Context, e *endpoint, a attempt) bool {
	if !a.again {
		return false
	}
	r.tries++
	if a.halted {
		r.halted++
	}
	r.c.leave(e)
	if r.tries%len(r.c.endpoints) != 0 {
		return ctx.Err() == nil
	}
	if r.halted == len(r.c.endpoints) { // every one of them, in one round
		return false
	}
	r.halted = 0
	r.pause = min(max(2*r.pause, pauseMin), pauseMax)
	// A pause drawn from all lengths, so that clients that failed together do not come back together.
	t := time.NewTimer(time.Duration(rand.Int64N(int64(r.pause)) + 1))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
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

// bounded gives a call that came without a deadline the client's own.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.o.Timeout)
}

// call calls a method that changes nothing, on server after server until one answers or ctx ends. It returns the one
// that answered.
func (c *Client) call(ctx context.Context, method string, req, res proto.Message) (*endpoint, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	for r := (round{c: c}); ; {
		e := c.endpoint()
		a := c.try(ctx, e, method, req, res)
		if a.err == nil {
			return e, nil
		}
		if !r.next(ctx, e, a) {
			return nil, ended(ctx, a.err)
		}
		proto.Reset(res)
	}
}

// ended adds the context's error to that of the last try.
func ended(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w; the last try: %w", cause, err)
	}
	return err
}
