package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Report is what Check found.
type Report struct {
	Outcomes  map[Outcome]int   // of commands
	Reads     map[Freshness]int // that were answered
	Rows      int
	Repeated  int // commands that stand in the log more than once
	Settled   int // commands of unknown outcome that the log shows to have taken effect
	Parts     int // that were checked for linearizability
	Largest   int // operations in the largest of them
	Replayed  int // reads that were compared with the replay
	Digests   int // digests, of rows' writers and of nodes, that were compared with the replay
	Faults    []string
	Undecided []string // parts for which there was not time enough
	pictures  map[string]picture
}

type picture struct {
	model porcupine.Model
	info  porcupine.LinearizationInfo
}

// OK reports whether all was decided and nothing is wrong.
func (r *Report) OK() bool { return len(r.Faults) == 0 && len(r.Undecided) == 0 }

// String says in one line what was looked at.
func (r *Report) String() string {
	var b strings.Builder
	for _, o := range []Outcome{Answered, Failed, Unknown} {
		fmt.Fprintf(&b, "%d %s, ", r.Outcomes[o], o)
	}
	fmt.Fprintf(&b, "%d of the unknown took effect, %d rows, %d commands stood in more than one; reads:", r.Settled, r.Rows, r.Repeated)
	for _, f := range slices.Sorted(maps.Keys(r.Reads)) {
		fmt.Fprintf(&b, " %d %s,", r.Reads[f], f)
	}
	fmt.Fprintf(&b, " %d replayed; %d digests; %d parts linearizable, the largest of %d operations", r.Replayed, r.Digests,
		r.Parts-len(r.pictures)-len(r.Undecided), r.Largest)
	return b.String()
}

// maxFaults is how many faults a report spells out.
const maxFaults = 50

func (r *Report) fault(format string, args ...any) {
	switch len(r.Faults) {
	case maxFaults:
		r.Faults = append(r.Faults, "and more")
	case maxFaults + 1:
	default:
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// Check judges a history that has come to its end: nothing is under way any more, and Rows hold all that there is. Each
// part may take the patience to be decided; 0 is no limit.
func Check(h *History, patience time.Duration) *Report {
	r := &Report{Outcomes: map[Outcome]int{}, Reads: map[Freshness]int{}, Rows: len(h.Rows), pictures: map[string]picture{}}
	for i := range h.Ops {
		switch op := &h.Ops[i]; {
		case op.Command != nil:
			r.Outcomes[op.Outcome]++
		case op.Outcome == Answered:
			r.Reads[op.Read.Freshness]++
		}
	}
	r.linearizable(h.Ops, r.replay(h), patience)
	r.ordered(h.Ops)
	return r
}

// linearizable checks the parts, one after the other: they may be large. Each command of unknown outcome doubles the
// search, so those are left out that without says to have had no effect. That makes the check stricter, never laxer: what
// is explained without them is explained.
func (r *Report) linearizable(ops []Op, without func(*Op) bool, patience time.Duration) {
	parts, strange := divide(ops, without)
	if strange != nil {
		r.fault("there is a %T, which the rules of this package do not know: %v", strange.Command, strange)
	}
	for _, p := range parts {
		r.Parts++
		r.Largest = max(r.Largest, len(p.ops))
		switch result := porcupine.CheckOperationsTimeout(p.model, p.ops, patience); result {
		case porcupine.Ok:
		case porcupine.Unknown:
			r.Undecided = append(r.Undecided, fmt.Sprintf("%s, %d operations", p.name, len(p.ops)))
		default:
			// What the picture needs costs time and memory, so it is only made where there is something to see.
			_, info := porcupine.CheckOperationsVerbose(p.model, p.ops, patience)
			r.pictures[p.name] = picture{p.model, info}
			r.fault("%s is not linearizable: of %d operations %d fit together%s", p.name, len(p.ops), longest(info), stuck(p.ops, info))
		}
	}
}

// longest is how many operations the longest linearization found holds.
func longest(info porcupine.LinearizationInfo) (n int) {
	for _, l := range info.PartialLinearizations() {
		for _, ids := range l {
			n = max(n, len(ids))
		}
	}
	return n
}

// stuck names the first operation, by return, that the longest linearization leaves out.
func stuck(ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	in := map[int]bool{}
	for _, l := range info.PartialLinearizations() {
		for _, ids := range l {
			if len(ids) == longest(info) {
				for _, id := range ids {
					in[id] = true
				}
				break
			}
		}
	}
	first := -1
	for i := range ops {
		if !in[i] && (first < 0 || ops[i].Return < ops[first].Return) {
			first = i
		}
	}
	if first < 0 {
		return ""
	}
	return "; the first that does not: " + ops[first].Input.(*Op).String()
}
