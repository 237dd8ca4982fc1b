package dbtest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy is a network between a program and a server, of which a test can make what networks are. All methods may be
// called at once.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex // guards the rest
	upstream string
	closed   bool
	links    map[*link]bool
	traps    []*Trap
	accepted int
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	hold           chan struct{} // closed: what the client sends goes on; nil: it is not held
	mute           *Trap         // the server's answers are swallowed
	black          bool
}

// Trap waits for bytes that a client sends, and then does something to their connection. The zero value does nothing.
type Trap struct {
	// Marker is what the client must send, in one piece.
	Marker []byte
	// Mute swallows everything that the server answers from then on; Answered is then closed when it has answered.
	Mute bool
	// Cut closes the client's side; with Mute not before the server has answered. The server's side stays open for as
	// long as something is held.
	Cut bool
	// Answer is sent to the client in place of the server's first answer; what follows goes through again unless Mute is set.
	Answer []byte
	// Refuse keeps what the client has sent from the server for ever; Answer is sent at once.
	Refuse bool
	// Hold keeps what the client has sent, from the marker on, from the server until it is closed.
	Hold chan struct{}
	// Sprung is closed when the marker has been seen; made by Set.
	Sprung chan struct{}
	// Answered is closed when the server has answered; made by Set.
	Answered chan struct{}
}

// NewProxy returns a proxy before the server at address, which ends with the test.
func NewProxy(t testing.TB, address string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	p := &Proxy{listener: l, upstream: address, links: map[*link]bool{}}
	p.running.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

// Addr is the proxy's host and port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Accepted returns how many connections have been made to the proxy.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Set lays a trap, which acts once.
func (p *Proxy) Set(t *Trap) *Trap {
	t.Sprung, t.Answered = make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, t)
	return t
}

// Cut closes all connections of now.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.client.Close()
		l.server.Close()
	}
}

// BlackHole swallows everything on the connections of now, which stay open, as after a failover without a goodbye; new
// ones work.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.black = true
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.accepted++
		upstream, closed := p.upstream, p.closed
		p.mu.Unlock()
		server, err := net.Dial("tcp", upstream)
		if err != nil || closed {
			client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		p.links[l] = true
		p.mu.Unlock()
		p.running.Go(func() { p.requests(l) })
		p.running.Go(func() { p.answers(l) })
	}
}

// requests carries what the client sends.
func (p *Proxy) requests(l *link) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 {
			if p.spring(l, buffer[:n]) {
				continue
			}
			p.mu.Lock()
			hold, black := l.hold, l.black
			p.mu.Unlock()
			if hold != nil {
				<-hold
			}
			if !black {
				_, _ = l.server.Write(buffer[:n])
			}
		}
		if err != nil {
			// The server sees the end after everything that was sent before it; its answers have nowhere to go.
			if c, ok := l.server.(*net.TCPConn); ok {
				_ = c.CloseWrite()
			}
			return
		}
	}
}

// spring looks for the traps that these bytes spring, and reports whether they are not to go on.
func (p *Proxy) spring(l *link, sent []byte) (refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range p.traps {
		if !bytes.Contains(sent, t.Marker) {
			continue
		}
		p.traps = append(p.traps[:i:i], p.traps[i+1:]...)
		close(t.Sprung)
		if t.Refuse {
			_, _ = l.client.Write(t.Answer)
			close(t.Answered)
			return true
		}
		l.hold = t.Hold
		if t.Mute || t.Answer != nil {
			l.mute = t
		}
		if t.Cut && !t.Mute {
			l.client.Close()
		}
		return false
	}
	return false
}

// answers carries what the server sends.
func (p *Proxy) answers(l *link) {
	buffer := make([]byte, 1<<16)
	answered := false
	for {
		n, err := l.server.Read(buffer)
		p.mu.Lock()
		mute, black := l.mute, l.black
		p.mu.Unlock()
		switch {
		case n == 0:
		case mute != nil:
			if answered {
				break
			}
			_, _ = l.client.Write(mute.Answer)
			close(mute.Answered)
			if mute.Cut {
				l.client.Close()
			}
			if answered = mute.Mute; !answered {
				p.mu.Lock()
				l.mute = nil
				p.mu.Unlock()
			}
		case !black:
			_, _ = l.client.Write(buffer[:n])
		}
		if err != nil {
			if err != io.EOF || mute == nil {
				l.client.Close()
			}
			l.server.Close()
			p.mu.Lock()
			delete(p.links, l)
			p.mu.Unlock()
			return
		}
	}
}
