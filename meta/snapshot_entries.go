package meta

import (
	"runtime"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// The functions of this file read entries; each is the mirror of an append function of digest.go, without the first
// byte. A fault makes the result worthless and is found by the caller.

// node mirrors appendNode.
func (d *snapshotReader) node() (uint64, *node) {
	id := d.entry.Uvarint()
	n := &node{epoch: d.number()}
	count := d.entry.Count(len(n.instances) + 1)
	if count > maxInstances {
		d.refuse("%d instances, at most %d are kept", count, maxInstances)
		return id, n
	}
	n.instances = make([][16]byte, count)
	for i := range n.instances {
		copy(n.instances[i][:], d.entry.Raw(len(n.instances[i])))
	}
	n.registered = d.entry.Bool()
	n.address = d.text(MaxAddressBytes)
	n.labels = d.labelList()
	n.format = d.entry.Uvarint() // no limit bounds it
	n.renewals = d.number()
	n.fenced = d.entry.Bool()
	n.rescuer = d.identity()
	n.registeredIndex = d.number()
	if id == 0 || n.registered && count == 0 {
		d.refuse("node %d with %d instances", id, count)
	}
	return id, n
}

// streams reads the streams and then their ranges, debts and losses, which it hangs into the streams' records: these
// are not published yet.
func (d *snapshotReader) streams() {
	readMap(d, entryStream, &d.s.streams, (*snapshotReader).stream)
	d.ranges()
	for id, x := range entriesOf(d, entryDebt, (*snapshotReader).debt) {
		if r := d.rareOf(id); r != nil {
			if n := len(r.debts); n == maxDebts || n > 0 && x.start < r.debts[n-1].boundary {
				d.refuse("stream %d: debt %d begins at %d", id, n, x.start)
			}
			r.debts = append(r.debts, x)
		}
	}
	for id, x := range entriesOf(d, entryLoss, (*snapshotReader).loss) {
		if r := d.rareOf(id); r != nil {
			if n := len(r.losses); n == maxLosses || n > 0 && x.start <= r.losses[n-1].end {
				d.refuse("stream %d: loss %d begins at %d", id, n, x.start)
			}
			r.losses = append(r.losses, x)
		}
	}
	if d.err != nil {
		return
	}
	for id, st := range d.s.streams.All() {
		if st.rare != nil {
			st.rare.sum = sumOfRare(id, st.rare)
		}
	}
}

// rareOf returns the rare part of a stream that is being read, made where it is missing.
func (d *snapshotReader) rareOf(id uint64) *streamRare {
	st, ok := d.s.streams.Get(id)
	if !ok {
		d.refuse("stream %d is not there", id)
		return nil
	}
	if st.rare == nil {
		st.rare = &streamRare{}
	}
	return st.rare
}

// stream mirrors appendStream, with the names instead of their hash.
func (d *snapshotReader) stream() (uint64, *stream) {
	id := d.id(d.s.nextStream)
	name := d.text(MaxNameBytes)
	s := &stream{}
	s.setNames(name, d.labelList())
	s.owner = d.identity()
	s.epoch = d.number()
	s.start, s.end = d.number(), d.number()
	s.rangeEpoch, s.rangeStart = d.number(), d.number()
	s.open = d.entry.Bool()
	reservedFor := d.entry.Uvarint()
	var sent *transfer
	if d.entry.Bool() {
		sent = &transfer{to: d.entry.Uvarint(), start: d.number(), boundary: d.number()}
	}
	if reservedFor != 0 || sent != nil {
		s.rare = &streamRare{reservedFor: reservedFor, transfer: sent}
	}
	if name == "" || s.start > s.end || s.rangeStart > s.end || s.open && (s.rangeEpoch == 0 || s.owner.NodeID == 0) {
		d.refuse("stream %d, name %q: [%d, %d), last range from %d at epoch %d, open %v by node %d",
			id, name, s.start, s.end, s.rangeStart, s.rangeEpoch, s.open, s.owner.NodeID)
	}
	return id, s
}

// ranges reads the past ranges of all streams.
func (d *snapshotReader) ranges() {
	type place struct{ stream, start uint64 }
	read := func(d *snapshotReader) (place, pastRange) {
		p := place{d.id(d.s.nextStream), d.number()}
		return p, pastRange{epoch: d.number(), node: d.entry.Uvarint(), end: d.number()}
	}
	var at place
	var r *streamRare
	edit := pmap.NewEdit()
	for p, x := range entriesOf(d, entryRange, read) {
		if p.stream < at.stream || p.stream == at.stream && p.start < at.start || p.start >= x.end {
			d.refuse("stream %d: range [%d, %d) at epoch %d", p.stream, p.start, x.end, x.epoch)
			return
		}
		if p.stream != at.stream {
			r = d.rareOf(p.stream)
		}
		if r == nil {
			return
		}
		r.ranges.Set(edit, p.start, x)
		at = place{p.stream, x.end}
	}
}

// debt mirrors appendDebt.
func (d *snapshotReader) debt() (uint64, debt) {
	id := d.id(d.s.nextStream)
	x := debt{epoch: d.number(), node: d.entry.Uvarint(), start: d.number(), boundary: d.number()}
	if x.start >= x.boundary {
		d.refuse("stream %d: debt [%d, %d)", id, x.start, x.boundary)
	}
	return id, x
}

// loss mirrors appendLoss.
func (d *snapshotReader) loss() (uint64, loss) {
	id := d.id(d.s.nextStream)
	x := loss{start: d.number(), end: d.number()}
	if x.start >= x.end {
		d.refuse("stream %d: loss [%d, %d)", id, x.start, x.end)
	}
	return id, x
}

// key mirrors appendKey.
func (d *snapshotReader) key() (string, keyRecord) {
	key := d.text(MaxKeyBytes)
	k := keyRecord{value: d.text(MaxValueBytes), version: d.number()}
	if key == "" {
		d.refuse("a key without a name")
	}
	return key, k
}

// clients reads the request memory: the clients and then their results.
func (d *snapshotReader) clients() {
	readMap(d, entryClient, &d.s.clients, (*snapshotReader).client)
	type place struct {
		client   string
		sequence uint64
	}
	read := func(d *snapshotReader) (place, *keptAnswer) {
		p := place{string(d.entry.Raw(16)), d.entry.Uvarint()}
		return p, d.kept()
	}
	var at place
	var c *client
	edit := pmap.NewEdit()
	for p, k := range entriesOf(d, entryResult, read) {
		if p.client < at.client || p.client == at.client && p.sequence <= at.sequence {
			d.refuse("client %x: sequence %d after client %x, sequence %d", p.client, p.sequence, at.client, at.sequence)
			return
		}
		if p.client != at.client {
			c, _ = d.s.clients.Get(p.client)
		}
		if c == nil || p.sequence < c.oldest {
			d.refuse("client %x does not remember sequence %d", p.client, p.sequence)
			return
		}
		c.results.Set(edit, p.sequence, k)
		at = p
	}
	if d.err != nil {
		return
	}
	for id, c := range d.s.clients.All() {
		c.sum = sumOfResults(id, c)
	}
}

// client mirrors appendClient.
func (d *snapshotReader) client() (string, *client) {
	return string(d.entry.Raw(16)), &client{oldest: d.entry.Uvarint(), seen: d.entry.Uvarint()}
}

// kept mirrors appendKept behind the sequence.
func (d *snapshotReader) kept() *keptAnswer {
	k := &keptAnswer{index: d.number(), position: d.number(), payload: d.sum()}
	k.status, k.code = Status(d.entry.Byte()), Code(d.entry.Byte())
	inner := d.number()
	k.inner = int(inner) - 1
	k.result = string(d.entry.Bytes())
	refused := k.status == Rejected
	if !refused && d.entry.Err() == nil {
		if _, err := DecodeResult([]byte(k.result)); err != nil {
			d.fail(err)
		}
	}
	if k.status < Applied || k.status > Rejected || refused != (k.code != 0) || refused && k.result != "" || k.code >= codeEnd ||
		k.index > d.s.index || k.position >= maxRowCommands || inner > MaxAtomicCommands {
		d.refuse("status %d with code %d, inner %d, of row %d, position %d", k.status, k.code, k.inner, k.index, k.position)
	}
	return k
}

// object mirrors appendObject, with the content instead of its hash.
func (d *snapshotReader) object() (uint64, *object) {
	id := d.id(d.s.nextObject)
	o := &object{state: ObjectState(d.entry.Byte()), owner: d.entry.Uvarint(), deadline: int64(d.entry.Uvarint())}
	o.committedAt, o.deletableAt = d.number(), d.number()
	o.deletableStamp = int64(d.entry.Uvarint())
	if d.entry.Bool() {
		data := d.entry.Bytes()
		if d.entry.Err() != nil {
			return id, o
		}
		c, err := decodeContent(id, data)
		if err != nil {
			d.fail(err)
			return id, o
		}
		o.content = c
	}
	switch {
	case o.state == ObjectPrepared && o.content == nil:
	case o.state == ObjectCommitted && o.content != nil:
	case o.state == ObjectDeletable:
	default:
		d.refuse("object %d in state %d, with content: %v", id, o.state, o.content != nil)
	}
	if o.state == ObjectCommitted && o.content != nil {
		if d.holders == nil {
			d.holders = map[uint64]*holder{}
		}
		d.holders[id] = &holder{object: o, content: o.content, data: o.content.data, slices: uint32(o.content.count())}
	}
	return id, o
}

// holder is a committed object as its slices are read: they come in the order of their streams, each of another object,
// and the way from the map of objects over the record and its content to the bytes would miss the caches eight times.
type holder struct {
	object  *object
	content *content
	data    []byte // of content
	slices  uint32 // how many content holds
	indexed uint32 // how many of them were read
}

// readSlice is an entry of a slice index as it was read.
type readSlice struct {
	number     uint64 // in its section
	step, gap  uint64
	object, at uint64
	holder     *holder // nil: no committed object
}

// slices reads the slice indexes of the live streams and of the deleted ones.
func (d *snapshotReader) slices() {
	edit := pmap.NewEdit()
	d.eachSlice(entrySlice, func(x *readSlice, stream uint64, r sliceRef) {
		st, live := d.s.streams.Get(stream)
		if !live {
			d.refuseAt(entrySlice, x.number, "stream %d is not there", stream)
			return
		}
		st.slices.insert(edit, r)
	})
	var last uint64
	var index sliceIndex
	d.eachSlice(sectionOrphanSlices, func(x *readSlice, stream uint64, r sliceRef) {
		if d.s.streams.Has(stream) {
			d.refuseAt(sectionOrphanSlices, x.number, "stream %d was not deleted", stream)
			return
		}
		if stream != last {
			index = sliceIndex{}
		}
		last = stream
		index.insert(edit, r)
		d.s.orphans.Set(edit, stream, index)
	})
	for _, h := range d.holders {
		h.object.unreleased = h.indexed
	}
	d.holders = nil
}

// eachSlice reads a section of slices. It looks for the holders of some of them at once, and at the bytes of these, for then
// the processor waits for all that its caches lack together.
func (d *snapshotReader) eachSlice(section byte, use func(x *readSlice, stream uint64, r sliceRef)) {
	var batch [64]readSlice
	var last sliceDelta
	for n := len(batch); n == len(batch); {
		object := last.object
		for n = 0; n < len(batch) && d.next(section); n++ {
			x := &batch[n]
			x.number, x.step, x.gap = d.counts[section], d.number(), d.number()
			object += uint64(d.entry.Varint())
			x.object, x.at = object, d.entry.Uvarint()
			if d.err != nil || d.entry.Err() != nil {
				break
			}
			x.holder = d.holders[object]
		}
		touched := byte(0)
		for _, x := range batch[:n] {
			if x.holder != nil && x.at < uint64(len(x.holder.data)) {
				touched += x.holder.data[x.at]
			}
		}
		runtime.KeepAlive(touched) // or the compiler leaves the reading out
		for i := range batch[:n] {
			stream, r, ok := d.slice(section, &batch[i], &last)
			if !ok {
				return
			}
			use(&batch[i], stream, r)
		}
	}
}

// slice judges one entry, counts it with its object and adds it to the digest.
func (d *snapshotReader) slice(section byte, x *readSlice, last *sliceDelta) (stream uint64, r sliceRef, ok bool) {
	refuse := func(format string, args ...any) (uint64, sliceRef, bool) {
		d.refuseAt(section, x.number, format, args...)
		return 0, r, false
	}
	stream = last.stream + x.step
	if x.step != 0 {
		last.end = 0
	}
	if stream == 0 || stream >= d.s.nextStream {
		return refuse("slice of stream %d, but ids were handed out up to %d only", stream, d.s.nextStream-1)
	}
	start, h := last.end+x.gap, x.holder
	if h == nil || x.at >= uint64(len(h.data)) {
		return refuse("stream %d: slice at %d in object %d, which is not committed or has no place %d", stream, start, x.object, x.at)
	}
	s, _ := unpackSlice(h.data, uint32(x.at))
	if s.StreamID != stream || start < s.StartOffset || start >= s.EndOffset || s.EndOffset >= maxNumber {
		return refuse("stream %d: slice at %d in object %d is that of stream %d at [%d, %d)", stream, start, x.object,
			s.StreamID, s.StartOffset, s.EndOffset)
	}
	if h.indexed++; h.indexed > h.slices {
		return refuse("object %d holds %d slices, but more are indexed", x.object, h.slices)
	}
	// The start takes the place of the stream's start at the time of the commit: see sliceRef.
	r = newSliceRef(h.content, uint32(x.at), s, start)
	d.buf = appendIndexed(d.buf[:0], stream, start, x.object, uint32(x.at))
	d.s.sum = d.s.sum.plus(hashOf(d.buf))
	d.s.indexed++
	*last = sliceDelta{stream: stream, end: s.EndOffset, object: x.object}
	return stream, r, d.err == nil
}
