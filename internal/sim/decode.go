package sim

import (
	"bytes"
	"context"
	"io"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// decodeStored decodes the snapshot that is current in s, by the code that a starting node uses.
func decodeStored(s *state) (*replica.Snapshot[*meta.State], error) {
	return replica.LoadSnapshot(context.Background(), still{nil, s}, replica.Machine[*meta.State, meta.Answer]{
		Empty: meta.NewState(),
		Apply: func(s *meta.State, index oplog.Index, c [][]byte) (*meta.State, []meta.Answer, error) {
			return s.Apply(uint64(index), c)
		},
		Digest: func(s *meta.State) replica.Digest { return replica.Digest(s.Digest()) },
		Encode: (*meta.State).Encode,
		Decode: func(r io.Reader) (*meta.State, error) { return meta.Decode(r) },
	})
}

// still is a log of which only the snapshot of one state can be looked at.
type still struct {
	oplog.Log
	state *state
}

type stillReader struct{ state *state }

// OpenSnapshot is oplog.Log's.
func (s still) OpenSnapshot(context.Context) (oplog.SnapshotReader, error) {
	if s.state.snap.info.Parts == 0 {
		return nil, oplog.ErrNoSnapshot
	}
	return stillReader{s.state}, nil
}

// Info is oplog.SnapshotReader's.
func (s stillReader) Info() oplog.SnapshotInfo { return s.state.snap.info }

// ReadPart is oplog.SnapshotReader's.
func (s stillReader) ReadPart(_ context.Context, i int) ([]byte, error) {
	for _, p := range s.state.parts {
		if p.token == s.state.snap.token && p.number == i {
			return bytes.Clone(p.data), nil
		}
	}
	return nil, oplog.ErrCorrupt
}

// Close is oplog.SnapshotReader's.
func (s stillReader) Close() error { return nil }
