package proxy

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection through the proxy: a pipe in each direction. Each pipe has a goroutine that reads messages as
// they come, however long the one that passes them on is held, so nothing is lost when the sender ends in the meantime.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	number         int
	wire           wire
	dead           chan struct{} // closed by cut
	die            sync.Once
	black          atomic.Bool

	mu   sync.Mutex // guards wire.interpret
	text string     // guarded by mu: the statement that the client was about last, until it is answered
	runs bool       // guarded by mu: and whether it was to run
}

// wire takes the bytes of a protocol apart. There is one for each connection.
type wire interface {
	// frame returns the length of the first message in the bytes that have arrived, or 0 if it is not complete. It is
	// called by one goroutine for each side.
	frame(from Side, arrived []byte) int
	// interpret fills in what m is about. It is called for every message, one after another, in the order in which they
	// are passed on. text says whether it is about a statement at all.
	interpret(m *Message) (text bool)
	// complete reports whether a message of the client ends what it asks for, so that the server will act on it.
	complete(message []byte) bool
}

func newLink(p *Proxy, client, server net.Conn, number int) *link {
	l := &link{proxy: p, client: client, server: server, number: number, dead: make(chan struct{})}
	switch p.protocol {
	case Postgres:
		l.wire = newPostgresWire()
	case MySQL:
		l.wire = newMySQLWire()
	default:
		l.wire = rawWire{}
	}
	return l
}

// run carries the connection until both sides have ended.
func (l *link) run() {
	var done sync.WaitGroup
	for _, pp := range []*pipe{
		{link: l, from: Client, in: l.client, out: l.server, arrived: make(chan struct{}, 1)},
		{link: l, from: Server, in: l.server, out: l.client, arrived: make(chan struct{}, 1)},
	} {
		done.Go(pp.read)
		done.Go(pp.pass)
	}
	done.Wait()
	l.client.Close()
	l.server.Close()
}

// cut resets both sides; what is held is forgotten.
func (l *link) cut() {
	l.die.Do(func() { close(l.dead) })
	reset(l.client)
	reset(l.server)
}

func (l *link) blacken() { l.black.Store(true) }

// pipe is one direction of a link.
type pipe struct {
	link    *link
	from    Side
	in, out net.Conn

	mu      sync.Mutex    // guards queue and ended
	queue   [][]byte      // messages that were read and not passed on yet
	ended   bool          // nothing more will come
	arrived chan struct{} // capacity 1: queue or ended has changed

	// Of the passing goroutine:
	muted bool      // by a rule: nothing is passed on any more
	trap  *Trap     // the rule that muted, until the answer has ended
	clear time.Time // when what was passed on has crossed a slow network
}

// read puts what comes into the queue, message by message.
func (pp *pipe) read() {
	var left []byte
	buffer := make([]byte, 1<<16)
	for {
		n, err := pp.in.Read(buffer)
		left = append(left, buffer[:n]...)
		queued := false
		for len(left) > 0 {
			size := pp.link.wire.frame(pp.from, left)
			if size == 0 || size > len(left) {
				break
			}
			pp.put(left[:size:size], false)
			left = left[size:]
			queued = true
		}
		if err != nil {
			if len(left) > 0 { // half a message, passed on as what it is
				pp.put(left, false)
			}
			pp.put(nil, true)
			return
		}
		if queued { // its bytes are not to be written over
			left = append([]byte(nil), left...)
		}
	}
}

func (pp *pipe) put(message []byte, end bool) {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	if end {
		pp.ended = true
	} else {
		pp.queue = append(pp.queue, message)
	}
	select {
	case pp.arrived <- struct{}{}:
	default:
	}
}

// next waits for a message; false: none will come.
func (pp *pipe) next() ([]byte, bool) {
	for {
		pp.mu.Lock()
		if len(pp.queue) > 0 {
			m := pp.queue[0]
			pp.queue = pp.queue[1:]
			pp.mu.Unlock()
			return m, true
		}
		ended := pp.ended
		pp.mu.Unlock()
		if ended {
			return nil, false
		}
		<-pp.arrived
	}
}

// pass carries the messages to the other side, as the rules say.
func (pp *pipe) pass() {
	for {
		bytes, ok := pp.next()
		if !ok {
			break
		}
		if pp.link.black.Load() || pp.judge(bytes) || pp.link.black.Load() {
			continue
		}
		if pp.from == Server {
			pp.cross(len(bytes))
		}
		_, _ = pp.out.Write(bytes) // a side that has ended is noticed by its reader
	}
	switch out, ok := pp.out.(*net.TCPConn); {
	case pp.link.black.Load(): // nobody is told
	case pp.from == Client && ok:
		_ = out.CloseWrite() // after all that the client had sent
	default:
		_ = pp.out.Close()
	}
}

// cross waits for as long as a slow network takes to carry so many bytes behind what it carries already.
func (pp *pipe) cross(bytes int) {
	took := pp.link.proxy.crossing(bytes)
	if took == 0 {
		return
	}
	now := time.Now()
	if pp.clear.Before(now) {
		pp.clear = now
	}
	pp.clear = pp.clear.Add(took)
	wait := time.NewTimer(pp.clear.Sub(now))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-pp.link.dead:
	}
}

// judge applies the rules to a message and reports whether it is swallowed.
func (pp *pipe) judge(bytes []byte) (swallowed bool) {
	m := pp.link.understand(pp.from, bytes)
	if pp.muted {
		pp.muffle(m)
		return true
	}
	t := pp.link.proxy.pick(m)
	if t == nil {
		return false
	}
	r := t.rule
	abandoned := r.Hold != nil && r.Cut && pp.from == Client && !r.Mute
	if abandoned {
		pp.abandon(m.Bytes)
	}
	if r.Hold != nil {
		select {
		case <-r.Hold.open:
		case <-pp.link.dead:
		}
	}
	switch {
	case abandoned:
		return r.Drop
	case r.Mute:
		pp.muted, pp.trap = true, t
		if r.Cut && pp.from == Client {
			reset(pp.link.client)
		}
		pp.muffle(m)
	case r.Cut:
		pp.muted = true
		reset(pp.link.client)
	}
	return r.Mute || r.Cut || r.Drop
}

// abandon resets the client's side as soon as everything that belongs to message has been read.
func (pp *pipe) abandon(message []byte) {
	complete := pp.link.wire.complete(message)
	for !complete {
		pp.mu.Lock()
		complete = pp.ended || slices.ContainsFunc(pp.queue, pp.link.wire.complete)
		pp.mu.Unlock()
		if !complete {
			<-pp.arrived
		}
	}
	reset(pp.link.client)
}

// muffle takes note of a message that a muting rule swallows.
func (pp *pipe) muffle(m Message) {
	if pp.trap == nil || !m.Last {
		return
	}
	if pp.trap.rule.Cut {
		reset(pp.link.client)
	}
	signal(pp.trap.answered)
	pp.trap = nil
}

// understand says what a message is about, and remembers it for the answer.
func (l *link) understand(from Side, bytes []byte) Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := Message{From: from, Conn: l.number, Bytes: bytes}
	about := l.wire.interpret(&m)
	switch {
	case from == Client && about:
		l.text, l.runs = m.Text, m.Runs
	case from == Server:
		m.Text, m.Runs = l.text, l.runs
		if m.Last { // what comes now is no answer
			l.text, l.runs = "", false
		}
	}
	return m
}

// rawWire knows nothing.
type rawWire struct{}

func (rawWire) frame(_ Side, arrived []byte) int { return len(arrived) }
func (rawWire) interpret(*Message) bool          { return false }
func (rawWire) complete([]byte) bool             { return true }
