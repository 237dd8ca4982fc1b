package meta

import (
	"fmt"
	"io"

	"github.com/headwaterdb/headwater/internal/wire"
)

// A snapshot is the whole state as bytes: a mark with a version, blocks, and an end.
//
//	mark    7 bytes "HWSTATE" and the version
//	block   section (1 byte), entries in the block, bytes in the block (varints), the entries
//	end     a block of section 255 with one entry: how many entries each section held, and the digest of the state
//
// The sections come in the order of the list below, empty ones not at all; the entries of a section come in the order
// of their keys. Most entries are in the canonical encoding that the digest hashes (digest.go); where that holds the
// hash of something large, the snapshot holds the thing itself. What can be derived is not written. A block ends with
// the first entry that reaches blockBytes, so equal states give equal bytes, and neither side ever holds more than one
// block beyond the state; but for a note of each committed object while slices are read.
//
// Reading checks order, ranges and references, computes all sums anew and compares the digest at the end.

// The versions of the snapshot format. Numbers are never reused. One line for each: what it changed.
//
//	1  2026-10  the first
const snapshotVersion = 1

const (
	snapshotMark = "HWSTATE"
	blockBytes   = 64 << 10
	// maxBlockBytes is above what any block can be: blockBytes and one entry, the largest of which is the content
	// of an object, about as large as its command.
	maxBlockBytes = blockBytes + 2*MaxCommandBytes
)

// The sections beside those that are numbered as their entries.
const (
	sectionOrphanSlices = 18  // slices of deleted streams
	sectionCluster      = 32  // counters
	sectionEnd          = 255 // counts and digest
)

// sections lists the sections in the order in which they are written.
var sections = [...]struct {
	number byte
	name   string
}{
	{sectionCluster, "cluster"},
	{entryNode, "nodes"},
	{entryStream, "streams"},
	{entryRange, "ranges"},
	{entryDebt, "debts"},
	{entryLoss, "losses"},
	{entryKey, "keys"},
	{entryClient, "clients"},
	{entryResult, "results"},
	{entryObject, "objects"},
	{entrySlice, "slices"},
	{sectionOrphanSlices, "slices of deleted streams"},
}

// Encode writes the state as a snapshot that Decode reads. Equal states give equal bytes. It may run while other
// goroutines read the state and while newer states are made. It writes in pieces of about 64 KiB and holds no more.
// The error is that of w.
func (s *State) Encode(w io.Writer) error {
	e := snapshotWriter{w: w}
	e.write(append([]byte(snapshotMark), snapshotVersion))
	e.begin(sectionCluster)
	for _, v := range [...]uint64{s.index, s.format, s.nextStream, s.nextObject} {
		e.buf = appendUint(e.buf, v)
	}
	for id, n := range s.nodes.All() {
		e.begin(entryNode)
		e.buf = appendNode(e.buf, id, n)
	}
	e.streams(s)
	for key, k := range s.keys.All() {
		e.begin(entryKey)
		e.buf = appendKey(e.buf, key, k)
	}
	for id, c := range s.clients.All() {
		e.begin(entryClient)
		e.buf = appendClient(e.buf, id, c)
	}
	for id, c := range s.clients.All() {
		for sequence, k := range c.results.All() {
			e.begin(entryResult)
			e.buf = appendKept(e.buf, id, sequence, k)
		}
	}
	e.objects(s)
	e.begin(sectionEnd)
	for _, section := range sections {
		e.buf = appendUint(e.buf, e.counts[section.number])
	}
	digest := s.Digest()
	e.buf = append(e.buf, digest[:]...)
	e.flush()
	if e.err != nil {
		return fmt.Errorf("encode snapshot of index %d: %w", s.index, e.err)
	}
	return nil
}

// streams writes the streams, and then what belongs to them, a section at a time.
func (e *snapshotWriter) streams(s *State) {
	for id, st := range s.streams.All() {
		e.begin(entryStream)
		e.buf = appendUint(append(e.buf, entryStream), id)
		e.buf = appendStreamRest(appendStreamNames(e.buf, st), st)
	}
	for id, st := range s.streams.All() {
		if st.rare == nil {
			continue
		}
		for start, r := range st.rare.ranges.All() {
			e.begin(entryRange)
			e.buf = appendRange(e.buf, id, start, r)
		}
	}
	for id, st := range s.streams.All() {
		for _, d := range st.debts() {
			e.begin(entryDebt)
			e.buf = appendDebt(e.buf, id, d)
		}
	}
	for id, st := range s.streams.All() {
		for _, l := range st.losses() {
			e.begin(entryLoss)
			e.buf = appendLoss(e.buf, id, l)
		}
	}
}

// objects writes the objects and the slice indexes.
func (e *snapshotWriter) objects(s *State) {
	for id, o := range s.objects.All() {
		e.begin(entryObject)
		e.buf = appendObjectRecord(e.buf, id, o)
		if o.content != nil {
			e.buf = wire.AppendBytes(e.buf, o.content.data)
		}
	}
	var last sliceDelta
	for id, st := range s.streams.All() {
		e.slices(entrySlice, id, st.slices, &last)
	}
	last = sliceDelta{}
	for id, x := range s.orphans.All() {
		e.slices(sectionOrphanSlices, id, x, &last)
	}
}

// sliceDelta is what the slice before left behind: neighbours are much alike, and there are more slices than all
// other entries together. An entry is: stream less the one before; start less the end of the one before, or less 0
// for the first of a stream; object less the one before, signed; place in the object's content.
type sliceDelta struct{ stream, end, object uint64 }

func (e *snapshotWriter) slices(section byte, stream uint64, x sliceIndex, last *sliceDelta) {
	cursor := x.seek(0)
	var ahead [fetchedAhead]sliceRef
	for n := 0; ; n++ {
		if n%fetchedAhead == 0 {
			fetchContents(ahead[:0], cursor, maxNumber, fetchedAhead)
		}
		r, ok := cursor.ref()
		if !ok {
			break
		}
		e.begin(section)
		e.buf = appendUint(e.buf, stream-last.stream)
		if stream != last.stream {
			last.end = 0
		}
		e.buf = appendUint(e.buf, r.start-last.end)
		e.buf = wire.AppendVarint(e.buf, int64(r.object.id-last.object))
		e.buf = appendUint(e.buf, uint64(r.at))
		*last = sliceDelta{stream: stream, end: r.end(), object: r.object.id}
		cursor.next()
	}
}

// snapshotWriter gathers entries to blocks. After the first error it writes nothing more.
type snapshotWriter struct {
	w       io.Writer
	buf     []byte // the entries of the present block
	head    []byte
	section byte
	entries uint64 // in the present block
	counts  [256]uint64
	err     error
}

// begin starts one entry, which the caller appends to buf.
func (e *snapshotWriter) begin(section byte) {
	if section != e.section || len(e.buf) >= blockBytes {
		e.flush()
		e.section = section
	}
	e.entries++
	e.counts[section]++
}

// flush writes the present block, if it holds anything.
func (e *snapshotWriter) flush() {
	if e.entries == 0 {
		return
	}
	e.head = append(e.head[:0], e.section)
	e.head = appendUint(appendUint(e.head, e.entries), uint64(len(e.buf)))
	e.write(e.head)
	e.write(e.buf)
	e.buf, e.entries = e.buf[:0], 0
}

func (e *snapshotWriter) write(b []byte) {
	if e.err == nil {
		_, e.err = e.w.Write(b)
	}
}
