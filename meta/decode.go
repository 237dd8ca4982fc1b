package meta

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/headwaterdb/headwater/internal/wire"
)

// The least bytes that one element of a list takes, by which counts are checked before room is made.
const (
	minLabelBytes   = 2 // two empty strings
	minObjectBytes  = 4
	minSliceBytes   = 7
	minCommandBytes = 3 // kind, version and at least one field
)

// DecodeProposal decodes what AppendProposal wrote. It takes nothing else: bytes left over, values in another form than
// the encoder's and commands above MaxCommandBytes are refused, a command from a later format level with a
// *FormatError. It judges no rule and no other limit. What it allocates is in proportion to len(b), whatever the bytes
// are. The proposal shares no memory with b; slices in it may share memory with each other and may not be appended to
// in place.
func DecodeProposal(b []byte) (Proposal, error) {
	p, err := borrowProposal(b, new(Request))
	if err == nil {
		p.Command = ownValues(p.Command)
	}
	return p, err
}

// ownValues returns c with copies of the values that borrowProposal has left where they are.
func ownValues(c Command) Command {
	switch c := c.(type) {
	case PutKey:
		c.Value = bytes.Clone(c.Value)
		return c
	case Atomic:
		for i := range c.Commands {
			c.Commands[i] = ownValues(c.Commands[i])
		}
	}
	return c
}

// borrowProposal is DecodeProposal, but the values of keys share memory with b, and a request is put into room.
func borrowProposal(b []byte, room *Request) (Proposal, error) {
	if len(b) > MaxCommandBytes+maxHeadBytes {
		return Proposal{}, fmt.Errorf("decode proposal: %d bytes, at most %d are allowed", len(b),
			MaxCommandBytes+maxHeadBytes)
	}
	r := wire.NewReader(b)
	var p Proposal
	head := r.Byte()
	if head > 1 {
		r.Fail(fmt.Errorf("no proposal begins with byte %d", head))
	}
	p.Stamp = r.Varint()
	if head == 1 {
		p.Request = room
		copy(p.Request.Client[:], r.Raw(len(p.Request.Client)))
		p.Request.Sequence = r.Uvarint()
		p.Request.Oldest = r.Uvarint()
	}
	start := r.Offset()
	p.Command = decodeCommand(&r, true)
	if n := r.Offset() - start; n > MaxCommandBytes {
		r.Fail(fmt.Errorf("command takes %d bytes, at most %d are allowed", n, MaxCommandBytes))
	}
	if err := r.Done(); err != nil {
		return Proposal{}, fmt.Errorf("decode proposal: %w", err)
	}
	return p, nil
}

// decodeCommand reads one command; what it returns after a fault of r is of no use. Only the outer one may be Atomic, so
// the depth is bounded.
func decodeCommand(r *wire.Reader, outer bool) Command {
	k := Kind(r.Byte())
	version := r.Byte()
	if r.Err() != nil {
		return nil
	}
	if err := checkEncoding(k, version); err != nil {
		r.Fail(err)
		return nil
	}
	switch {
	case k <= KindFenceNode:
		return decodeNode(r, k)
	case k <= KindForceCloseStream:
		return decodeStream(r, k)
	case k <= KindForgetObjects:
		return decodeObject(r, k)
	case k <= KindCheckKey:
		return decodeKey(r, k)
	case k == KindSetFormat:
		return SetFormat{Level: r.Uvarint()}
	case !outer:
		r.Fail(errors.New("an atomic stands inside an atomic"))
		return nil
	}
	n := r.Count(minCommandBytes)
	a := Atomic{}
	if n > 0 {
		a.Commands = make([]Command, 0, n)
	}
	for i := 0; i < n && r.Err() == nil; i++ {
		a.Commands = append(a.Commands, decodeCommand(r, false))
	}
	return a
}

func decodeIdentity(r *wire.Reader) Identity {
	return Identity{NodeID: r.Uvarint(), NodeEpoch: r.Uvarint()}
}

func decodeNode(r *wire.Reader, k Kind) Command {
	switch k {
	case KindRegisterNode:
		c := RegisterNode{NodeID: r.Uvarint(), Epoch: r.Uvarint()}
		copy(c.Instance[:], r.Raw(len(c.Instance)))
		c.Address = r.String()
		c.Labels = decodeLabels(r)
		c.FormatLevel = r.Uvarint()
		return c
	case KindRenewNode:
		return RenewNode{Identity: decodeIdentity(r)}
	case KindUnregisterNode:
		return UnregisterNode{NodeID: r.Uvarint(), Epoch: r.Uvarint()}
	default:
		return FenceNode{NodeID: r.Uvarint(), Epoch: r.Uvarint(), Renewals: r.Uvarint(), Rescuer: decodeIdentity(r)}
	}
}

func decodeStream(r *wire.Reader, k Kind) Command {
	switch k {
	case KindCreateStream:
		return CreateStream{Identity: decodeIdentity(r), Name: r.String(), Labels: decodeLabels(r)}
	case KindOpenStream:
		return OpenStream{Identity: decodeIdentity(r), StreamID: r.Uvarint(), Epoch: r.Uvarint()}
	case KindCloseStream:
		return CloseStream{Identity: decodeIdentity(r), OnBehalfOf: r.Uvarint(), StreamID: r.Uvarint(),
			Epoch: r.Uvarint()}
	case KindTrimStream:
		return TrimStream{Identity: decodeIdentity(r), StreamID: r.Uvarint(), Epoch: r.Uvarint(),
			StartOffset: r.Uvarint()}
	case KindLabelStream:
		return LabelStream{StreamID: r.Uvarint(), Labels: decodeLabels(r)}
	case KindDeleteStream:
		return DeleteStream{Identity: decodeIdentity(r), StreamID: r.Uvarint(), Epoch: r.Uvarint()}
	case KindRecordTransfer:
		return RecordTransfer{Identity: decodeIdentity(r), StreamID: r.Uvarint(), Epoch: r.Uvarint(),
			ToNode: r.Uvarint(), Boundary: r.Uvarint()}
	default:
		return ForceCloseStream{StreamID: r.Uvarint(), Epoch: r.Uvarint(), WriteOff: r.Bool(), Reason: r.String()}
	}
}

func decodeObject(r *wire.Reader, k Kind) Command {
	switch k {
	case KindPrepareObjects:
		return PrepareObjects{Identity: decodeIdentity(r), Count: r.Uvarint(), Deadline: r.Varint()}
	case KindCommitObjects:
		return CommitObjects{Identity: decodeIdentity(r), OnBehalfOf: r.Uvarint(), Objects: decodeObjects(r)}
	case KindCompactObjects:
		return CompactObjects{Identity: decodeIdentity(r), Sources: decodeIDs(r), Objects: decodeObjects(r)}
	case KindReclaimObjects:
		return ReclaimObjects{Time: r.Varint(), Limit: r.Uvarint()}
	default:
		return ForgetObjects{ObjectIDs: decodeIDs(r)}
	}
}

func decodeKey(r *wire.Reader, k Kind) Command {
	switch k {
	case KindPutKey:
		c := PutKey{Identity: decodeIdentity(r), Key: r.String()}
		if v := r.Bytes(); len(v) > 0 {
			c.Value = v // borrowed
		}
		c.IfAbsent = r.Bool()
		c.IfVersion = r.Uvarint()
		return c
	case KindDeleteKey:
		return DeleteKey{Identity: decodeIdentity(r), Key: r.String(), IfVersion: r.Uvarint()}
	default:
		return CheckKey{Key: r.String(), IfAbsent: r.Bool(), IfVersion: r.Uvarint()}
	}
}

func decodeIDs(r *wire.Reader) []uint64 {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = r.Uvarint()
	}
	return ids
}

func decodeLabels(r *wire.Reader) []Label {
	n := r.Count(minLabelBytes)
	if n == 0 {
		return nil
	}
	labels := make([]Label, n)
	for i := range labels {
		labels[i] = Label{Name: r.String(), Value: r.String()}
		if i > 0 && r.Err() == nil && labels[i-1].Name >= labels[i].Name {
			r.Fail(fmt.Errorf("%w: label %.40q after %.40q", wire.ErrForm, labels[i].Name, labels[i-1].Name))
		}
		if r.Err() != nil {
			return nil
		}
	}
	return labels
}

// decodeObjects makes room three times, for all objects, for all their slices and for all their attributes; the counts
// that it relies on stand before the objects and have to be true.
func decodeObjects(r *wire.Reader) []Object {
	n := r.Count(minObjectBytes)
	nslices := r.Count(minSliceBytes)
	nattrs := r.Count(1)
	if n*minObjectBytes+nslices*minSliceBytes+nattrs > r.Len() {
		r.Fail(fmt.Errorf("%w: objects, slices and attributes need more", wire.ErrShort))
	}
	if r.Err() != nil {
		return nil
	}
	var objects []Object
	if n > 0 {
		objects = make([]Object, n)
	}
	all := make([]Slice, nslices)
	attrs := make([]byte, 0, nattrs)
	for i := range objects {
		o := &objects[i]
		o.ObjectID = r.Uvarint()
		o.Size = r.Uvarint()
		a := r.Bytes()
		count := r.Count(minSliceBytes)
		if count > len(all) || len(a) > nattrs-len(attrs) {
			r.Fail(fmt.Errorf("%w: more slices or attributes than were counted", wire.ErrForm))
		}
		if r.Err() != nil {
			return nil
		}
		if len(a) > 0 {
			attrs = append(attrs, a...)
			o.Attributes = attrs[len(attrs)-len(a) : len(attrs) : len(attrs)]
		}
		if count > 0 {
			o.Slices, all = all[:count:count], all[count:]
			decodeSlices(r, o.Slices)
		}
	}
	if len(all) > 0 || len(attrs) < nattrs {
		r.Fail(fmt.Errorf("%w: fewer slices or attributes than were counted", wire.ErrForm))
	}
	return objects
}

func decodeSlices(r *wire.Reader, into []Slice) {
	for i := range into {
		s := &into[i]
		s.StreamID = r.Uvarint()
		s.StreamEpoch = r.Uvarint()
		s.StartOffset = r.Uvarint()
		s.EndOffset = r.Uvarint()
		s.Position = r.Uvarint()
		s.Length = r.Uvarint()
		s.MaxTimestamp = r.Varint()
	}
}
