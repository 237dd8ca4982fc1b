package api

import (
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// ProposeRequest is a pb.ProposeRequest as a client sends it.
type ProposeRequest struct{ Commands []EncodedCommand }

// ReceivedRequest is a pb.ProposeRequest as a server reads it.
type ReceivedRequest struct {
	Count    int        // of the commands
	Commands []Proposed // none where there are more than MaxCommands
}

// ProposeResponse is a pb.ProposeResponse at both ends.
type ProposeResponse struct {
	Answers []meta.Answer // as ToAnswer returns them
	At      *pb.At        // may be nil
}

// Codec returns a codec of the gRPC library for the messages above, which leaves all others to the one given.
func Codec(others encoding.CodecV2) encoding.CodecV2 { return codec{others} }

type codec struct{ encoding.CodecV2 }

type writer interface {
	// size is about how many bytes append appends.
	size() int
	append(b []byte) ([]byte, error)
}

// reader keeps nothing of b.
type reader interface{ read(b []byte) error }

// Marshal is encoding.CodecV2's.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(writer)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := m.size()
	if mem.IsBelowBufferPoolingThreshold(size) {
		b, err := m.append(make([]byte, 0, size))
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	pool := mem.DefaultBufferPool()
	room := pool.Get(size)
	b, err := m.append((*room)[:0])
	if err != nil || cap(b) > cap(*room) { // it took more
		pool.Put(room)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	*room = b
	return mem.BufferSlice{mem.NewBuffer(room, pool)}, nil
}

// Unmarshal is encoding.CodecV2's.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(reader)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return m.read(b.ReadOnlyData())
}

func (r *ProposeRequest) size() (n int) {
	for _, c := range r.Commands {
		n += c.Len()
	}
	return n
}

func (r *ProposeRequest) append(b []byte) ([]byte, error) {
	for _, c := range r.Commands {
		b = append(appendHead(b, fieldCommands, len(c.bytes)), c.bytes...)
	}
	return b, nil
}

func (r *ReceivedRequest) read(b []byte) error {
	*r = ReceivedRequest{}
	f := fields{rest: b}
	for ; f.next(); r.Count++ {
		if !f.is(fieldCommands, true) {
			return r.readAny(b)
		}
	}
	if f.unusual {
		return r.readAny(b)
	}
	if r.Count > MaxCommands {
		return nil
	}
	r.Commands = make([]Proposed, r.Count)
	f = fields{rest: b}
	for i := range r.Commands {
		f.next()
		var err error
		if r.Commands[i], err = readCommand(f.bytes); err != nil {
			return err
		}
	}
	return nil
}

func (r *ReceivedRequest) readAny(b []byte) error {
	var m pb.ProposeRequest
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	*r = *Received(m.Commands)
	return nil
}

// Received translates the commands of a message.
func Received(commands []*pb.Command) *ReceivedRequest {
	r := &ReceivedRequest{Count: len(commands)}
	if r.Count > MaxCommands {
		return r
	}
	r.Commands = make([]Proposed, r.Count)
	for i, m := range commands {
		r.Commands[i].Proposal, r.Commands[i].Err = ToProposal(m)
	}
	return r
}

// Sizes of the common answer and of an At, about.
const (
	answerSize = 40
	atSize     = 40
)

func (r *ProposeResponse) size() int { return len(r.Answers)*answerSize + atSize }

func (r *ProposeResponse) append(b []byte) (_ []byte, err error) {
	for i := range r.Answers {
		if b, err = appendAnswer(b, &r.Answers[i]); err != nil {
			return nil, err
		}
	}
	if r.At == nil {
		return b, nil
	}
	b = appendHead(b, fieldAt, proto.Size(r.At))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, r.At)
}

// resultOf returns the field of a result that is known here and the number in it; usual where it is one of these, or none.
func resultOf(res meta.Result) (field protowire.Number, value uint64, usual bool) {
	switch res := res.(type) {
	case nil, meta.NoResult:
		return 0, 0, true
	case meta.PutKeyResult:
		return fieldPutKey, res.Version, true
	case meta.CommitObjectsResult:
		return fieldCommitObjects, res.DroppedSlices, true
	}
	return 0, 0, false
}

func appendAnswer(b []byte, a *meta.Answer) ([]byte, error) {
	status := fromStatus(a.Status)
	field, value, usual := resultOf(a.Result)
	if a.Err != nil || !usual || status == pb.Answer_STATUS_UNSPECIFIED {
		m, err := proto.Marshal(FromAnswer(*a))
		return append(appendHead(b, fieldAnswers, len(m)), m...), err
	}
	position, firstPosition := uint64(uint32(a.Position)), uint64(uint32(a.FirstPosition))
	size, result := sizeUint(1, uint64(status))+sizeUint(2, a.Index)+sizeUint(3, position)+sizeUint(4, a.FirstIndex)+
		sizeUint(5, firstPosition), 0
	if field != 0 {
		result = sizeMessage(field, sizeUint(1, value))
		size += sizeMessage(fieldResult, result)
	}
	b = appendUint(appendUint(appendHead(b, fieldAnswers, size), 1, uint64(status)), 2, a.Index)
	b = appendUint(appendUint(appendUint(b, 3, position), 4, a.FirstIndex), 5, firstPosition)
	if field != 0 {
		b = appendHead(appendHead(b, fieldResult, result), field, sizeUint(1, value))
		b = appendUint(b, 1, value)
	}
	return b, nil
}

func (r *ProposeResponse) read(b []byte) error {
	*r = ProposeResponse{}
	n := 0
	for f := (fields{rest: b}); f.next() && f.is(fieldAnswers, true); {
		n++
	}
	if n > 0 {
		r.Answers = make([]meta.Answer, n)
	}
	f := fields{rest: b}
	for i := 0; f.next(); {
		switch {
		case f.is(fieldAnswers, true):
			if err := readAnswer(f.bytes, &r.Answers[i]); err != nil {
				return err
			}
			i++
		case f.is(fieldAt, true) && r.At == nil:
			if r.At = new(pb.At); !readAt(f.bytes, r.At) {
				return r.readAny(b)
			}
		default:
			return r.readAny(b)
		}
	}
	if f.unusual {
		return r.readAny(b)
	}
	return nil
}

func (r *ProposeResponse) readAny(b []byte) error {
	var m pb.ProposeResponse
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	r.Answers, r.At = Each(m.Answers, ToAnswer), m.At
	return nil
}

func readAnswer(b []byte, a *meta.Answer) error {
	if readUsualAnswer(b, a) {
		return nil
	}
	var m pb.Answer
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	*a = ToAnswer(&m)
	return nil
}

func readUsualAnswer(b []byte, a *meta.Answer) bool {
	f := fields{rest: b}
	for f.once() {
		switch {
		case f.is(1, false) && (f.varint == uint64(pb.Answer_APPLIED) || f.varint == uint64(pb.Answer_REDUNDANT)):
			a.Status = toStatus(pb.Answer_Status(f.varint))
		case f.is(2, false):
			a.Index = f.varint
		case f.is(3, false):
			a.Position = int(uint32(f.varint))
		case f.is(4, false):
			a.FirstIndex = f.varint
		case f.is(5, false):
			a.FirstPosition = int(uint32(f.varint))
		case f.is(fieldResult, true):
			var usual bool
			a.Result, usual = readUsualResult(f.bytes)
			f.unusual = !usual
		default:
			return false
		}
	}
	return !f.unusual && a.Status != 0
}

func readUsualResult(b []byte) (meta.Result, bool) {
	outer := fields{rest: b}
	if !outer.once() || !outer.isBytes || len(outer.rest) > 0 {
		return nil, false
	}
	inner := fields{rest: outer.bytes}
	for inner.once() {
		if !inner.is(1, false) {
			return nil, false
		}
	}
	switch {
	case inner.unusual:
		return nil, false
	case outer.number == fieldPutKey:
		return meta.PutKeyResult{Version: inner.varint}, true
	case outer.number == fieldCommitObjects:
		return meta.CommitObjectsResult{DroppedSlices: inner.varint}, true
	}
	return nil, false
}

func readAt(b []byte, m *pb.At) bool {
	f := fields{rest: b}
	for f.once() {
		switch {
		case f.is(1, false):
			m.Index = f.varint
		case f.is(2, true) && utf8.Valid(f.bytes):
			m.Incarnation = string(f.bytes)
		case f.is(3, false):
			m.AgeMs = f.varint
		default:
			return false
		}
	}
	return !f.unusual
}
