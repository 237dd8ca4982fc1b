package replica

import (
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// leftoverPatience is how long the oldest row must have stood still before another node takes over a truncation.
const leftoverPatience = 10 * time.Second

// snapMeter decides when a snapshot is due, from what the tailer applies and from the snapshot that is stored. It has
// no goroutine, no clock and does no I/O.
//
// A snapshot is due when interval rows and as many bytes of rows as the stored snapshot has have come since it, so
// that snapshots never write more than the log did. The row with which that happens is the crossing. Since every node
// sees the same crossing, they would all start at once; so the node that wrote that row goes first. If nothing has come of that after an eighth of the
// interval, the next node that writes a row goes too, and after two eighths everybody: whoever crosses first wins the
// race, and losing it is normal.
type snapMeter struct {
	interval oplog.Index // rows; 0: never

	applied oplog.Index
	bytes   uint64 // of all rows applied since the replica was opened

	base     oplog.Index // index of the stored snapshot
	size     uint64      // its bytes
	marks    []snapMark  // ascending; how many bytes had been applied at some indexes above base
	crossing oplog.Index // the row with which the next one became due; 0: it is not due
	mine     bool        // this node has a reason to go first

	oldest oplog.Index // the oldest row when rows that may go were last seen standing still
	since  time.Time   // since then; zero: there are none
}

type snapMark struct {
	index oplog.Index
	bytes uint64
}

// eighth is an eighth of the interval, at least 1.
func (m *snapMeter) eighth() oplog.Index { return max(m.interval/8, 1) }

// row notes an applied row, and reports whether this node should take a snapshot now.
func (m *snapMeter) row(index oplog.Index, bytes int, own bool) bool {
	m.applied = index
	m.bytes += uint64(bytes)
	if m.interval == 0 {
		return false
	}
	if n := len(m.marks); n == 0 || index >= m.marks[n-1].index+m.eighth() {
		m.marks = append(m.marks, snapMark{index, m.bytes})
	}
	if m.crossing == 0 && index >= m.base+m.interval && m.bytes-m.bytesAt(m.base) >= m.size {
		m.crossing, m.mine = index, own
	} else if m.crossing > 0 && own && index >= m.crossing+m.eighth() {
		m.mine = true
	}
	return m.due()
}

// due reports whether this node should take a snapshot now.
func (m *snapMeter) due() bool {
	return m.crossing > 0 && (m.mine || m.applied >= m.crossing+2*m.eighth())
}

// bytesAt returns about how many bytes had been applied at index.
func (m *snapMeter) bytesAt(index oplog.Index) uint64 {
	var bytes uint64
	for _, k := range m.marks {
		if k.index > index {
			break
		}
		bytes = k.bytes
	}
	return bytes
}

// stored notes what snapshot is stored, and reports whether this node should take a newer one now.
func (m *snapMeter) stored(s oplog.SnapshotInfo) bool {
	if s.Parts > 0 && s.Index > m.base {
		m.base, m.size = s.Index, uint64(s.Size)
		for len(m.marks) > 1 && m.marks[1].index <= m.base {
			m.marks = m.marks[1:]
		}
		m.crossing, m.mine = 0, false
		if m.interval > 0 && m.applied >= m.base+m.interval && m.bytes-m.bytesAt(m.base) >= m.size {
			m.crossing = m.applied
		}
	}
	return m.due()
}

// jump notes that the state was replaced by one at index.
func (m *snapMeter) jump(index oplog.Index) {
	m.applied = index
	m.marks = []snapMark{{index, m.bytes}}
	m.crossing, m.mine = 0, false
}

// leftover notes what a look found, and reports whether rows that the stored snapshot allows to delete have stood there
// for so long that nobody seems to be at it: whoever was has crashed or given up.
func (m *snapMeter) leftover(b oplog.Bounds, keep int, now time.Time) bool {
	if m.interval == 0 || b.Snapshot.Parts == 0 || b.Empty || b.Oldest >= min(retired(b.Snapshot.Index, keep), b.Newest) {
		m.since = time.Time{}
		return false
	}
	if m.since.IsZero() || m.oldest != b.Oldest {
		m.oldest, m.since = b.Oldest, now
		return false
	}
	return now.Sub(m.since) >= leftoverPatience
}

// retired tells how far the log may be truncated under the snapshot stored at index: rows below the result.
// keep is how many of the rows that the snapshot stands for stay, for nodes that are only a little late.
func retired(index oplog.Index, keep int) oplog.Index {
	if oplog.Index(keep) > index {
		return 0
	}
	return index + 1 - oplog.Index(keep)
}
