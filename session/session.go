// Package session numbers the commands of a client, so that a command sent again has one effect.
//
// The cluster remembers, for each client id, the answers to a window of 256 commands (see meta.Request). A Session
// hands out the numbers of such windows, is told when an answer came, and draws further client ids where one window is
// not enough or was forgotten. It sends nothing itself: package client, the command line and programs that embed a
// store put it before their Proposer, the latter two by Wrap.
package session

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/headwaterdb/headwater/meta"
)

// Session hands out requests. All methods may be called at once from many goroutines.
type Session struct {
	draw func() [16]byte

	mu      sync.Mutex // guards windows
	windows []*window  // in the order in which they were drawn; the first with room is used
}

// New returns a session with client ids of its own. Two sessions never share one.
func New() *Session {
	return &Session{draw: func() (id [16]byte) {
		_, _ = rand.Read(id[:]) // never fails: it ends the process instead
		return id
	}}
}

// Next returns the request for one more command. It never blocks. The command must be one that carries a request and
// must have passed meta.Validate, since a number whose command is never seen by the cluster is a hole in the window; and
// Done must be told how it ended. To send the command again, use the same request.
func (s *Session) Next() meta.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.windows {
		if r, ok := w.next(); ok {
			return r
		}
	}
	w := &window{client: s.draw(), oldest: 1, free: 1}
	s.windows = append(s.windows, w)
	r, _ := w.next()
	return r
}

// Done says that nobody waits for the request's answer any more, and which one came: after it the command must not be
// sent again, for the cluster may then forget the answer. Done with an unknown request, or twice, does nothing.
func (s *Session) Done(r meta.Request, a meta.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.windows {
		if w.client != r.Client {
			continue
		}
		w.done(r.Sequence, a)
		if w.spent() {
			s.windows = append(s.windows[:i], s.windows[i+1:]...)
		}
		return
	}
}

// Numbered reports whether the session should number a proposal: it carries no request yet, its kind of command
// carries one, and it is within the limits. What is not within them is refused without having been numbered.
func Numbered(p meta.Proposal) bool {
	if p.Request != nil || p.Command == nil {
		return false
	}
	if _, renew := p.Command.(meta.RenewNode); renew {
		return false
	}
	p.Request = &sample
	return meta.Validate(p) == nil
}

// sample is a request with which commands are judged: PrepareObjects and Atomic are refused for a missing one alone. It is
// never changed.
var sample = meta.Request{Client: [16]byte{1}, Sequence: 1, Oldest: 1}

// Wrap returns a Proposer that numbers every command before it hands it to p, so that whatever p does to get an answer
// cannot make the command take effect twice.
func (s *Session) Wrap(p meta.Proposer) meta.Proposer { return &wrapped{s: s, p: p} }

type wrapped struct {
	s *Session
	p meta.Proposer
}

// Propose numbers what carries no request and proposes it.
func (w *wrapped) Propose(ctx context.Context, proposals ...meta.Proposal) []meta.Answer {
	var numbered []meta.Proposal
	var requests []meta.Request
	if len(proposals) == 1 { // as a rule: room for both at once
		one := new(struct {
			proposal [1]meta.Proposal
			request  [1]meta.Request
		})
		numbered, requests = one.proposal[:], one.request[:]
	} else {
		numbered, requests = make([]meta.Proposal, len(proposals)), make([]meta.Request, len(proposals))
	}
	copy(numbered, proposals)
	for i := range numbered {
		if Numbered(numbered[i]) {
			requests[i] = w.s.Next()
			numbered[i].Request = &requests[i]
		}
	}
	answers := w.p.Propose(ctx, numbered...)
	for i := range numbered {
		if numbered[i].Request != &requests[i] {
			continue
		}
		var a meta.Answer
		if i < len(answers) {
			a = answers[i]
		}
		w.s.Done(requests[i], a)
	}
	return answers
}
