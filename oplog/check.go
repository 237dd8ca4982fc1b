package oplog

import "fmt"

// CheckAppend refuses what no log may accept: row 0, which Init alone writes (ErrConflict), an index above MaxIndex
// (ErrExhausted), and a payload above limit bytes or, where limit is 0, above MaxPayload (ErrTooLarge). It is for
// implementations of Log, so that they all refuse alike.
func CheckAppend(at Index, size, limit int) error {
	if limit <= 0 || limit > MaxPayload {
		limit = MaxPayload
	}
	switch {
	case at == 0:
		return fmt.Errorf("append row 0: only init writes it: %w", ErrConflict)
	case at > MaxIndex:
		return fmt.Errorf("append row %d: the last index is %d: %w", at, MaxIndex, ErrExhausted)
	case size > limit:
		return fmt.Errorf("append row %d: payload of %d bytes, at most %d are allowed: %w", at, size, limit, ErrTooLarge)
	}
	return nil
}

// CheckPart refuses a snapshot part of no bytes or of more than MaxPart bytes (ErrTooLarge).
func CheckPart(size int) error {
	if size < 1 || size > MaxPart {
		return fmt.Errorf("write a snapshot part of %d bytes: 1 to %d are allowed: %w", size, MaxPart, ErrTooLarge)
	}
	return nil
}

// CheckLeap refuses a leap that does not lead upwards, and what CheckAppend refuses of a row at to.
func CheckLeap(from, to Index, size, limit int) error {
	if to <= from {
		return fmt.Errorf("leap from row %d to %d: it must lead upwards: %w", from, to, ErrConflict)
	}
	return CheckAppend(to, size, limit)
}
