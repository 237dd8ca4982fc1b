package meta

import "fmt"

// The request memory makes retries exact. For each client the state keeps the highest `oldest` that it sent, and from
// there on the answer to each sequence; what falls below is dropped, so the memory holds what is in flight. Forgetting
// is decided by the order of the log alone: nodes agree on it as on everything else.
//
// A client is forgotten when too many are remembered, the least recently seen first. One command adds at most one
// client and one result, but may have to forget several clients that have no results before it meets one that has: at
// most as many as are remembered, each of which paid for this when it came.

// window says how much the request memory holds.
type window struct {
	clients int
	results uint64
}

// defaultWindow is the window of every cluster. It is part of the rules: changing it needs a new format level.
var defaultWindow = window{clients: 65536, results: 262144}

// recall is what the request memory says of a request.
type recall uint8

const (
	recallNew     recall = iota // never seen: the rules have to judge it
	recallKept                  // answered before
	recallReused                // the sequence was used for another command
	recallExpired               // may have been answered before, but the answer is forgotten
)

// recall looks a request up. The client and the kept answer are nil where there is none.
func (s *State) recall(r *Request, payload sum) (recall, *client, *keptAnswer) {
	c, known := s.clients.Get(string(r.Client[:]))
	if !known {
		// A client that has had answers already was forgotten, and what it had done with it. It is not taken up
		// again, for then a retry of a forgotten command would pass for a new one.
		if r.Oldest > 1 {
			return recallExpired, nil, nil
		}
		return recallNew, nil, nil
	}
	if r.Sequence < c.oldest {
		return recallExpired, c, nil
	}
	k, kept := c.results.Get(r.Sequence)
	switch {
	case !kept:
		return recallNew, c, nil
	case k.payload != payload:
		return recallReused, c, k
	}
	return recallKept, c, k
}

// runRequest answers a proposal that carries a request.
func (t *tx) runRequest(p Proposal, payload sum) Answer {
	r := p.Request
	t.work++
	what, old, k := t.recall(r, payload)
	if what == recallExpired && old == nil {
		return t.answer(t.position, recallRefusal(what, r, nil))
	}
	next := t.seeClient(r, old)
	t.work++
	var a Answer
	switch what {
	case recallNew:
		o := t.judge(p.Command)
		a = t.answer(t.position, o)
		if o.err == nil || keepsRefusal(o.err.Code) {
			t.keepAnswer(next, r, t.newKept(o, payload))
		}
	case recallKept:
		a = k.repeat(r, t.index, t.position)
	default:
		a = t.answer(t.position, recallRefusal(what, r, k))
	}
	t.forgetClients()
	return a
}

// Recall answers an encoded proposal from the request memory as a repeat of it would be answered, without changing
// anything: for a node that installed a snapshot and did not see the row in which its proposal stood. It reports false
// where the memory does not know: the outcome is unknown.
func (s *State) Recall(command []byte) (Answer, bool) {
	p, err := DecodeProposal(command)
	if err != nil || p.Request == nil || Validate(p) != nil {
		return Answer{}, false
	}
	what, _, k := s.recall(p.Request, hashOf(commandPart(command)))
	switch what {
	case recallKept:
		return k.repeat(p.Request, s.index, 0), true
	case recallReused:
		o := recallRefusal(what, p.Request, k)
		return Answer{Status: Rejected, Err: o.err, Index: s.index, FirstIndex: s.index}, true
	}
	return Answer{}, false
}

// keepsRefusal reports whether a refusal with this code is remembered. Those that are not say that the client made a
// mistake, or too much of something; a corrected command may use the sequence.
func keepsRefusal(c Code) bool {
	switch c {
	case CodeInvalidArgument, CodeTooLarge, CodeRequestReused, CodeRequestExpired:
		return false
	}
	return true
}

func recallRefusal(what recall, r *Request, k *keptAnswer) outcome {
	if what == recallReused {
		return reject(CodeRequestReused, "sequence %d of client %x was another command, answered at index %d", r.Sequence, r.Client, k.index)
	}
	return reject(CodeRequestExpired, "the answer to sequence %d of client %x, if there was one, is forgotten", r.Sequence, r.Client)
}

// repeat answers a request again, in the row at index and position.
func (k *keptAnswer) repeat(r *Request, index uint64, position int) Answer {
	a := Answer{Status: Redundant, Index: index, Position: position, FirstIndex: k.index, FirstPosition: int(k.position)}
	if k.status == Rejected {
		a.Status = Rejected
		a.Err = &Error{Code: k.code, Inner: k.inner,
			Message: fmt.Sprintf("sequence %d of client %x was refused at index %d", r.Sequence, r.Client, k.index)}
		return a
	}
	// What does not decode was not written by newKept: decoding a snapshot refuses it.
	a.Result, _ = DecodeResult([]byte(k.result))
	return a
}

// newKept makes what is kept of an answer.
func (t *tx) newKept(o outcome, payload sum) *keptAnswer {
	k := &keptAnswer{index: t.index, position: uint64(t.position), payload: payload, status: o.status, inner: -1}
	if o.err != nil {
		k.code, k.inner = o.err.Code, o.err.Inner
		return k
	}
	t.buf = AppendResult(t.buf[:0], o.result)
	k.result = string(t.buf)
	return k
}

// changedClient is a client that a row has to do with. Most often several commands of a row are of one client; what
// follows from its record is settled once, at the end of the row.
type changedClient struct {
	id       string
	old, new *client // old is nil where there was none
}

// seeClient returns a client's record for the transaction to change, or a new one, that has seen the request: later in the
// log than any other, its oldest raised, and what falls below that dropped.
func (t *tx) seeClient(r *Request, old *client) *client {
	next := old
	if old == nil || old.own != t.first {
		next = &client{oldest: 1}
		if old != nil {
			*next = *old
		}
		next.own = t.first
		id := string(r.Client[:])
		t.clients.Set(t.edit, id, next)
		t.changed = append(t.changed, changedClient{id, old, next})
	}
	next.seen = ordinal(t.index, t.position)
	if r.Oldest > next.oldest {
		next.oldest = r.Oldest
	}
	for {
		sequence, k, ok := next.results.Min()
		if !ok || sequence >= next.oldest {
			return next
		}
		t.work++
		next.results.Delete(t.edit, sequence)
		t.buf = appendKept(t.buf[:0], string(r.Client[:]), sequence, k)
		next.sum = next.sum.minus(hashOf(t.buf))
		t.results--
	}
}

// keepAnswer adds an answer to a client's record. The sequence has none yet.
func (t *tx) keepAnswer(c *client, r *Request, k *keptAnswer) {
	t.work++
	c.results.Set(t.edit, r.Sequence, k)
	t.buf = appendKept(t.buf[:0], string(r.Client[:]), r.Sequence, k)
	c.sum = c.sum.plus(hashOf(t.buf))
	t.results++
}

// settleClients settles what follows from the records that the transaction has changed, and shares them.
func (t *tx) settleClients() {
	for _, c := range t.changed {
		if c.old != nil {
			t.unlistClient(c.id, c.old)
		}
		c.new.own = nil
		t.listClient(c.id, c.new)
	}
	t.changed = t.changed[:0]
}

// listClient puts a client's record into all but the map of clients.
func (t *tx) listClient(id string, c *client) {
	t.seen.Set(t.edit, c.seen, id)
	t.buf = appendClient(t.buf[:0], id, c)
	t.requestSum = t.requestSum.plus(hashOf(t.buf)).plus(c.sum)
}

// unlistClient takes a client's record, which is settled, out of all but the map of clients.
func (t *tx) unlistClient(id string, c *client) {
	t.seen.Delete(t.edit, c.seen)
	t.buf = appendClient(t.buf[:0], id, c)
	t.requestSum = t.requestSum.minus(hashOf(t.buf)).minus(c.sum)
}

// forgetClients drops clients, the least recently seen first, until the memory fits its window.
func (t *tx) forgetClients() {
	for t.clients.Len() > t.window.clients || t.results > t.window.results {
		t.settleClients()
		_, id, ok := t.seen.Min()
		if !ok {
			return
		}
		c, _ := t.clients.Get(id)
		t.work++
		t.results -= uint64(c.results.Len())
		t.unlistClient(id, c)
		t.clients.Delete(t.edit, id)
	}
}
