package replica

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/headwaterdb/headwater/internal/wire"
	"github.com/headwaterdb/headwater/oplog"
)

// Snapshot is a decoded snapshot.
type Snapshot[S any] struct {
	Index   oplog.Index // the last row that it stands for
	Genesis Genesis     // the history it belongs to
	Row     uint64      // the checksum of that row
	Digest  Digest      // of State: as the header says, and as the machine computed it while decoding
	State   S
	Size    int64 // bytes as stored
}

// snapWindow bounds what the compressor remembers, and so the memory that reading a snapshot takes besides the state.
const snapWindow = 1 << 20

// encodeSnapshot writes the snapshot of the view v to w.
func encodeSnapshot[S, R any](w io.Writer, m *Machine[S, R], g Genesis, v *View[S]) (err error) {
	index, state := v.Index, v.State
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("encode the state at index %d: panic: %v", index, p)
		}
	}()
	sum := xxh3.New()
	both := io.MultiWriter(w, sum)
	digest := m.Digest(state)
	h := append([]byte{}, envelopeVersion, kindSnapshot)
	h = wire.AppendUvarint(h, uint64(index))
	h = wire.AppendUint64(h, g.Incarnation)
	h = append(h, g.ClusterID[:]...)
	h = wire.AppendUvarint(h, g.Format)
	h = wire.AppendUint64(h, v.row)
	h = append(h, digest[:]...)
	if _, err := both.Write(seal(h, 0)); err != nil {
		return err
	}
	z, err := zstd.NewWriter(both, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(snapWindow),
		zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return err
	}
	body := bufio.NewWriterSize(z, 64<<10)
	if err := m.Encode(state, body); err != nil {
		return fmt.Errorf("encode the state at index %d: %w", index, err)
	}
	if err := errors.Join(body.Flush(), z.Close()); err != nil {
		return err
	}
	_, err = w.Write(wire.AppendUint64(nil, sum.Sum64()))
	return err
}

// decodeSnapshot reads a snapshot to its end and checks all of it: checksums, format, and that the digest computed
// from the decoded state is the one that its writer kept while applying.
func decodeSnapshot[S, R any](r io.Reader, m *Machine[S, R]) (snap *Snapshot[S], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w snapshot: panic: %v", ErrUndecodable, p)
		}
		if err != nil {
			snap = nil
		}
	}()
	src := newSumReader(r)
	snap, err = decodeSnapshotHeader[S](src)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	body := bufio.NewReaderSize(z, 64<<10)
	if snap.State, err = m.Decode(body); err != nil {
		return nil, src.blame(snap.Index, err)
	}
	if n, err := io.Copy(io.Discard, body); err != nil || n > 0 {
		return nil, src.blame(snap.Index, errors.Join(err, extra(n)))
	}
	if err := src.finish(); err != nil {
		return nil, src.blame(snap.Index, err)
	}
	if got := m.Digest(snap.State); got != snap.Digest {
		return nil, fmt.Errorf("%w snapshot at index %d: the decoded state has digest %s, its writer had %s",
			ErrUndecodable, snap.Index, got, snap.Digest)
	}
	snap.Size = src.size
	return snap, nil
}

func extra(n int64) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d bytes too many", n)
}

// decodeSnapshotHeader reads the header and checks its own checksum first, so that what it says of sizes and formats
// can be believed before the body is touched.
func decodeSnapshotHeader[S any](src *sumReader) (*Snapshot[S], error) {
	bad := func(err error) error { return fmt.Errorf("%w snapshot: header: %w", ErrUndecodable, err) }
	head := make([]byte, 0, 96)
	one := make([]byte, 1)
	read := func(n int) error {
		from := len(head)
		head = append(head, make([]byte, n)...)
		_, err := io.ReadFull(src, head[from:])
		return err
	}
	varint := func() (uint64, error) {
		from := len(head)
		for {
			if _, err := io.ReadFull(src, one); err != nil {
				return 0, err
			}
			head = append(head, one[0])
			if one[0] < 0x80 || len(head)-from > binary.MaxVarintLen64 {
				v, n := binary.Uvarint(head[from:])
				if n <= 0 {
					return 0, errors.New("a number is above 64 bits")
				}
				return v, nil
			}
		}
	}
	if err := read(2); err != nil {
		return nil, src.blame(0, err)
	}
	if head[1] == kindSnapshot && head[0] > envelopeVersion {
		return nil, formatError("the snapshot", uint64(head[0]))
	}
	_, err := varint() // index
	if err == nil {
		err = read(8 + 16) // incarnation, cluster id
	}
	if err == nil {
		_, err = varint() // format
	}
	if err == nil {
		err = read(8 + 16 + sumSize) // row, digest, checksum
	}
	if err != nil {
		return nil, src.blame(0, err)
	}
	body, _, err := unseal(head, kindSnapshot)
	if err != nil {
		return nil, bad(err)
	}
	s := &Snapshot[S]{}
	c := wire.NewReader(body)
	s.Index = oplog.Index(c.Uvarint())
	s.Genesis.Incarnation = c.Uint64()
	copy(s.Genesis.ClusterID[:], c.Raw(len(s.Genesis.ClusterID)))
	s.Genesis.Format = c.Uvarint()
	s.Row = c.Uint64()
	copy(s.Digest[:], c.Raw(len(s.Digest)))
	if err := c.Done(); err != nil {
		return nil, bad(err)
	}
	if s.Genesis.Format > Format {
		return nil, formatError("the snapshot", s.Genesis.Format)
	}
	return s, nil
}

// sumReader passes on a stream without its last 8 bytes, and keeps the checksum of what it passed on.
type sumReader struct {
	r    *bufio.Reader
	sum  *xxh3.Hasher
	size int64
	err  error // of the stream beneath, if it was not its end
}

const sumBuffer = 64 << 10

func newSumReader(r io.Reader) *sumReader {
	return &sumReader{r: bufio.NewReaderSize(r, sumBuffer), sum: xxh3.New()}
}

func (s *sumReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := s.r.Peek(min(len(p), sumBuffer-sumSize) + sumSize)
	if n := len(b) - sumSize; n > 0 {
		copy(p, b[:n])
		s.sum.Write(b[:n])
		s.size += int64(n)
		s.r.Discard(n)
		return n, nil
	}
	switch {
	case err != io.EOF:
		s.err = err
	case len(b) < sumSize:
		err = io.ErrUnexpectedEOF
	}
	return 0, err
}

// finish checks the checksum at the end of the stream; everything before it must have been read.
func (s *sumReader) finish() error {
	if n, err := io.Copy(io.Discard, s); err != nil || n > 0 {
		return errors.Join(err, extra(n))
	}
	var tail [sumSize]byte
	if _, err := io.ReadFull(s.r, tail[:]); err != nil {
		return err
	}
	s.size += sumSize
	if stored, got := binary.BigEndian.Uint64(tail[:]), s.sum.Sum64(); stored != got {
		return fmt.Errorf("checksum %016x over the content, %016x stored", got, stored)
	}
	return nil
}

// blame says whose fault err is: the database's, if it could not deliver the bytes, else that of the bytes.
func (s *sumReader) blame(index oplog.Index, err error) error {
	if s.err != nil {
		return s.err
	}
	return fmt.Errorf("%w snapshot at index %d: %w", ErrUndecodable, index, err)
}

// partReader reads the parts of a stored snapshot as one stream.
type partReader struct {
	ctx   context.Context // for the calls that Read makes; lives as long as the one load
	r     oplog.SnapshotReader
	next  int
	rest  []byte
	guest *guest // nil: nobody to make way for
}

func (p *partReader) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.next >= p.r.Info().Parts {
			return 0, io.EOF
		}
		if p.guest != nil && p.next > 0 && !p.guest.rest(0) {
			return 0, p.ctx.Err()
		}
		part, err := p.r.ReadPart(p.ctx, p.next)
		if err != nil {
			return 0, fmt.Errorf("read part %d of the snapshot: %w", p.next, err)
		}
		p.next++
		p.rest = part
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// maxReplaced is how many times in a row a snapshot may be replaced while it is read before that counts as a failure
// of this attempt. Each time the next one is newer, so the reader does get on.
const maxReplaced = 8

// LoadSnapshot reads and decodes the stored snapshot of log, and begins again when a newer one replaces it meanwhile.
// oplog.ErrNoSnapshot where there is none; ErrUndecodable or ErrFormat where this program cannot read it.
func LoadSnapshot[S, R any](ctx context.Context, log oplog.Log, m Machine[S, R]) (*Snapshot[S], error) {
	for tries := 1; ; tries++ {
		snap, err := loadSnapshot(ctx, log, &m)
		if err == nil || !errors.Is(err, oplog.ErrReplaced) || tries == maxReplaced {
			return snap, err
		}
	}
}

func loadSnapshot[S, R any](ctx context.Context, log oplog.Log, m *Machine[S, R]) (*Snapshot[S], error) {
	r, err := log.OpenSnapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the snapshot: %w", err)
	}
	defer r.Close()
	snap, err := decodeSnapshot(&partReader{ctx: ctx, r: r}, m)
	if err != nil {
		return nil, err
	}
	if at := r.Info().Index; at != snap.Index {
		return nil, fmt.Errorf("%w snapshot at index %d: it says that it stands at index %d", ErrUndecodable, at, snap.Index)
	}
	return snap, nil
}
