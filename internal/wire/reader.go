package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The ways in which bytes can be wrong. The errors of a Reader wrap one of them and say at which byte.
var (
	// ErrShort: the bytes end in the middle of a value, or a length or count promises more than is there.
	ErrShort = errors.New("bytes end too early")
	// ErrForm: a value is not in its one canonical form.
	ErrForm = errors.New("value is not in canonical form")
	// ErrTrailing: bytes are left after the last value.
	ErrTrailing = errors.New("bytes are left over")
)

// Reader consumes the values of a byte slice from its beginning. The first fault sticks: all later reads return
// zero values, and Err and Done return the fault. So a decoder reads a whole structure and checks once. A Reader
// allocates nothing but its error; it never reads beyond its bytes and never panics, whatever they are.
type Reader struct {
	b   []byte
	off int
	err error
}

// NewReader returns a Reader of b. It reads b and never changes it.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Err returns the first fault, nil if there was none.
func (r *Reader) Err() error { return r.err }

// Offset returns how many bytes were consumed.
func (r *Reader) Offset() int { return r.off }

// Len returns how many bytes are left; 0 after a fault.
func (r *Reader) Len() int {
	if r.err != nil {
		return 0
	}
	return len(r.b) - r.off
}

// Done returns the first fault, and ErrTrailing where bytes are left.
func (r *Reader) Done() error {
	if r.err == nil && r.off < len(r.b) {
		r.Fail(fmt.Errorf("%w: %d", ErrTrailing, len(r.b)-r.off))
	}
	return r.err
}

// Fail makes err the Reader's fault, unless it has one already, and names the byte at which it stands. Decoders use
// it for values that are well formed and yet cannot be.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %w", r.off, err)
		r.b, r.off = nil, 0
	}
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if r.off >= len(r.b) {
		r.Fail(ErrShort)
		return 0
	}
	v := r.b[r.off]
	r.off++
	return v
}

// Bool reads one byte that is 0 or 1.
func (r *Reader) Bool() bool {
	switch r.Byte() {
	case 0:
		return false
	case 1:
		return true
	}
	r.Fail(fmt.Errorf("%w: a truth value above 1", ErrForm))
	return false
}

// Uvarint reads what AppendUvarint wrote. A number in more bytes than it takes, or above 64 bits, is a fault.
func (r *Reader) Uvarint() uint64 {
	if r.off < len(r.b) && r.b[r.off] < 0x80 {
		r.off++
		return uint64(r.b[r.off-1])
	}
	return r.longUvarint()
}

func (r *Reader) longUvarint() uint64 {
	var v uint64
	for i, c := range r.b[r.off:] {
		if i == binary.MaxVarintLen64-1 && c > 1 {
			r.Fail(fmt.Errorf("%w: a number above 64 bits", ErrForm))
			return 0
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c >= 0x80 {
			continue
		}
		if c == 0 && i > 0 {
			r.Fail(fmt.Errorf("%w: a number longer than it has to be", ErrForm))
			return 0
		}
		r.off += i + 1
		return v
	}
	r.Fail(ErrShort)
	return 0
}

// Varint reads what AppendVarint wrote.
func (r *Reader) Varint() int64 {
	u := r.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Uint64 reads what AppendUint64 wrote.
func (r *Reader) Uint64() uint64 {
	if b := r.Raw(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Raw reads n bytes as they stand; nil after a fault. The result is part of the Reader's bytes: copy what is kept.
func (r *Reader) Raw(n int) []byte {
	if n < 0 || n > len(r.b)-r.off || r.err != nil {
		r.Fail(ErrShort)
		return nil
	}
	v := r.b[r.off : r.off+n : r.off+n]
	r.off += n
	return v
}

// Bytes reads what AppendBytes wrote. The result is part of the Reader's bytes: copy what is kept.
func (r *Reader) Bytes() []byte { return r.Raw(r.Count(1)) }

// String reads what AppendString wrote, as a copy.
func (r *Reader) String() string { return string(r.Bytes()) }

// Count reads a number of elements of which each takes at least size bytes (size ≥ 1), and refuses one that the bytes
// left cannot hold. So whoever allocates for the elements allocates in proportion to the input.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if left := r.Len(); n > uint64(left/size) {
		r.Fail(fmt.Errorf("%w: %d elements of at least %d bytes in %d", ErrShort, n, size, left))
		return 0
	}
	return int(n)
}
