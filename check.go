package headwater

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// CheckReport is what Check found.
type CheckReport struct {
	ClusterID      string // 32 hexadecimal digits
	Incarnation    string // 16 hexadecimal digits
	OldestIndex    uint64 // of the rows present
	NewestIndex    uint64
	Rows, Commands uint64 // looked at
	Replayed       uint64 // rows that were applied again, out of Rows
	SnapshotIndex  uint64 // 0: there is no snapshot
	SnapshotSize   int64  // bytes as stored
	SnapshotDigest string // 32 hexadecimal digits
	Digest         string // of the state at the newest row that could be applied
	DigestIndex    uint64 // that row
	Faults         []string
}

// OK reports whether nothing is wrong.
func (r *CheckReport) OK() bool { return len(r.Faults) == 0 }

// maxFaults bounds the list of faults; what comes behind is counted in the last one.
const maxFaults = 100

// Check reads the whole log offline: every row dense, whole and of the same history; every command decoded; the
// snapshot decoded and its digest computed anew; the rows above the snapshot (and, where row 0 is still there, all rows)
// applied again and each writer's digest compared with the replay's; at last the state's own consistency. What is wrong
// is in the report; an error means that the database could not be read. Progress, if not nil, is told how many rows
// are done and how many there are.
func Check(ctx context.Context, log oplog.Log, progress func(done, total uint64)) (CheckReport, error) {
	bounds, err := log.Bounds(ctx)
	if err != nil {
		return CheckReport{}, fmt.Errorf("look at the log: %w", err)
	}
	c := &checker{m: machine(), digests: map[oplog.Index]replica.Digest{}, last: map[oplog.Index]uint64{}}
	c.OldestIndex, c.NewestIndex = uint64(bounds.Oldest), uint64(bounds.Newest)
	if bounds.Snapshot.Parts > 0 {
		c.SnapshotIndex, c.SnapshotSize = uint64(bounds.Snapshot.Index), bounds.Snapshot.Size
		if err := c.load(ctx, log); err != nil {
			return c.CheckReport, err
		}
	}
	if bounds.Empty {
		c.fault("there is no row at all, not even the newest one that truncation keeps")
		return c.CheckReport, nil
	}
	if err := c.rows(ctx, log, bounds, progress); err != nil {
		return c.CheckReport, err
	}
	c.finish()
	return c.CheckReport, nil
}

// checker goes through a log once.
type checker struct {
	CheckReport
	m       replica.Machine[*meta.State, meta.Answer]
	genesis *replica.Genesis
	snap    *replica.Snapshot[*meta.State]
	state   *meta.State            // nil: not known at this point of the log
	at      oplog.Index            // of state
	last    map[oplog.Index]uint64 // the checksum of the row before, if it could be read, and of the snapshot's last one
	digests map[oplog.Index]replica.Digest
	unsaid  int // faults beyond maxFaults
}

func (c *checker) fault(format string, args ...any) {
	if len(c.Faults) < maxFaults {
		c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
		return
	}
	c.unsaid++
}

// load reads the snapshot. One that cannot be read is a fault, a database that cannot be read an error.
func (c *checker) load(ctx context.Context, log oplog.Log) error {
	snap, err := replica.LoadSnapshot(ctx, log, c.m)
	switch {
	case errors.Is(err, replica.ErrUndecodable), errors.Is(err, replica.ErrFormat), errors.Is(err, oplog.ErrCorrupt):
		c.fault("snapshot at index %d: %v", c.SnapshotIndex, err)
		return nil
	case err != nil:
		return err
	}
	c.snap, c.genesis = snap, &snap.Genesis
	c.last[snap.Index] = snap.Row
	if uint64(snap.Index) == c.SnapshotIndex && snap.Size != c.SnapshotSize { // else a newer one has come since
		c.fault("snapshot at index %d: its row says %d bytes, its parts have %d", snap.Index, c.SnapshotSize, snap.Size)
	}
	c.SnapshotDigest = snap.Digest.String()
	if err := snap.State.Verify(); err != nil {
		c.fault("snapshot at index %d: %v", snap.Index, err)
	}
	return nil
}

func (c *checker) rows(ctx context.Context, log oplog.Log, bounds oplog.Bounds, progress func(done, total uint64)) error {
	total := uint64(bounds.Newest-bounds.Oldest) + 1
	next := bounds.Oldest
	if next > 0 && c.snap == nil {
		c.fault("rows 0 to %d are truncated and no readable snapshot stands for them", next-1)
	}
	if c.snap != nil && c.snap.Index+1 < next {
		c.fault("rows %d to %d are missing: the snapshot stands at index %d, the oldest row is %d", c.snap.Index+1, next-1, c.snap.Index, next)
	}
	for next <= bounds.Newest {
		rows, err := log.Read(ctx, next-1, readBytes)
		if errors.Is(err, oplog.ErrCorrupt) {
			c.fault("rows from %d on cannot be read: %v", next, err)
			c.state = nil
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the log from row %d: %w", next, err)
		}
		if len(rows) == 0 {
			c.fault("rows %d to %d are missing", next, bounds.Newest)
			return nil
		}
		for _, row := range rows {
			if row.Index > bounds.Newest {
				return nil
			}
			if row.Index != next {
				c.fault("rows %d to %d are missing", next, row.Index-1)
				c.state = nil
			}
			c.row(row)
			next = row.Index + 1
			if progress != nil {
				progress(uint64(next-bounds.Oldest), total)
			}
		}
	}
	return nil
}

// row checks one row by itself, and applies it where the state before it is known.
func (c *checker) row(row oplog.Row) {
	c.Rows++
	c.adopt(row.Index)
	if row.Index == 0 {
		c.first(row)
		return
	}
	r, err := replica.DecodeRow(row.Index, row.Payload)
	if err != nil {
		c.fault("row %d: %v", row.Index, err)
		c.state = nil
		return
	}
	c.chain(&r)
	c.Commands += uint64(len(r.Commands))
	if c.genesis != nil && r.Incarnation != c.genesis.Incarnation {
		c.fault("row %d belongs to incarnation %s, the cluster is at %s", row.Index, incarnation(r.Incarnation), incarnation(c.genesis.Incarnation))
		c.state = nil
		return
	}
	for i, command := range r.Commands {
		if _, err := meta.DecodeProposal(command); err != nil {
			c.fault("row %d, command %d: %v", row.Index, i, err)
			c.state = nil
		}
	}
	if d, known := c.digests[r.Seen]; known && d != r.SeenDigest {
		c.fault("row %d: its writer %s had digest %s at index %d, the replay has %s", row.Index, r.Writer, r.SeenDigest, r.Seen, d)
	}
	if c.state != nil && c.at+1 == row.Index {
		c.apply(row.Index, r.Commands)
	}
}

// chain checks that a row follows on the one before it, and that a snapshot stands on the row at its index.
func (c *checker) chain(r *replica.RowInfo) {
	if last, known := c.last[r.Index-1]; known && last != r.Previous {
		c.fault("row %d follows on a row with checksum %016x, row %d has %016x", r.Index, r.Previous, r.Index-1, last)
	}
	delete(c.last, r.Index-1)
	if row, known := c.last[r.Index]; known && row != r.Checksum {
		c.fault("snapshot at index %d is of a history whose row %d has checksum %016x, the row there has %016x", r.Index, r.Index, row, r.Checksum)
	}
	c.last[r.Index] = r.Checksum
}

// adopt takes the snapshot's state where a row is reached that follows it and the replay has no state of its own; where
// it has, the two must be equal.
func (c *checker) adopt(next oplog.Index) {
	if c.snap == nil || next != c.snap.Index+1 {
		return
	}
	if c.state != nil && c.at == c.snap.Index {
		c.compare()
		return
	}
	c.state, c.at = c.snap.State, c.snap.Index
	c.remember()
}

// compare holds the snapshot against the replay that stands at the same index.
func (c *checker) compare() {
	if d := c.m.Digest(c.state); d != c.snap.Digest {
		c.fault("snapshot at index %d has digest %s, the replay of the rows has %s", c.snap.Index, c.snap.Digest, d)
	}
}

func (c *checker) first(row oplog.Row) {
	g, err := replica.DecodeGenesis(row.Payload)
	if err != nil {
		c.fault("row 0: %v", err)
		return
	}
	if c.genesis != nil && (g.ClusterID != c.genesis.ClusterID || g.Incarnation != c.genesis.Incarnation) {
		c.fault("row 0 is of cluster %s, incarnation %s; the snapshot of cluster %s, incarnation %s", g.ClusterID, incarnation(g.Incarnation),
			c.genesis.ClusterID, incarnation(c.genesis.Incarnation))
	}
	c.genesis, c.state, c.at = &g, c.m.Empty, 0
	c.last[0] = replica.Checksum(row.Payload)
	c.remember()
}

func (c *checker) apply(index oplog.Index, commands [][]byte) {
	defer func() {
		if p := recover(); p != nil {
			c.fault("row %d: apply panics: %v", index, p)
			c.state = nil
		}
	}()
	s, _, err := c.m.Apply(c.state, index, commands)
	if err != nil {
		c.fault("row %d: %v", index, err)
		c.state = nil
		return
	}
	c.state, c.at = s, index
	c.Replayed++
	c.remember()
}

// digestsKept is for how many indexes back a writer's digest can be compared; engines keep 1024.
const digestsKept = 4096

func (c *checker) remember() {
	d := c.m.Digest(c.state)
	c.digests[c.at] = d
	if c.at >= digestsKept {
		delete(c.digests, c.at-digestsKept)
	}
	c.Digest, c.DigestIndex = d.String(), uint64(c.at)
}

// finish looks at the end of the log, where a snapshot may stand at the newest row.
func (c *checker) finish() {
	if c.snap != nil && uint64(c.snap.Index) >= c.NewestIndex {
		if c.state != nil && c.at == c.snap.Index {
			c.compare()
		} else {
			c.state, c.at = c.snap.State, c.snap.Index
			c.remember()
		}
		if uint64(c.snap.Index) > c.NewestIndex {
			c.fault("the snapshot stands at index %d and the newest row is %d", c.snap.Index, c.NewestIndex)
		}
	}
	if c.state != nil {
		if err := c.state.Verify(); err != nil {
			c.fault("state at index %d: %v", c.at, err)
		}
	}
	if c.genesis != nil {
		c.ClusterID, c.Incarnation = hex.EncodeToString(c.genesis.ClusterID[:]), incarnation(c.genesis.Incarnation)
	}
	if c.unsaid > 0 {
		c.Faults = append(c.Faults, fmt.Sprintf("and %d more", c.unsaid))
	}
}
