// Package wire holds what the binary formats of Headwater are written and read with: functions that append a value to
// a byte slice, and a Reader that consumes them again.
//
// The encoding is canonical: each value has exactly one form, and the Reader refuses every other one. So whatever
// can be read is written again as the same bytes, and bytes may be hashed and compared instead of values.
//
// The package knows nothing of commands, rows or snapshots.
package wire

import "encoding/binary"

// AppendUvarint appends v in groups of seven bits, lowest first, in as few bytes as it takes (1 to 10).
func AppendUvarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// AppendVarint appends v as an unsigned varint after folding the sign into the lowest bit (0, -1, 1, -2 become
// 0, 1, 2, 3).
func AppendVarint(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

// AppendUint64 appends v in 8 bytes, highest first.
func AppendUint64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// AppendBool appends one byte, 1 or 0.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendBytes appends the length of v as a varint and then v.
func AppendBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// AppendString appends the length of v in bytes as a varint and then v.
func AppendString(b []byte, v string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}
