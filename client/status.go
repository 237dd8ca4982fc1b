package client

import (
	"context"
	"time"

	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// Status is a picture of a server's node at one moment, with the fields of headwater.Status.
type Status struct {
	Condition     string // ready, catching up, gap, halted, diverged, rewound or closed
	Reason        string // for all but ready: one sentence with the values
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
	Counts        meta.Counts   // of what the view holds
	Version       string        // of the server's program
	Endpoint      string        // the server that answered, as host:port
}

var conditions = map[pb.StatusResponse_Condition]string{
	pb.StatusResponse_CATCHING_UP: "catching up",
	pb.StatusResponse_READY:       "ready",
	pb.StatusResponse_GAP:         "gap",
	pb.StatusResponse_HALTED:      "halted",
	pb.StatusResponse_DIVERGED:    "diverged",
	pb.StatusResponse_REWOUND:     "rewound",
	pb.StatusResponse_CLOSED:      "closed",
}

// Status tells how the node of the server in use stands.
func (c *Client) Status(ctx context.Context) (Status, error) {
	m := &pb.StatusResponse{}
	e, err := c.call(ctx, methodStatus, &pb.StatusRequest{}, m)
	if err != nil {
		return Status{}, err
	}
	condition, ok := conditions[m.Condition]
	if !ok {
		condition = m.Condition.String()
	}
	return Status{
		Condition: condition, Reason: m.Reason, ReasonIndex: m.ReasonIndex, AppliedIndex: m.AppliedIndex, Digest: m.Digest,
		NewestIndex: m.NewestIndex, SnapshotIndex: m.SnapshotIndex, SnapshotSize: int64(m.SnapshotSize),
		ClusterID: m.ClusterId, Incarnation: m.Incarnation, FormatLevel: m.FormatLevel, Queued: int(m.Queued),
		InFlight: int(m.InFlight), Behind: time.Duration(m.BehindMs) * time.Millisecond, DatabaseError: m.DatabaseError,
		HealedFaults: int(m.HealedFaults), Backend: m.Backend, Location: m.Location, Warnings: m.Warnings,
		Counts: api.ToCounts(m.Counts), Version: m.Version, Endpoint: e.address,
	}, nil
}

// Snapshot makes the server store a snapshot now and returns its index. It has no bound of its own but ctx's, since a
// large state takes its time.
func (c *Client) Snapshot(ctx context.Context) (uint64, error) {
	m := &pb.SnapshotResponse{}
	err := c.endpoint().conn.Invoke(ctx, methodSnapshot, &pb.SnapshotRequest{}, m)
	if err != nil {
		return 0, ended(ctx.Err(), c.judge(ctx.Err(), err).err)
	}
	return m.Index, nil
}
