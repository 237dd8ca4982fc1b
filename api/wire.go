package api

import (
	"bytes"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// Propose is the call that costs most, so its messages are read and written here without the generated ones in between:
// the commands and answers that make up nearly all of a stream store's load field by field, all else by way of the
// generated code. A reader here takes what a writer writes and leaves everything unusual to the generated one: a field it
// does not know, one that comes twice or out of order, text that is not UTF-8. So there is one meaning, and tests hold
// both against each other.

// MaxCommands is the most commands of one call of Propose.
const MaxCommands = 1000

// Numbers of fields, as in headwater.proto.
const (
	fieldCommands      protowire.Number = 1 // ProposeRequest
	fieldRequest       protowire.Number = 1 // Command
	fieldStamp         protowire.Number = 2
	fieldCommitObjects protowire.Number = 23 // Command and Result
	fieldPutKey        protowire.Number = 27
	fieldObjects       protowire.Number = 3 // CommitObjects
	fieldSlices        protowire.Number = 4 // Object
	fieldAnswers       protowire.Number = 1 // ProposeResponse
	fieldAt            protowire.Number = 2
	fieldResult        protowire.Number = 6 // Answer
)

// longestHead is the most bytes that stand before a message: a tag of these fields, and a length.
const longestHead = 2 + 5

// EncodedCommand is a pb.Command in binary form. It shares nothing with the proposal that it was made of.
type EncodedCommand struct {
	bytes   []byte
	request int // so many of the bytes are the request
}

// EncodeCommand returns p, as FromProposal returns it, in binary form. It fails where a text is not UTF-8.
func EncodeCommand(p meta.Proposal) (EncodedCommand, error) {
	switch k := p.Command.(type) {
	case meta.PutKey:
		if !utf8.ValidString(k.Key) {
			break
		}
		n := sizePutKey(&k)
		c := beginCommand(p, n)
		c.bytes = appendPutKey(appendHead(c.bytes, fieldPutKey, n), &k)
		return c, nil
	case meta.CommitObjects:
		n := sizeCommitObjects(&k)
		c := beginCommand(p, n)
		c.bytes = appendCommitObjects(appendHead(c.bytes, fieldCommitObjects, n), &k)
		return c, nil
	}
	rest, err := proto.Marshal(fromCommand(p.Command))
	if err != nil {
		return EncodedCommand{}, err
	}
	c := beginCommand(p, len(rest))
	c.bytes = append(c.bytes, rest...)
	return c, nil
}

// Len returns how many bytes the command takes in a request.
func (c EncodedCommand) Len() int {
	return sizeMessage(fieldCommands, len(c.bytes))
}

// Renumber gives the command another request.
func (c *EncodedCommand) Renumber(r meta.Request) {
	rest := c.bytes[c.request:]
	c.bytes = appendRequest(nil, &r)
	c.request = len(c.bytes)
	c.bytes = append(c.bytes, rest...)
}

// beginCommand makes room for a command, of which the message of its kind has size bytes, and begins it.
func beginCommand(p meta.Proposal, size int) EncodedCommand {
	room := size + longestHead + sizeUint(fieldStamp, uint64(p.Stamp))
	if p.Request != nil {
		room += longestHead + sizeRequest(p.Request)
	}
	b := appendRequest(make([]byte, 0, room), p.Request)
	return EncodedCommand{bytes: appendUint(b, fieldStamp, uint64(p.Stamp)), request: len(b)}
}

// appendHead appends what stands before a message of size bytes.
func appendHead(b []byte, field protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(size))
}

func sizeMessage(field protowire.Number, size int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(size)
}

// appendUint appends a number; 0 is left out.
func appendUint(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func sizeUint(field protowire.Number, v uint64) int {
	if v == 0 {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeVarint(v)
}

// appendBytes appends bytes or a text; none are left out.
func appendBytes[T string | []byte](b []byte, field protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}
	return append(appendHead(b, field, len(v)), v...)
}

func sizeBytes(field protowire.Number, n int) int {
	if n == 0 {
		return 0
	}
	return sizeMessage(field, n)
}

func sizeRequest(r *meta.Request) int {
	if r == nil {
		return 0
	}
	return sizeBytes(1, len(r.Client)) + sizeUint(2, r.Sequence) + sizeUint(3, r.Oldest)
}

func appendRequest(b []byte, r *meta.Request) []byte {
	if r == nil {
		return b
	}
	b = appendHead(b, fieldRequest, sizeRequest(r))
	return appendUint(appendUint(appendBytes(b, 1, r.Client[:]), 2, r.Sequence), 3, r.Oldest)
}

func sizeIdentity(i *meta.Identity) int {
	if *i == (meta.Identity{}) {
		return 0
	}
	return sizeMessage(1, sizeUint(1, i.NodeID)+sizeUint(2, i.NodeEpoch))
}

// appendIdentity appends field 1 of every message that has an identity; none is left out.
func appendIdentity(b []byte, i *meta.Identity) []byte {
	if *i == (meta.Identity{}) {
		return b
	}
	b = appendHead(b, 1, sizeUint(1, i.NodeID)+sizeUint(2, i.NodeEpoch))
	return appendUint(appendUint(b, 1, i.NodeID), 2, i.NodeEpoch)
}

func oneIf(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

func sizePutKey(k *meta.PutKey) int {
	return sizeIdentity(&k.Identity) + sizeBytes(2, len(k.Key)) + sizeBytes(3, len(k.Value)) + sizeUint(4, oneIf(k.IfAbsent)) +
		sizeUint(5, k.IfVersion)
}

func appendPutKey(b []byte, k *meta.PutKey) []byte {
	b = appendBytes(appendBytes(appendIdentity(b, &k.Identity), 2, k.Key), 3, k.Value)
	return appendUint(appendUint(b, 4, oneIf(k.IfAbsent)), 5, k.IfVersion)
}

func sizeCommitObjects(c *meta.CommitObjects) int {
	n := sizeIdentity(&c.Identity) + sizeUint(2, c.OnBehalfOf)
	for i := range c.Objects {
		n += sizeMessage(fieldObjects, sizeObject(&c.Objects[i]))
	}
	return n
}

func appendCommitObjects(b []byte, c *meta.CommitObjects) []byte {
	b = appendUint(appendIdentity(b, &c.Identity), 2, c.OnBehalfOf)
	for i := range c.Objects {
		b = appendObject(appendHead(b, fieldObjects, sizeObject(&c.Objects[i])), &c.Objects[i])
	}
	return b
}

func sizeObject(o *meta.Object) int {
	n := sizeUint(1, o.ObjectID) + sizeUint(2, o.Size) + sizeBytes(3, len(o.Attributes))
	for i := range o.Slices {
		n += sizeMessage(fieldSlices, sizeSlice(&o.Slices[i]))
	}
	return n
}

func appendObject(b []byte, o *meta.Object) []byte {
	b = appendBytes(appendUint(appendUint(b, 1, o.ObjectID), 2, o.Size), 3, o.Attributes)
	for i := range o.Slices {
		b = appendSlice(appendHead(b, fieldSlices, sizeSlice(&o.Slices[i])), &o.Slices[i])
	}
	return b
}

// sliceFields are the fields of a slice, from 1 on.
func sliceFields(s *meta.Slice) [7]uint64 {
	return [...]uint64{s.StreamID, s.StreamEpoch, s.StartOffset, s.EndOffset, s.Position, s.Length, uint64(s.MaxTimestamp)}
}

func sizeSlice(s *meta.Slice) (n int) {
	for i, v := range sliceFields(s) {
		n += sizeUint(protowire.Number(i+1), v)
	}
	return n
}

func appendSlice(b []byte, s *meta.Slice) []byte {
	for i, v := range sliceFields(s) {
		b = appendUint(b, protowire.Number(i+1), v)
	}
	return b
}

// fields goes through the fields of a message. It ends early, with unusual set, at one that a writer here would not have
// written there: of a type that is neither a number nor bytes, or with a lower number than the one before.
type fields struct {
	rest    []byte
	number  protowire.Number
	varint  uint64 // the value of a number
	bytes   []byte // the value otherwise
	isBytes bool
	unusual bool
}

// next moves on to the next field and reports whether there is one.
func (f *fields) next() bool {
	if len(f.rest) == 0 || f.unusual {
		return false
	}
	number, kind, n := protowire.ConsumeTag(f.rest)
	if n < 0 || number < f.number {
		f.unusual = true
		return false
	}
	f.number, f.rest, f.isBytes = number, f.rest[n:], kind == protowire.BytesType
	switch kind {
	case protowire.VarintType:
		f.varint, n = protowire.ConsumeVarint(f.rest)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(f.rest)
	default:
		n = -1
	}
	if n < 0 {
		f.unusual = true
		return false
	}
	f.rest = f.rest[n:]
	return true
}

// once moves on to the next field, which must have a higher number than the one before.
func (f *fields) once() bool {
	before := f.number
	if !f.next() {
		return false
	}
	f.unusual = f.number == before
	return !f.unusual
}

// is reports whether the field is this one, with bytes or with a number.
func (f *fields) is(number protowire.Number, isBytes bool) bool {
	return f.number == number && f.isBytes == isBytes
}

// readRequest reads a request. Like all of its kind it reports whether there was nothing unusual.
func readRequest(b []byte, r *meta.Request) bool {
	f := fields{rest: b}
	for f.once() {
		switch {
		case f.is(1, true) && len(f.bytes) == len(r.Client):
			copy(r.Client[:], f.bytes)
		case f.is(2, false):
			r.Sequence = f.varint
		case f.is(3, false):
			r.Oldest = f.varint
		default:
			return false
		}
	}
	return !f.unusual
}

func readIdentity(b []byte, i *meta.Identity) bool {
	f := fields{rest: b}
	for f.once() {
		switch {
		case f.is(1, false):
			i.NodeID = f.varint
		case f.is(2, false):
			i.NodeEpoch = f.varint
		default:
			return false
		}
	}
	return !f.unusual
}

// clone copies bytes as the generated code does: no bytes are nil.
func clone(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

func readPutKey(b []byte) (k meta.PutKey, usual bool) {
	f := fields{rest: b}
	for f.once() {
		switch {
		case f.is(1, true):
			f.unusual = !readIdentity(f.bytes, &k.Identity)
		case f.is(2, true) && utf8.Valid(f.bytes):
			k.Key = string(f.bytes)
		case f.is(3, true):
			k.Value = clone(f.bytes)
		case f.is(4, false):
			k.IfAbsent = f.varint != 0
		case f.is(5, false):
			k.IfVersion = f.varint
		default:
			return k, false
		}
	}
	return k, !f.unusual
}

func readCommitObjects(b []byte) (c meta.CommitObjects, usual bool) {
	objects, slices := countCommit(b)
	if objects > 0 {
		c.Objects = make([]meta.Object, 0, objects)
	}
	room := make([]meta.Slice, 0, slices) // of all objects
	f := fields{rest: b}
	for f.next() {
		switch {
		case f.is(1, true) && c.Identity == meta.Identity{}:
			f.unusual = !readIdentity(f.bytes, &c.Identity)
		case f.is(2, false) && c.OnBehalfOf == 0:
			c.OnBehalfOf = f.varint
		case f.is(fieldObjects, true):
			var o meta.Object
			if room, usual = readObject(f.bytes, &o, room); !usual {
				return c, false
			}
			c.Objects = append(c.Objects, o)
		default:
			return c, false
		}
	}
	return c, !f.unusual
}

// countCommit counts the objects of a commit and their slices.
func countCommit(b []byte) (objects, slices int) {
	for f := (fields{rest: b}); f.next(); {
		if !f.is(fieldObjects, true) {
			continue
		}
		objects++
		for o := (fields{rest: f.bytes}); o.next(); {
			if o.is(fieldSlices, true) {
				slices++
			}
		}
	}
	return objects, slices
}

// readObject reads an object, whose slices go into room.
func readObject(b []byte, o *meta.Object, room []meta.Slice) (_ []meta.Slice, usual bool) {
	start := len(room)
	f := fields{rest: b}
	for f.next() {
		switch {
		case f.is(1, false) && o.ObjectID == 0:
			o.ObjectID = f.varint
		case f.is(2, false) && o.Size == 0:
			o.Size = f.varint
		case f.is(3, true) && o.Attributes == nil:
			o.Attributes = clone(f.bytes)
		case f.is(fieldSlices, true):
			var s meta.Slice
			if !readSlice(f.bytes, &s) {
				return room, false
			}
			room = append(room, s)
		default:
			return room, false
		}
	}
	if len(room) > start {
		o.Slices = room[start:len(room):len(room)]
	}
	return room, !f.unusual
}

func readSlice(b []byte, s *meta.Slice) bool {
	f := fields{rest: b}
	for f.once() {
		if f.isBytes {
			return false
		}
		switch f.number {
		case 1:
			s.StreamID = f.varint
		case 2:
			s.StreamEpoch = f.varint
		case 3:
			s.StartOffset = f.varint
		case 4:
			s.EndOffset = f.varint
		case 5:
			s.Position = f.varint
		case 6:
			s.Length = f.varint
		case 7:
			s.MaxTimestamp = int64(f.varint)
		default:
			return false
		}
	}
	return !f.unusual
}

// Proposed is what a client proposes: a proposal, or why its message stands for none (see ToProposal).
type Proposed struct {
	Proposal meta.Proposal
	Err      error
}

// readCommand reads a command. It shares nothing with b.
func readCommand(b []byte) (Proposed, error) {
	if p, usual := readUsual(b); usual {
		return Proposed{Proposal: p}, nil
	}
	var m pb.Command
	if err := proto.Unmarshal(b, &m); err != nil {
		return Proposed{}, err
	}
	p, err := ToProposal(&m)
	return Proposed{Proposal: p, Err: err}, nil
}

// readUsual reads one of the commands that are known here.
func readUsual(b []byte) (p meta.Proposal, usual bool) {
	f := fields{rest: b}
	for f.once() {
		switch {
		case f.is(fieldRequest, true):
			p.Request = new(meta.Request)
			f.unusual = !readRequest(f.bytes, p.Request)
		case f.is(fieldStamp, false):
			p.Stamp = int64(f.varint)
		case f.is(fieldPutKey, true) && p.Command == nil:
			p.Command, usual = box(readPutKey(f.bytes))
			f.unusual = !usual
		case f.is(fieldCommitObjects, true) && p.Command == nil:
			p.Command, usual = box(readCommitObjects(f.bytes))
			f.unusual = !usual
		default:
			return p, false
		}
	}
	return p, !f.unusual && p.Command != nil
}

func box[C meta.Command](c C, usual bool) (meta.Command, bool) { return c, usual }
