package bench

import (
	"context"
	"errors"
	"time"

	"github.com/headwaterdb/headwater/meta"
)

// Result is what a run measured. Latencies are in milliseconds.
type Result struct {
	Begin       time.Time `json:"begin"`            // of what is measured, after the warm-up
	Seconds     float64   `json:"seconds"`          // how long was measured
	WithDrain   float64   `json:"secondsWithDrain"` // until the last operation under way had ended
	Interrupted bool      `json:"interrupted"`
	// Missed counts the operations of an open loop that were due and never begun, since no caller was free. They are in the
	// latencies of All, each with what it had waited at the end.
	Missed int64 `json:"missed"`
	// Processor is the processor time that was used meanwhile; nil where the system does not tell.
	Processor  *Processor   `json:"processor,omitempty"`
	All        Summary      `json:"all"`
	Operations []Summary    `json:"operations"`
	Errors     []ErrorCount `json:"errors"`
	Timeline   []Second     `json:"timeline"`
	PerCaller  []int64      `json:"-"` // operations of each caller that ended in time
}

// Processor is processor time, in seconds of all cores together.
type Processor struct {
	Own    float64 `json:"ownSeconds"`    // of this process
	Busy   float64 `json:"busySeconds"`   // of this machine, this process among it
	Idle   float64 `json:"idleSeconds"`   // of this machine
	Stolen float64 `json:"stolenSeconds"` // given to other machines on the same host
}

func (p Processor) minus(q Processor) Processor {
	return Processor{p.Own - q.Own, p.Busy - q.Busy, p.Idle - q.Idle, p.Stolen - q.Stolen}
}

// Summary is what was measured of one kind of operation, or of all.
type Summary struct {
	Op     string  `json:"op"`
	Count  int64   `json:"count"`  // that succeeded, those that were under way at the end included
	Errors int64   `json:"errors"` // that did not
	Rate   float64 `json:"rate"`   // successes a second, those under way at the end aside
	Min    float64 `json:"minMs"`
	Mean   float64 `json:"meanMs"`
	P50    float64 `json:"p50Ms"`
	P90    float64 `json:"p90Ms"`
	P99    float64 `json:"p99Ms"`
	P999   float64 `json:"p999Ms"`
	Max    float64 `json:"maxMs"`
}

// ErrorCount is how often an operation ended in one kind of error.
type ErrorCount struct {
	Op      string `json:"op"`
	Code    string `json:"code"`
	Count   int64  `json:"count"`
	Example string `json:"example"` // the text of the first one
}

// Second is one second of a run, the last of which may be shorter.
type Second struct {
	Second  int     `json:"second"` // from 1
	Seconds float64 `json:"seconds"`
	Count   int64   `json:"count"`
	Errors  int64   `json:"errors"`
	Rate    float64 `json:"rate"`
	P50     float64 `json:"p50Ms"`
	P99     float64 `json:"p99Ms"`
	Max     float64 `json:"maxMs"`
}

// conditions names the operational errors as reports count them.
var conditions = []struct {
	err  error
	name string
}{
	{meta.ErrOutcomeUnknown, "outcome unknown"},
	{meta.ErrOverloaded, "overloaded"},
	{meta.ErrHalted, "halted"},
	{meta.ErrUnavailable, "unavailable"},
	{meta.ErrClosed, "closed"},
	{meta.ErrNotApplied, "not applied"},
	{meta.ErrIncarnation, "incarnation"},
	{context.DeadlineExceeded, "deadline"},
	{context.Canceled, "cancelled"},
}

// Code names an error to count it by: the code of a refusal, an operational condition, or "other".
func Code(err error) string {
	if c := meta.CodeOf(err); c != 0 {
		return c.String()
	}
	for _, c := range conditions {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "other"
}
