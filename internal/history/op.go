package history

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
)

// History is what happened to one cluster.
type History struct {
	Seed uint64 // of what was done, for people
	Ops  []Op   // in the order in which their calls were recorded
	// Rows are those of the log from row 0 on, without a hole, as they were when they were first read.
	Rows []headwater.LogRow
}

// Outcome is how an operation ended for its caller.
type Outcome string

// The outcomes.
const (
	// Answered: by the rules, whatever they said.
	Answered Outcome = "answered"
	// Failed: a command that by its error certainly never takes effect, or a read without an answer.
	Failed Outcome = "failed"
	// Unknown: a command that may have taken effect, or may yet.
	Unknown Outcome = "unknown"
)

// Forever is the return of an operation of unknown outcome.
const Forever = time.Duration(1<<63 - 1)

// Op is one call of one client: a command, or a read.
type Op struct {
	ID      uint64 // from 1, in the order of the calls; the stamp of the command, so that it is known again in the log
	Session int    // who called, from 0; a session makes one call after the other
	// Call and Return are times since the history's beginning, by one monotonic clock.
	Call, Return time.Duration
	Outcome      Outcome
	Error        string // of an operation without an answer

	Command meta.Command // nil for a read
	Answer  meta.Answer  // of a command, where Answered

	Read *Read // nil for a command
}

// Freshness is what a read was promised.
type Freshness string

// The freshnesses.
const (
	Local        Freshness = "local"        // any view
	AtLeast      Freshness = "at least"     // a view at Read.AtLeast or later
	Linearizable Freshness = "linearizable" // all that was answered to anybody before the call
)

// Read is a question about the state and the view's answer. Exactly one of Keys, Streams, Slices, Nodes and Status asks.
type Read struct {
	Freshness Freshness
	AtLeast   uint64

	Keys    string // a prefix of keys
	Streams string // a prefix of names of streams
	Slices  uint64 // a stream, from its start on
	Nodes   bool   // all of them
	Status  bool   // index and digest

	Index       uint64 // of the view that answered
	Incarnation string // of the history that the view belongs to
	Got         []meta.Record
}

// Recorder takes down operations as they happen. It may be used by many goroutines at once.
type Recorder struct {
	begin time.Time

	mu  sync.Mutex // guards ops
	ops []Op
}

// NewRecorder returns a recorder whose time begins now.
func NewRecorder() *Recorder { return &Recorder{begin: time.Now()} }

// Call takes down that a session calls, and returns the operation's id. One of command and read is given; whatever is
// behind read belongs to the recorder from now on.
func (r *Recorder) Call(session int, command meta.Command, read *Read) (id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id = uint64(len(r.ops) + 1)
	// What never returns is unknown, and so is what is under way when the history is looked at.
	r.ops = append(r.ops, Op{ID: id, Session: session, Call: time.Since(r.begin), Return: Forever, Outcome: Unknown, Command: command, Read: read})
	return id
}

// Return takes down the answer to a command.
func (r *Recorder) Return(id uint64, a meta.Answer) {
	r.end(id, func(op *Op, now time.Duration) {
		switch {
		case a.Err == nil || a.Status == meta.Rejected:
			op.Outcome, op.Return, op.Answer = Answered, now, a
		case errors.Is(a.Err, meta.ErrOutcomeUnknown) || !never(a.Err):
			op.Error = a.Err.Error()
		default:
			op.Outcome, op.Return, op.Error = Failed, now, a.Err.Error()
		}
	})
}

// never reports whether an error says that the command will never take effect.
func never(err error) bool {
	for _, n := range []error{meta.ErrNotApplied, meta.ErrOverloaded, meta.ErrUnavailable, meta.ErrHalted, meta.ErrClosed} {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}

// ReturnRead takes down what a read got, from the view at an index of an incarnation, or its error.
func (r *Recorder) ReturnRead(id, index uint64, incarnation string, got []meta.Record, err error) {
	r.end(id, func(op *Op, now time.Duration) {
		op.Return = now
		if err != nil {
			op.Outcome, op.Error = Failed, err.Error()
			return
		}
		read := *op.Read
		read.Index, read.Incarnation, read.Got = index, incarnation, got
		op.Outcome, op.Read = Answered, &read
	})
}

func (r *Recorder) end(id uint64, do func(op *Op, now time.Duration)) {
	now := time.Since(r.begin)
	r.mu.Lock()
	defer r.mu.Unlock()
	do(&r.ops[id-1], now)
}

// Ops returns a copy of all operations so far.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Op(nil), r.ops...)
}

// String describes the operation for people.
func (op *Op) String() string {
	s := fmt.Sprintf("operation %d of session %d, ", op.ID, op.Session)
	if op.Read != nil {
		s += op.Read.String()
	} else {
		s += fmt.Sprintf("%T %+v", op.Command, op.Command)
	}
	switch {
	case op.Outcome != Answered:
		return s + " → " + string(op.Outcome) + ": " + op.Error
	case op.Read != nil:
		return s + fmt.Sprintf(" → at %d: %s", op.Read.Index, describe(op.Read.Got))
	case op.Answer.Err != nil:
		return s + fmt.Sprintf(" → row %d: %v", op.Answer.Index, op.Answer.Err)
	}
	status := "applied"
	if op.Answer.Status == meta.Redundant {
		status = "redundant"
	}
	return s + fmt.Sprintf(" → row %d: %s %+v", op.Answer.Index, status, op.Answer.Result)
}

// String describes the question for people.
func (r *Read) String() string {
	s := string(r.Freshness) + " read of "
	if r.Freshness == AtLeast {
		s = fmt.Sprintf("read at least at %d of ", r.AtLeast)
	}
	switch {
	case r.Keys != "":
		return s + "keys " + r.Keys
	case r.Streams != "":
		return s + "streams " + r.Streams
	case r.Slices != 0:
		return s + fmt.Sprintf("the slices of stream %d", r.Slices)
	case r.Nodes:
		return s + "nodes"
	}
	return s + "status"
}

func describe(records []meta.Record) string {
	s := ""
	for _, r := range records {
		if k, ok := r.(meta.Key); ok {
			s += fmt.Sprintf("%s=%q@%d ", k.Key, k.Value, k.Version)
			continue
		}
		s += fmt.Sprintf("%+v ", r)
	}
	if s == "" {
		return "nothing"
	}
	return s
}
