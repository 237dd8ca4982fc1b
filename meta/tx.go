package meta

import (
	"slices"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// tx is a state while a row is being applied: a private copy that shares with the published state whatever it has not
// touched yet. Everything that changes an entry goes through its set functions, for they keep map, digest, derived
// indexes and recorded changes together.
//
// A rule reads first and changes afterwards, so that a refusal has nothing to undo; where that cannot be done, mark
// and restore undo it.
type tx struct {
	State
	edit     *pmap.Edit
	first    *pmap.Edit // the edit that it began with
	index    uint64     // of the row
	position int        // of the command in the row
	stamp    int64      // of the command, for people only: no rule reads it
	rec      *recorder
	buf      []byte // scratch for encodings
	work     int    // entries looked up or changed so far; with touched the measure of bounded work
	touched  uint64 // map nodes that earlier edits made or copied
	budget   uint64 // what is left of MaxSlices inside Atomic
	inAtomic bool
	changed  []changedClient // clients whose records are the transaction's own
	commit   commit          // scratch of commitObjects
}

// newTx returns a transaction on a copy of s for the row at index.
func newTx(s *State, index uint64) *tx {
	t := &tx{State: *s, edit: pmap.NewEdit(), index: index}
	t.first = t.edit
	t.State.index = index
	return t
}

// finish returns the state that the transaction has made. The transaction is not used again.
func (t *tx) finish() *State {
	t.settleClients()
	next := t.State
	return &next
}

// mark is a state of a transaction to which restore can return.
type mark struct {
	state  State
	change int
}

// mark freezes the transaction as it is now.
func (t *tx) mark() mark {
	m := mark{state: t.State}
	if t.rec != nil {
		m.change = t.rec.mark()
	}
	t.freshEdit() // what the old edit built belongs to the mark now
	return m
}

// restore undoes everything since m.
func (t *tx) restore(m mark) {
	t.State = m.state
	if t.rec != nil {
		t.rec.restore(m.change)
	}
}

// node returns the record of a node id, registered or not; nil where the id was never registered.
func (t *tx) node(id uint64) *node {
	t.work++
	n, _ := t.nodes.Get(id)
	return n
}

// liveNode returns the record of a registered node, or nil.
func (t *tx) liveNode(id uint64) *node {
	if n := t.node(id); n != nil && n.registered {
		return n
	}
	return nil
}

// actingNode reports whether id is registered at exactly that epoch and not fenced.
func (t *tx) actingNode(id Identity) bool {
	n := t.liveNode(id.NodeID)
	return n != nil && n.epoch == id.NodeEpoch && !n.fenced
}

// setNode replaces the record of a node id. Node ids are never removed.
func (t *tx) setNode(id uint64, n *node) {
	t.work++
	old, had := t.nodes.Set(t.edit, id, n)
	if had {
		t.buf = appendNode(t.buf[:0], id, old)
		t.sum = t.sum.minus(hashOf(t.buf))
	}
	t.buf = appendNode(t.buf[:0], id, n)
	t.sum = t.sum.plus(hashOf(t.buf))
	if !had || old.registered != n.registered || old.fenced != n.fenced || old.format != n.format {
		t.countNode(old, -1)
		t.countNode(n, +1)
	}
	if t.rec != nil {
		t.rec.node(t, id, old, n)
	}
}

// countNode counts the registered nodes, the fenced ones among them, and how many decode no higher level than each.
func (t *tx) countNode(n *node, by int64) {
	if n == nil || !n.registered {
		return
	}
	t.registered += uint64(by)
	if n.fenced {
		t.fenced += uint64(by)
	}
	count, _ := t.levels.Get(n.format)
	if count += uint64(by); count == 0 {
		t.levels.Delete(t.edit, n.format)
		return
	}
	t.levels.Set(t.edit, n.format, count)
}

// stream returns the record of a live stream, or nil.
func (t *tx) stream(id uint64) *stream {
	t.work++
	s, _ := t.streams.Get(id)
	return s
}

// streamHandedOut reports whether a stream ever had the id.
func (s *State) streamHandedOut(id uint64) bool { return id > 0 && id < s.nextStream }

// setStream replaces the record of a live stream, or makes a new one. Its rare part must have come from rareOf.
func (t *tx) setStream(id uint64, s *stream) {
	t.work++
	old, had := t.streams.Set(t.edit, id, s)
	if !had {
		old = nil
	}
	t.changeStream(id, old, s)
}

// deleteStream removes a live stream with its ranges, debts and losses; its slices become orphans for ReclaimObjects.
func (t *tx) deleteStream(id uint64) {
	t.work++
	if old, had := t.streams.Delete(t.edit, id); had {
		t.changeStream(id, old, nil)
	}
}

// changeStream keeps digest, derived indexes and changes in step with a stream's record; nil is an absent one.
func (t *tx) changeStream(id uint64, old, new *stream) {
	var rare, oldRare *streamRare
	var owner, oldOwner uint64 // of an open stream
	if old != nil {
		t.buf = appendStream(t.buf[:0], id, old)
		t.sum = t.sum.minus(hashOf(t.buf))
		oldRare, oldOwner = old.rare, old.openOwner()
	}
	if new != nil {
		t.buf = appendStream(t.buf[:0], id, new)
		t.sum = t.sum.plus(hashOf(t.buf))
		rare, owner = new.rare, new.openOwner()
	}
	if owner != oldOwner {
		t.changeOwner(id, oldOwner, owner)
	}
	if old == nil || new == nil || new.named != old.named {
		t.changeNames(id, old, new)
	}
	if rare != oldRare {
		t.changeRare(id, oldRare, rare)
	}
	t.changeSlices(id, old, new)
	if t.rec != nil {
		t.rec.stream(t, id, old, new)
	}
}

// openOwner returns the node that owns the open stream; 0 where it is closed.
func (s *stream) openOwner() uint64 {
	if !s.open {
		return 0
	}
	return s.owner.NodeID
}

func (t *tx) changeOwner(id, old, new uint64) {
	if old != 0 {
		t.openStreams--
		removeID(t.edit, &t.owners, old, id)
	}
	if new != 0 {
		t.openStreams++
		addID(t.edit, &t.owners, new, id)
	}
	t.work += 2
}

func (t *tx) changeNames(id uint64, old, new *stream) {
	var oldName, newName string
	var oldLabels, newLabels []Label
	if old != nil {
		oldName, oldLabels = old.name, old.labels
	}
	if new != nil {
		newName, newLabels = new.name, new.labels
	}
	if oldName != newName {
		if oldName != "" {
			t.names.Delete(t.edit, oldName)
		}
		if newName != "" {
			t.names.Set(t.edit, newName, id)
		}
	}
	if slices.Equal(oldLabels, newLabels) {
		return
	}
	for _, l := range oldLabels {
		removeID(t.edit, &t.labels, labelKey(l), id)
	}
	for _, l := range newLabels {
		addID(t.edit, &t.labels, labelKey(l), id)
	}
	t.work += 1 + len(oldLabels) + len(newLabels)
}

func (t *tx) changeRare(id uint64, old, new *streamRare) {
	var oldDebts, newDebts []debt
	var oldReserved, reserved uint64
	if old != nil {
		t.sum = t.sum.minus(old.sum)
		oldDebts, oldReserved = old.debts, old.reservedFor
	}
	if new != nil {
		t.sum = t.sum.plus(new.sum)
		newDebts, reserved = new.debts, new.reservedFor
	}
	if reserved != oldReserved {
		if oldReserved != 0 {
			removeID(t.edit, &t.reserved, oldReserved, id)
		}
		if reserved != 0 {
			addID(t.edit, &t.reserved, reserved, id)
		}
		t.work++
	}
	// Debts come and go at the ends of the list: what both lists have in front stays. Only who owes matters here.
	for len(oldDebts) > 0 && len(newDebts) > 0 && oldDebts[0].node == newDebts[0].node {
		oldDebts, newDebts = oldDebts[1:], newDebts[1:]
	}
	for _, d := range oldDebts {
		t.countDebt(d.node, id, -1)
	}
	for _, d := range newDebts {
		t.countDebt(d.node, id, +1)
	}
	t.work += 1 + len(oldDebts) + len(newDebts)
}

// countDebt counts the debts by node and stream.
func (t *tx) countDebt(nodeID, streamID uint64, by int64) {
	t.debts += uint64(by)
	set, _ := t.debtors.Get(nodeID)
	set.debts += uint64(by)
	n, _ := set.streams.Get(streamID)
	n += uint64(by)
	if n == 0 {
		set.streams.Delete(t.edit, streamID)
	} else {
		set.streams.Set(t.edit, streamID, n)
	}
	if set.debts == 0 {
		t.debtors.Delete(t.edit, nodeID)
		return
	}
	t.debtors.Set(t.edit, nodeID, set)
}

// rareOf returns a copy of a stream's rare part that may be changed until the stream is set, with the functions below.
func rareOf(s *stream) *streamRare {
	if s.rare == nil {
		return &streamRare{}
	}
	r := *s.rare
	return &r
}

// orNil drops a rare part that says nothing.
func (r *streamRare) orNil() *streamRare {
	if r.ranges.Len() == 0 && len(r.debts) == 0 && len(r.losses) == 0 && r.reservedFor == 0 && r.transfer == nil {
		return nil
	}
	return r
}

// sealRange puts the last range of a stream's record among the past ones.
func (t *tx) sealRange(r *streamRare, id uint64, s *stream) {
	t.work++
	p := pastRange{epoch: s.rangeEpoch, node: s.owner.NodeID, end: s.end}
	t.buf = appendRange(t.buf[:0], id, s.rangeStart, p)
	r.sum = r.sum.plus(hashOf(t.buf))
	r.ranges.Set(t.edit, s.rangeStart, p)
	if t.rec != nil {
		t.rec.sealedRange(id, s, p)
	}
}

// dropRange removes a past range.
func (t *tx) dropRange(r *streamRare, stream, start uint64) {
	t.work++
	if p, had := r.ranges.Delete(t.edit, start); had {
		t.buf = appendRange(t.buf[:0], stream, start, p)
		r.sum = r.sum.minus(hashOf(t.buf))
		if t.rec != nil {
			t.rec.droppedRange(stream, start, p)
		}
	}
}

// setDebts replaces the debts of a stream. The list is kept and must not be changed afterwards.
func (t *tx) setDebts(r *streamRare, stream uint64, debts []debt) {
	t.work += len(r.debts) + len(debts)
	for _, d := range r.debts {
		t.buf = appendDebt(t.buf[:0], stream, d)
		r.sum = r.sum.minus(hashOf(t.buf))
	}
	for _, d := range debts {
		t.buf = appendDebt(t.buf[:0], stream, d)
		r.sum = r.sum.plus(hashOf(t.buf))
	}
	r.debts = debts
}

// setLosses replaces the losses of a stream. The list is kept and must not be changed afterwards.
func (t *tx) setLosses(r *streamRare, stream uint64, losses []loss) {
	t.work += len(r.losses) + len(losses)
	for _, l := range r.losses {
		t.buf = appendLoss(t.buf[:0], stream, l)
		r.sum = r.sum.minus(hashOf(t.buf))
	}
	for _, l := range losses {
		t.buf = appendLoss(t.buf[:0], stream, l)
		r.sum = r.sum.plus(hashOf(t.buf))
	}
	r.losses = losses
}

// key returns a key's record.
func (t *tx) key(key string) (keyRecord, bool) {
	t.work++
	return t.keys.Get(key)
}

// setKey writes a key; at is where it is, if it is known.
func (t *tx) setKey(key string, at pmap.Place, k keyRecord) {
	t.work++
	old, had := t.keys.Replace(t.edit, at, key, k)
	t.changeKey(key, old, had, k, true)
}

// deleteKey removes a key.
func (t *tx) deleteKey(key string) {
	t.work++
	if old, had := t.keys.Delete(t.edit, key); had {
		t.changeKey(key, old, true, keyRecord{}, false)
	}
}

func (t *tx) changeKey(key string, old keyRecord, had bool, new keyRecord, has bool) {
	if had {
		t.buf = appendKey(t.buf[:0], key, old)
		t.sum = t.sum.minus(hashOf(t.buf))
	}
	if has {
		t.buf = appendKey(t.buf[:0], key, new)
		t.sum = t.sum.plus(hashOf(t.buf))
	}
	if t.rec != nil {
		t.rec.key(key, old, had, new, has)
	}
}

// addID adds id to the set under key of an index.
func addID[K uint64 | int64 | string](e *pmap.Edit, index *pmap.Map[K, idSet], key K, id uint64) {
	set, _ := index.Get(key)
	set.Set(e, id, struct{}{})
	index.Set(e, key, set)
}

// removeID removes id from the set under key of an index, and the set where that leaves it empty.
func removeID[K uint64 | int64 | string](e *pmap.Edit, index *pmap.Map[K, idSet], key K, id uint64) {
	set, _ := index.Get(key)
	set.Delete(e, id)
	if set.Len() == 0 {
		index.Delete(e, key)
		return
	}
	index.Set(e, key, set)
}
