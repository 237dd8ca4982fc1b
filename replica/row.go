package replica

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"

	"github.com/zeebo/xxh3"

	"github.com/headwaterdb/headwater/internal/wire"
	"github.com/headwaterdb/headwater/oplog"
)

// The envelopes. Everything that the engine stores starts with the version of its envelope and a letter for its
// kind, and ends with a 64-bit xxh3 over all bytes before it. Numbers are unsigned varints where nothing else is said, and
// numbers of 8 bytes have the highest byte first; a varint longer than needed, or bytes after the checksum, make an
// envelope invalid, so that one content has one encoding.
//
// Each row names the one before it, and a snapshot its last one, by checksum: the rows of a history are a chain, and a
// row of another history does not fit into it. What a row ends with is its oplog.Mark.
//
//	genesis (row 0)  version 'G'  cluster id [16]  incarnation [8]  format  checksum [8]
//	row              version 'R'  own index  incarnation [8]  checksum of the row before [8]  writer token [16]  batch
//	                 index seen  digest seen [16]  number of commands  (length, bytes)…  checksum [8]
//	snapshot         version 'S'  index  incarnation [8]  cluster id [16]  format  checksum of the row at index [8]
//	                 digest [16]  checksum [8]
//	                 body (a zstd stream of what Machine.Encode wrote)  checksum [8] over everything before it
const (
	envelopeVersion = 1
	kindGenesis     = 'G'
	kindRow         = 'R'
	kindSnapshot    = 'S'
	sumSize         = 8

	// rowOverhead is the most that an envelope adds to its commands, besides commandOverhead for each of them.
	rowOverhead     = 2 + 10 + 8 + 8 + 16 + 10 + 10 + 16 + 2 + sumSize
	commandOverhead = 4 // the length of a command below 8 MiB
)

// Format is the newest format of rows and snapshots that this program reads, and the one that Init writes.
const Format = 1

const (
	// MaxRowCommands is the most commands that a row holds.
	MaxRowCommands = 256
	// MaxRowBytes is the size above which a payload is no row, in bytes.
	MaxRowBytes = 8 << 20
)

// ErrUndecodable is wrapped by every error that says that stored bytes are not what they should be.
var ErrUndecodable = errors.New("undecodable")

// Token names one opened replica: random bytes drawn at Open, so that a writer knows its own rows when it reads them.
type Token [16]byte

// String returns the token in hex.
func (t Token) String() string { return hex.EncodeToString(t[:]) }

// String returns the id in hex.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// String returns the digest in hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// RowInfo is a decoded row.
type RowInfo struct {
	Index       oplog.Index // where the row says that it stands
	Incarnation uint64      // the history it belongs to
	Previous    uint64      // the checksum of the row before it
	Writer      Token       // who appended it
	Batch       uint64      // the writer's number for what it appended, rising; never used for two contents
	Seen        oplog.Index // the index of the state that the writer had applied, below Index
	SeenDigest  Digest      // and the digest of that state
	Commands    [][]byte    // 1 to MaxRowCommands; they share memory with the payload
	Checksum    uint64      // over all of the above
}

// rowID is what no two rows have in common. Batches are numbered from 1.
type rowID struct {
	writer Token
	batch  uint64
}

func (r *RowInfo) id() rowID { return rowID{r.Writer, r.Batch} }

// inspectRow says why what stands at index at cannot be decoded, nil where it can, and which row it says that it is: zero
// where not even that can be read.
func inspectRow(at oplog.Index, payload []byte) (rowID, error) {
	if at == 0 {
		_, err := DecodeGenesis(payload)
		return rowID{}, err
	}
	r, err := DecodeRow(at, payload)
	if err == nil || len(payload) < 2 {
		return r.id(), err
	}
	c := wire.NewReader(payload[2:])
	c.Uvarint()
	c.Uint64()
	c.Uint64()
	copy(r.Writer[:], c.Raw(len(r.Writer)))
	r.Batch = c.Uvarint()
	if c.Err() != nil {
		return rowID{}, err
	}
	return r.id(), err
}

// AppendRow appends the encoding of r to b; r.Checksum is computed, not read. It does not check the limits.
func AppendRow(b []byte, r *RowInfo) []byte {
	start := len(b)
	b = append(b, envelopeVersion, kindRow)
	b = wire.AppendUvarint(b, uint64(r.Index))
	b = wire.AppendUint64(b, r.Incarnation)
	b = wire.AppendUint64(b, r.Previous)
	b = append(b, r.Writer[:]...)
	b = wire.AppendUvarint(b, r.Batch)
	b = wire.AppendUvarint(b, uint64(r.Seen))
	b = append(b, r.SeenDigest[:]...)
	b = wire.AppendUvarint(b, uint64(len(r.Commands)))
	for _, c := range r.Commands {
		b = wire.AppendBytes(b, c)
	}
	return seal(b, start)
}

// DecodeRow decodes the row that was found at index at, and checks everything that can be checked without knowing
// the cluster: version, kind, checksum, limits, and that the row says at too. The caller compares Incarnation. Every
// error wraps ErrUndecodable. The commands share memory with payload.
func DecodeRow(at oplog.Index, payload []byte) (RowInfo, error) {
	r, err := decodeRow(payload)
	if err == nil && r.Index != at {
		err = fmt.Errorf("it says that it is row %d", r.Index)
	}
	if err != nil {
		return RowInfo{}, fmt.Errorf("%w row at index %d: %w", ErrUndecodable, at, err)
	}
	return r, nil
}

func decodeRow(payload []byte) (RowInfo, error) {
	var r RowInfo
	if len(payload) > MaxRowBytes {
		return r, fmt.Errorf("%d bytes, allowed are %d", len(payload), MaxRowBytes)
	}
	body, sum, err := unseal(payload, kindRow)
	if err != nil {
		return r, err
	}
	c := wire.NewReader(body)
	r.Checksum = sum
	r.Index = oplog.Index(c.Uvarint())
	r.Incarnation = c.Uint64()
	r.Previous = c.Uint64()
	copy(r.Writer[:], c.Raw(len(r.Writer)))
	r.Batch = c.Uvarint()
	r.Seen = oplog.Index(c.Uvarint())
	copy(r.SeenDigest[:], c.Raw(len(r.SeenDigest)))
	n := c.Uvarint()
	if c.Err() == nil && (n == 0 || n > MaxRowCommands) {
		return r, fmt.Errorf("%d commands, allowed are 1 to %d", n, MaxRowCommands)
	}
	if c.Err() == nil {
		r.Commands = make([][]byte, n)
		for i := range r.Commands {
			r.Commands[i] = c.Bytes()
		}
	}
	if err := c.Done(); err != nil {
		return r, err
	}
	if r.Index > oplog.MaxIndex {
		return r, fmt.Errorf("its index %d is above %d", r.Index, oplog.MaxIndex)
	}
	if r.Seen >= r.Index {
		return r, fmt.Errorf("its writer claims to have seen row %d before it wrote row %d", r.Seen, r.Index)
	}
	return r, nil
}

// mark is what a row with that checksum ends with.
func mark(checksum uint64) []byte { return wire.AppendUint64(nil, checksum) }

// checksumOf is the checksum in what a row ends with; 0 where it cannot have one.
func checksumOf(mark []byte) uint64 {
	if len(mark) != sumSize {
		return 0
	}
	return binary.BigEndian.Uint64(mark)
}

// Checksum returns the checksum that a row's payload ends with, by which the row after it names it; 0 where it is too short to have one.
func Checksum(payload []byte) uint64 { return checksumOf(oplog.Mark(payload)) }

// link is the checksum of row 0 of g.
func (g Genesis) link() uint64 { return Checksum(AppendGenesis(nil, g)) }

// AppendGenesis appends the encoding of g, the payload of row 0, to b.
func AppendGenesis(b []byte, g Genesis) []byte {
	start := len(b)
	b = append(b, envelopeVersion, kindGenesis)
	b = append(b, g.ClusterID[:]...)
	b = wire.AppendUint64(b, g.Incarnation)
	b = wire.AppendUvarint(b, g.Format)
	return seal(b, start)
}

// DecodeGenesis decodes the payload of row 0. ErrFormat where a newer program wrote it; every other error wraps
// ErrUndecodable.
func DecodeGenesis(payload []byte) (Genesis, error) {
	var g Genesis
	if len(payload) > 1 && payload[1] == kindGenesis && payload[0] > envelopeVersion {
		return g, formatError("row 0", uint64(payload[0]))
	}
	body, _, err := unseal(payload, kindGenesis)
	if err == nil {
		c := wire.NewReader(body)
		copy(g.ClusterID[:], c.Raw(len(g.ClusterID)))
		g.Incarnation = c.Uint64()
		g.Format = c.Uvarint()
		err = c.Done()
	}
	if err != nil {
		return Genesis{}, fmt.Errorf("%w row 0: %w", ErrUndecodable, err)
	}
	if g.Format > Format {
		return Genesis{}, formatError("row 0", g.Format)
	}
	return g, nil
}

func formatError(what string, found uint64) error {
	return fmt.Errorf("%w: %s has format %d and this program supports up to %d", ErrFormat, what, found, Format)
}

// seal appends the checksum over b[start:].
func seal(b []byte, start int) []byte {
	return wire.AppendUint64(b, xxh3.Hash(b[start:]))
}

// unseal checks version, kind and checksum, and returns what is between them.
func unseal(b []byte, kind byte) (body []byte, sum uint64, err error) {
	switch {
	case len(b) < 2+sumSize:
		return nil, 0, fmt.Errorf("%d bytes are too few", len(b))
	case b[0] != envelopeVersion:
		return nil, 0, fmt.Errorf("envelope version %d, known is %d", b[0], envelopeVersion)
	case b[1] != kind:
		return nil, 0, fmt.Errorf("kind %q where %q belongs", b[1], kind)
	}
	end := len(b) - sumSize
	sum = binary.BigEndian.Uint64(b[end:])
	if got := xxh3.Hash(b[:end]); got != sum {
		return nil, 0, fmt.Errorf("checksum %016x over the content, %016x stored", got, sum)
	}
	return b[2:end], sum, nil
}

// uvarintSize returns how many bytes the length n takes as a varint.
func uvarintSize(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }
