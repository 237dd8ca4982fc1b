package fakedb

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// oids are PostgreSQL's numbers of the types.
var oids = map[kind]uint32{int8Kind: 20, int4Kind: 23, boolKind: 16, textKind: 25, bytesKind: 17}

// pgSession is one connection of a client that speaks PostgreSQL's protocol.
type pgSession struct {
	server  *Server
	conn    uint32
	net     net.Conn
	msgs    *pgproto3.Backend
	plans   map[string]plan   // prepared statements, by name
	portals map[string]portal // by name
	skip    bool              // what comes before the next Sync is not looked at: a message has failed
	last    *Fault            // what is to be sent at the next Sync: the commit has failed
}

// portal is a prepared statement with its values.
type portal struct {
	plan    plan
	args    []any
	formats []int16
}

// errHangUp ends a session.
var errHangUp = errors.New("the server hangs up")

func talkPostgres(s *Server, c net.Conn, number uint32) {
	p := &pgSession{server: s, conn: number, net: c, msgs: pgproto3.NewBackend(c, c), plans: map[string]plan{}, portals: map[string]portal{}}
	if p.greet() != nil {
		return
	}
	for {
		msg, err := p.msgs.Receive()
		if err != nil || p.handle(msg) != nil {
			_ = p.msgs.Flush() // what was said before hanging up
			return
		}
	}
}

// greet lets the client in.
func (p *pgSession) greet() error {
	for {
		msg, err := p.msgs.ReceiveStartupMessage()
		if err != nil {
			return err
		}
		switch msg.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := p.net.Write([]byte("N")); err != nil {
				return err
			}
		case *pgproto3.CancelRequest:
			p.server.mu.Lock()
			p.server.cancels++
			p.server.mu.Unlock()
			return errHangUp
		default:
			if f, hit := p.server.pick(true, plan{}, nil); hit {
				p.refuse(f.Code, true)
				_ = p.msgs.Flush()
				return errHangUp
			}
			p.msgs.Send(&pgproto3.AuthenticationOk{})
			for name, value := range map[string]string{"server_version": p.server.version, "client_encoding": "UTF8", "standard_conforming_strings": "on"} {
				p.msgs.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
			}
			p.msgs.Send(&pgproto3.BackendKeyData{ProcessID: p.conn, SecretKey: []byte{1, 2, 3, 4}})
			p.msgs.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			return p.msgs.Flush()
		}
	}
}

// refuse sends an error.
func (p *pgSession) refuse(code string, fatal bool) {
	severity := "ERROR"
	if fatal {
		severity = "FATAL"
	}
	p.msgs.Send(&pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: "as the script says"})
}

func (p *pgSession) handle(msg pgproto3.FrontendMessage) error {
	if _, ok := msg.(*pgproto3.Sync); !ok && p.skip {
		return nil
	}
	switch m := msg.(type) {
	case *pgproto3.Query:
		return p.query(m.String)
	case *pgproto3.Parse:
		if pl, ok := p.lookUp(m.Query); ok {
			p.plans[m.Name] = pl
			p.msgs.Send(&pgproto3.ParseComplete{})
		}
	case *pgproto3.Describe:
		p.describe(m)
	case *pgproto3.Bind:
		p.bind(m)
	case *pgproto3.Execute:
		return p.perform(p.portals[m.Portal])
	case *pgproto3.Sync:
		return p.sync()
	case *pgproto3.Close:
		p.msgs.Send(&pgproto3.CloseComplete{})
	case *pgproto3.Flush:
		return p.msgs.Flush()
	case *pgproto3.Terminate:
		return errHangUp
	default:
		return fmt.Errorf("unexpected message %T", msg)
	}
	return nil
}

// lookUp finds a statement; one that is not known, or whose tables are missing, is refused.
func (p *pgSession) lookUp(text string) (plan, bool) {
	if p.server.refuses(text) {
		p.refuse("0A000", false)
		p.skip = true
		return plan{}, false
	}
	pl, ok := p.server.plan(text)
	switch {
	case !ok:
		p.refuse("42601", false)
	case pl.bare(p.server.tables):
		p.refuse("42P01", false)
		ok = false
	}
	p.skip = !ok
	return pl, ok
}

// query runs a text without values. Several statements in one are known as one.
func (p *pgSession) query(text string) error {
	if clean := normalize(text); clean == "" || clean == ";" || strings.HasPrefix(clean, "--") {
		p.msgs.Send(&pgproto3.EmptyQueryResponse{})
	} else if pl, ok := p.lookUp(text); ok {
		if len(pl.columns) > 0 {
			p.msgs.Send(rowDescription(pl, nil))
		}
		if err := p.perform(portal{plan: pl}); err != nil {
			return err
		}
	}
	return p.sync()
}

func (p *pgSession) sync() error {
	if f := p.last; f != nil {
		p.refuse(f.Code, f.Fatal)
		if f.Fatal || f.Close {
			return errHangUp
		}
	}
	p.skip, p.last = false, nil
	p.msgs.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return p.msgs.Flush()
}

func (p *pgSession) describe(m *pgproto3.Describe) {
	var pl plan
	var formats []int16
	if m.ObjectType == 'S' {
		pl = p.plans[m.Name]
		d := &pgproto3.ParameterDescription{}
		for _, k := range pl.params {
			d.ParameterOIDs = append(d.ParameterOIDs, oids[k])
		}
		// The statement may take fewer values than there are on the whole.
		d.ParameterOIDs = d.ParameterOIDs[:min(len(d.ParameterOIDs), highest(pl.text))]
		p.msgs.Send(d)
	} else {
		pl, formats = p.portals[m.Name].plan, p.portals[m.Name].formats
	}
	if len(pl.columns) == 0 {
		p.msgs.Send(&pgproto3.NoData{})
		return
	}
	p.msgs.Send(rowDescription(pl, formats))
}

// highest is the highest number of a placeholder.
func highest(text string) int {
	n := 0
	for strings.Contains(text, "$"+strconv.Itoa(n+1)) {
		n++
	}
	return n
}

func rowDescription(pl plan, formats []int16) *pgproto3.RowDescription {
	d := &pgproto3.RowDescription{}
	for i, c := range pl.columns {
		d.Fields = append(d.Fields, pgproto3.FieldDescription{Name: []byte(c.name), DataTypeOID: oids[c.kind], DataTypeSize: -1,
			TypeModifier: -1, Format: formatOf(formats, i)})
	}
	return d
}

// formatOf reads a list of formats, which may hold none, one for all, or one each. 1 is binary.
func formatOf(formats []int16, i int) int16 {
	switch {
	case len(formats) == 0:
		return 0
	case len(formats) == 1:
		return formats[0]
	}
	return formats[i]
}

func (p *pgSession) bind(m *pgproto3.Bind) {
	pl := p.plans[m.PreparedStatement]
	po := portal{plan: pl, formats: append([]int16(nil), m.ResultFormatCodes...)}
	for i, raw := range m.Parameters {
		k := textKind
		if i < len(pl.params) {
			k = pl.params[i]
		}
		v, err := decodePostgres(k, formatOf(m.ParameterFormatCodes, i) == 1, raw)
		if err != nil {
			p.refuse("22P03", false)
			p.skip = true
			return
		}
		po.args = append(po.args, v)
	}
	p.portals[m.DestinationPortal] = po
	p.msgs.Send(&pgproto3.BindComplete{})
}

// perform runs a statement and answers, or has the fault that hits it.
func (p *pgSession) perform(po portal) error {
	f, hit := p.server.pick(false, po.plan, po.args)
	if !hit || f.Commit || f.Code == "" && !f.Close {
		found, n := p.server.execute(po.plan, po.args, p.conn)
		if f.Code == "" && !f.Close || f.AtCommit {
			p.answer(po, found, n)
		}
	} else if f.AtCommit {
		p.answer(po, nil, 1)
	}
	if f.Rows > 0 {
		found, _ := p.server.execute(po.plan, po.args, p.conn)
		p.rows(po, found[:min(f.Rows, len(found))])
	}
	if f.Warn != "" {
		p.msgs.Send(&pgproto3.NoticeResponse{Severity: "WARNING", SeverityUnlocalized: "WARNING", Code: f.Warn, Message: "as the script says"})
	}
	switch {
	case f.AtCommit:
		p.last = &f
	case f.Code != "":
		p.refuse(f.Code, f.Fatal)
		p.skip = true
		if f.Fatal || f.Close {
			return errHangUp
		}
	case f.Close:
		return errHangUp
	}
	return nil
}

func (p *pgSession) rows(po portal, found [][]any) {
	for _, row := range found {
		d := &pgproto3.DataRow{}
		for i, v := range row {
			d.Values = append(d.Values, encodePostgres(po.plan.columns[i].kind, formatOf(po.formats, i) == 1, v))
		}
		p.msgs.Send(d)
	}
}

func (p *pgSession) answer(po portal, found [][]any, n int64) {
	p.rows(po, found)
	tag := po.plan.tag
	switch {
	case len(po.plan.columns) > 0:
		tag = fmt.Sprintf("SELECT %d", len(found))
	case strings.HasSuffix(tag, " "):
		tag += strconv.FormatInt(n, 10)
	}
	p.msgs.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
}

// decodePostgres reads a value that a client sent.
func decodePostgres(k kind, binaryFormat bool, raw []byte) (any, error) {
	switch {
	case raw == nil:
		return nil, nil
	case k == textKind:
		return string(raw), nil
	case k == bytesKind && binaryFormat:
		return append([]byte{}, raw...), nil
	case k == bytesKind:
		digits, ok := strings.CutPrefix(string(raw), `\x`)
		if !ok {
			return nil, errors.New("bytes that are not in hexadecimal form")
		}
		return hex.DecodeString(digits)
	case !binaryFormat:
		return strconv.ParseInt(string(raw), 10, 64)
	case len(raw) == 8:
		return int64(binary.BigEndian.Uint64(raw)), nil
	case len(raw) == 4:
		return int64(int32(binary.BigEndian.Uint32(raw))), nil
	}
	return nil, fmt.Errorf("a number of %d bytes", len(raw))
}

// encodePostgres writes a value for a client.
func encodePostgres(k kind, binaryFormat bool, v any) []byte {
	switch v := v.(type) {
	case int64:
		switch {
		case !binaryFormat:
			return strconv.AppendInt(nil, v, 10)
		case k == int4Kind:
			return binary.BigEndian.AppendUint32(nil, uint32(v))
		}
		return binary.BigEndian.AppendUint64(nil, uint64(v))
	case bool:
		switch {
		case binaryFormat && v:
			return []byte{1}
		case binaryFormat:
			return []byte{0}
		case v:
			return []byte("t")
		}
		return []byte("f")
	case string:
		return []byte(v)
	case []byte:
		if k == bytesKind && !binaryFormat {
			return hex.AppendEncode([]byte(`\x`), v)
		}
		return append([]byte{}, v...)
	}
	return nil // NULL
}
