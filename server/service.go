package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// service answers the calls, whatever protocol they came by.
type service struct {
	store       Store
	o           Options
	incarnation string // of the log; a store keeps to one for life
	age         atomic.Pointer[age]

	life    context.Context // ends when the server begins to shut down
	end     context.CancelFunc
	closing <-chan struct{} // life's
}

func newService(store Store, o Options) *service {
	life, end := context.WithCancel(context.Background())
	return &service{store: store, o: o, incarnation: store.Status().Incarnation, life: life, end: end, closing: life.Done()}
}

func (s *service) close() { s.end() }

func (s *service) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// guarded calls fn. A panic becomes an error of status Internal, since one bad call must not end the process, and every
// other error gets its status.
func guarded[Req, Res any](s *service, name string, fn func(context.Context, *Req) (*Res, error)) func(context.Context, *Req) (*Res, error) {
	return func(ctx context.Context, req *Req) (res *Res, err error) {
		defer s.recovered(name, &err)
		res, err = fn(ctx, req)
		return res, api.ToStatus(err)
	}
}

func guardedStream[Req, Res any](s *service, name string, fn streamFunc[Req, Res]) streamFunc[Req, Res] {
	return func(ctx context.Context, req *Req, send func(*Res) error) (err error) {
		defer s.recovered(name, &err)
		return api.ToStatus(fn(ctx, req, send))
	}
}

func (s *service) recovered(name string, err *error) {
	p := recover()
	if p == nil {
		return
	}
	s.o.Logger.Error("panic in a handler", "method", name, "panic", p, "stack", string(debug.Stack()))
	*err = connect.NewError(connect.CodeInternal, fmt.Errorf("%s panicked; the server's log says where", name))
}

// bounded gives a call that came without a deadline the server's own.
func (s *service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.o.Timeout)
}

// errClosing ends reads that wait when the server begins to close: what they wait for may never come.
var errClosing = fmt.Errorf("the server is closing: %w", meta.ErrClosed)

// untilClosing returns a context that also ends when the server begins to close.
func (s *service) untilClosing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(errClosing) })
	return ctx, func() { stop(); cancel(nil) }
}

// ended is the error of a wait, or errClosing where that is why it ended.
func (s *service) ended(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errClosing) {
		return errClosing
	}
	return err
}

// view returns a view as fresh as r asks for.
func (s *service) view(ctx context.Context, r *pb.Read) (*headwater.View, error) {
	v := s.store.View()
	if r == nil {
		return v, nil
	}
	if r.Incarnation != "" && r.Incarnation != s.incarnation {
		return nil, fmt.Errorf("index %d of incarnation %s, this is incarnation %s: %w", r.AtLeastIndex, clip(r.Incarnation),
			s.incarnation, meta.ErrIncarnation)
	}
	if !r.Linearizable && uint64(v.Index) >= r.AtLeastIndex {
		return v, nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	ctx, leave := s.untilClosing(ctx)
	defer leave()
	if r.Linearizable {
		fresh, err := s.store.Linearize(ctx)
		if err != nil {
			return nil, fmt.Errorf("look up the newest index, view at %d: %w", v.Index, s.ended(ctx, err))
		}
		v = fresh
	}
	if uint64(v.Index) < r.AtLeastIndex {
		fresh, err := s.store.Wait(ctx, r.AtLeastIndex)
		if err != nil {
			return nil, fmt.Errorf("wait for index %d, view at %d: %w", r.AtLeastIndex, v.Index, s.ended(ctx, err))
		}
		v = fresh
	}
	return v, nil
}

// age is how old the view was at one moment. Asking the store costs more than a read, so that reads share an answer for
// as long as it can hardly be told from a new one.
type age struct {
	behind time.Duration
	asked  time.Time
}

const agePrecision = 5 * time.Millisecond

// at says which view answered.
func (s *service) at(v *headwater.View) *pb.At {
	a := s.age.Load()
	now := time.Now()
	if a == nil || now.Sub(a.asked) > agePrecision {
		a = &age{behind: s.store.Status().Behind, asked: now}
		s.age.Store(a)
	}
	return &pb.At{Index: uint64(v.Index), Incarnation: s.incarnation, AgeMs: uint64(a.behind.Milliseconds())}
}

// clip keeps what a caller sent short enough for a message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	end := most
	for !utf8.RuneStart(s[end]) { // not within a character
		end--
	}
	return s[:end] + "…"
}

// notFound is the refusal of a query for what is not there.
func notFound(code meta.Code, format string, args ...any) error {
	return &meta.Error{Code: code, Message: fmt.Sprintf(format, args...), Inner: -1}
}

func invalid(format string, args ...any) error {
	return &meta.Error{Code: meta.CodeInvalidArgument, Message: fmt.Sprintf(format, args...), Inner: -1}
}
