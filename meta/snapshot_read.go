package meta

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/headwaterdb/headwater/internal/pmap"
	"github.com/headwaterdb/headwater/internal/wire"
)

// VersionError says that a snapshot is of a format version that this program does not read.
type VersionError struct {
	Version uint64 // of the snapshot
	Known   uint64 // the highest that this program knows
}

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("snapshot has version %d, this program reads versions up to %d", e.Version, e.Known)
}

// Decode reads a snapshot that Encode wrote, to its end: bytes behind it are an error. Whatever the bytes are, it
// does not panic, and what it allocates is in proportion to what it has read. A *VersionError says that the snapshot
// is of another version; every other error says which entry is wrong and how, or that r failed.
func Decode(r io.Reader) (*State, error) {
	s := &State{window: defaultWindow}
	d := snapshotReader{r: bufio.NewReaderSize(r, blockBytes), s: s, labels: map[string]string{}}
	if err := d.state(); err != nil {
		return nil, fmt.Errorf("decode snapshot: %w", err)
	}
	return s, nil
}

// state reads everything.
func (d *snapshotReader) state() error {
	if err := d.mark(); err != nil {
		return err
	}
	d.cluster()
	readMap(d, entryNode, &d.s.nodes, (*snapshotReader).node)
	d.streams()
	readMap(d, entryKey, &d.s.keys, (*snapshotReader).key)
	d.clients()
	readMap(d, entryObject, &d.s.objects, (*snapshotReader).object)
	d.slices()
	d.end()
	return d.err
}

// mark reads the mark and judges the version.
func (d *snapshotReader) mark() error {
	var mark [len(snapshotMark) + 1]byte
	if _, err := io.ReadFull(d.r, mark[:]); err != nil {
		return fmt.Errorf("read the mark: %w", noEOF(err))
	}
	if string(mark[:len(snapshotMark)]) != snapshotMark {
		return fmt.Errorf("these bytes are no snapshot: they begin with %q", mark)
	}
	if version := mark[len(snapshotMark)]; version != snapshotVersion {
		return &VersionError{Version: uint64(version), Known: snapshotVersion}
	}
	return nil
}

// snapshotReader reads entry by entry. Its first error sticks, and then there are no more entries.
type snapshotReader struct {
	r       *bufio.Reader
	block   []byte
	entry   wire.Reader // of the present block
	section byte        // of the present block
	left    uint64      // entries of the present block that were not read yet
	counts  [256]uint64
	err     error

	s       *State
	holders map[uint64]*holder // the committed objects, until the slices have been read
	buf     []byte
	labels  map[string]string // names and values of labels seen, so that equal ones share their memory
}

// next goes to the next entry of a section, and reports false where the section ends.
func (d *snapshotReader) next(section byte) bool {
	if d.err == nil && d.entry.Err() != nil {
		d.fail(d.entry.Err())
	}
	if d.err == nil && d.left == 0 {
		d.nextBlock()
	}
	if d.err != nil || d.section != section {
		return false
	}
	d.left--
	d.counts[section]++
	return true
}

// nextBlock reads a block, unless the present one has not been begun.
func (d *snapshotReader) nextBlock() {
	if err := d.entry.Done(); err != nil {
		d.fail(err)
		return
	}
	section, err := d.r.ReadByte()
	if err != nil {
		d.fail(fmt.Errorf("read the next block: %w", noEOF(err)))
		return
	}
	entries, err := d.uvarint()
	if err != nil {
		d.fail(err)
		return
	}
	size, err := d.uvarint()
	if err != nil {
		d.fail(err)
		return
	}
	if size > maxBlockBytes || entries > size || entries == 0 {
		d.fail(fmt.Errorf("a block of %d bytes and %d entries cannot be", size, entries))
		return
	}
	if uint64(cap(d.block)) < size {
		d.block = make([]byte, size)
	}
	d.block = d.block[:size]
	if _, err := io.ReadFull(d.r, d.block); err != nil {
		d.fail(fmt.Errorf("read a block: %w", noEOF(err)))
		return
	}
	d.section, d.left, d.entry = section, entries, wire.NewReader(d.block)
}

// uvarint reads a number outside blocks, in its shortest form.
func (d *snapshotReader) uvarint() (uint64, error) {
	v, err := binary.ReadUvarint(d.r)
	if err != nil {
		return 0, fmt.Errorf("read the head of a block: %w", noEOF(err))
	}
	return v, nil
}

// fail keeps the first error and says where it was.
func (d *snapshotReader) fail(err error) { d.failAt(d.section, d.counts[d.section], err) }

func (d *snapshotReader) failAt(section byte, entry uint64, err error) {
	if d.err == nil {
		d.err = fmt.Errorf("%s, entry %d: %w", sectionName(section), entry, err)
	}
}

// refuseAt is refuse about an entry that was read before the present one.
func (d *snapshotReader) refuseAt(section byte, entry uint64, format string, args ...any) {
	d.failAt(section, entry, fmt.Errorf(format, args...))
}

// refuse is fail with a sentence about an entry that is well formed and yet cannot be. Where it is not even well
// formed, that is the error.
func (d *snapshotReader) refuse(format string, args ...any) {
	if err := d.entry.Err(); err != nil {
		d.fail(err)
		return
	}
	d.fail(fmt.Errorf(format, args...))
}

func sectionName(number byte) string {
	for _, s := range sections {
		if s.number == number {
			return s.name
		}
	}
	return fmt.Sprintf("section %d", number)
}

// noEOF makes a plain end of the input the error that it is here.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// entriesOf yields the entries of a section that one function reads.
func entriesOf[K, V any](d *snapshotReader, section byte, read func(*snapshotReader) (K, V)) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for d.next(section) {
			if got := d.entry.Byte(); got != section {
				d.refuse("the entry begins with %d instead of %d", got, section)
			}
			k, v := read(d)
			if d.err != nil || d.entry.Err() != nil || !yield(k, v) {
				break
			}
		}
		if d.err == nil && d.entry.Err() != nil {
			d.fail(d.entry.Err())
		}
	}
}

// readMap reads a section whose entries stand in m.
func readMap[K string | uint64, V any](d *snapshotReader, section byte, m *pmap.Map[K, V], read func(*snapshotReader) (K, V)) {
	built, err := pmap.FromSorted(entriesOf(d, section, read))
	if err != nil {
		d.fail(err)
	}
	*m = built
}

// number reads a number that must be below 2^63.
func (d *snapshotReader) number() uint64 {
	v := d.entry.Uvarint()
	if v >= maxNumber {
		d.refuse("the number %d is above 2^63-1", v)
	}
	return v
}

// id reads the id of something that was handed out: 1 to below next.
func (d *snapshotReader) id(next uint64) uint64 {
	id := d.entry.Uvarint()
	if id == 0 || id >= next {
		d.refuse("id %d, but ids were handed out up to %d only", id, next-1)
	}
	return id
}

// text reads a string of limited length.
func (d *snapshotReader) text(limit int) string {
	b := d.entry.Bytes()
	if len(b) > limit {
		d.refuse("a text of %d bytes, at most %d are allowed", len(b), limit)
		return ""
	}
	return string(b)
}

// label reads a name or value of a label; equal ones share their memory.
func (d *snapshotReader) label() string {
	b := d.entry.Bytes()
	if s, ok := d.labels[string(b)]; ok {
		return s
	}
	if len(b) > MaxLabelBytes {
		d.refuse("a label of %d bytes, at most %d are allowed", len(b), MaxLabelBytes)
		return ""
	}
	const enough = 1 << 16 // distinct texts that are worth to be remembered
	s := string(b)
	if len(d.labels) < enough {
		d.labels[s] = s
	}
	return s
}

func (d *snapshotReader) labelList() []Label {
	n := d.entry.Count(2)
	if n > MaxLabels {
		d.refuse("%d labels, at most %d are allowed", n, MaxLabels)
		return nil
	}
	if n == 0 {
		return nil
	}
	labels := make([]Label, n)
	for i := range labels {
		labels[i] = Label{Name: d.label(), Value: d.label()}
		if i > 0 && labels[i-1].Name >= labels[i].Name {
			d.refuse("label %q after label %q", labels[i].Name, labels[i-1].Name)
			return nil
		}
	}
	return labels
}

func (d *snapshotReader) identity() Identity {
	return Identity{NodeID: d.entry.Uvarint(), NodeEpoch: d.number()}
}

func (d *snapshotReader) sum() sum { return sum{d.entry.Uint64(), d.entry.Uint64()} }

// cluster reads the counters.
func (d *snapshotReader) cluster() {
	if !d.next(sectionCluster) {
		d.refuse("the first block is not that of the cluster")
		return
	}
	s := d.s
	s.index, s.format, s.nextStream, s.nextObject = d.number(), d.number(), d.number(), d.number()
	if s.index >= maxIndex || s.format == 0 || s.nextStream == 0 || s.nextObject == 0 {
		d.refuse("index %d, format level %d, next stream %d, next object %d", s.index, s.format, s.nextStream, s.nextObject)
	}
	if d.next(sectionCluster) {
		d.refuse("a second entry")
	}
}

// end reads the last block, derives what was not written and compares counts and digest.
func (d *snapshotReader) end() {
	if !d.next(sectionEnd) {
		d.refuse("this section does not belong here")
		return
	}
	for _, section := range sections {
		if n := d.entry.Uvarint(); n != d.counts[section.number] {
			d.refuse("%d entries of %s were written, %d are here", n, section.name, d.counts[section.number])
		}
	}
	var want [16]byte
	copy(want[:], d.entry.Raw(len(want)))
	if err := d.entry.Done(); err != nil {
		d.fail(err)
	}
	if d.left != 0 {
		d.refuse("a second entry")
	}
	if d.err != nil {
		return
	}
	if _, err := d.r.ReadByte(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("there are bytes behind it")
		}
		d.fail(err)
		return
	}
	if err := d.s.derive(); err != nil {
		d.err = err
		return
	}
	if got := d.s.Digest(); got != want {
		d.err = &digestError{got: got, want: want}
	}
}

// digestError says that all of a snapshot was read, and yet it is not what was written.
type digestError struct{ got, want [16]byte }

func (e *digestError) Error() string {
	return fmt.Sprintf("the entries have the digest %x, but %x was written", e.got, e.want)
}
