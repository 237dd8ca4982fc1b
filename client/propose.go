package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/headwaterdb/headwater/api"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/session"
)

// maxRequestBytes is what fits in one call, besides api.MaxCommands; the server takes 8 MiB.
const maxRequestBytes = 7 << 20

// Propose sends the proposals, in this order, and returns one answer for each. It has the meaning of Propose of the
// embedded store. Every command gets a request, unless it carries one already or is a RenewNode, and is sent again with
// it until the rules have answered or ctx ends (without a deadline: after Options.Timeout). More than fit in one call are
// sent one call after another.
//
// An answer then ends in meta.ErrNotApplied where the command certainly never takes effect and in meta.ErrOutcomeUnknown
// where it may, each together with the context's error. A cluster that has forgotten the client's requests leaves the
// outcome unknown too, of a command that was sent more than once; the error then holds REQUEST_EXPIRED as well.
//
// With Options.Gather the commands of calls that wait at the same time share a request.
func (c *Client) Propose(ctx context.Context, proposals ...meta.Proposal) []meta.Answer {
	answers := make([]meta.Answer, len(proposals))
	commands := make([]*pending, 0, len(proposals))
	for i, p := range proposals {
		w, err := c.prepare(p, &answers[i])
		if err != nil {
			answers[i] = meta.Answer{Status: meta.Rejected, Err: err}
			continue
		}
		commands = append(commands, w)
	}
	if n, size := fits(commands); c.gather != nil && n > 0 && n == len(commands) {
		c.gather.propose(ctx, commands, size)
		return answers
	}
	for r := c.round(ctx); len(commands) > 0; r = (round{c: c, ctx: ctx, end: r.end}) {
		n, _ := fits(commands)
		r.propose(commands[:n:n])
		commands = commands[n:]
	}
	return answers
}

// fits returns how many of the commands fit in one call, at least one where there are any, and their size.
func fits(commands []*pending) (n, size int) {
	for _, w := range commands {
		if n == api.MaxCommands || size+w.command.Len() > maxRequestBytes && n > 0 {
			break
		}
		n, size = n+1, size+w.command.Len()
	}
	return n, size
}

// pending is a command whose answer is waited for.
type pending struct {
	answer  *meta.Answer
	command api.EncodedCommand
	request *meta.Request // drawn from the session, at drawn; nil: it is the caller's, or there is none
	drawn   meta.Request
	callers *meta.Request // the caller's, if there is one
	renewed bool          // it has taken another number
	unsure  bool          // a copy may take effect
	last    error         // how the last try ended
	settled bool          // the caller's answer is there
	call    *gathered     // nil: the command is not sent with those of other calls
}

func (c *Client) prepare(p meta.Proposal, to *meta.Answer) (*pending, error) {
	w := &pending{answer: to, callers: p.Request}
	if session.Numbered(p) {
		w.drawn = c.session.Next()
		w.request, p.Request = &w.drawn, &w.drawn
	} else if err := meta.Validate(p); err != nil {
		return nil, err
	}
	var err error
	if w.command, err = api.EncodeCommand(p); err != nil && w.request != nil {
		c.session.Done(w.drawn, meta.Answer{Err: err})
	}
	return w, err
}

// propose sends the batch until nothing of it is pending.
func (r *round) propose(batch []*pending) {
	for len(batch) > 0 {
		e := r.c.endpoint()
		var a attempt
		if batch, a = r.send(e, batch); len(batch) > 0 && a.err != nil && !r.next(e, a) {
			r.giveUp(batch)
			return
		}
	}
}

// send sends the batch once. It returns what has to be sent again, and how the try ended for that.
func (r *round) send(e *endpoint, batch []*pending) ([]*pending, attempt) {
	req := &api.ProposeRequest{Commands: make([]api.EncodedCommand, len(batch))}
	for i, w := range batch {
		req.Commands[i] = w.command
	}
	var res api.ProposeResponse
	a := r.try(e, methodPropose, req, &res)
	if a.err == nil {
		return r.c.take(batch, &res)
	}
	for _, w := range batch {
		w.fail(a)
	}
	return batch, a
}

// take gives the answers out and returns what has to be sent again, and how the try ended for that.
func (c *Client) take(batch []*pending, res *api.ProposeResponse) ([]*pending, attempt) {
	if len(res.Answers) != len(batch) {
		a := attempt{unsure: true, err: fmt.Errorf("the server gave %d answers to %d commands: %w", len(res.Answers), len(batch), meta.ErrOutcomeUnknown)}
		for _, w := range batch {
			w.fail(a)
		}
		return batch, a
	}
	at := atOf(res.At)
	left := batch[:0]
	worst := attempt{again: true}
	for i, w := range batch {
		a := res.Answers[i]
		switch {
		case a.Status != 0 && meta.CodeOf(a.Err) != meta.CodeRequestExpired:
			c.see(a.Index, at.Incarnation)
			c.settle(w, a)
		case a.Status != 0 && w.request != nil && !w.unsure && !w.renewed:
			// The cluster has forgotten the client while it had nothing to do. No copy of the command can take effect, so it
			// may take another number.
			w.exclusively(func() { c.renew(w, a) })
			left = append(left, w)
		case a.Status != 0:
			c.settle(w, meta.Answer{Err: fmt.Errorf("%w: %w", meta.ErrOutcomeUnknown, a.Err)})
		case final(a.Err):
			w.unsure = w.unsure || errors.Is(a.Err, meta.ErrOutcomeUnknown)
			c.settle(w, a)
		default:
			w.unsure = w.unsure || unsure(a.Err)
			w.last = a.Err
			worst.err, worst.halted = a.Err, worst.halted || errors.Is(a.Err, meta.ErrHalted)
			left = append(left, w)
		}
	}
	c.see(at.Index, at.Incarnation)
	return left, worst
}

// final reports whether a failure is one that another try cannot better.
func final(err error) bool {
	for _, again := range []error{meta.ErrOutcomeUnknown, meta.ErrNotApplied, meta.ErrOverloaded, meta.ErrHalted,
		meta.ErrUnavailable, meta.ErrClosed} {
		if errors.Is(err, again) {
			return false
		}
	}
	return true
}

// unsure reports whether a command that failed so may yet take effect.
func unsure(err error) bool {
	for _, never := range []error{meta.ErrNotApplied, meta.ErrOverloaded, meta.ErrHalted, meta.ErrUnavailable, meta.ErrClosed} {
		if errors.Is(err, never) {
			return errors.Is(err, meta.ErrOutcomeUnknown)
		}
	}
	return true
}

// exclusively does something to a command that its caller must not give up meanwhile; nothing where it has.
func (w *pending) exclusively(do func()) {
	if w.call == nil {
		do()
		return
	}
	w.call.settle(w, do)
}

// renew gives a command another number after one that the cluster has forgotten.
func (c *Client) renew(w *pending, a meta.Answer) {
	w.renewed = true
	c.session.Done(*w.request, a)
	*w.request = c.session.Next()
	w.command.Renumber(*w.request)
}

// settle gives the caller the answer.
func (c *Client) settle(w *pending, a meta.Answer) {
	w.exclusively(func() { c.conclude(w, a) })
}

// conclude is settle for those who know that the caller waits.
func (c *Client) conclude(w *pending, a meta.Answer) {
	a.Err = meta.Unknown(cmp.Or(w.request, w.callers), a.Err)
	*w.answer, w.settled = a, true
	if w.request != nil {
		c.session.Done(*w.request, a)
	}
}

// fail notes that a try ended without an answer.
func (w *pending) fail(a attempt) {
	if cut := errors.Is(a.err, context.DeadlineExceeded) || errors.Is(a.err, context.Canceled); !cut || w.last == nil {
		w.last = a.err // otherwise the try before tells more
	}
	w.unsure = w.unsure || a.unsure
}

// giveUp answers what is still pending.
func (r *round) giveUp(batch []*pending) {
	over := r.over()
	for _, w := range batch {
		r.c.settle(w, meta.Answer{Err: w.verdict(over)})
	}
}

// verdict says what is known of a command that was given up; over is why its call has ended, if it has.
func (w *pending) verdict(over error) error {
	switch {
	case w.unsure && over != nil && errors.Is(w.last, over):
		return fmt.Errorf("%w: %w", meta.ErrOutcomeUnknown, w.last)
	case w.unsure: // whatever the last try alone would vouch for
		return ended(over, fmt.Errorf("%w: %v", meta.ErrOutcomeUnknown, w.last))
	case meta.CodeOf(w.last) != 0 || !final(w.last): // says by itself that nothing happened
		return ended(over, w.last)
	}
	return ended(over, fmt.Errorf("%w: %w", meta.ErrNotApplied, w.last))
}
