package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"connectrpc.com/connect"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

// The exit codes of the program, as its help documents them.
const (
	exitDone        = 0
	exitRefused     = 1
	exitUsage       = 2
	exitUnavailable = 3
)

// exitError is an error that knows how the program ends, and what a person could do about it.
type exitError struct {
	code int
	err  error // nil: everything was said already
	hint string
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func unavailable(err error, hint string) error {
	return &exitError{code: exitUnavailable, err: err, hint: hint}
}

func refused(err error, hint string) error {
	return &exitError{code: exitRefused, err: err, hint: hint}
}

// asUsage makes err a mistake in the command line, unless it knows better.
func asUsage(err error) error {
	var e *exitError
	if errors.As(err, &e) {
		return err
	}
	return &exitError{code: exitUsage, err: err}
}

// report says on w what went wrong and returns the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{code: exitUnavailable, err: err}
	}
	if e.err != nil {
		fmt.Fprintf(w, "headwater: %s\n", printable(err.Error()))
		if e.hint != "" {
			fmt.Fprintf(w, "hint: %s\n", e.hint)
		}
	}
	return e.code
}

// rpcError turns the error of a call into one that knows its exit code.
func rpcError(err error) error {
	if err == nil {
		return nil
	}
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return unavailable(err, "")
	}
	said := errors.New(ce.Message())
	if code, message := refusal(ce); code != "" {
		said = errors.New(code + ": " + message)
	}
	switch ce.Code() {
	case connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeAlreadyExists, connect.CodeFailedPrecondition,
		connect.CodeAborted, connect.CodeOutOfRange, connect.CodePermissionDenied, connect.CodeUnauthenticated:
		if failureOf(ce) == nil {
			return refused(said, "")
		}
	case connect.CodeUnimplemented:
		return unavailable(said, "what answers there is no Headwater server, or one of another version")
	case connect.CodeDeadlineExceeded:
		return unavailable(fmt.Errorf("no answer in time: %w", said), "--timeout allows more time")
	}
	if errors.Is(err, context.Canceled) {
		return unavailable(errors.New("interrupted"), "")
	}
	return unavailable(said, "")
}

// refusal returns the domain's code and sentence, where the error carries them.
func refusal(ce *connect.Error) (code, message string) {
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if r, ok := v.(*headwaterv1.Refusal); ok {
				return r.GetCode(), r.GetMessage()
			}
		}
	}
	return "", ""
}

func failureOf(ce *connect.Error) *headwaterv1.Failure {
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if r, ok := v.(*headwaterv1.Refusal); ok {
				return r.GetFailure()
			}
		}
	}
	return nil
}

// printable replaces control characters, so that text from elsewhere cannot steer a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}
