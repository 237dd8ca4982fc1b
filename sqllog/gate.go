package sqllog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// Gate paces attempts to connect while they fail, for the connector of a dialect. The zero value is ready. All methods
// may be called at once.
type Gate struct {
	once sync.Once
	turn chan struct{} // holds a value while somebody tries after a failure; made by the first use

	mu     sync.Mutex // guards the rest
	pause  time.Duration
	next   time.Time // no attempt before
	reason error     // of the last failure; nil: the last attempt succeeded
}

// The first and the longest pause between two attempts to connect.
const (
	firstGate   = 50 * time.Millisecond
	longestGate = time.Second
)

// Pass runs try: at once while all is well, and after a failure one caller at a time, after a pause that doubles with
// each failure from 50 ms to 1 s. A caller whose ctx ends first gets oplog.ErrUnavailable with the last failure.
func (g *Gate) Pass(ctx context.Context, try func() error) error {
	g.once.Do(func() { g.turn = make(chan struct{}, 1) })
	if _, reason := g.closed(); reason != nil {
		select {
		case g.turn <- struct{}{}:
			defer func() { <-g.turn }()
		case <-ctx.Done():
			return gaveUp(reason, ctx.Err())
		}
		if wait, reason := g.closed(); reason != nil && wait > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return gaveUp(reason, ctx.Err())
			}
		}
	}
	err := try()
	if err == nil || ctx.Err() == nil { // an attempt that its caller broke off says nothing
		g.tell(err)
	}
	return err
}

func gaveUp(reason, end error) error {
	return fmt.Errorf("%w: the last attempt to connect: %w; then %w", oplog.ErrUnavailable, reason, end)
}

// OneLine returns err with the lines of its message in one, each once: drivers and errors.Join write one for each
// address that was tried. errors.Is and errors.As see through it. Nil stays nil.
func OneLine(err error) error {
	if err == nil {
		return nil
	}
	return oneLine{err}
}

type oneLine struct{ error }

func (o oneLine) Error() string {
	return strings.Join(slices.Compact(strings.Split(o.error.Error(), "\n")), "; ")
}

func (o oneLine) Unwrap() error { return o.error }

// closed returns why and how long nobody may try; nil where the last attempt succeeded.
func (g *Gate) closed() (wait time.Duration, reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.next), g.reason
}

func (g *Gate) tell(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reason = err
	if err == nil {
		g.pause = 0
		return
	}
	g.pause = min(max(2*g.pause, firstGate), longestGate)
	g.next = time.Now().Add(g.pause + rand.N(g.pause/4)) // so that nodes do not come all at once
}
