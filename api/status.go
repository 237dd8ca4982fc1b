package api

import (
	"context"
	"errors"
	"strings"

	"connectrpc.com/connect"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// refusals says which status a refusal by the rules has where a whole call ends in it: a query, a wait. Commands never
// do: each has an answer of its own.
//
// FailedPrecondition tells a client to look at the state before it sends anything again, which is what a refusal
// mostly asks for. Aborted is for the one condition that a client sets so as to try again from a fresh read.
var refusals = map[meta.Code]connect.Code{
	meta.CodeInvalidArgument:    connect.CodeInvalidArgument,
	meta.CodeTooLarge:           connect.CodeInvalidArgument,
	meta.CodeRequestReused:      connect.CodeFailedPrecondition,
	meta.CodeRequestExpired:     connect.CodeFailedPrecondition,
	meta.CodeNodeNotFound:       connect.CodeNotFound,
	meta.CodeNodeEpochStale:     connect.CodeFailedPrecondition,
	meta.CodeNodeEpochUnknown:   connect.CodeFailedPrecondition,
	meta.CodeNodeFenced:         connect.CodeFailedPrecondition,
	meta.CodeNodeNotClaimed:     connect.CodeFailedPrecondition,
	meta.CodeNodeHasStreams:     connect.CodeFailedPrecondition,
	meta.CodeNodeAlive:          connect.CodeFailedPrecondition,
	meta.CodeNodeClaimed:        connect.CodeFailedPrecondition,
	meta.CodeFormatUnsupported:  connect.CodeFailedPrecondition,
	meta.CodeStreamNotFound:     connect.CodeNotFound,
	meta.CodeStreamExists:       connect.CodeAlreadyExists,
	meta.CodeStreamEpochStale:   connect.CodeFailedPrecondition,
	meta.CodeStreamEpochUnknown: connect.CodeFailedPrecondition,
	meta.CodeStreamNotOwned:     connect.CodeFailedPrecondition,
	meta.CodeStreamNotClosed:    connect.CodeFailedPrecondition,
	meta.CodeStreamNotOpen:      connect.CodeFailedPrecondition,
	meta.CodeStreamReserved:     connect.CodeFailedPrecondition,
	meta.CodeOffsetMismatch:     connect.CodeFailedPrecondition,
	meta.CodeTooManyDebts:       connect.CodeFailedPrecondition,
	meta.CodeObjectNotFound:     connect.CodeNotFound,
	meta.CodeObjectExists:       connect.CodeAlreadyExists,
	meta.CodeObjectNotOwned:     connect.CodeFailedPrecondition,
	meta.CodeObjectExpired:      connect.CodeFailedPrecondition,
	meta.CodeObjectInUse:        connect.CodeFailedPrecondition,
	meta.CodeCoverageMismatch:   connect.CodeFailedPrecondition,
	meta.CodeKeyExists:          connect.CodeAlreadyExists,
	meta.CodeKeyVersionMismatch: connect.CodeAborted,
	meta.CodeKeyNotFound:        connect.CodeNotFound,
}

// failures says which kind and which status an operational error has. The first one that is in an error's chain
// counts.
//
// An unknown outcome is Unknown, the one status that neither proxies nor gRPC service configurations retry as they
// come: whoever sends such a command again has to send the same request. What vouches that the command never takes
// effect is Unavailable (try again, perhaps elsewhere) or ResourceExhausted (try again later).
var failures = []struct {
	err    error
	kind   pb.Failure_Kind
	status connect.Code
}{
	{meta.ErrOutcomeUnknown, pb.Failure_OUTCOME_UNKNOWN, connect.CodeUnknown},
	{meta.ErrNotApplied, pb.Failure_NOT_APPLIED, connect.CodeUnavailable},
	{meta.ErrOverloaded, pb.Failure_OVERLOADED, connect.CodeResourceExhausted},
	{meta.ErrHalted, pb.Failure_HALTED, connect.CodeUnavailable},
	{meta.ErrUnavailable, pb.Failure_UNAVAILABLE, connect.CodeUnavailable},
	{meta.ErrClosed, pb.Failure_CLOSED, connect.CodeUnavailable},
	{meta.ErrIncarnation, pb.Failure_INCARNATION, connect.CodeFailedPrecondition},
}

var codes = func() map[string]meta.Code {
	all := map[string]meta.Code{}
	for _, c := range meta.Codes() {
		all[c.String()] = c
	}
	return all
}()

// ToCode returns the code that the API spells so; false for one that this build does not know.
func ToCode(name string) (meta.Code, bool) {
	c, ok := codes[name]
	return c, ok
}

// StatusOf returns the Connect and gRPC status that belongs to err; Internal for an error that is none of package meta's
// and none of a context's.
func StatusOf(err error) connect.Code {
	var refused *meta.Error
	if errors.As(err, &refused) {
		if status, ok := refusals[refused.Code]; ok {
			return status
		}
		return connect.CodeFailedPrecondition
	}
	for _, f := range failures {
		if errors.Is(err, f.err) {
			return f.status
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	}
	return connect.CodeInternal
}

// ToStatus returns err as the error of a whole call: with its status, and with a Refusal as the detail where it is a
// refusal or an operational error, so that FromStatus gives the same error back. A *connect.Error, and nil, are passed on.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	var done *connect.Error
	if errors.As(err, &done) {
		return err
	}
	status := connect.NewError(StatusOf(err), errors.New(text(err)))
	if r := refusal(err); r != nil {
		detail, derr := connect.NewErrorDetail(r)
		if derr != nil {
			return connect.NewError(connect.CodeInternal, errors.Join(derr, err))
		}
		status.AddDetail(detail)
	}
	return status
}

// refusal returns the detail of err; nil where there is none.
func refusal(err error) *pb.Refusal {
	var refused *meta.Error
	if errors.As(err, &refused) {
		return &pb.Refusal{Code: refused.Code.String(), Message: validText(refused.Message), Inner: fromInner(refused.Inner),
			Current: fromCurrent(refused.Current)}
	}
	if kind := failureKind(err); kind != pb.Failure_KIND_UNSPECIFIED {
		return &pb.Refusal{Message: text(err), Failure: &pb.Failure{Kind: kind}}
	}
	return nil
}

// FromStatus returns the error of package meta that a server sent: an *meta.Error, or an error that wraps the operational
// sentinel. An error without a Refusal that this build understands is passed on.
func FromStatus(err error) error {
	var status *connect.Error
	if !errors.As(err, &status) {
		return err
	}
	for _, d := range status.Details() {
		m, derr := d.Value()
		if derr != nil {
			continue
		}
		r, ok := m.(*pb.Refusal)
		switch {
		case !ok:
		case r.Code != "":
			return toError(r.Code, r.Message, r.Inner, r.Current)
		case r.Failure != nil:
			return toFailure(r.Failure.Kind, r.Message)
		}
	}
	return err
}

// toError returns a refusal. Of a code that this build does not know, the text keeps the name.
func toError(code, message string, inner *int32, current *pb.Key) *meta.Error {
	e := &meta.Error{Message: message, Inner: -1}
	if inner != nil {
		e.Inner = int(*inner)
	}
	if current != nil {
		k := ToKey(current)
		e.Current = &k
	}
	c, ok := ToCode(code)
	if !ok {
		e.Message = code + ": " + message
	}
	e.Code = c
	return e
}

func failureKind(err error) pb.Failure_Kind {
	for _, f := range failures {
		if errors.Is(err, f.err) {
			return f.kind
		}
	}
	return pb.Failure_KIND_UNSPECIFIED
}

// remoteError is an operational error with the text that the server gave it.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// toFailure returns an error that wraps the sentinel of kind. A kind that this build does not know is an unknown outcome:
// that is the one that promises nothing.
func toFailure(kind pb.Failure_Kind, message string) error {
	sentinel := meta.ErrOutcomeUnknown
	for _, f := range failures {
		if f.kind == kind {
			sentinel = f.err
		}
	}
	if message == "" {
		return sentinel
	}
	if !strings.Contains(message, sentinel.Error()) {
		message += ": " + sentinel.Error()
	}
	return &remoteError{text: message, kind: sentinel}
}

// text returns the text of err as protobuf can carry it.
func text(err error) string { return validText(err.Error()) }

func validText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
