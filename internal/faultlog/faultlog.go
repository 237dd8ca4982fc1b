// Package faultlog wraps an oplog.Log and makes it fail on purpose: before a call or after it (the lost answer), late
// (the row that arrives when nobody expects it any more), held until a test lets it go, or with another answer.
//
// Which calls are hit is said by rules, so that a test reads as a script. Without rules the wrapper is transparent: it
// passes oplogtest.TestLog. It has no clock and no randomness of its own.
package faultlog

import (
	"context"
	"sync"

	"github.com/headwaterdb/headwater/oplog"
)

// Op is a method of the log, of its snapshot writers or of its snapshot readers.
type Op int

// The operations. Info and Close never fail.
const (
	Init Op = iota
	Append
	Read
	Newest
	Bounds
	Wait
	CreateSnapshot
	WritePart
	CommitSnapshot
	AbortSnapshot
	OpenSnapshot
	ReadPart
	Truncate
	numOps
)

var opNames = [numOps]string{"init", "append", "read", "newest", "bounds", "wait", "create snapshot", "write part",
	"commit snapshot", "abort snapshot", "open snapshot", "read part", "truncate"}

// String returns the name of the operation.
func (o Op) String() string {
	if o < 0 || o >= numOps {
		return "unknown operation"
	}
	return opNames[o]
}

// Call is one call of an operation.
type Call struct {
	Op Op
	// At is the index that the call is about: the row to append, the row read or waited after, the index of the
	// snapshot, the row below which is truncated; 0 for Init, Newest, Bounds and OpenSnapshot.
	At oplog.Index
}

// Rule says what happens to which calls. The first rule that matches a call and is not used up decides; the others are
// not asked. What is set is done in the order of the fields; a rule with nothing set lets the call pass (and, put first,
// shields it from the rules behind).
type Rule struct {
	Op    Op
	Match func(Call) bool // nil: every call of Op
	Skip  int             // how many matching calls pass before the rule acts
	Times int             // how many calls it acts on; 0: one; negative: all

	Hold   *Gate // wait here before anything is done, until the gate opens or the call's context ends
	Before error // answer with this and do nothing
	Late   *Gate // answer with After at once; do the call when this gate opens, with a context of its own
	After  error // do the call, throw its answer away, answer with this
	Linger *Gate // wait here after the call was done, until the gate opens; a context that ends in it gives ErrUnknown

	// EditRows and EditBounds change what Read and Bounds found, as a lagging replica would.
	EditRows   func([]oplog.Row) []oplog.Row
	EditBounds func(oplog.Bounds) oplog.Bounds
}

// Gate holds calls until it is opened. The zero value does not work; use NewGate.
type Gate struct {
	once    sync.Once
	open    chan struct{}
	reached chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{open: make(chan struct{}), reached: make(chan struct{}, 1<<16)} }

// Open opens the gate for good. It may be called more than once.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// Reached receives once for each call that arrived at the gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// wait stands at the gate until it opens (nil) or ctx ends.
func (g *Gate) wait(ctx context.Context) error {
	if g == nil {
		return nil
	}
	select {
	case g.reached <- struct{}{}:
	default: // a test that lets 65,536 calls run into a gate does not count them
	}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Log is an oplog.Log with faults. All methods may be called at once from many goroutines.
type Log struct {
	inner oplog.Log
	late  sync.WaitGroup

	mu    sync.Mutex // guards the rest
	rules []*counted
	calls [numOps]int
}

type counted struct {
	Rule
	seen int
}

var _ oplog.Log = (*Log)(nil)

// Wrap returns inner with the rules given; more can be added later.
func Wrap(inner oplog.Log, rules ...Rule) *Log {
	l := &Log{inner: inner}
	l.Add(rules...)
	return l
}

// Add appends rules behind those that are there.
func (l *Log) Add(rules ...Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rules {
		if r.Times == 0 {
			r.Times = 1
		}
		l.rules = append(l.rules, &counted{Rule: r})
	}
}

// Clear drops every rule. Calls that stand at a gate stay there.
func (l *Log) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = nil
}

// Calls returns how many calls of op there were, those that a rule stopped included.
func (l *Log) Calls(op Op) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[op]
}

// Settle waits until every call that was made late has been done; their gates must have been opened.
func (l *Log) Settle() { l.late.Wait() }

// pick counts the call and returns the rule that decides it.
func (l *Log) pick(c Call) Rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[c.Op]++
	for _, r := range l.rules {
		if r.Op != c.Op || r.Match != nil && !r.Match(c) {
			continue
		}
		if r.seen++; r.seen <= r.Skip || r.Times > 0 && r.seen > r.Skip+r.Times {
			continue
		}
		return r.Rule
	}
	return Rule{}
}

// run does one call under the rule that decides it. do may be called from another goroutine, after run has returned.
func (l *Log) run(ctx context.Context, c Call, do func(context.Context, Rule) error) error {
	r := l.pick(c)
	if err := r.Hold.wait(ctx); err != nil {
		return notStarted(c, err)
	}
	if r.Before != nil {
		return failed(c, r.Before)
	}
	if r.Late != nil {
		free := context.WithoutCancel(ctx)
		l.late.Go(func() {
			if r.Late.wait(free) == nil {
				_ = do(free, r) // nobody is left to hear the answer
			}
		})
		return failed(c, r.After)
	}
	err := do(ctx, r)
	if lost := r.Linger.wait(ctx); lost != nil {
		return unknown(c, lost)
	}
	if r.After != nil {
		return failed(c, r.After)
	}
	return err
}
