package headwater

import (
	"fmt"
	"io"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// A program must not go on in a cluster whose format level it does not know: what that level means for rows and
// state, only newer programs know. It halts at the row that raises the level, and does not open a snapshot above it.

// applyKnown is Apply for the levels that this program knows.
func applyKnown(s *meta.State, index oplog.Index, commands [][]byte) (*meta.State, []meta.Answer, error) {
	next, answers, err := s.Apply(uint64(index), commands)
	if err == nil {
		err = knownLevel(next.FormatLevel())
	}
	if err != nil {
		return nil, nil, err
	}
	return next, answers, nil
}

// decodeKnown is Decode for the levels that this program knows.
func decodeKnown(r io.Reader) (*meta.State, error) {
	s, err := meta.Decode(r)
	if err == nil {
		err = knownLevel(s.FormatLevel())
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func knownLevel(level uint64) error {
	if level <= meta.MaxFormat {
		return nil
	}
	return fmt.Errorf("the cluster is at format level %d, this program knows up to %d and must be upgraded", level, meta.MaxFormat)
}

// proposable refuses what this program must not propose: what the cluster's nodes cannot decode yet, and to raise the
// level to one at which this program would halt itself.
func proposable(p meta.Proposal, level uint64) error {
	if need := meta.MinLevel(p); need > level {
		return unsupported("the command needs format level %d, the cluster is at %d", need, level)
	}
	f, ok := p.Command.(meta.SetFormat)
	if ok && f.Level > level+1 && f.Level > meta.MaxFormat {
		return &meta.Error{Code: meta.CodeInvalidArgument, Inner: -1,
			Message: fmt.Sprintf("format level %d: the cluster is at %d, and goes up one level at a time", f.Level, level)}
	}
	if ok && f.Level > meta.MaxFormat {
		return unsupported("format level %d is to be raised by a program that knows it; this one knows up to %d", f.Level, meta.MaxFormat)
	}
	return nil
}

func unsupported(format string, args ...any) error {
	return &meta.Error{Code: meta.CodeFormatUnsupported, Message: fmt.Sprintf(format, args...), Inner: -1}
}
