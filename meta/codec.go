package meta

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headwaterdb/headwater/internal/wire"
)

// The encoding of a proposal, in docs/log-format.md byte by byte:
//
//	head     1 byte: 1 with a request, else 0
//	stamp    varint
//	request  client (16 bytes), sequence, oldest (unsigned varints); only with head 1
//	command  kind (1 byte), version (1 byte), the fields in the order of the Go type
//
// There is exactly one encoding of each proposal, and the decoder refuses every other: what decodes, encodes to the same
// bytes. So a hash of the bytes is a hash of the command.

// MaxCommandBytes is the largest encoding of a command, without stamp and request.
const MaxCommandBytes = 1 << 20

// maxHeadBytes is the most that head, stamp and request take.
const maxHeadBytes = 1 + 10 + 16 + 10 + 10

// AppendProposal appends the encoding of p to b and returns it. It refuses, with an *Error, what has no encoding: a
// command that is missing or no value of this package, an Atomic inside an Atomic, a label twice, more than
// MaxCommandBytes. It judges no other limit: see Validate. Unsorted labels are written sorted.
func AppendProposal(b []byte, p Proposal) ([]byte, error) {
	if p.Request == nil {
		b = wire.AppendVarint(append(b, 0), p.Stamp)
	} else {
		b = wire.AppendVarint(append(b, 1), p.Stamp)
		b = append(b, p.Request.Client[:]...)
		b = wire.AppendUvarint(b, p.Request.Sequence)
		b = wire.AppendUvarint(b, p.Request.Oldest)
	}
	start := len(b)
	e := encoder{b: b}
	e.command(p.Command, true)
	if e.err != nil {
		return nil, e.err
	}
	if n := len(e.b) - start; n > MaxCommandBytes {
		return nil, tooLarge("command takes %d bytes, at most %d are allowed", n, MaxCommandBytes)
	}
	return e.b, nil
}

// AppendCommand appends the encoding of a command, without stamp and request, to b and returns it. The command must have
// been decoded, or have passed AppendProposal or Validate; of any other, what is appended need not decode.
func AppendCommand(b []byte, c Command) []byte {
	e := encoder{b: b}
	e.command(c, true)
	return e.b
}

// encoder appends to b. The first thing that has no encoding becomes err; what is appended after that is of no use.
type encoder struct {
	b   []byte
	err *Error
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = invalid(format, args...)
	}
}

func (e *encoder) u(v uint64)  { e.b = wire.AppendUvarint(e.b, v) }
func (e *encoder) s(v string)  { e.b = wire.AppendString(e.b, v) }
func (e *encoder) bool(v bool) { e.b = wire.AppendBool(e.b, v) }
func (e *encoder) identity(id Identity) {
	e.u(id.NodeID)
	e.u(id.NodeEpoch)
}

// head writes kind and version: the level of the lowest encoding that can express the command. Each kind has one.
func (e *encoder) head(k Kind) { e.b = append(e.b, byte(k), encodings[k][0]) }

func (e *encoder) command(c Command, outer bool) {
	switch c := c.(type) {
	case RegisterNode, RenewNode, UnregisterNode, FenceNode:
		e.node(c)
	case CreateStream, OpenStream, CloseStream, TrimStream, LabelStream, DeleteStream, RecordTransfer, ForceCloseStream:
		e.stream(c)
	case PrepareObjects:
		e.head(KindPrepareObjects)
		e.identity(c.Identity)
		e.u(c.Count)
		e.b = wire.AppendVarint(e.b, c.Deadline)
	case CommitObjects:
		e.head(KindCommitObjects)
		e.identity(c.Identity)
		e.u(c.OnBehalfOf)
		e.objects(c.Objects)
	case CompactObjects:
		e.head(KindCompactObjects)
		e.identity(c.Identity)
		e.ids(c.Sources)
		e.objects(c.Objects)
	case ReclaimObjects:
		e.head(KindReclaimObjects)
		e.b = wire.AppendVarint(e.b, c.Time)
		e.u(c.Limit)
	case ForgetObjects:
		e.head(KindForgetObjects)
		e.ids(c.ObjectIDs)
	case PutKey, DeleteKey, CheckKey:
		e.key(c)
	case Atomic:
		if !outer {
			e.fail("an atomic stands inside an atomic")
			return
		}
		e.head(KindAtomic)
		e.u(uint64(len(c.Commands)))
		for _, inner := range c.Commands {
			e.command(inner, false)
		}
	case SetFormat:
		e.head(KindSetFormat)
		e.u(c.Level)
	default:
		e.fail("%s", unknownCommand(c))
	}
}

func (e *encoder) node(c Command) {
	e.head(c.kind())
	switch c := c.(type) {
	case RegisterNode:
		e.u(c.NodeID)
		e.u(c.Epoch)
		e.b = append(e.b, c.Instance[:]...)
		e.s(c.Address)
		e.labels(c.Labels)
		e.u(c.FormatLevel)
	case RenewNode:
		e.identity(c.Identity)
	case UnregisterNode:
		e.u(c.NodeID)
		e.u(c.Epoch)
	case FenceNode:
		e.u(c.NodeID)
		e.u(c.Epoch)
		e.u(c.Renewals)
		e.identity(c.Rescuer)
	}
}

func (e *encoder) stream(c Command) {
	e.head(c.kind())
	switch c := c.(type) {
	case CreateStream:
		e.identity(c.Identity)
		e.s(c.Name)
		e.labels(c.Labels)
	case OpenStream:
		e.identity(c.Identity)
		e.u(c.StreamID)
		e.u(c.Epoch)
	case CloseStream:
		e.identity(c.Identity)
		e.u(c.OnBehalfOf)
		e.u(c.StreamID)
		e.u(c.Epoch)
	case TrimStream:
		e.identity(c.Identity)
		e.u(c.StreamID)
		e.u(c.Epoch)
		e.u(c.StartOffset)
	case LabelStream:
		e.u(c.StreamID)
		e.labels(c.Labels)
	case DeleteStream:
		e.identity(c.Identity)
		e.u(c.StreamID)
		e.u(c.Epoch)
	case RecordTransfer:
		e.identity(c.Identity)
		e.u(c.StreamID)
		e.u(c.Epoch)
		e.u(c.ToNode)
		e.u(c.Boundary)
	case ForceCloseStream:
		e.u(c.StreamID)
		e.u(c.Epoch)
		e.bool(c.WriteOff)
		e.s(c.Reason)
	}
}

func (e *encoder) key(c Command) {
	e.head(c.kind())
	switch c := c.(type) {
	case PutKey:
		e.identity(c.Identity)
		e.s(c.Key)
		e.b = wire.AppendBytes(e.b, c.Value)
		e.bool(c.IfAbsent)
		e.u(c.IfVersion)
	case DeleteKey:
		e.identity(c.Identity)
		e.s(c.Key)
		e.u(c.IfVersion)
	case CheckKey:
		e.s(c.Key)
		e.bool(c.IfAbsent)
		e.u(c.IfVersion)
	}
}

func (e *encoder) ids(ids []uint64) {
	e.u(uint64(len(ids)))
	for _, id := range ids {
		e.u(id)
	}
}

// labels writes the labels in order of their names. They come sorted from a decoder, and mostly from callers too.
func (e *encoder) labels(labels []Label) {
	if !slices.IsSortedFunc(labels, compareLabels) {
		labels = slices.Clone(labels)
		slices.SortFunc(labels, compareLabels)
	}
	e.u(uint64(len(labels)))
	for i, l := range labels {
		if i > 0 && labels[i-1].Name == l.Name {
			e.fail("label %q stands twice", l.Name)
		}
		e.s(l.Name)
		e.s(l.Value)
	}
}

func compareLabels(a, b Label) int { return strings.Compare(a.Name, b.Name) }

// objects writes how many objects, slices and bytes of attributes follow, so that the decoder makes room for each once,
// and then the objects. The loop over the slices keeps the buffer in a local variable: it is the hottest one.
func (e *encoder) objects(objects []Object) {
	var nslices, nattrs int
	for i := range objects {
		nslices += len(objects[i].Slices)
		nattrs += len(objects[i].Attributes)
	}
	e.u(uint64(len(objects)))
	e.u(uint64(nslices))
	e.u(uint64(nattrs))
	b := e.b
	for i := range objects {
		o := &objects[i]
		b = wire.AppendUvarint(b, o.ObjectID)
		b = wire.AppendUvarint(b, o.Size)
		b = wire.AppendBytes(b, o.Attributes)
		b = wire.AppendUvarint(b, uint64(len(o.Slices)))
		for j := range o.Slices {
			b = appendSlice(b, &o.Slices[j])
		}
	}
	e.b = b
}

func appendSlice(b []byte, s *Slice) []byte {
	b = wire.AppendUvarint(b, s.StreamID)
	b = wire.AppendUvarint(b, s.StreamEpoch)
	b = wire.AppendUvarint(b, s.StartOffset)
	b = wire.AppendUvarint(b, s.EndOffset)
	b = wire.AppendUvarint(b, s.Position)
	b = wire.AppendUvarint(b, s.Length)
	return wire.AppendVarint(b, s.MaxTimestamp)
}

// unknownCommand says what is wrong with a command that is none of this package's values.
func unknownCommand(c Command) string {
	if c == nil {
		return "command is missing"
	}
	return fmt.Sprintf("%T is not a command of this package; commands are passed by value", c)
}
