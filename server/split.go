package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
)

// A splitter lets two servers share one port. Native gRPC clients get a transport made for them, which answers about
// twice as many calls as net/http does (docs/decisions); everything else, HTTP/1, gRPC-Web, Connect, browsers, proxies,
// goes to net/http, which speaks gRPC as well.
//
// It decides once for a connection, by the first request on it: to the gRPC transport go only those that plainly come
// from a gRPC library itself, since such a connection never carries anything else. What comes through a proxy, which
// may put any request on its connection, stays with net/http.
//
// A gRPC client sends its first request only after the server's SETTINGS. The splitter therefore sends an empty one, and
// takes the client's acknowledgement of it out of the stream, for the server behind has not sent it.
type splitter struct {
	l      net.Listener
	native *handoff // connections for the gRPC transport
	web    *handoff // connections for net/http
	first  time.Duration
	idle   time.Duration

	mu     sync.Mutex // guards the fields below
	asking map[net.Conn]struct{}
	closed bool
	wg     sync.WaitGroup
}

// newSplitter splits the connections of l. A client has the time first to begin, and the time idle between what it
// sends before the first request.
func newSplitter(l net.Listener, first, idle time.Duration) *splitter {
	return &splitter{l: l, first: first, idle: idle, asking: map[net.Conn]struct{}{},
		native: newHandoff(l.Addr()), web: newHandoff(l.Addr())}
}

// serve accepts until the splitter is closed.
func (s *splitter) serve() error {
	for pause := time.Duration(0); ; {
		c, err := s.l.Accept()
		if err == nil {
			pause = 0
			s.ask(c)
			continue
		}
		if s.isClosed() {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second) // out of file descriptors, and the like
		time.Sleep(pause)
	}
}

// ask starts to look at a connection.
func (s *splitter) ask(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return
	}
	s.asking[c] = struct{}{}
	s.wg.Go(func() {
		to, out := s.look(c)
		s.mu.Lock()
		delete(s.asking, c)
		s.mu.Unlock()
		if to == nil || !to.give(out) {
			_ = c.Close()
		}
	})
}

// close stops accepting and lets go of what is undecided. Connections that were handed over are not touched.
func (s *splitter) close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.asking {
		_ = c.Close()
	}
	s.mu.Unlock()
	_ = s.l.Close()
	_ = s.native.Close()
	_ = s.web.Close()
	s.wg.Wait()
}

func (s *splitter) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// What HTTP/2 needs here, by RFC 9113.
const (
	preface        = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHead      = 9
	frameHeaders   = 1
	frameSettings  = 4
	framePing      = 6
	flagAck        = 1
	flagEndHeaders = 4
	flagPadded     = 8
	flagPriority   = 32
	maxFrame       = 16 << 10
	maxUndecided   = 64 << 10 // bytes that are looked at before net/http has to cope
)

var emptySettings = []byte{0, 0, 0, frameSettings, 0, 0, 0, 0, 0}

// look reads until it knows where the connection belongs. It returns no handoff where the connection ended before.
func (s *splitter) look(c net.Conn) (*handoff, net.Conn) {
	_ = c.SetDeadline(time.Now().Add(s.first))
	var head []byte
	greeted, acked := false, false
	for {
		if !greeted && !bytes.HasPrefix([]byte(preface), head[:min(len(head), len(preface))]) {
			return s.settle(s.web, c, head)
		}
		if !greeted && len(head) >= len(preface) {
			if _, err := c.Write(emptySettings); err != nil {
				return nil, nil
			}
			greeted = true
		}
		if greeted {
			v := readFrames(&head, c, &acked)
			switch {
			case v == verdictNative:
				return s.settle(s.native, c, head) // which passes over acknowledgements
			case v == verdictWeb || len(head) > maxUndecided:
				if acked {
					return s.settle(s.web, c, head)
				}
				to, out := s.settle(s.web, c, head)
				return to, &ackless{Conn: out, pass: len(preface)}
			}
			_ = c.SetDeadline(time.Now().Add(s.idle))
		}
		var buf [2048]byte
		n, err := c.Read(buf[:])
		head = append(head, buf[:n]...)
		if err != nil {
			return nil, nil
		}
	}
}

// settle returns the connection as it was before somebody looked.
func (s *splitter) settle(to *handoff, c net.Conn, head []byte) (*handoff, net.Conn) {
	_ = c.SetDeadline(time.Time{})
	return to, &replayed{Conn: c, head: head}
}

type verdict int

const (
	verdictOpen verdict = iota // nothing decisive yet
	verdictNative
	verdictWeb
)

// readFrames looks at the frames behind the preface. It takes out of head what is between the client and the splitter
// alone: the acknowledgement of its SETTINGS, and pings, which it answers.
func readFrames(head *[]byte, w io.Writer, acked *bool) verdict {
	at := len(preface)
	for {
		b := (*head)[at:]
		if len(b) < frameHead {
			return verdictOpen
		}
		size := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
		kind, flags := b[3], b[4]
		if size > maxFrame {
			return verdictWeb
		}
		if len(b) < frameHead+size {
			return verdictOpen
		}
		frame := b[:frameHead+size]
		switch {
		case kind == frameHeaders:
			return judgeHeaders(frame[frameHead:], flags)
		case kind == frameSettings && flags&flagAck != 0 && !*acked:
			*acked = true
			*head = append((*head)[:at], b[len(frame):]...)
		case kind == framePing && flags&flagAck == 0:
			pong := bytes.Clone(frame)
			pong[4] |= flagAck
			if _, err := w.Write(pong); err != nil {
				return verdictWeb
			}
			*head = append((*head)[:at], b[len(frame):]...)
		default:
			at += len(frame)
		}
	}
}

// judgeHeaders decides by the header fields of the first request.
func judgeHeaders(block []byte, flags byte) verdict {
	pad := 0
	if flags&flagPadded != 0 && len(block) > 0 {
		pad, block = int(block[0]), block[1:]
	}
	if flags&flagPriority != 0 && len(block) >= 5 {
		block = block[5:]
	}
	if flags&flagEndHeaders == 0 || pad > len(block) {
		return verdictWeb
	}
	native, library, proxied := false, false, false
	d := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		switch f.Name {
		case "content-type":
			native = isNativeGRPC(f.Value)
		case "user-agent":
			library = isGRPCLibrary(f.Value)
		case "via", "forwarded":
			proxied = true
		default:
			proxied = proxied || strings.HasPrefix(f.Name, "x-forwarded-") || strings.HasPrefix(f.Name, "x-envoy-")
		}
	})
	d.SetMaxStringLength(maxFrame)
	if _, err := d.Write(block[:len(block)-pad]); err != nil || d.Close() != nil {
		return verdictWeb
	}
	if native && library && !proxied {
		return verdictNative
	}
	return verdictWeb
}

// isNativeGRPC tells application/grpc and application/grpc+proto from application/grpc-web.
func isNativeGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// isGRPCLibrary knows the user agents of the gRPC libraries that open connections of their own. Those of Connect share
// theirs with other requests.
func isGRPCLibrary(agent string) bool {
	return (strings.HasPrefix(agent, "grpc-") || strings.HasPrefix(agent, "tonic/")) &&
		!strings.Contains(agent[:min(len(agent), 32)], "connect")
}

// replayed is a connection of which the beginning was read already.
type replayed struct {
	net.Conn
	head []byte
}

// Read returns the beginning first.
func (r *replayed) Read(p []byte) (int, error) {
	if len(r.head) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.head)
	if r.head = r.head[n:]; len(r.head) == 0 {
		r.head = nil
	}
	return n, nil
}

// ackless leaves the first acknowledgement of SETTINGS out of an HTTP/2 connection.
type ackless struct {
	net.Conn
	done bool // it was left out
	pass int  // bytes that go through unseen: the preface, or the rest of a frame
	head [frameHead]byte
	have int // bytes of head that were read
	sent int // bytes of head that were passed on; head is complete then
}

// Read reads frame by frame until the acknowledgement came.
func (a *ackless) Read(p []byte) (int, error) {
	if a.done || len(p) == 0 {
		return a.Conn.Read(p)
	}
	for {
		if a.have == frameHead && a.sent < frameHead {
			n := copy(p, a.head[a.sent:])
			a.sent += n
			return n, nil
		}
		if a.pass > 0 {
			n, err := a.Conn.Read(p[:min(len(p), a.pass)])
			a.pass -= n
			return n, err
		}
		if a.have == frameHead {
			a.have, a.sent = 0, 0
		}
		n, err := a.Conn.Read(a.head[a.have:])
		a.have += n
		if err != nil {
			return 0, err
		}
		if a.have < frameHead {
			continue
		}
		a.pass = int(binary.BigEndian.Uint32(a.head[:4]) >> 8)
		if a.head[3] == frameSettings && a.head[4]&flagAck != 0 {
			a.done = true
			return a.Conn.Read(p)
		}
	}
}

// handoff is a listener whose connections are given to it.
type handoff struct {
	addr  net.Addr
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

func newHandoff(addr net.Addr) *handoff {
	return &handoff{addr: addr, conns: make(chan net.Conn), end: make(chan struct{})}
}

// give hands a connection to the next Accept; false: the listener is closed.
func (h *handoff) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.end:
		return false
	}
}

// Accept returns the next connection.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.end:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. It may be called more than once.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.end) })
	return nil
}

// Addr returns the address of the listener behind.
func (h *handoff) Addr() net.Addr { return h.addr }
