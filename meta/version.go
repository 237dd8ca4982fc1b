package meta

import "fmt"

// The format levels. A cluster has one, in its state, and SetFormat raises it by one; it says which encodings may
// stand in the log. Numbers are never reused. One line for each level: what it added.
//
//	1  2026-10  the first: all commands from RegisterNode to SetFormat, each in its first encoding
//
// The version byte of a command is the level that brought this encoding of it. So a program that meets a command from
// its future can say which level it lacks, and the level that a proposal needs is read off its bytes.
const (
	// FirstFormat is the level at which a cluster starts, and the level of a node that says none.
	FirstFormat = 1
	// MaxFormat is the highest level that this build decodes, and what it sends in RegisterNode.FormatLevel.
	MaxFormat = 1
)

// encodings lists, for each kind of command, the levels that brought an encoding of it, ascending. The encoder takes
// the lowest one that can express the command, so that a new field left at zero costs no compatibility.
var encodings = func() [kindEnd][]byte {
	var all [kindEnd][]byte
	for k := KindRegisterNode; k < kindEnd; k++ {
		all[k] = []byte{1}
	}
	return all
}()

// MinLevel returns the format level that the cluster must have before p may be appended: a node below it cannot decode
// the row. A proposer compares it with the level in its view and refuses with FORMAT_UNSUPPORTED where that is lower.
func MinLevel(p Proposal) uint64 { return minLevel(p.Command) }

func minLevel(c Command) uint64 {
	level := uint64(FirstFormat)
	if a, ok := c.(Atomic); ok {
		for _, inner := range a.Commands {
			level = max(level, minLevel(inner))
		}
	}
	return level
}

// FormatError says that bytes are of a format level above the one that this program knows. A node that meets it in
// the log stops there; a newer program can go on.
type FormatError struct {
	Kind  Kind   // the command's number, perhaps one that this program has no name for
	Level uint64 // the format level that brought the encoding
	Known uint64 // the highest level that this program knows
}

// Error says which level is needed and which one is known.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s needs format level %d, this program knows up to %d", e.Kind, e.Level, e.Known)
}

// checkEncoding says whether this program has the encoding of a command of kind k that level brought.
func checkEncoding(k Kind, level byte) error {
	if uint64(level) > MaxFormat {
		return &FormatError{Kind: k, Level: uint64(level), Known: MaxFormat}
	}
	if k == 0 || k >= kindEnd {
		return fmt.Errorf("no command has the number %d at format level %d", k, level)
	}
	for _, have := range encodings[k] {
		if have == level {
			return nil
		}
	}
	return fmt.Errorf("%s has no encoding of format level %d", k, level)
}

var kindNames = [kindEnd]string{
	KindRegisterNode:     "registerNode",
	KindRenewNode:        "renewNode",
	KindUnregisterNode:   "unregisterNode",
	KindFenceNode:        "fenceNode",
	KindCreateStream:     "createStream",
	KindOpenStream:       "openStream",
	KindCloseStream:      "closeStream",
	KindTrimStream:       "trimStream",
	KindLabelStream:      "labelStream",
	KindDeleteStream:     "deleteStream",
	KindRecordTransfer:   "recordTransfer",
	KindForceCloseStream: "forceCloseStream",
	KindPrepareObjects:   "prepareObjects",
	KindCommitObjects:    "commitObjects",
	KindCompactObjects:   "compactObjects",
	KindReclaimObjects:   "reclaimObjects",
	KindForgetObjects:    "forgetObjects",
	KindPutKey:           "putKey",
	KindDeleteKey:        "deleteKey",
	KindCheckKey:         "checkKey",
	KindAtomic:           "atomic",
	KindSetFormat:        "setFormat",
}

// String returns the name of the command as JSON spells it, for example "createStream".
func (k Kind) String() string {
	if k == 0 || k >= kindEnd {
		return fmt.Sprintf("command %d", uint8(k))
	}
	return kindNames[k]
}

// Kinds returns the kinds of all commands in numeric order. The caller owns the slice.
func Kinds() []Kind {
	out := make([]Kind, 0, kindEnd-1)
	for k := Kind(1); k < kindEnd; k++ {
		out = append(out, k)
	}
	return out
}
