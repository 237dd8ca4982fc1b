package wire_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/headwaterdb/headwater/internal/wire"
)

func TestValuesComeBack(t *testing.T) {
	t.Parallel()
	numbers := []uint64{0, 1, 127, 128, 16383, 16384, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64}
	var b []byte
	for _, n := range numbers {
		b = wire.AppendUvarint(b, n)
		b = wire.AppendVarint(b, int64(n))
		b = wire.AppendUint64(b, n)
		b = wire.AppendBool(b, n%2 == 1)
	}
	b = wire.AppendBytes(b, []byte("bytes"))
	b = wire.AppendString(b, "text")
	b = append(b, "raw"...)

	r := wire.NewReader(b)
	for _, n := range numbers {
		if u, v, fixed, odd := r.Uvarint(), r.Varint(), r.Uint64(), r.Bool(); u != n || v != int64(n) || fixed != n ||
			odd != (n%2 == 1) {
			t.Errorf("%d came back as %d, %d, %d, %v", n, u, v, fixed, odd)
		}
	}
	if x, y, z := r.Bytes(), r.String(), r.Raw(3); string(x) != "bytes" || y != "text" || string(z) != "raw" {
		t.Errorf("%q, %q, %q", x, y, z)
	}
	if err := r.Done(); err != nil || r.Offset() != len(b) || r.Len() != 0 {
		t.Errorf("%v at %d of %d", err, r.Offset(), len(b))
	}
}

func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		bytes []byte
		read  func(*wire.Reader)
		want  error
	}{
		"a byte that is not there":    {nil, func(r *wire.Reader) { r.Byte() }, wire.ErrShort},
		"a number cut off":            {[]byte{0x80}, func(r *wire.Reader) { r.Uvarint() }, wire.ErrShort},
		"a number with a zero group":  {[]byte{0x80, 0}, func(r *wire.Reader) { r.Uvarint() }, wire.ErrForm},
		"a number of 65 bits":         {append(bytes.Repeat([]byte{255}, 9), 2), func(r *wire.Reader) { r.Uvarint() }, wire.ErrForm},
		"a number of eleven bytes":    {bytes.Repeat([]byte{0x80}, 11), func(r *wire.Reader) { r.Uvarint() }, wire.ErrForm},
		"a truth value of 2":          {[]byte{2}, func(r *wire.Reader) { r.Bool() }, wire.ErrForm},
		"a fixed number cut off":      {make([]byte, 7), func(r *wire.Reader) { r.Uint64() }, wire.ErrShort},
		"bytes that are not there":    {[]byte{3, 1, 2}, func(r *wire.Reader) { r.Bytes() }, wire.ErrShort},
		"a length beyond all":         {append(bytes.Repeat([]byte{255}, 9), 1), func(r *wire.Reader) { r.Bytes() }, wire.ErrShort},
		"more elements than bytes":    {[]byte{3, 0, 0, 0, 0, 0}, func(r *wire.Reader) { r.Count(2) }, wire.ErrShort},
		"a negative number of bytes":  {[]byte{1}, func(r *wire.Reader) { r.Raw(-1) }, wire.ErrShort},
		"bytes left over":             {[]byte{1, 2}, func(r *wire.Reader) { r.Byte() }, wire.ErrTrailing},
		"what the decoder complained": {[]byte{1, 2}, func(r *wire.Reader) { r.Fail(bytes.ErrTooLarge) }, bytes.ErrTooLarge},
	}
	for name, tt := range tests {
		r := wire.NewReader(tt.bytes)
		tt.read(&r)
		if err := r.Done(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestFirstFaultSticks(t *testing.T) {
	t.Parallel()
	r := wire.NewReader([]byte{2, 5, 5, 5, 5})
	r.Bool()
	first := r.Err()
	if r.Byte() != 0 || r.Uvarint() != 0 || r.Uint64() != 0 || r.Raw(0) != nil || r.Count(1) != 0 || r.Len() != 0 {
		t.Error("a value was read after a fault")
	}
	if first == nil || r.Err() != first || r.Done() != first {
		t.Errorf("%v, then %v", first, r.Err())
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	b := wire.AppendBytes(wire.AppendUvarint(nil, 1<<40), make([]byte, 100)) // not parallel: it counts allocations
	if n := testing.AllocsPerRun(100, func() {
		r := wire.NewReader(b)
		r.Uvarint()
		r.Bytes()
		if r.Done() != nil {
			panic(r.Err())
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// FuzzReader: whatever is read, in whichever order, is written as the same bytes again.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0x80, 1, 3, 'a', 'b', 'c'}, []byte{0, 1, 2, 3})
	f.Fuzz(func(t *testing.T, b, script []byte) {
		r := wire.NewReader(b)
		var again []byte
		for _, op := range script {
			if r.Err() != nil {
				return
			}
			switch op % 5 {
			case 0:
				again = wire.AppendUvarint(again, r.Uvarint())
			case 1:
				again = wire.AppendVarint(again, r.Varint())
			case 2:
				again = wire.AppendBytes(again, r.Bytes())
			case 3:
				again = wire.AppendBool(again, r.Bool())
			case 4:
				again = append(again, r.Byte())
			}
		}
		if r.Err() == nil && !bytes.Equal(again, b[:r.Offset()]) {
			t.Fatalf("read %x, wrote %x", b[:r.Offset()], again)
		}
	})
}
