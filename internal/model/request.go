package model

import (
	"bytes"

	"github.com/headwaterdb/headwater/meta"
)

// The bounds of the request memory.
const (
	maxClients = 65_536
	maxResults = 262_144
)

// client is one client whose requests are remembered.
type client struct {
	oldest uint64
	seen   place
	kept   map[uint64]kept // by sequence
}

// kept is the first answer to one request.
type kept struct {
	at      place
	payload []byte
	verdict verdict
}

// requested judges a command that carries a request and passed the limits.
func (m *Model) requested(at place, answer meta.Answer, p meta.Proposal) meta.Answer {
	r := *p.Request
	oldest := max(r.Oldest, 1)
	c := m.clients[r.Client]
	if c == nil {
		if oldest > 1 {
			// Nothing is remembered of it, and nothing may be: with a record, a later retry of something that took
			// effect before the client was forgotten would look new.
			return answered(answer, reject(meta.CodeRequestExpired))
		}
		c = &client{oldest: 1, kept: map[uint64]kept{}}
		m.clients[r.Client] = c
	}
	c.seen = at
	before := len(c.kept)
	defer func() {
		m.results += len(c.kept) - before
		m.evict()
	}()
	c.raise(oldest)
	if r.Sequence < c.oldest {
		return answered(answer, reject(meta.CodeRequestExpired))
	}
	payload := meta.AppendCommand(nil, p.Command)
	if k, ok := c.kept[r.Sequence]; ok {
		return k.again(answer, payload)
	}
	v := m.run(at, p.Command)
	if v.err == nil || !passing(v.err.Code) {
		c.kept[r.Sequence] = kept{at: at, payload: payload, verdict: v}
	}
	return answered(answer, v)
}

func (c *client) raise(oldest uint64) {
	c.oldest = max(c.oldest, oldest)
	for sequence := range c.kept {
		if sequence < c.oldest {
			delete(c.kept, sequence)
		}
	}
}

// again answers a request that was answered before.
func (k kept) again(answer meta.Answer, payload []byte) meta.Answer {
	if !bytes.Equal(payload, k.payload) {
		return answered(answer, reject(meta.CodeRequestReused))
	}
	answer.FirstIndex, answer.FirstPosition = k.at.index, k.at.position
	if k.verdict.status == meta.Rejected {
		return answered(answer, refused(&meta.Error{Code: k.verdict.err.Code, Inner: k.verdict.err.Inner}))
	}
	return answered(answer, redundant(k.verdict.result))
}

// passing says which refusals are not kept.
func passing(code meta.Code) bool {
	switch code {
	case meta.CodeInvalidArgument, meta.CodeTooLarge, meta.CodeRequestReused, meta.CodeRequestExpired:
		return true
	}
	return false
}

// evict forgets the clients least recently seen until both bounds hold.
func (m *Model) evict() {
	for len(m.clients) > maxClients || m.results > maxResults {
		var last [16]byte
		var found *client
		for id, c := range m.clients {
			if found == nil || c.seen.before(found.seen) {
				last, found = id, c
			}
		}
		m.results -= len(found.kept)
		delete(m.clients, last)
	}
}

func (p place) before(o place) bool {
	return p.index < o.index || p.index == o.index && p.position < o.position
}
