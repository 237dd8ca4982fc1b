package history

import (
	"fmt"
	"reflect"

	"github.com/anishathalye/porcupine"

	"github.com/headwaterdb/headwater/meta"
)

// rules are a sequential specification of one part of the state. They are written from the table of commands, as small as
// what they check allows, and use nothing of package meta but the types. States are never changed in place.
//
// A command of unknown outcome is let through and takes the effect that the rules give it. That is exact: it may stand
// anywhere after its call, and what never took effect is put behind everything else.
type rules[S any] struct {
	init  S
	equal func(a, b S) bool
	// judge returns the state after a command, and whether the rules allow that answer; a is nil where it is unknown.
	judge func(s S, c meta.Command, a *meta.Answer) (S, bool)
	// read returns whether a view of this state may answer so, and the state with what was learned from it.
	read func(s S, r *Read) (S, bool)
}

// model is the rules for Porcupine; the input of an operation is an *Op.
func (r rules[S]) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return r.init },
		Step: func(state, input, _ any) (bool, any) {
			op := input.(*Op)
			var next S
			var ok bool
			switch {
			case op.Read != nil:
				next, ok = r.read(state.(S), op.Read)
			case op.Outcome == Unknown:
				next, ok = r.judge(state.(S), op.Command, nil)
			default:
				next, ok = r.judge(state.(S), op.Command, &op.Answer)
			}
			return ok, next
		},
		Equal:             func(a, b any) bool { return r.equal(a.(S), b.(S)) },
		DescribeOperation: func(input, _ any) string { return input.(*Op).String() },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

// verdict is what the rules say to a command.
type verdict struct {
	status meta.Status
	code   meta.Code   // of a refusal
	result meta.Result // nil: not looked at
}

func applied(r meta.Result) verdict   { return verdict{status: meta.Applied, result: r} }
func redundant(r meta.Result) verdict { return verdict{status: meta.Redundant, result: r} }
func refused(c meta.Code) verdict     { return verdict{status: meta.Rejected, code: c} }

// impossible is the verdict that no answer agrees with.
var impossible = refused(1<<8 - 1)

// allows reports whether an answer is what the rules say. A request that was sent more than once is answered with what
// the first copy was, as redundant; that copy too was appended between call and return.
func (v verdict) allows(a *meta.Answer) bool {
	if meta.CodeOf(a.Err) != v.code {
		return false
	}
	if a.Status != v.status && !(a.Status == meta.Redundant && recalled(a)) {
		return false
	}
	return v.result == nil || v.status == meta.Rejected || reflect.DeepEqual(v.result, a.Result)
}

// recalled reports whether the answer is one that was given before.
func recalled(a *meta.Answer) bool {
	return a.FirstIndex != a.Index || a.FirstPosition != a.Position
}

// ofNode reports whether a refusal is about the node that acts: then it says nothing about what was acted on, and the
// part with the nodes judges it.
func ofNode(a *meta.Answer) bool {
	if a == nil {
		return false
	}
	switch meta.CodeOf(a.Err) {
	case meta.CodeNodeNotFound, meta.CodeNodeEpochStale, meta.CodeNodeEpochUnknown, meta.CodeNodeFenced, meta.CodeNodeNotClaimed:
		return true
	}
	return false
}

func same[S comparable](a, b S) bool { return a == b }
