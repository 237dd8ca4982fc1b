package client

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/headwaterdb/headwater/api"
	"github.com/headwaterdb/headwater/meta"
)

// gatherer sends the commands of calls that wait at the same time in one request. At most so many requests are under way
// at once; while they are, what comes gathers, and a request that ends takes all of it along. So nobody waits for company:
// a call that finds a request free goes at once, and the busier the client, the more commands share a request.
//
// A runner is a goroutine that sends one request after another until nothing waits; there is none while the client is
// idle. What has to be sent again goes with the runner's next request, and what came meanwhile goes with it.
//
// The commands of one call stay together and in their order.
type gatherer struct {
	c     *Client
	limit int

	mu      sync.Mutex // guards the rest, the fields of gathered, and settling its commands
	waiting []*gathered
	runners int
	closed  bool
	done    sync.WaitGroup // the runners
}

// gathered is a call whose commands are sent with those of others.
type gathered struct {
	g        *gatherer
	commands []*pending
	size     int           // in bytes
	left     int           // commands without an answer
	sent     bool          // a request has taken the commands along
	gone     bool          // the caller has given up: nobody reads the answers
	answered chan struct{} // closed when nothing is left
}

func newGatherer(c *Client, limit int) *gatherer {
	return &gatherer{c: c, limit: limit}
}

// propose sends the commands of one call and waits for their answers, or for the end of ctx; without a deadline, for
// Options.Timeout.
func (g *gatherer) propose(ctx context.Context, commands []*pending, size int) {
	call := &gathered{g: g, commands: commands, size: size, left: len(commands), answered: make(chan struct{})}
	for _, w := range commands {
		w.call = call
	}
	if !g.add(call) {
		for _, w := range commands {
			g.c.conclude(w, meta.Answer{Err: fmt.Errorf("propose: %w", meta.ErrClosed)})
		}
		return
	}
	var late <-chan time.Time
	if _, ok := ctx.Deadline(); !ok { // a context with one would cost more than all else here
		t := timers.Get().(*time.Timer)
		t.Reset(g.c.o.Timeout)
		defer func() { t.Stop(); timers.Put(t) }()
		late = t.C
	}
	select {
	case <-call.answered:
	case <-ctx.Done():
		g.abandon(ctx.Err(), call)
	case <-late:
		g.abandon(context.DeadlineExceeded, call)
	}
}

// timers holds timers that are stopped.
var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

// add lets a call wait for a request, and starts a runner where one is free. It reports whether the client is open.
func (g *gatherer) add(call *gathered) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.waiting = append(g.waiting, call)
	if g.runners < g.limit {
		g.runners++
		g.done.Go(g.run)
	}
	return true
}

// abandon answers what is left of a call that waits no longer. What was sent may take effect, whatever its last try
// came to: another one may be on its way.
func (g *gatherer) abandon(cause error, call *gathered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	call.gone = true
	err := fmt.Errorf("%w: %w", meta.ErrNotApplied, cause)
	if call.sent {
		err = fmt.Errorf("%w: %w", meta.ErrOutcomeUnknown, cause)
	}
	for _, w := range call.commands {
		if !w.settled {
			g.c.conclude(w, meta.Answer{Err: err})
		}
	}
}

// run sends requests until nothing waits. A request belongs to many calls and to none of their contexts.
func (g *gatherer) run() {
	var batch []*pending
	begin := round{c: g.c, ctx: context.Background()}
	for r := begin; ; {
		runtime.Gosched() // callers that are ready to run come along
		if batch = g.fill(batch); len(batch) == 0 {
			return
		}
		e := g.c.endpoint()
		var a attempt
		if batch, a = r.send(e, batch); a.err == nil {
			r = begin
			continue
		}
		if !r.next(e, a) {
			r.giveUp(batch)
			batch, r = batch[:0], begin
		}
	}
}

// fill drops from a batch what nobody waits for any more, and adds the calls that wait, as far as they fit. Where nothing
// is left the runner has ended.
func (g *gatherer) fill(batch []*pending) []*pending {
	g.mu.Lock()
	defer g.mu.Unlock()
	kept, size := batch[:0], 0
	for _, w := range batch {
		if !w.call.gone {
			kept, size = append(kept, w), size+w.command.Len()
		}
	}
	clear(batch[len(kept):])
	taken := 0
	for _, call := range g.waiting {
		if !call.gone {
			if len(kept)+len(call.commands) > api.MaxCommands || size+call.size > maxRequestBytes {
				break
			}
			call.sent = true
			kept, size = append(kept, call.commands...), size+call.size
		}
		taken++
	}
	clear(g.waiting[:taken])
	if g.waiting = g.waiting[taken:]; len(g.waiting) == 0 {
		g.waiting = nil // what was taken may go
	}
	if len(kept) == 0 {
		g.runners--
	}
	return kept
}

// close ends the runners and waits for them. Calls that wait have been answered then.
func (g *gatherer) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.done.Wait()
}

// settle does what concludes a command, unless its caller has given up.
func (call *gathered) settle(w *pending, conclude func()) {
	call.g.mu.Lock()
	defer call.g.mu.Unlock()
	if call.gone {
		return
	}
	conclude()
	if w.settled {
		if call.left--; call.left == 0 {
			close(call.answered)
		}
	}
}
