package proxy

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
)

// The codes in the place of a protocol version with which a connection can begin.
const (
	pgCancel  = 80877102
	pgTLS     = 80877103
	pgEncrypt = 80877104 // by GSSAPI
)

// postgresWire is PostgreSQL's protocol, version 3.
type postgresWire struct {
	begun  atomic.Bool  // the client has sent its startup message
	asked  atomic.Int32 // the server owes this many single bytes, the answers to requests for encryption
	opaque atomic.Bool  // encrypted from here on

	statements, portals map[string]string // by name, what they are
	text                string            // of the messages up to the next Sync
	runs                bool
}

func newPostgresWire() *postgresWire {
	return &postgresWire{statements: map[string]string{}, portals: map[string]string{}}
}

func (w *postgresWire) frame(from Side, arrived []byte) int {
	switch {
	case w.opaque.Load():
		return len(arrived)
	case from == Server && w.asked.Load() > 0:
		w.asked.Add(-1)
		if arrived[0] != 'N' {
			w.opaque.Store(true)
		}
		return 1
	case from == Client && !w.begun.Load():
		return w.frameStartup(arrived)
	case len(arrived) < 5:
		return 0
	}
	return 1 + length(arrived[1:])
}

// frameStartup measures what comes before the session has begun.
func (w *postgresWire) frameStartup(arrived []byte) int {
	if len(arrived) < 8 || len(arrived) < length(arrived) {
		return 0
	}
	switch binary.BigEndian.Uint32(arrived[4:]) {
	case pgTLS, pgEncrypt:
		w.asked.Add(1)
	case pgCancel:
	default:
		w.begun.Store(true)
	}
	return length(arrived)
}

// length reads a length that counts itself.
func length(b []byte) int { return max(4, int(binary.BigEndian.Uint32(b))) }

func (w *postgresWire) interpret(m *Message) bool {
	if w.opaque.Load() || len(m.Bytes) < 5 || m.From == Client && m.Bytes[0] == 0 { // a startup message has no type
		return false
	}
	m.Type = m.Bytes[0]
	if m.From == Server {
		m.Last = m.Type == 'Z'
		return false
	}
	body := m.Bytes[5:]
	switch m.Type {
	case 'Q':
		text, _ := cut0(body)
		w.text, w.runs = normalize(text), true
	case 'P':
		name, rest := cut0(body)
		text, _ := cut0(rest)
		w.statements[name] = normalize(text)
		w.text, w.runs = w.statements[name], false
	case 'B':
		portal, rest := cut0(body)
		name, _ := cut0(rest)
		w.portals[portal] = w.statements[name]
		w.text, w.runs = w.portals[portal], true
	case 'E':
		portal, _ := cut0(body)
		w.text, w.runs = w.portals[portal], true
	case 'D':
		if name, _ := cut0(body[min(1, len(body)):]); len(body) > 0 && body[0] == 'S' {
			w.text, w.runs = w.statements[name], false
		}
	case 'S':
	default: // Terminate, Close, Flush, a password
		return false
	}
	m.Text, m.Runs = w.text, w.runs
	return true
}

// complete: the server may act on Query and on Sync.
func (w *postgresWire) complete(message []byte) bool {
	return w.opaque.Load() || message[0] == 'Q' || message[0] == 'S'
}

// cut0 cuts off a text that ends with a zero byte.
func cut0(b []byte) (string, []byte) {
	text, rest, _ := bytes.Cut(b, []byte{0})
	return string(text), rest
}
