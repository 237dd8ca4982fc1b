// Package fakedb is databases that are not there: servers that speak the real protocols of PostgreSQL and MySQL, keep
// the tables of a log in memory, and answer to chosen statements as a distributed database would on a bad day: with an
// error code, before or after the statement took effect, with a broken connection, with a warning, or not at all.
//
// So the codes that CockroachDB, YugabyteDB, TiDB, Aurora and others are documented to send reach the real drivers and
// the real dialects, without any of these being there. The package knows the statements of the dialects by their
// beginnings (see planOf) and runs them on Tables; it is no SQL engine. A statement that it does not know is answered with
// a syntax error and fails the test. Each statement takes effect at once and alone, so there are no conflicts but those
// that two writers make by coming one after the other; everything else is said by faults (Fault).
//
// Start reading at Server, then Fault.
package fakedb

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Options say what a server is.
type Options struct {
	// Tables are what it keeps; nil: new ones. Several servers may share them.
	Tables *Tables
	// Version is what it says it is; default "15.18" and "8.0.36". A PostgreSQL server whose version begins with
	// "CockroachDB" says that and calls itself like PostgreSQL 13.
	Version string
	// Refuse are texts that no statement may have in it, whatever the case of letters: PostgreSQL's answer is 0A000.
	Refuse []string
	// Variables are MySQL's, added to and put over those that a fit server has.
	Variables map[string]string
}

// Server is a fake server. All methods may be called at once from many goroutines.
type Server struct {
	tables    *Tables
	version   string
	refuse    []string
	variables map[string]string
	listener  net.Listener
	running   sync.WaitGroup
	talk      func(*Server, net.Conn, uint32)

	mu       sync.Mutex // guards the rest
	closed   bool
	conns    map[net.Conn]bool
	accepted uint32
	cancels  int
	faults   []*Injected
	unknown  []string // statements that it did not know
}

// NewPostgres starts a server that speaks PostgreSQL's protocol. It lets in whoever comes, and ends with the test.
func NewPostgres(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Version == "" {
		o.Version = "15.18"
	}
	return start(t, o, talkPostgres)
}

// NewMySQL starts a server that speaks MySQL's protocol. It lets in whoever comes, and ends with the test.
func NewMySQL(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Version == "" {
		o.Version = "8.0.36"
	}
	return start(t, o, talkMySQL)
}

func start(t testing.TB, o Options, talk func(*Server, net.Conn, uint32)) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	if o.Tables == nil {
		o.Tables = NewTables()
	}
	s := &Server{tables: o.Tables, version: o.Version, refuse: o.Refuse, variables: o.Variables, listener: l, talk: talk, conns: map[net.Conn]bool{}}
	s.running.Go(s.serve)
	t.Cleanup(func() {
		s.close()
		for _, text := range s.unknown {
			t.Errorf("fakedb: unknown statement: %s", text)
		}
	})
	return s
}

// Addr returns host and port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Tables returns what the server keeps.
func (s *Server) Tables() *Tables { return s.tables }

// Accepted returns how many connections have been made.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.accepted)
}

// Cancels returns how often PostgreSQL's request to cancel a statement came.
func (s *Server) Cancels() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancels
}

func (s *Server) close() {
	s.mu.Lock()
	s.closed = true
	s.listener.Close()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

func (s *Server) serve() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.accepted++
		number, closed := s.accepted, s.closed
		s.conns[c] = true
		s.mu.Unlock()
		if closed {
			c.Close()
		}
		s.running.Go(func() {
			s.talk(s, c, number)
			c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// Fault says what happens to which statements. The first fault that matches a statement and is not used up decides.
type Fault struct {
	// Text must begin the statement, whatever the case of letters and the white space. "" is every statement that belongs
	// to the log's tables (not the talk at the beginning of a session).
	Text string
	// Over: only statements that carry a value of as many bytes or more.
	Over int
	// Connect: not statements but attempts to connect are hit.
	Connect bool

	Skip  int // how many matching statements pass before it acts
	Every int // of those that follow, it acts on each Every-th; 0 or 1: on each
	Times int // how many it acts on; 0: one; negative: all

	// Rows: so many rows of the result are sent before the error or the end.
	Rows int
	// Commit: the statement takes effect before it is answered.
	Commit bool
	// Code is the error that is answered: PostgreSQL's SQLSTATE or MySQL's number. "": none.
	Code string
	// AtCommit: PostgreSQL sends the error where it belongs to the commit, after the count of rows of the statement.
	AtCommit bool
	// Fatal: PostgreSQL's severity is FATAL, and the connection is closed behind the error.
	Fatal bool
	// Warn is the SQLSTATE of a warning that PostgreSQL sends with its answer.
	Warn string
	// Close: the connection is closed behind the answer, or instead of one where there is no Code.
	Close bool
}

// Injected is a fault that was laid.
type Injected struct {
	server *Server
	fault  Fault
	seen   int // guarded by the server
	hits   int // guarded by the server
}

// Hits returns how many statements or connections it has acted on.
func (i *Injected) Hits() int {
	i.server.mu.Lock()
	defer i.server.mu.Unlock()
	return i.hits
}

// Inject lays a fault behind those that are there.
func (s *Server) Inject(f Fault) *Injected {
	if f.Times == 0 {
		f.Times = 1
	}
	f.Every = max(f.Every, 1)
	f.Text = normalize(f.Text)
	i := &Injected{server: s, fault: f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, i)
	return i
}

// Clear drops every fault.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// pick returns the fault that decides about a statement or, with connect, about an attempt to connect.
func (s *Server) pick(connect bool, p plan, args []any) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.faults {
		f := i.fault
		if f.Connect != connect || f.Times > 0 && i.hits >= f.Times {
			continue
		}
		if !connect && (f.Text == "" && !p.log || !hasPrefixFold(p.text, f.Text) || largest(args) < f.Over) {
			continue
		}
		if i.seen++; i.seen <= f.Skip || (i.seen-f.Skip)%f.Every != 0 {
			continue
		}
		i.hits++
		return f, true
	}
	return Fault{}, false
}

// largest is the size of the largest value in bytes.
func largest(args []any) (n int) {
	for _, a := range args {
		if b, ok := a.([]byte); ok {
			n = max(n, len(b))
		}
	}
	return n
}

// refuses reports whether a statement has a text in it that this server does not know.
func (s *Server) refuses(text string) bool {
	text = strings.ToLower(normalize(text))
	return slices.ContainsFunc(s.refuse, func(r string) bool { return strings.Contains(text, strings.ToLower(r)) })
}

// plan looks a statement up, and remembers it where it is not known.
func (s *Server) plan(text string) (plan, bool) {
	p, ok := planOf(text)
	if !ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unknown = append(s.unknown, p.text)
	}
	return p, ok
}

// normalize makes every run of white space one space.
func normalize(text string) string { return strings.Join(strings.Fields(text), " ") }

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}
