package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// object is what the state keeps of one object. It is immutable: a change makes a new one, and all versions share
// the content.
type object struct {
	content  *content // nil until committed; then kept, as sent, until the object is forgotten
	owner    uint64   // the node that prepared it
	deadline int64    // milliseconds since 1970, of the preparation

	committedAt    uint64 // row index of the commit; 0: never committed
	deletableAt    uint64 // row index since when it is deletable; 0: it is not
	deletableStamp int64  // the stamp of the command that made it so

	unreleased uint32 // how many of its slices stand in the indexes of their streams
	state      ObjectState
}

// content is an object as its committer sent it, packed once into canonical bytes: equal content has equal bytes
// and the other way round. It is immutable and shared by all versions of the record and by the slice indexes.
//
// The bytes are: size, length of the attributes, attributes, number of slices, slices; numbers are varints. A slice
// is: stream, stream epoch, start, end - start, position, length, and the greatest timestamp in zigzag form. Each
// slice stands for itself, so that one can be read without those before it.
type content struct {
	id   uint64
	hash sum    // of data; stands for data in the digest
	data []byte // never changed
}

// packContent packs o. The result shares nothing with o. It appends to places where each slice begins.
func packContent(o *Object, places []uint32) (*content, []uint32) {
	// A slice of ordinary size takes about 20 bytes; the exact length is settled by the copy below, so that no
	// spare room stays in the state.
	var scratch [1024]byte
	buf := scratch[:0]
	buf = binary.AppendUvarint(buf, o.Size)
	buf = binary.AppendUvarint(buf, uint64(len(o.Attributes)))
	buf = append(buf, o.Attributes...)
	buf = binary.AppendUvarint(buf, uint64(len(o.Slices)))
	for i := range o.Slices {
		places = append(places, uint32(len(buf)))
		buf = appendPacked(buf, &o.Slices[i])
	}
	return newContent(o.ObjectID, append(make([]byte, 0, len(buf)), buf...)), places
}

// newContent takes canonical bytes over.
func newContent(id uint64, data []byte) *content {
	return &content{id: id, hash: hashOf(data), data: data}
}

// decodeContent checks bytes that were read from outside and copies them. Only what packContent can have made
// passes.
func decodeContent(id uint64, data []byte) (*content, error) {
	c := &content{id: id, data: data}
	at, count := c.header()
	// The shortest slice has seven bytes: a count beyond that is refused before anything is reserved for it.
	if at > len(data) || count > uint64(len(data)-at)/7 {
		return nil, fmt.Errorf("decode content of object %d: %d bytes do not hold %d slices", id, len(data), count)
	}
	o := c.object()
	packed, _ := packContent(&o, nil)
	if !bytes.Equal(packed.data, data) {
		return nil, fmt.Errorf("decode content of object %d: %d bytes are not in canonical form", id, len(data))
	}
	for _, s := range packed.all {
		if s.EndOffset <= s.StartOffset {
			return nil, fmt.Errorf("decode content of object %d: slice [%d, %d) holds nothing", id, s.StartOffset, s.EndOffset)
		}
	}
	return packed, nil
}

// appendPacked appends a slice as it stands in a content.
func appendPacked(buf []byte, s *Slice) []byte {
	buf = binary.AppendUvarint(buf, s.StreamID)
	buf = binary.AppendUvarint(buf, s.StreamEpoch)
	buf = binary.AppendUvarint(buf, s.StartOffset)
	buf = binary.AppendUvarint(buf, s.EndOffset-s.StartOffset)
	buf = binary.AppendUvarint(buf, s.Position)
	buf = binary.AppendUvarint(buf, s.Length)
	return binary.AppendVarint(buf, s.MaxTimestamp)
}

// equal reports whether both are the same object with the same content. The hash only saves the comparison where
// they differ: two contents are never taken for equal by their hashes alone.
func (c *content) equal(d *content) bool {
	return c.id == d.id && c.hash == d.hash && bytes.Equal(c.data, d.data)
}

// size returns the object's size in bytes.
func (c *content) size() uint64 {
	n, _ := binary.Uvarint(c.data)
	return n
}

// attributes returns the opaque bytes of the committer, nil where there are none. They are part of c: not to be
// changed.
func (c *content) attributes() []byte {
	_, at := uvarint(c.data, 0)
	n, at := uvarint(c.data, at)
	if n == 0 || n > uint64(len(c.data)-at) {
		return nil
	}
	end := at + int(n)
	return c.data[at:end:end]
}

// header returns where the slices begin and how many there are. Of bytes not yet checked, the place may lie behind
// the end.
func (c *content) header() (at int, count uint64) {
	_, at = uvarint(c.data, 0)
	n, at := uvarint(c.data, at)
	if n > uint64(len(c.data)-at) {
		return len(c.data) + 1, 0
	}
	count, at = uvarint(c.data, at+int(n))
	return at, count
}

// count returns the number of slices.
func (c *content) count() int {
	_, n := c.header()
	return int(n)
}

// slice reads the slice that begins at the given place in data and returns the place behind it.
func (c *content) slice(at uint32) (s Slice, next uint32) { return unpackSlice(c.data, at) }

// unpackSlice is content.slice of its data.
func unpackSlice(data []byte, at uint32) (s Slice, next uint32) {
	i := int(at)
	s.StreamID, i = uvarint(data, i)
	s.StreamEpoch, i = uvarint(data, i)
	s.StartOffset, i = uvarint(data, i)
	s.EndOffset, i = uvarint(data, i)
	s.EndOffset += s.StartOffset
	s.Position, i = uvarint(data, i)
	s.Length, i = uvarint(data, i)
	u, i := uvarint(data, i)
	s.MaxTimestamp = int64(u>>1) ^ -int64(u&1)
	return s, uint32(i)
}

// all yields every slice as sent, with the place where it begins in data.
func (c *content) all(yield func(at uint32, s Slice) bool) {
	i, n := c.header()
	at := uint32(i)
	for range n {
		s, next := c.slice(at)
		if !yield(at, s) {
			return
		}
		at = next
	}
}

// object unpacks everything. The result shares nothing with c.
func (c *content) object() Object {
	o := Object{ObjectID: c.id, Size: c.size(), Attributes: bytes.Clone(c.attributes())}
	if n := c.count(); n > 0 {
		o.Slices = make([]Slice, 0, n)
		for _, s := range c.all {
			o.Slices = append(o.Slices, s)
		}
	}
	return o
}

// uvarint reads a varint of data at i and returns the place behind it. The bytes are ours, packed or checked when
// they were decoded; behind their end it reads zero.
func uvarint(data []byte, i int) (uint64, int) {
	var v uint64
	for shift := uint(0); i < len(data); shift += 7 {
		b := data[i]
		i++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	return v, i
}
