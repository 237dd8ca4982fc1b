package replica

import (
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// Options configure a replica; the zero value works.
type Options struct {
	ClusterID        ID            // refuse any other cluster; zero: take what is there
	QueueCommands    int           // most proposals waiting to be appended; default 65,536
	QueueBytes       int           // most bytes of them; default 64 MiB
	RowCommands      int           // most commands in a row; default and maximum 256
	RowBytes         int           // byte budget of a row; default 1 MiB, maximum 8 MiB; a larger command is alone in its row
	SnapshotInterval int           // rows between snapshots, stretched for large states; default 1024; negative: never
	KeepRows         int           // rows kept below the snapshot; default SnapshotInterval; negative: none
	HaltOnDivergence bool          // halt at the first contradicting digest instead of rebuilding first
	ReadBytes        int           // byte budget of one read while catching up; default 4 MiB
	RetryMin         time.Duration // first pause after a database error; default 20 ms
	RetryMax         time.Duration // longest pause; default 1 s
	Events           Events
	World            World // zero, but in simulations
}

// Events are told what happens; each may be nil. They are called from the engine's goroutines and must not block
// and must not call the replica.
type Events struct {
	Applied   func(index oplog.Index, commands int) // after the view was published
	Appended  func(index oplog.Index, commands, bytes int, took time.Duration)
	Conflict  func(index oplog.Index)                           // an append lost the race
	Retry     func(what string, err error, pause time.Duration) // a database operation is going to be tried again
	Snapshot  func(index oplog.Index, bytes int64, took time.Duration, err error)
	Truncated func(below oplog.Index, rows int)
	Installed func(index oplog.Index)                             // a snapshot was installed
	StateOf   func(st Status)                                     // Condition changed
	Diverged  func(index oplog.Index, writer string, healed bool) // a row's digest contradicted ours
}

// withDefaults fills in what was left zero.
func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.QueueCommands, 65536)
	def(&o.QueueBytes, 64<<20)
	def(&o.RowCommands, MaxRowCommands)
	def(&o.RowBytes, 1<<20)
	def(&o.SnapshotInterval, 1024)
	def(&o.ReadBytes, 4<<20)
	if o.KeepRows == 0 {
		if o.KeepRows = o.SnapshotInterval; o.KeepRows < 0 {
			o.KeepRows = 1024
		}
	}
	o.KeepRows = max(o.KeepRows, 0)
	o.SnapshotInterval = max(o.SnapshotInterval, 0)
	if o.RetryMin == 0 {
		o.RetryMin = 20 * time.Millisecond
	}
	if o.RetryMax == 0 {
		o.RetryMax = max(time.Second, o.RetryMin)
	}
	o.World = o.World.withDefaults()
	return o
}

// Validate refuses what makes no sense, with defaults in place of zeros, as Open does. It is for who wants to know before
// a log is opened.
func (o Options) Validate() error { return o.withDefaults().validate() }

// validate refuses what makes no sense.
func (o Options) validate() error {
	switch {
	case o.QueueCommands < 1 || o.QueueBytes < 1:
		return fmt.Errorf("QueueCommands %d and QueueBytes %d must be at least 1", o.QueueCommands, o.QueueBytes)
	case o.RowCommands < 1 || o.RowCommands > MaxRowCommands:
		return fmt.Errorf("RowCommands is %d, allowed are 1 to %d", o.RowCommands, MaxRowCommands)
	case o.RowBytes < 1 || o.RowBytes > MaxRowBytes:
		return fmt.Errorf("RowBytes is %d, allowed are 1 to %d", o.RowBytes, MaxRowBytes)
	case o.ReadBytes < 1:
		return fmt.Errorf("ReadBytes is %d, must be at least 1", o.ReadBytes)
	case o.RetryMin < time.Millisecond || o.RetryMax < o.RetryMin:
		return fmt.Errorf("RetryMin %v must be at least 1ms and RetryMax %v at least that", o.RetryMin, o.RetryMax)
	}
	return nil
}
