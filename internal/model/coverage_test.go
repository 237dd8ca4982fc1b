package model_test

import (
	"maps"
	"slices"
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

// expected is every outcome that the table of commands names. What needs more than a random run grows to (64 debts,
// 10,000 slices) stands in TestBounds.
var expected = map[meta.Kind]string{
	meta.KindRegisterNode:   "APPLIED REDUNDANT NODE_EPOCH_STALE FORMAT_UNSUPPORTED" + limitCodes + requests,
	meta.KindRenewNode:      "APPLIED INVALID_ARGUMENT" + identity,
	meta.KindUnregisterNode: "APPLIED REDUNDANT NODE_EPOCH_STALE NODE_EPOCH_UNKNOWN NODE_HAS_STREAMS" + limitCodes + requests,
	meta.KindFenceNode:      "APPLIED REDUNDANT NODE_ALIVE NODE_CLAIMED" + limitCodes + identity + requests,
	meta.KindCreateStream:   "APPLIED REDUNDANT STREAM_EXISTS" + limitCodes + identity + requests,
	meta.KindOpenStream: "APPLIED over-open ranges-dropped reservation-lapsed REDUNDANT STREAM_NOT_FOUND STREAM_EPOCH_STALE STREAM_NOT_CLOSED STREAM_RESERVED" +
		limitCodes + identity + requests,
	meta.KindCloseStream:  "APPLIED on-behalf REDUNDANT NODE_NOT_CLAIMED" + limitCodes + identity + stream + requests,
	meta.KindTrimStream:   "APPLIED cuts-debt cuts-loss moves-end REDUNDANT" + limitCodes + identity + stream + requests,
	meta.KindLabelStream:  "APPLIED REDUNDANT STREAM_NOT_FOUND" + limitCodes + requests,
	meta.KindDeleteStream: "APPLIED with-debt REDUNDANT STREAM_NOT_CLOSED" + limitCodes + identity + streamEpoch + requests,
	meta.KindRecordTransfer: "APPLIED owes REDUNDANT OFFSET_MISMATCH STREAM_NOT_OPEN" + limitCodes + identity + stream +
		requests,
	meta.KindForceCloseStream: "APPLIED writes-off REDUNDANT" + limitCodes + streamEpoch + requests,
	meta.KindPrepareObjects:   "APPLIED REPEATED REQUEST_EXPIRED" + limitCodes + identity,
	meta.KindCommitObjects: "APPLIED on-behalf dropped debt-paid on-behalf-debt-paid REDUNDANT OBJECT_EXISTS OBJECT_NOT_FOUND OBJECT_NOT_OWNED OBJECT_EXPIRED NODE_NOT_CLAIMED" +
		" STREAM_NOT_OPEN OFFSET_MISMATCH" + limitCodes + identity + stream + requests,
	meta.KindCompactObjects: "APPLIED nothing-live REDUNDANT OBJECT_NOT_FOUND OBJECT_EXISTS OBJECT_NOT_OWNED OBJECT_EXPIRED COVERAGE_MISMATCH" +
		limitCodes + identity + requests,
	meta.KindReclaimObjects: "APPLIED REDUNDANT" + limitCodes + requests,
	meta.KindForgetObjects:  "APPLIED REDUNDANT OBJECT_NOT_FOUND OBJECT_IN_USE INVALID_ARGUMENT" + requests,
	meta.KindPutKey:         "APPLIED REDUNDANT KEY_EXISTS KEY_VERSION_MISMATCH" + limitCodes + identity + requests,
	meta.KindDeleteKey:      "APPLIED REDUNDANT KEY_VERSION_MISMATCH" + limitCodes + identity + requests,
	meta.KindCheckKey:       "REDUNDANT KEY_EXISTS KEY_VERSION_MISMATCH" + limitCodes + requests,
	meta.KindAtomic: "APPLIED REDUNDANT REPEATED REQUEST_REUSED STREAM_NOT_CLOSED OFFSET_MISMATCH OBJECT_NOT_FOUND KEY_EXISTS" +
		" COVERAGE_MISMATCH NODE_HAS_STREAMS STREAM_EXISTS STREAM_NOT_FOUND STREAM_NOT_OWNED" + limitCodes + identity,
	meta.KindSetFormat: "APPLIED REDUNDANT INVALID_ARGUMENT FORMAT_UNSUPPORTED",
	find:               "end limit debt loss",
}

// report logs how often each outcome was reached, and fails where an expected one never was.
func (c coverage) report(t *testing.T) {
	t.Helper()
	for kind, names := range expected {
		for _, how := range strings.Fields(names) {
			if c[outcome{kind, how}] == 0 {
				t.Errorf("%v never ended with %s", kind, how)
			}
		}
	}
	total := 0
	for _, kind := range append(meta.Kinds(), find) {
		var line []string
		for _, o := range slices.SortedFunc(maps.Keys(c), func(a, b outcome) int { return strings.Compare(a.how, b.how) }) {
			if o.kind == kind {
				line = append(line, o.how+" "+strconv.Itoa(c[o]))
				total += c[o]
			}
		}
		name := kind.String()
		if kind == find {
			name = "FindObjects"
		}
		t.Logf("%-16s %s", name, strings.Join(line, ", "))
	}
	t.Logf("%d in all", total)
}
