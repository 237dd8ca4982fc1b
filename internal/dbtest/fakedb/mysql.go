package fakedb

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// mySession is one connection of a client that speaks MySQL's protocol.
type mySession struct {
	*packets
	server   *Server
	conn     uint32
	next     uint32 // number of the next prepared statement
	prepared map[uint32]*myStatement
}

// myStatement is a prepared statement.
type myStatement struct {
	plan   plan
	params int
	types  []byte         // of the values, as they were sent last
	long   map[int][]byte // values that were sent ahead
}

func talkMySQL(s *Server, c net.Conn, number uint32) {
	m := &mySession{packets: &packets{Conn: c}, server: s, conn: number, prepared: map[uint32]*myStatement{}}
	if m.greet() != nil {
		return
	}
	for {
		packet, err := m.read()
		if err != nil || len(packet) == 0 || m.handle(packet[0], packet[1:]) != nil {
			return
		}
	}
}

// greet lets the client in, whatever its password.
func (m *mySession) greet() error {
	if f, hit := m.server.pick(true, plan{}, nil); hit {
		_ = m.write(errPacket(number(f.Code)))
		return errHangUp
	}
	b := append([]byte{10}, m.server.version...)
	b = binary.LittleEndian.AppendUint32(append(b, 0), m.conn)
	b = append(b, "saltsalt\x00"...)
	b = binary.LittleEndian.AppendUint16(b, flags&0xffff)
	b = append(b, charsetUTF8, autocommit, 0)
	b = binary.LittleEndian.AppendUint16(b, flags>>16)
	b = append(b, 21)
	b = append(b, make([]byte, 10)...)
	b = append(b, "saltsaltsalt\x00mysql_native_password\x00"...)
	if err := m.write(b); err != nil {
		return err
	}
	if _, err := m.read(); err != nil {
		return err
	}
	return m.write(okPacket(0, 0))
}

// number reads a fault's code.
func number(code string) uint16 {
	n, _ := strconv.ParseUint(code, 10, 16)
	return uint16(n)
}

func (m *mySession) handle(command byte, body []byte) error {
	switch command {
	case comQuit:
		return errHangUp
	case comInitDB, comPing, comReset, comStmtReset:
		return m.write(okPacket(0, 0))
	case comQuery:
		pl, err := m.lookUp(string(body))
		if err != 0 {
			return m.write(errPacket(err))
		}
		return m.perform(pl, nil, false)
	case comStmtPrepare:
		return m.prepare(string(body))
	case comStmtExecute:
		return m.execute(body)
	case comStmtLongData:
		r := &reader{left: body}
		st := m.prepared[r.uint32()]
		if i := int(r.uint16()); r.err == nil && st != nil {
			st.long[i] = append(st.long[i], r.left...)
		}
		return r.err
	case comStmtClose:
		if len(body) >= 4 {
			delete(m.prepared, binary.LittleEndian.Uint32(body))
		}
		return nil
	}
	return fmt.Errorf("unexpected command %#x", command)
}

// lookUp finds a statement; one that is not known, or whose tables are missing, has the number of an error.
func (m *mySession) lookUp(text string) (plan, uint16) {
	pl, ok := m.server.plan(text)
	switch {
	case !ok:
		return pl, 1064
	case pl.bare(m.server.tables):
		return pl, 1146
	}
	return pl, 0
}

func (m *mySession) prepare(text string) error {
	pl, number := m.lookUp(text)
	if number != 0 {
		return m.write(errPacket(number))
	}
	m.next++
	st := &myStatement{plan: pl, params: strings.Count(pl.text, "?"), long: map[int][]byte{}}
	m.prepared[m.next] = st
	b := binary.LittleEndian.AppendUint32([]byte{0}, m.next)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(pl.columns)))
	b = binary.LittleEndian.AppendUint16(b, uint16(st.params))
	answer := [][]byte{append(b, 0, 0, 0)}
	for range st.params {
		answer = append(answer, columnPacket(column{"?", bytesKind}))
	}
	for _, c := range pl.columns {
		answer = append(answer, columnPacket(c))
	}
	return m.write(answer...)
}

func (m *mySession) execute(body []byte) error {
	r := &reader{left: body}
	st := m.prepared[r.uint32()]
	if r.take(5); r.err != nil || st == nil {
		return m.write(errPacket(1243))
	}
	args := make([]any, st.params)
	if st.params > 0 {
		null := r.take((st.params + 7) / 8)
		if r.byte() == 1 {
			st.types = append([]byte(nil), r.take(2*st.params)...)
		}
		if len(st.types) != 2*st.params {
			return errShort
		}
		for i := range args {
			if long, ok := st.long[i]; ok {
				args[i] = long
			} else if null[i/8]&(1<<(i%8)) == 0 {
				args[i] = value(r, st.types[2*i])
			}
		}
		clear(st.long)
	}
	if r.err != nil {
		return r.err
	}
	return m.perform(st.plan, args, true)
}

// value reads a value of a type that the driver sends.
func value(r *reader, typ byte) any {
	switch typ {
	case typeNull:
		return nil
	case typeLongLong:
		return int64(r.uint64())
	case typeLong:
		return int64(int32(r.uint32()))
	}
	return r.lenBytes()
}

// perform runs a statement and answers, or has the fault that hits it.
func (m *mySession) perform(pl plan, args []any, binaryRows bool) error {
	f, hit := m.server.pick(false, pl, args)
	var answer [][]byte
	if !hit || f.Commit || f.Rows > 0 || f.Code == "" && !f.Close {
		found, n := m.server.execute(pl, args, m.conn)
		answer = result(pl, found, n, binaryRows)
	}
	if f.Code != "" || f.Close { // instead of the answer, or of its end
		head := 0
		if f.Rows > 0 {
			head = 1 + len(pl.columns) + f.Rows
		}
		answer = answer[:min(head, max(0, len(answer)-1))]
	}
	if f.Code != "" {
		answer = append(answer, errPacket(number(f.Code)))
	}
	if err := m.write(answer...); err != nil || f.Close || f.Fatal {
		return errHangUp
	}
	return nil
}

// result makes the packets of an answer.
func result(pl plan, found [][]any, n int64, binaryRows bool) [][]byte {
	if len(pl.columns) == 0 {
		return [][]byte{okPacket(0, n)}
	}
	answer := [][]byte{lenInt(nil, uint64(len(pl.columns)))}
	for _, c := range pl.columns {
		answer = append(answer, columnPacket(c))
	}
	for _, row := range found {
		if binaryRows {
			answer = append(answer, binaryRow(pl, row))
		} else {
			answer = append(answer, textRow(row))
		}
	}
	return append(answer, okPacket(0xfe, 0))
}

func textRow(row []any) (b []byte) {
	for _, v := range row {
		switch v := v.(type) {
		case nil:
			b = append(b, 0xfb)
		case []byte:
			b = lenBytes(b, v)
		case bool:
			b = lenBytes(b, strconv.Itoa(int(asInt(v))))
		default:
			b = lenBytes(b, fmt.Sprint(v))
		}
	}
	return b
}

func binaryRow(pl plan, row []any) []byte {
	b := make([]byte, 1+(len(row)+9)/8)
	for i, v := range row {
		switch v := v.(type) {
		case nil:
			b[1+(i+2)/8] |= 1 << ((i + 2) % 8)
		case []byte:
			b = lenBytes(b, v)
		case string:
			b = lenBytes(b, v)
		default:
			if pl.columns[i].kind == int4Kind {
				b = binary.LittleEndian.AppendUint32(b, uint32(asInt(v)))
			} else {
				b = binary.LittleEndian.AppendUint64(b, uint64(asInt(v)))
			}
		}
	}
	return b
}

func asInt(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case bool:
		if v {
			return 1
		}
	}
	return 0
}
