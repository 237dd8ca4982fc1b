package replica

import (
	"errors"
	"time"

	"github.com/headwaterdb/headwater/oplog"
)

// The callers of Events, each of which may be nil.

func (e *Events) applied(index oplog.Index, commands int) {
	if e.Applied != nil {
		e.Applied(index, commands)
	}
}

func (e *Events) appended(index oplog.Index, commands, bytes int, took time.Duration) {
	if e.Appended != nil {
		e.Appended(index, commands, bytes, took)
	}
}

func (e *Events) conflict(index oplog.Index) {
	if e.Conflict != nil {
		e.Conflict(index)
	}
}

func (e *Events) retry(what string, err error, pause time.Duration) {
	if e.Retry != nil {
		e.Retry(what, err, pause)
	}
}

func (e *Events) snapshot(index oplog.Index, bytes int64, took time.Duration, err error) {
	if e.Snapshot != nil {
		e.Snapshot(index, bytes, took, err)
	}
}

func (e *Events) truncated(below oplog.Index, rows int) {
	if e.Truncated != nil {
		e.Truncated(below, rows)
	}
}

func (e *Events) installed(index oplog.Index) {
	if e.Installed != nil {
		e.Installed(index)
	}
}

func (e *Events) stateOf(st Status) {
	if e.StateOf != nil {
		e.StateOf(st)
	}
}

func (e *Events) diverged(index oplog.Index, writer string, healed bool) {
	if e.Diverged != nil {
		e.Diverged(index, writer, healed)
	}
}

func isConflict(err error) bool { return errors.Is(err, oplog.ErrConflict) }

func isNoSnapshot(err error) bool { return errors.Is(err, oplog.ErrNoSnapshot) }
