package fakedb

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// MySQL's commands, types of values, and flags, as far as they are used.
const (
	comQuit         = 0x01
	comInitDB       = 0x02
	comQuery        = 0x03
	comPing         = 0x0e
	comStmtPrepare  = 0x16
	comStmtExecute  = 0x17
	comStmtLongData = 0x18
	comStmtClose    = 0x19
	comStmtReset    = 0x1a
	comReset        = 0x1f

	typeLong      = 3
	typeLongLong  = 8
	typeNull      = 6
	typeLongBlob  = 251
	typeVarString = 253

	charsetUTF8   = 45
	charsetBinary = 63

	// The handshake's flags: long password, long flags, with a database, protocol 4.1, transactions, secure connection,
	// many results, authentication plug-ins, attributes, their lengths, no EOF packets.
	flags = 1<<0 | 1<<2 | 1<<3 | 1<<9 | 1<<13 | 1<<15 | 1<<17 | 1<<19 | 1<<20 | 1<<21 | 1<<24

	autocommit = 2 // the session's status
)

// longest is the length of a packet that another one continues.
const longest = 1<<24 - 1

// packets are a connection on which packets are numbered anew with every command.
type packets struct {
	net.Conn
	number byte
}

// read returns the next packet and what continues it.
func (p *packets) read() ([]byte, error) {
	var whole []byte
	for {
		var head [4]byte
		if _, err := io.ReadFull(p, head[:]); err != nil {
			return nil, err
		}
		size := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		p.number = head[3] + 1
		at := len(whole)
		whole = append(whole, make([]byte, size)...)
		if _, err := io.ReadFull(p, whole[at:]); err != nil {
			return nil, err
		}
		if size < longest {
			return whole, nil
		}
	}
}

// frame makes packets of payloads, each shorter than the longest.
func (p *packets) frame(payloads ...[]byte) []byte {
	var out []byte
	for _, b := range payloads {
		out = append(out, byte(len(b)), byte(len(b)>>8), byte(len(b)>>16), p.number)
		out = append(out, b...)
		p.number++
	}
	return out
}

func (p *packets) write(payloads ...[]byte) error {
	_, err := p.Write(p.frame(payloads...))
	return err
}

// lenInt appends a number in the form that tells its own length.
func lenInt(b []byte, n uint64) []byte {
	switch {
	case n < 251:
		return append(b, byte(n))
	case n < 1<<16:
		return binary.LittleEndian.AppendUint16(append(b, 0xfc), uint16(n))
	case n < 1<<24:
		return append(b, 0xfd, byte(n), byte(n>>8), byte(n>>16))
	}
	return binary.LittleEndian.AppendUint64(append(b, 0xfe), n)
}

// lenBytes appends bytes behind their length.
func lenBytes[T string | []byte](b []byte, v T) []byte {
	return append(lenInt(b, uint64(len(v))), v...)
}

var errShort = errors.New("a packet that is too short")

// reader takes a packet apart. After a mistake it returns zeros.
type reader struct {
	left []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.left) {
		r.err, r.left = errShort, nil
		return make([]byte, max(0, min(n, 8)))
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) uint16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) lenBytes() []byte {
	n := uint64(r.byte())
	switch n {
	case 0xfc:
		n = uint64(r.uint16())
	case 0xfd:
		b := r.take(3)
		n = uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16
	case 0xfe:
		n = r.uint64()
	}
	if n > uint64(len(r.left)) {
		r.err = errShort
		return nil
	}
	return append([]byte{}, r.take(int(n))...)
}

// okPacket is the answer to what has no result, and with the header 0xfe the end of a result.
func okPacket(header byte, affected int64) []byte {
	b := lenInt([]byte{header}, uint64(affected))
	return append(b, 0, autocommit, 0, 0, 0)
}

func errPacket(number uint16) []byte {
	b := binary.LittleEndian.AppendUint16([]byte{0xff}, number)
	return append(b, "#HY000as the script says"...)
}

// columnPacket describes a column.
func columnPacket(c column) []byte {
	b := lenBytes(nil, "def")
	for range 3 {
		b = lenBytes(b, "") // schema and table
	}
	b = lenBytes(lenBytes(b, c.name), c.name)
	charset, typ := uint16(charsetBinary), byte(typeLongLong)
	switch c.kind {
	case textKind:
		charset, typ = charsetUTF8, typeVarString
	case bytesKind:
		typ = typeLongBlob
	case int4Kind:
		typ = typeLong
	}
	b = binary.LittleEndian.AppendUint16(append(b, 0x0c), charset)
	b = binary.LittleEndian.AppendUint32(b, 1<<24)
	return append(b, typ, 0, 0, 0, 0, 0)
}
