package headwater

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// RestoreInfo is what Restore did.
type RestoreInfo struct {
	ClusterInfo        // its Incarnation is the new one
	LastIndex   uint64 // the newest row of the history that ended
	FirstIndex  uint64 // the first row of the new one: every later index is above it
}

// restoreLeap is by how much row indexes rise: more rows than a history that was lost can have had.
const restoreLeap = 1 << 32

// Restore begins a new history of the cluster, after its database was set back to an older state (a backup was restored, an
// asynchronous standby promoted). Everything that is there stays. Row indexes, and with them versions of keys, the ids of
// streams and objects, and all epochs rise beyond what the rows that were lost can have used, so that none of them is
// issued twice; and the history has a new incarnation, so that indexes of before are refused.
//
// All nodes and everything that writes to the bucket must be stopped first: nodes that run halt, and what they do to the
// bucket until then nobody here can undo. A Restore that was broken off is repeated and goes on. log must be an
// oplog.Leaper, as all logs of this module are.
func Restore(ctx context.Context, log oplog.Log) (RestoreInfo, error) {
	// A row holds a command: this one changes nothing.
	first, err := meta.AppendProposal(nil, meta.Proposal{Stamp: time.Now().UnixMilli(), Command: meta.CheckKey{Key: "restored", IfAbsent: true}})
	if err != nil {
		return RestoreInfo{}, fmt.Errorf("restore cluster: %w", err)
	}
	raise := func(s *meta.State, index oplog.Index) (*meta.State, error) { return s.Raised(uint64(index)) }
	r, err := replica.Restore(ctx, log, machine(), restoreLeap, raise, first)
	if err != nil {
		return RestoreInfo{}, fmt.Errorf("restore cluster: %w", err)
	}
	return RestoreInfo{ClusterInfo: ClusterInfo{ClusterID: hex.EncodeToString(r.Genesis.ClusterID[:]), Incarnation: incarnation(r.Genesis.Incarnation)},
		LastIndex: uint64(r.From), FirstIndex: uint64(r.To)}, nil
}
