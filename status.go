package headwater

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/replica"
)

// Condition is what a node is doing. Views can be read in all conditions.
type Condition string

// The conditions of a node.
const (
	CatchingUp Condition = "catching up" // behind the newest row of the log
	Ready      Condition = "ready"
	Gap        Condition = "gap"      // a row is missing and no snapshot covers it; ends when either appears
	Halted     Condition = "halted"   // a row cannot be passed
	Diverged   Condition = "diverged" // this node's state contradicts the writers of the log
	Rewound    Condition = "rewound"  // the log holds less than this node has applied
	Closed     Condition = "closed"
)

var conditions = map[replica.Condition]Condition{
	replica.CatchingUp: CatchingUp, replica.Ready: Ready, replica.Gap: Gap, replica.Halted: Halted,
	replica.Diverged: Diverged, replica.Rewound: Rewound, replica.Closed: Closed,
}

// Status is a picture of a node at one moment.
type Status struct {
	Condition     Condition
	Reason        string // for all but Ready: one sentence with the values
	ReasonIndex   uint64 // the row that the reason is about; 0: none
	AppliedIndex  uint64
	Digest        string // of the state at AppliedIndex, 32 hexadecimal digits
	NewestIndex   uint64 // the newest row seen in the log
	SnapshotIndex uint64 // as stored; 0: none
	SnapshotSize  int64  // bytes
	ClusterID     string // 32 hexadecimal digits
	Incarnation   string // 16 hexadecimal digits
	FormatLevel   uint64
	Queued        int           // proposals that wait to be appended
	InFlight      int           // proposals appended, or being appended, and not applied yet
	Behind        time.Duration // since the view was last known to hold the newest row
	DatabaseError string        // the last one, while it lasts
	HealedFaults  int           // divergences that were healed by rebuilding
	Backend       string        // what the log is kept in
	Location      string        // where, without secrets
	Warnings      []string      // settings of the database that may lose acknowledged rows, and the like
}

// Status tells how the node stands.
func (s *Store) Status() Status {
	st := s.engine.Status()
	info := s.log.Info()
	return Status{
		Condition: conditions[st.Condition], Reason: st.Reason, ReasonIndex: uint64(st.At),
		AppliedIndex: uint64(st.Applied), Digest: hex.EncodeToString(st.Digest[:]), NewestIndex: uint64(st.Newest),
		SnapshotIndex: uint64(st.SnapshotIndex), SnapshotSize: st.SnapshotSize,
		ClusterID: hex.EncodeToString(st.ClusterID[:]), Incarnation: incarnation(st.Incarnation),
		FormatLevel: s.View().State.FormatLevel(),
		Queued:      st.Queued, InFlight: st.InFlight, Behind: st.Behind, DatabaseError: st.Database,
		HealedFaults: st.HealedFaults,
		Backend:      info.Backend, Location: info.Location, Warnings: info.Warnings,
	}
}

func incarnation(i uint64) string { return fmt.Sprintf("%016x", i) }
