package proxy

import (
	"encoding/binary"
	"sync/atomic"
)

// Commands of MySQL's protocol, and flags of its handshake.
const (
	comQuit          = 0x01
	comQuery         = 0x03
	comStmtPrepare   = 0x16
	comStmtExecute   = 0x17
	comStmtLongData  = 0x18
	comStmtClose     = 0x19
	flagCompress     = 1 << 5
	flagTLS          = 1 << 11
	flagDeprecateEOF = 1 << 24
)

// longest is the length of a packet that another one continues.
const longest = 1<<24 - 1

// mysqlWire is MySQL's protocol 10.
type mysqlWire struct {
	greeted atomic.Bool // the client has answered the greeting
	opaque  atomic.Bool // encrypted from here on

	session  bool // the server has let the client in
	compress bool // asked for: opaque from the session's beginning on
	oldEnds  bool // columns end with an EOF packet
	answer   answer
	asked    string            // the text that is being prepared
	prepared map[uint32]string // by id
}

// answer is where the server is in its answer.
type answer struct {
	command byte
	begun   bool
	skip    int // packets of the answer to a preparation that are still to come
	columns bool
}

func newMySQLWire() *mysqlWire { return &mysqlWire{oldEnds: true, prepared: map[uint32]string{}} }

// frame counts packets that continue each other as one message.
func (w *mysqlWire) frame(from Side, arrived []byte) int {
	if w.opaque.Load() {
		return len(arrived)
	}
	for at := 0; len(arrived) >= at+4; {
		size := int(arrived[at]) | int(arrived[at+1])<<8 | int(arrived[at+2])<<16
		if at += 4 + size; size < longest {
			if at <= len(arrived) && from == Client && w.greeted.CompareAndSwap(false, true) && size == 32 &&
				binary.LittleEndian.Uint32(arrived[4:])&flagTLS != 0 {
				w.opaque.Store(true)
			}
			return at
		}
	}
	return 0
}

func (w *mysqlWire) interpret(m *Message) bool {
	if w.opaque.Load() || len(m.Bytes) < 5 {
		return false
	}
	body := m.Bytes[4:]
	m.Type = body[0]
	switch {
	case !w.session:
		m.Type = 0
		w.greet(m, body)
		return false
	case m.From == Server:
		m.Last = w.answered(body)
		return false
	}
	switch m.Type {
	case comQuit, comStmtLongData, comStmtClose: // not answered
		return false
	}
	w.answer = answer{command: m.Type}
	switch m.Type {
	case comQuery:
		m.Text, m.Runs = normalize(string(body[1:])), true
	case comStmtPrepare:
		m.Text = normalize(string(body[1:]))
		w.asked = m.Text
	case comStmtExecute:
		if len(body) >= 5 {
			m.Text = w.prepared[binary.LittleEndian.Uint32(body[1:])]
		}
		m.Runs = true
	}
	return true
}

// greet follows the handshake.
func (w *mysqlWire) greet(m *Message, body []byte) {
	switch {
	case m.From == Client && m.Bytes[3] == 1 && len(body) >= 4:
		flags := binary.LittleEndian.Uint32(body)
		w.oldEnds = flags&flagDeprecateEOF == 0
		w.compress = flags&flagCompress != 0
	case m.From == Server && m.Bytes[3] > 0 && body[0] == 0: // OK; the greeting is number 0
		w.session = true
		if w.compress {
			w.opaque.Store(true)
		}
	}
}

// answered follows the server's answer and reports whether this packet ends it.
func (w *mysqlWire) answered(body []byte) bool {
	a := &w.answer
	first := !a.begun
	a.begun = true
	switch {
	case body[0] == 0xff: // an error; no row begins so
		return true
	case a.command == comStmtPrepare && first && len(body) >= 9:
		w.prepared[binary.LittleEndian.Uint32(body[1:])] = w.asked
		for _, at := range []int{5, 7} { // columns, parameters
			if n := int(binary.LittleEndian.Uint16(body[at:])); n > 0 {
				if a.skip += n; w.oldEnds {
					a.skip++
				}
			}
		}
		return a.skip == 0
	case a.command == comStmtPrepare:
		a.skip--
		return a.skip == 0
	case first:
		return body[0] == 0 || body[0] == 0xfe
	case body[0] != 0xfe || len(body) >= longest:
		return false
	case w.oldEnds && !a.columns:
		a.columns = true
		return false
	}
	return true
}

// complete: every command is one message.
func (w *mysqlWire) complete([]byte) bool { return true }
