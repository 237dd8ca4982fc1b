package meta

import (
	"errors"
	"fmt"
	"strings"
)

// Code says why the rules refuse a command. The texts are part of the API and of the log's request memory.
type Code uint8

// The codes, in no order of importance. The numbers stand in snapshots and are never used again for something else.
const (
	CodeInvalidArgument Code = 1 + iota
	CodeTooLarge
	CodeRequestReused
	CodeRequestExpired
	CodeNodeNotFound
	CodeNodeEpochStale
	CodeNodeEpochUnknown
	CodeNodeFenced
	CodeNodeNotClaimed
	CodeNodeHasStreams
	CodeNodeAlive
	CodeNodeClaimed
	CodeFormatUnsupported
	CodeStreamNotFound
	CodeStreamExists
	CodeStreamEpochStale
	CodeStreamEpochUnknown
	CodeStreamNotOwned
	CodeStreamNotClosed
	CodeStreamNotOpen
	CodeStreamReserved
	CodeOffsetMismatch
	CodeTooManyDebts
	CodeObjectNotFound
	CodeObjectExists
	CodeObjectNotOwned
	CodeObjectExpired
	CodeObjectInUse
	CodeCoverageMismatch
	CodeKeyExists
	CodeKeyVersionMismatch
	CodeKeyNotFound // of queries only: no command is refused with it

	codeEnd // one above the highest
)

var codeNames = [codeEnd]string{
	CodeInvalidArgument:    "INVALID_ARGUMENT",
	CodeTooLarge:           "TOO_LARGE",
	CodeRequestReused:      "REQUEST_REUSED",
	CodeRequestExpired:     "REQUEST_EXPIRED",
	CodeNodeNotFound:       "NODE_NOT_FOUND",
	CodeNodeEpochStale:     "NODE_EPOCH_STALE",
	CodeNodeEpochUnknown:   "NODE_EPOCH_UNKNOWN",
	CodeNodeFenced:         "NODE_FENCED",
	CodeNodeNotClaimed:     "NODE_NOT_CLAIMED",
	CodeNodeHasStreams:     "NODE_HAS_STREAMS",
	CodeNodeAlive:          "NODE_ALIVE",
	CodeNodeClaimed:        "NODE_CLAIMED",
	CodeFormatUnsupported:  "FORMAT_UNSUPPORTED",
	CodeStreamNotFound:     "STREAM_NOT_FOUND",
	CodeStreamExists:       "STREAM_EXISTS",
	CodeStreamEpochStale:   "STREAM_EPOCH_STALE",
	CodeStreamEpochUnknown: "STREAM_EPOCH_UNKNOWN",
	CodeStreamNotOwned:     "STREAM_NOT_OWNED",
	CodeStreamNotClosed:    "STREAM_NOT_CLOSED",
	CodeStreamNotOpen:      "STREAM_NOT_OPEN",
	CodeStreamReserved:     "STREAM_RESERVED",
	CodeOffsetMismatch:     "OFFSET_MISMATCH",
	CodeTooManyDebts:       "TOO_MANY_DEBTS",
	CodeObjectNotFound:     "OBJECT_NOT_FOUND",
	CodeObjectExists:       "OBJECT_EXISTS",
	CodeObjectNotOwned:     "OBJECT_NOT_OWNED",
	CodeObjectExpired:      "OBJECT_EXPIRED",
	CodeObjectInUse:        "OBJECT_IN_USE",
	CodeCoverageMismatch:   "COVERAGE_MISMATCH",
	CodeKeyExists:          "KEY_EXISTS",
	CodeKeyVersionMismatch: "KEY_VERSION_MISMATCH",
	CodeKeyNotFound:        "KEY_NOT_FOUND",
}

// String returns the code as the API spells it, for example "NODE_FENCED".
func (c Code) String() string {
	if c == 0 || c >= codeEnd {
		return "UNKNOWN"
	}
	return codeNames[c]
}

// Codes returns all codes in numeric order. The caller owns the slice.
func Codes() []Code {
	out := make([]Code, 0, codeEnd-1)
	for c := Code(1); c < codeEnd; c++ {
		out = append(out, c)
	}
	return out
}

// Error is a refusal by the rules: the command changed nothing. Compare Code; Message names the values for people
// and may change between releases.
type Error struct {
	Code    Code
	Message string
	// Inner is the position, from 0, of the refusing command inside Atomic; -1 where the command stood alone.
	Inner int
	// Current is the key as it stood, for KEY_EXISTS and KEY_VERSION_MISMATCH on a present key; nil otherwise, and
	// nil when a request that was answered before is answered again.
	Current *Key
}

// Error returns code and message in one line.
func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// Is reports whether target is an *Error with the same code, so that errors.Is(err, &meta.Error{Code: c}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the refusal in err's chain, and 0 where there is none.
func CodeOf(err error) Code {
	if err == nil { // as nearly always; the way below allocates
		return 0
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// Operational conditions, the same for the embedded library and for the client.
var (
	// ErrOutcomeUnknown: the command may or may not take effect. Sent again with the same request, it is exact.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrNotApplied: the command was given up before anything was appended; it never takes effect.
	ErrNotApplied = errors.New("not applied")
	// ErrOverloaded: the queue of proposals is full. The command never takes effect.
	ErrOverloaded = errors.New("overloaded")
	// ErrHalted: the node has met a row that it cannot go past. The text says which and why.
	ErrHalted = errors.New("halted")
	// ErrUnavailable: the database cannot take the command now (away, full, read-only, a gap). It never takes effect.
	ErrUnavailable = errors.New("unavailable")
	// ErrClosed: the store or client was closed. The command never takes effect.
	ErrClosed = errors.New("closed")
	// ErrIncarnation: an index of an earlier history was given; it means nothing in this one.
	ErrIncarnation = errors.New("index belongs to another incarnation")
)

// UnknownError is an ErrOutcomeUnknown that names the request whose outcome it is: proposed again with it, the command has
// one effect, and the answer tells which. The text says which row may hold it, where one was tried.
type UnknownError struct {
	Request Request
	Err     error // wraps ErrOutcomeUnknown, and the error of the context where that is why
}

// Unknown gives err, where it is an ErrOutcomeUnknown, the request whose outcome it is; r may be nil: there is none.
func Unknown(r *Request, err error) error {
	if r == nil || !errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	var named *UnknownError // declared here, because it is kept on the heap
	if errors.As(err, &named) {
		return err
	}
	return &UnknownError{Request: *r, Err: err}
}

// Error returns the name of the request and the error in one line.
func (e *UnknownError) Error() string {
	name := fmt.Sprintf("request %x/%d", e.Request.Client, e.Request.Sequence)
	if text := e.Err.Error(); strings.Contains(text, name) { // a server has said so already
		return text
	}
	return name + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }
