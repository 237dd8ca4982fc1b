// Package proxy is a network between a program and a database, for tests, of which can be made what networks are: it
// holds messages, swallows them, lets the answer to a committed statement get lost, cuts connections, and lets them go
// dead without a word while new ones lead to another server.
//
// It reads the protocols of PostgreSQL and of MySQL as far as needed to tell messages apart, which statement each is
// about, and where an answer ends; it understands no SQL, changes no byte and answers nothing itself. What happens to
// which messages is said by rules (Rule), so that a test reads as a script; without rules everything passes. There is no
// clock in it but that of a slow network (SetRate): what is held goes on when the test opens a gate. A connection that turns to TLS or compression can still
// be cut and black-holed, but its messages cannot be told apart any more.
//
// Start reading at Rule, then the ready-made ones: LoseAnswer, HoldAnswer, HoldStatement,
// AbandonStatement, LoseStatement.
package proxy

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Protocol is what the two sides speak.
type Protocol int

// The protocols. Raw is any: each piece of bytes that arrives is a message, without type or text.
const (
	Raw Protocol = iota
	Postgres
	MySQL
)

// Proxy passes connections on. All methods may be called at once from many goroutines.
type Proxy struct {
	protocol Protocol
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex // guards the rest
	upstream string     // address of the server for new connections
	dial     func(network, address string) (net.Conn, error)
	refusing bool
	closed   bool
	links    map[*link]bool
	traps    []*Trap
	gates    []*Gate // of all rules that there ever were
	rate     int     // bytes a second from the server, of each connection; 0: as they come
	accepted int
	age      age
}

// age counts what has happened to all connections of a moment, so that one that was on its way to the server then is told.
type age struct{ cuts, holes int }

// New returns a proxy before the server at upstream (host and port). It ends with the test; what is held then is let go.
func New(t testing.TB, protocol Protocol, upstream string) *Proxy {
	t.Helper()
	return NewOn(t, protocol, "127.0.0.1", upstream)
}

// NewOn is New for those who come to another address of this machine, as from a network namespace.
func NewOn(t testing.TB, protocol Protocol, host, upstream string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatalf("listen for the proxy: %v", err)
	}
	p := &Proxy{protocol: protocol, listener: l, upstream: upstream, dial: net.Dial, links: map[*link]bool{}}
	p.running.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

// Addr returns host and port that stand for the server's.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetUpstream has new connections lead to another server. Those of now stay where they are.
func (p *Proxy) SetUpstream(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = address
}

// Accepted returns how many connections have been made or tried, those that were refused or led nowhere included.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open returns how many connections are open between the proxy and the server.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Refuse says whether new connections are reset as soon as they are made, as if nobody listened. They are counted.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = yes
}

// SetRate makes the network slow: each connection carries at most so many bytes a second from the server to the client,
// from the next message on. 0: as they come.
func (p *Proxy) SetRate(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = bytes
}

// crossing is how long a piece of an answer takes.
func (p *Proxy) crossing(bytes int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return 0
	}
	return time.Duration(bytes) * time.Second / time.Duration(p.rate)
}

// Cut resets all connections of now, on both sides, those that were accepted and have not reached the server yet included.
func (p *Proxy) Cut() {
	for _, l := range p.now(age{cuts: 1}) {
		l.cut()
	}
}

// BlackHole makes all connections of now swallow everything in both directions and stay open, even where one side closes
// its end: as after a failover, when nobody is left to answer. New connections work.
func (p *Proxy) BlackHole() {
	for _, l := range p.now(age{holes: 1}) {
		l.blacken()
	}
}

// now returns the connections of now, and counts what becomes of them.
func (p *Proxy) now(older age) []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.age.cuts += older.cuts
	p.age.holes += older.holes
	all := make([]*link, 0, len(p.links))
	for l := range p.links {
		all = append(all, l)
	}
	return all
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	for _, g := range p.gates {
		g.Open()
	}
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// serve accepts connections until the listener is closed.
func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.accepted++
		number, refused, upstream, born, dial := p.accepted, p.refusing, p.upstream, p.age, p.dial
		p.mu.Unlock()
		if refused {
			reset(client)
			continue
		}
		p.running.Go(func() {
			server, err := dial("tcp", upstream)
			if err != nil {
				reset(client)
				return
			}
			p.connect(client, server, number, born)
		})
	}
}

// connect carries one connection until both sides are done with it. born is the age when the client came.
func (p *Proxy) connect(client, server net.Conn, number int, born age) {
	l := newLink(p, client, server, number)
	p.mu.Lock()
	cut, hole := p.closed || p.age.cuts > born.cuts, p.age.holes > born.holes
	p.links[l] = true
	p.mu.Unlock()
	if cut {
		l.cut()
	}
	if hole {
		l.blacken()
	}
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// reset closes a connection so that the other side is told "connection reset", and what was not sent yet is forgotten.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
