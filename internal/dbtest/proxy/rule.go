package proxy

import (
	"bytes"
	"strings"
	"sync"
)

// Side is one end of a connection.
type Side int

// The sides.
const (
	Client Side = iota
	Server
)

// Message is one message of the protocol on its way.
type Message struct {
	From Side
	// Conn is the number of its connection, from 1 in the order in which they were made.
	Conn int
	// Type is PostgreSQL's type byte ('Q', 'P', 'B', …; 0 before the session has begun), or the first byte of MySQL's
	// payload: of the client the command, of the server what begins the packet.
	Type byte
	// Text is the statement that the message is about, with every run of white space made one space: of the client, that
	// of messages which carry, name or run a statement; of the server, the last one that the client was about. (So it is
	// wrong where a client sends the next statement before it has the answer to the last.)
	Text string
	// Runs tells messages that have a statement run (PostgreSQL's Query, Bind, Execute, Sync; MySQL's COM_QUERY,
	// COM_STMT_EXECUTE) and answers to those from the ones that only prepare it.
	Runs bool
	// Last marks the end of the server's answer: PostgreSQL's ReadyForQuery, which follows the commit, or the packet that
	// MySQL ends with.
	Last bool
	// Bytes is the message as it is sent, with its header. It must not be changed.
	Bytes []byte
}

// Rule says which messages are hit, and what becomes of them. A message passes all rules in the order in which they were
// added; the first that matches and is not used up decides.
type Rule struct {
	From Side
	// Type must be the message's, if it is not 0.
	Type byte
	// Text must begin the message's text, whatever the case of letters. A text of the rule makes it match only messages
	// about statements.
	Text string
	// Holding must be somewhere in the message, if there is any.
	Holding []byte
	// Runs: only messages that have a statement run, or the answers to those.
	Runs bool
	// Match, if set, must say yes too.
	Match func(Message) bool

	Skip  int // how many matching messages pass before the rule acts
	Times int // how many it acts on; 0: one; negative: all

	// Hold keeps the message, and everything behind it in the same direction, until the gate opens; then they go on, even
	// where the sender has closed its end in the meantime.
	Hold *Gate
	// Drop swallows this message alone.
	Drop bool
	// Mute swallows the message and everything behind it in the same direction, for good.
	Mute bool
	// Cut resets the client's side of the connection instead of passing the message on. With Mute of the server's side
	// it does so when the answer has come to its end. The server sees the end of the connection after all that the client
	// had sent before. With Hold of the client's side, which must be of messages that have a statement run, it does so at
	// once, and the statement reaches the server when the gate opens, long after its client is gone.
	Cut bool
}

func (r *Rule) matches(m Message) bool {
	switch {
	case r.From != m.From, r.Type != 0 && r.Type != m.Type, r.Runs && !m.Runs:
		return false
	case r.Text != "" && !hasPrefixFold(m.Text, r.Text):
		return false
	case len(r.Holding) > 0 && !bytes.Contains(m.Bytes, r.Holding):
		return false
	}
	return r.Match == nil || r.Match(m)
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

// normalize makes every run of white space one space.
func normalize(text string) string { return strings.Join(strings.Fields(text), " ") }

// LoseAnswer passes the next statement that begins with text on and swallows the answer; when the server has answered to
// the end, and so has committed, the client's connection is reset.
func LoseAnswer(text string) Rule {
	return Rule{From: Server, Text: text, Runs: true, Mute: true, Cut: true}
}

// HoldAnswer passes the next statement that begins with text on and holds the answer until the gate opens.
func HoldAnswer(text string, gate *Gate) Rule {
	return Rule{From: Server, Text: text, Runs: true, Hold: gate}
}

// HoldStatement holds the next statement that begins with text until the gate opens: then it reaches the server, whether
// or not anybody still waits for it.
func HoldStatement(text string, gate *Gate) Rule {
	return Rule{From: Client, Text: text, Runs: true, Hold: gate}
}

// AbandonStatement resets the connection instead of passing the next statement that begins with text on, and passes it on
// when the gate opens.
func AbandonStatement(text string, gate *Gate) Rule {
	return Rule{From: Client, Text: text, Runs: true, Hold: gate, Cut: true}
}

// LoseStatement resets the connection instead of passing the next statement that begins with text on.
func LoseStatement(text string) Rule {
	return Rule{From: Client, Text: text, Runs: true, Cut: true}
}

// Gate holds messages until it is opened. The zero value does not work; use NewGate.
type Gate struct {
	once sync.Once
	open chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{open: make(chan struct{})} }

// Open opens the gate for good. It may be called more than once.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// Trap is a rule that was laid.
type Trap struct {
	proxy    *Proxy
	rule     Rule
	seen     int // guarded by the proxy
	sprung   chan struct{}
	answered chan struct{}
}

// Hits returns how many messages the rule has acted on.
func (t *Trap) Hits() int {
	t.proxy.mu.Lock()
	defer t.proxy.mu.Unlock()
	return max(0, t.seen-t.rule.Skip)
}

// Sprung receives once for each message that the rule acted on, when it does.
func (t *Trap) Sprung() <-chan struct{} { return t.sprung }

// Answered receives once for each answer of the server that a muting rule has swallowed to its end.
func (t *Trap) Answered() <-chan struct{} { return t.answered }

// Add lays a rule behind those that are there.
func (p *Proxy) Add(r Rule) *Trap {
	if r.Times == 0 {
		r.Times = 1
	}
	r.Text = normalize(r.Text)
	t := &Trap{proxy: p, rule: r, sprung: make(chan struct{}, 1<<16), answered: make(chan struct{}, 1<<16)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, t)
	if r.Hold != nil {
		p.gates = append(p.gates, r.Hold)
	}
	return t
}

// Clear drops every rule. What is held stays held until its gate opens.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = nil
}

// pick returns the trap that decides about the message, or nil.
func (p *Proxy) pick(m Message) *Trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.traps {
		if t.rule.Times > 0 && t.seen >= t.rule.Skip+t.rule.Times || !t.rule.matches(m) {
			continue
		}
		if t.seen++; t.seen <= t.rule.Skip {
			continue
		}
		signal(t.sprung)
		return t
	}
	return nil
}

// signal counts an event for whoever waits; a test that lets 65,536 of them go by does not count them.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
