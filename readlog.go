package headwater

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// LogRow is one row of the log, decoded.
type LogRow struct {
	Index         uint64
	Incarnation   string          // 16 hexadecimal digits
	Writer        string          // the process that appended it, 32 hexadecimal digits; empty for row 0
	Batch         uint64          // the writer's number of what it appended
	WriterApplied uint64          // what the writer had applied when it appended
	WriterDigest  string          // and the digest of that state, 32 hexadecimal digits
	Bytes         int             // as stored
	Proposals     []meta.Proposal // the commands
	ClusterID     string          // of row 0, 32 hexadecimal digits
	Undecodable   string          // why the row, or a command in it, cannot be decoded; what could be is set
}

// readBytes is the byte budget of one read of the log.
const readBytes = 4 << 20

// ReadLog calls fn for the rows of log from index from on (0: the oldest one there is), in order, up to the newest
// one at the time of the call and at most limit of them (0: all). A row that cannot be decoded is given with the reason,
// and reading goes on behind it. An error of fn ends the reading and is returned.
func ReadLog(ctx context.Context, log oplog.Log, from uint64, limit int, fn func(LogRow) error) error {
	bounds, err := log.Bounds(ctx)
	if err != nil {
		return fmt.Errorf("look at the log: %w", err)
	}
	if bounds.Empty {
		return nil
	}
	next, left := max(oplog.Index(from), bounds.Oldest), limit
	for next <= bounds.Newest {
		rows, err := log.Read(ctx, next-1, readBytes) // before row 0: oplog.Beginning
		if err != nil {
			return fmt.Errorf("read the log from row %d: %w", next, err)
		}
		if len(rows) == 0 {
			return nil
		}
		for _, row := range rows {
			if row.Index > bounds.Newest {
				return nil
			}
			if err := fn(logRow(row)); err != nil {
				return err
			}
			if left--; left == 0 {
				return nil
			}
			next = row.Index + 1
		}
	}
	return nil
}

// ReadLog is the function of the same name on the log of the store.
func (s *Store) ReadLog(ctx context.Context, from uint64, limit int, fn func(LogRow) error) error {
	return ReadLog(ctx, s.log, from, limit, fn)
}

func logRow(row oplog.Row) LogRow {
	l := LogRow{Index: uint64(row.Index), Bytes: len(row.Payload)}
	if row.Index == 0 {
		g, err := replica.DecodeGenesis(row.Payload)
		if err != nil {
			l.Undecodable = err.Error()
			return l
		}
		l.Incarnation, l.ClusterID = incarnation(g.Incarnation), hex.EncodeToString(g.ClusterID[:])
		return l
	}
	r, err := replica.DecodeRow(row.Index, row.Payload)
	if err != nil {
		l.Undecodable = err.Error()
		return l
	}
	l.Incarnation, l.Writer, l.Batch = incarnation(r.Incarnation), r.Writer.String(), r.Batch
	l.WriterApplied, l.WriterDigest = uint64(r.Seen), r.SeenDigest.String()
	for i, c := range r.Commands {
		p, err := meta.DecodeProposal(c)
		if err != nil {
			l.Undecodable = fmt.Sprintf("command %d: %v", i, err)
			return l
		}
		l.Proposals = append(l.Proposals, p)
	}
	return l
}
