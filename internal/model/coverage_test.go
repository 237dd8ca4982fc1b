package model_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// find is the kind under which the stops of FindObjects are counted; no command has it.
const find meta.Kind = 255

// outcome is how a command of a kind ended: APPLIED, REDUNDANT, REPEATED (answered from the request memory) or a code.
type outcome struct {
	kind meta.Kind
	how  string
}

// coverage counts the outcomes that were reached.
type coverage map[outcome]int

func (c coverage) count(cmd meta.Command, a meta.Answer) {
	how := map[meta.Status]string{meta.Applied: "APPLIED", meta.Redundant: "REDUNDANT"}[a.Status]
	if a.Status == meta.Rejected {
		how = meta.CodeOf(a.Err).String()
	}
	if a.FirstIndex != a.Index || a.FirstPosition != a.Position {
		how = "REPEATED"
	}
	c[outcome{meta.KindOf(cmd), how}]++
	atomic, ok := cmd.(meta.Atomic)
	if result, is := a.Result.(meta.AtomicResult); ok && is && how != "REPEATED" {
		for i, inner := range result.Answers {
			c.count(atomic.Commands[i], meta.Answer{Status: inner.Status})
		}
	}
}

// identity are the refusals of the identity check; stream those of the stream check.
const (
	limitCodes  = " INVALID_ARGUMENT TOO_LARGE"
	identity    = " NODE_NOT_FOUND NODE_EPOCH_STALE NODE_EPOCH_UNKNOWN NODE_FENCED"
	streamEpoch = " STREAM_NOT_FOUND STREAM_EPOCH_STALE STREAM_EPOCH_UNKNOWN"
	stream      = streamEpoch + " STREAM_NOT_OWNED"
	requests    = " REPEATED REQUEST_REUSED REQUEST_EXPIRED"
)

// outcomes is every outcome that the table of commands names; those in small letters are effects besides. Each is forced
// by a sequence of TestEveryOutcome.
var outcomes = map[meta.Kind]string{
	meta.KindRegisterNode:   "APPLIED REDUNDANT NODE_EPOCH_STALE FORMAT_UNSUPPORTED" + limitCodes + requests,
	meta.KindRenewNode:      "APPLIED" + limitCodes + identity,
	meta.KindUnregisterNode: "APPLIED REDUNDANT NODE_EPOCH_STALE NODE_EPOCH_UNKNOWN NODE_HAS_STREAMS" + limitCodes + requests,
	meta.KindFenceNode:      "APPLIED REDUNDANT NODE_ALIVE NODE_CLAIMED" + limitCodes + identity + requests,
	meta.KindCreateStream:   "APPLIED REDUNDANT STREAM_EXISTS" + limitCodes + identity + requests,
	meta.KindOpenStream: "APPLIED over-open ranges-dropped reservation-lapsed REDUNDANT STREAM_NOT_FOUND STREAM_EPOCH_STALE STREAM_NOT_CLOSED STREAM_RESERVED" +
		limitCodes + identity + requests,
	meta.KindCloseStream:  "APPLIED on-behalf REDUNDANT NODE_NOT_CLAIMED" + limitCodes + identity + stream + requests,
	meta.KindTrimStream:   "APPLIED cuts-debt cuts-loss moves-end REDUNDANT" + limitCodes + identity + stream + requests,
	meta.KindLabelStream:  "APPLIED REDUNDANT STREAM_NOT_FOUND" + limitCodes + requests,
	meta.KindDeleteStream: "APPLIED with-debt REDUNDANT STREAM_NOT_CLOSED" + limitCodes + identity + streamEpoch + requests,
	meta.KindRecordTransfer: "APPLIED owes REDUNDANT OFFSET_MISMATCH STREAM_NOT_OPEN TOO_MANY_DEBTS" + limitCodes + identity + stream +
		requests,
	meta.KindForceCloseStream: "APPLIED writes-off REDUNDANT" + limitCodes + streamEpoch + requests,
	meta.KindPrepareObjects:   "APPLIED" + limitCodes + identity + requests,
	meta.KindCommitObjects: "APPLIED on-behalf dropped debt-paid on-behalf-debt-paid REDUNDANT OBJECT_EXISTS OBJECT_NOT_FOUND OBJECT_NOT_OWNED OBJECT_EXPIRED NODE_NOT_CLAIMED" +
		" STREAM_NOT_OPEN OFFSET_MISMATCH" + limitCodes + identity + stream + requests,
	meta.KindCompactObjects: "APPLIED nothing-live REDUNDANT OBJECT_NOT_FOUND OBJECT_EXISTS OBJECT_NOT_OWNED OBJECT_EXPIRED COVERAGE_MISMATCH" +
		limitCodes + identity + requests,
	meta.KindReclaimObjects: "APPLIED REDUNDANT" + limitCodes + requests,
	meta.KindForgetObjects:  "APPLIED REDUNDANT OBJECT_NOT_FOUND OBJECT_IN_USE" + limitCodes + requests,
	meta.KindPutKey:         "APPLIED REDUNDANT KEY_EXISTS KEY_VERSION_MISMATCH" + limitCodes + identity + requests,
	meta.KindDeleteKey:      "APPLIED REDUNDANT KEY_VERSION_MISMATCH" + limitCodes + identity + requests,
	meta.KindCheckKey:       "REDUNDANT KEY_EXISTS KEY_VERSION_MISMATCH" + limitCodes + requests,
	meta.KindAtomic: "APPLIED REDUNDANT NODE_ALIVE NODE_CLAIMED NODE_HAS_STREAMS NODE_NOT_CLAIMED FORMAT_UNSUPPORTED STREAM_EXISTS STREAM_NOT_CLOSED" +
		" STREAM_RESERVED STREAM_NOT_OPEN OFFSET_MISMATCH TOO_MANY_DEBTS OBJECT_NOT_FOUND OBJECT_EXISTS OBJECT_NOT_OWNED OBJECT_EXPIRED OBJECT_IN_USE" +
		" COVERAGE_MISMATCH KEY_EXISTS KEY_VERSION_MISMATCH" + limitCodes + identity + stream + requests,
	meta.KindSetFormat: "APPLIED REDUNDANT INVALID_ARGUMENT FORMAT_UNSUPPORTED" + requests,
	find:               "end limit debt loss",
}

func kindName(kind meta.Kind) string {
	if kind == find {
		return "FindObjects"
	}
	return kind.String()
}

// lines are the outcomes of the table with how often each was reached, a line for each kind.
func (c coverage) lines() (out []string) {
	for _, kind := range append(meta.Kinds(), find) {
		var line []string
		for _, how := range strings.Fields(outcomes[kind]) {
			line = append(line, how+" "+strconv.Itoa(c[outcome{kind, how}]))
		}
		out = append(out, kindName(kind)+" | "+strings.Join(line, ", "))
	}
	return out
}

// log tells how often each outcome was reached.
func (c coverage) log(t *testing.T) {
	t.Helper()
	total := 0
	for _, n := range c {
		total += n
	}
	t.Logf("%d outcomes in all:\n%s", total, strings.Join(c.lines(), "\n"))
}
