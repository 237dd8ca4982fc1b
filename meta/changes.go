package meta

import (
	"reflect"
	"strconv"
)

// ChangeKind says what a change is about.
type ChangeKind string

// The kinds of changes and the types of their records.
const (
	ChangeNode   ChangeKind = "node"   // Node, key: node id
	ChangeStream ChangeKind = "stream" // Stream, key: stream id
	ChangeRange  ChangeKind = "range"  // Range, key: stream id/stream epoch
	ChangeDebt   ChangeKind = "debt"   // Debt, key: stream id/stream epoch
	ChangeLoss   ChangeKind = "loss"   // Loss, key: stream id/start offset
	ChangeObject ChangeKind = "object" // ObjectRecord, key: object id
	ChangeSlice  ChangeKind = "slice"  // StoredSlice, key: stream id/start offset/object id
	ChangeKey    ChangeKind = "key"    // Key, key: the key
	ChangeFormat ChangeKind = "format" // ClusterRecord without a digest, key: empty
)

// Change is the net effect of one command on one entry of the state. The request memory and the index are not
// reported. A stream that is deleted takes its debts and losses, but not its ranges, with it as changes of their own:
// ranges may be too many to be listed.
type Change struct {
	Command  int // the position of the command, from 0
	Kind     ChangeKind
	Key      string
	Old, New Record // of the type that belongs to Kind; nil: the entry was or is not there
}

// recorder gathers the changes of the commands of a row, one for each command and entry, in the order in which the
// entries were first touched.
type recorder struct {
	command int
	offset  int // added to the positions in a row: a dry run goes on over several rows
	list    []Change
	log     []Change // all changes of the present command, before they are put together
}

// mark and restore serve tx.mark and tx.restore.
func (r *recorder) mark() int         { return len(r.log) }
func (r *recorder) restore(to int)    { r.log = r.log[:to] }
func (r *recorder) begin(command int) { r.command, r.log = r.offset+command, r.log[:0] }

// changes returns what was gathered; a nil recorder gathers nothing.
func (r *recorder) changes() []Change {
	if r == nil {
		return nil
	}
	return r.list
}

// add notes one change. Old and new are records by value, or nil.
func (r *recorder) add(kind ChangeKind, key string, old, new Record) {
	r.log = append(r.log, Change{Command: r.command, Kind: kind, Key: key, Old: old, New: new})
}

// end puts the changes of the present command together: what was touched twice is told once, and what is as it was
// before is not told.
func (r *recorder) end() {
	type name struct {
		kind ChangeKind
		key  string
	}
	at := make(map[name]int, len(r.log))
	net := make([]Change, 0, len(r.log))
	for _, c := range r.log {
		i, had := at[name{c.Kind, c.Key}]
		if !had {
			at[name{c.Kind, c.Key}] = len(net)
			net = append(net, c)
			continue
		}
		net[i].New = c.New
	}
	for _, c := range net {
		if !reflect.DeepEqual(c.Old, c.New) {
			r.list = append(r.list, c)
		}
	}
}

func idKey(id uint64) string           { return strconv.FormatUint(id, 10) }
func pairKey(id, second uint64) string { return idKey(id) + "/" + idKey(second) }

func (r *recorder) node(t *tx, id uint64, old, new *node) {
	var was Record
	if old != nil {
		was = t.nodeRecord(id, old)
	}
	r.add(ChangeNode, idKey(id), was, t.nodeRecord(id, new))
}

func (r *recorder) key(key string, old keyRecord, had bool, new keyRecord, has bool) {
	var was, is Record
	if had {
		was = keyOf(key, old)
	}
	if has {
		is = keyOf(key, new)
	}
	r.add(ChangeKey, key, was, is)
}

func (r *recorder) format(t *tx, old, new uint64) {
	c := ClusterRecord{Index: t.index, FormatLevel: old, NextStreamID: t.nextStream, NextObjectID: t.nextObject}
	was := c
	c.FormatLevel = new
	r.add(ChangeFormat, "", was, c)
}

// stream notes what changed in a stream's record, its last range, its debts and its losses.
func (r *recorder) stream(t *tx, id uint64, old, new *stream) {
	var was, is Record
	var wasRare, isRare streamRare
	if old != nil {
		was = t.streamRecord(id, old)
		if old.rare != nil {
			wasRare = *old.rare
		}
	}
	if new != nil {
		is = t.streamRecord(id, new)
		if new.rare != nil {
			isRare = *new.rare
		}
	}
	r.add(ChangeStream, idKey(id), was, is)
	r.lastRange(id, old, new)
	for _, d := range wasRare.debts {
		r.add(ChangeDebt, pairKey(id, d.epoch), debtRecord(id, d), nil)
	}
	for _, d := range isRare.debts {
		r.add(ChangeDebt, pairKey(id, d.epoch), nil, debtRecord(id, d))
	}
	for _, l := range wasRare.losses {
		r.add(ChangeLoss, pairKey(id, l.start), lossRecord(id, l), nil)
	}
	for _, l := range isRare.losses {
		r.add(ChangeLoss, pairKey(id, l.start), nil, lossRecord(id, l))
	}
}

// lastRange notes what became of the last range of a stream's old record and how that of the new one came. One that
// was sealed into the past ranges has been noted by sealedRange.
func (r *recorder) lastRange(id uint64, old, new *stream) {
	if old != nil && old.rangeEpoch != 0 {
		was := lastRange(id, old)
		switch {
		case new != nil && new.rangeEpoch == old.rangeEpoch:
			r.add(ChangeRange, pairKey(id, was.Epoch), was, lastRange(id, new))
			return
		case new == nil || was.StartOffset == was.EndOffset:
			r.add(ChangeRange, pairKey(id, was.Epoch), was, nil)
		}
	}
	if new != nil && new.rangeEpoch != 0 {
		r.add(ChangeRange, pairKey(id, new.rangeEpoch), nil, lastRange(id, new))
	}
}

// sealedRange notes that the last range of a record became a past one.
func (r *recorder) sealedRange(id uint64, s *stream, p pastRange) {
	r.add(ChangeRange, pairKey(id, p.epoch), lastRange(id, s), rangeRecord(id, s.rangeStart, p))
}

// droppedRange notes that a past range is gone.
func (r *recorder) droppedRange(id, start uint64, p pastRange) {
	r.add(ChangeRange, pairKey(id, p.epoch), rangeRecord(id, start, p), nil)
}
