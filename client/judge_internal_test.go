package client

// Inside the package: what is told of a try depends on the moment at which it is cut off, which cannot be hit from
// outside.

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"github.com/headwaterdb/headwater/api"
	"github.com/headwaterdb/headwater/meta"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	live := t.Context()
	ended, cancel := context.WithCancel(live)
	cancel()
	broken := status.Error(codes.Unavailable, "connection reset")
	for name, tt := range map[string]struct {
		ctx   context.Context
		w     pending
		is    []error
		isNot []error
	}{
		"cut off":           {ended, pending{unsure: true, last: context.Canceled}, []error{meta.ErrOutcomeUnknown, context.Canceled}, []error{meta.ErrNotApplied}},
		"broken, then cut":  {ended, pending{unsure: true, last: broken}, []error{meta.ErrOutcomeUnknown, context.Canceled}, []error{meta.ErrNotApplied}},
		"unsure, then not":  {ended, pending{unsure: true, last: meta.ErrOverloaded}, []error{meta.ErrOutcomeUnknown, context.Canceled}, []error{meta.ErrOverloaded}},
		"unsure and closed": {live, pending{unsure: true, last: meta.ErrClosed}, []error{meta.ErrOutcomeUnknown}, []error{meta.ErrClosed}},
		"never sent":        {ended, pending{last: broken}, []error{meta.ErrNotApplied, context.Canceled}, []error{meta.ErrOutcomeUnknown}},
		"never tried":       {ended, pending{last: context.Canceled}, []error{meta.ErrNotApplied, context.Canceled}, []error{meta.ErrOutcomeUnknown}},
		"overloaded":        {ended, pending{last: meta.ErrOverloaded}, []error{meta.ErrOverloaded, context.Canceled}, []error{meta.ErrOutcomeUnknown}},
		"unavailable":       {ended, pending{last: meta.ErrUnavailable}, []error{meta.ErrUnavailable, context.Canceled}, []error{meta.ErrOutcomeUnknown}},
		"closed":            {live, pending{last: meta.ErrClosed}, []error{meta.ErrClosed}, []error{meta.ErrOutcomeUnknown}},
		"halted":            {live, pending{last: meta.ErrHalted}, []error{meta.ErrHalted}, []error{meta.ErrOutcomeUnknown}},
		"not permitted":     {live, pending{last: status.Error(codes.PermissionDenied, "no")}, []error{meta.ErrNotApplied}, []error{meta.ErrOutcomeUnknown}},
	} {
		got := tt.w.verdict(tt.ctx.Err())
		for _, want := range tt.is {
			if !errors.Is(got, want) {
				t.Errorf("%s: %v is not %v", name, got, want)
			}
		}
		for _, not := range tt.isNot {
			if errors.Is(got, not) {
				t.Errorf("%s: %v is %v", name, got, not)
			}
		}
	}
}

// wire is err as it arrives from a server.
func wire(err error) error {
	var c *connect.Error
	if !errors.As(api.ToStatus(err), &c) {
		return err
	}
	p := &spb.Status{Code: int32(c.Code()), Message: c.Message()}
	for _, d := range c.Details() {
		p.Details = append(p.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return status.ErrorProto(p)
}

func TestJudge(t *testing.T) {
	t.Parallel()
	c := &Client{}
	for name, tt := range map[string]struct {
		err           error
		again, unsure bool
		is            error
	}{
		"refused":            {wire(&meta.Error{Code: meta.CodeStreamNotFound, Message: "no", Inner: -1}), false, false, &meta.Error{Code: meta.CodeStreamNotFound}},
		"other incarnation":  {wire(meta.ErrIncarnation), false, false, meta.ErrIncarnation},
		"halted":             {wire(fmt.Errorf("row 7: %w", meta.ErrHalted)), true, false, meta.ErrHalted},
		"overloaded":         {wire(meta.ErrOverloaded), true, false, meta.ErrOverloaded},
		"unavailable":        {wire(meta.ErrUnavailable), true, false, meta.ErrUnavailable},
		"server closing":     {wire(meta.ErrClosed), true, false, meta.ErrClosed},
		"unknown":            {wire(meta.ErrOutcomeUnknown), true, true, meta.ErrOutcomeUnknown},
		"broken connection":  {status.Error(codes.Unavailable, "reset"), true, true, nil},
		"cut stream":         {status.Error(codes.Canceled, "RST_STREAM"), true, true, nil},
		"server's patience":  {status.Error(codes.DeadlineExceeded, "30 s"), true, true, nil},
		"panic":              {status.Error(codes.Internal, "panicked"), true, true, nil},
		"too large to read":  {status.Error(codes.ResourceExhausted, "64 MiB"), false, true, nil},
		"whatever it means":  {status.Error(codes.DataLoss, "no"), false, true, nil},
		"not permitted":      {status.Error(codes.PermissionDenied, "no"), false, false, nil},
		"not this service":   {status.Error(codes.Unimplemented, "no"), false, false, nil},
		"something else":     {errors.New("broken codec"), false, true, nil},
		"a malformed answer": {status.Error(codes.InvalidArgument, "no"), false, false, nil},
	} {
		a := c.judge(nil, tt.err)
		if a.again != tt.again || a.unsure != tt.unsure || a.err == nil || tt.is != nil && !errors.Is(a.err, tt.is) {
			t.Errorf("%s: %+v", name, a)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if a := c.judge(ended.Err(), status.Error(codes.Canceled, "context canceled")); a.again || !a.unsure || !errors.Is(a.err, context.Canceled) {
		t.Errorf("the caller's own end: %+v", a)
	}
}
