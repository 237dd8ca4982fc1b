package meta

import (
	"slices"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// insert puts r into the index. No ref may start there yet.
func (x *sliceIndex) insert(e *pmap.Edit, r sliceRef) {
	x.n++
	if x.root == nil {
		x.root = &sliceNode{edit: e, refs: append(make([]sliceRef, 0, leafRoom(1)), r)}
		return
	}
	left, right := x.root.insert(e, r)
	if right.node == nil {
		x.root = left
		return
	}
	kids := append(make([]sliceKid, 0, 4), newKid(left), right)
	x.root = &sliceNode{edit: e, kids: kids}
}

// insert returns the node that replaces n and, where it had to be split, the kid that comes behind it.
func (n *sliceNode) insert(e *pmap.Edit, r sliceRef) (*sliceNode, sliceKid) {
	if n.kids == nil {
		return n.insertRef(e, r)
	}
	i := n.kidFor(r.start)
	n = n.own(e, 1)
	left, right := n.kids[i].node.insert(e, r)
	k := &n.kids[i]
	k.node = left
	k.low = min(k.low, r.start)
	if right.node == nil {
		k.count++
		k.newest = max(k.newest, r.maxTimestamp())
		return n, sliceKid{}
	}
	*k = newKid(left)
	i++
	if len(n.kids) < innerMax {
		n.kids = slices.Insert(n.kids, i, right)
		return n, sliceKid{}
	}
	// Append fills the nodes: a split at the end leaves the left one as it is.
	at := innerMax / 2
	if i == innerMax {
		at = innerMax
	}
	next := &sliceNode{edit: e, kids: append(make([]sliceKid, 0, innerMax), n.kids[at:]...)}
	clear(n.kids[at:])
	n.kids = n.kids[:at]
	if i <= at && at < innerMax {
		n.kids = slices.Insert(n.kids, i, right)
	} else {
		next.kids = slices.Insert(next.kids, i-at, right)
	}
	return n, newKid(next)
}

func (n *sliceNode) insertRef(e *pmap.Edit, r sliceRef) (*sliceNode, sliceKid) {
	i := n.refsUpTo(r.start)
	if i == len(n.refs) {
		if longer := n.extend(e, r); longer != nil {
			return longer, sliceKid{}
		}
	}
	if len(n.refs) < leafMax {
		n = n.own(e, 1)
		n.refs = slices.Insert(n.refs, i, r)
		return n, sliceKid{}
	}
	if i == leafMax {
		next := &sliceNode{edit: e, refs: append(make([]sliceRef, 0, leafRoom(1)), r)}
		return n, newKid(next)
	}
	const at = leafMax / 2
	next := &sliceNode{edit: e, refs: append(make([]sliceRef, 0, leafRoom(at+1)), n.refs[at:]...)}
	left := &sliceNode{edit: e, refs: append(make([]sliceRef, 0, leafRoom(at+1)), n.refs[:at]...)}
	if i <= at {
		left.refs = slices.Insert(left.refs, i, r)
	} else {
		next.refs = slices.Insert(next.refs, i-at, r)
	}
	return left, newKid(next)
}

// extend returns a leaf with r behind the refs of n, in the same array, where that has room: all older versions see only what
// was there before, so nothing is copied. Of several versions that follow on the same one, in whatever goroutines, one gets
// the place; the others get nil.
func (n *sliceNode) extend(e *pmap.Edit, r sliceRef) *sliceNode {
	if len(n.refs) == cap(n.refs) {
		return nil
	}
	if n.edit != e {
		if !n.extended.CompareAndSwap(false, true) {
			return nil
		}
		n = &sliceNode{edit: e, refs: n.refs, shared: true}
	}
	n.refs = append(n.refs, r)
	return n
}

// remove takes the ref that starts at the offset out of the index and returns it.
func (x *sliceIndex) remove(e *pmap.Edit, start uint64) (sliceRef, bool) {
	if r, ok := x.at(start); !ok || r.start != start {
		return sliceRef{}, false
	}
	x.n--
	var r sliceRef
	x.root, r = x.root.remove(e, start)
	for x.root != nil && len(x.root.kids) == 1 {
		x.root = x.root.kids[0].node
	}
	return r, true
}

// remove returns the node that replaces n, nil where nothing is left, and the ref, which is there.
func (n *sliceNode) remove(e *pmap.Edit, start uint64) (*sliceNode, sliceRef) {
	n = n.own(e, 0)
	if n.kids == nil {
		i := n.refsUpTo(start) - 1
		r := n.refs[i]
		n.refs = slices.Delete(n.refs, i, i+1)
		if len(n.refs) == 0 {
			return nil, r
		}
		n.refs = shrink(n.refs)
		return n, r
	}
	i := n.kidFor(start)
	k := &n.kids[i]
	var r sliceRef
	k.node, r = k.node.remove(e, start)
	if k.node == nil {
		n.kids = slices.Delete(n.kids, i, i+1)
		if len(n.kids) == 0 {
			return nil, r
		}
		return n, r
	}
	k.count--
	k.low = k.node.low()
	if k.newest == r.maxTimestamp() {
		k.newest = k.node.newest()
	}
	if i+1 < len(n.kids) {
		n.merge(e, i)
	}
	if i > 0 {
		n.merge(e, i-1)
	}
	return n, r
}

// merge joins the kids i and i+1 of n, which is owned, where they fit into one node with room to spare.
func (n *sliceNode) merge(e *pmap.Edit, i int) {
	a, b := &n.kids[i], &n.kids[i+1]
	switch {
	case a.node.kids == nil && len(a.node.refs)+len(b.node.refs) <= leafMerge:
		a.node = a.node.own(e, len(b.node.refs))
		a.node.refs = append(a.node.refs, b.node.refs...)
	case a.node.kids != nil && len(a.node.kids)+len(b.node.kids) <= innerMerge:
		a.node = a.node.own(e, len(b.node.kids))
		a.node.kids = append(a.node.kids, b.node.kids...)
	default:
		return
	}
	a.count += b.count
	a.newest = max(a.newest, b.newest)
	n.kids = slices.Delete(n.kids, i+1, i+2)
}

// own returns n where e may change it, else a copy that e may change, in both cases with room for more refs or
// kids.
func (n *sliceNode) own(e *pmap.Edit, more int) *sliceNode {
	mine := n.edit == e
	if mine && (n.kids == nil && !n.shared && len(n.refs)+more <= cap(n.refs) || n.kids != nil) {
		return n
	}
	c := n
	if !mine {
		c = &sliceNode{edit: e}
	}
	if n.kids != nil {
		c.kids = append(make([]sliceKid, 0, min(len(n.kids)+more+3, innerMax)), n.kids...)
		return c
	}
	room := len(n.refs) + more
	if mine {
		room += len(n.refs) / 4 // it grows within one row: spare some copies
	}
	c.refs, c.shared = append(make([]sliceRef, 0, leafRoom(room)), n.refs...), false
	return c
}

// leafRoom rounds the capacity of a leaf up to what the allocator would give anyway.
func leafRoom(n int) int { return min((n+3)&^3, leafMax) }

// shrink gives spare room back where most of it is empty.
func shrink(refs []sliceRef) []sliceRef {
	if cap(refs) <= 4 || len(refs) > cap(refs)/2 {
		return refs
	}
	return append(make([]sliceRef, 0, leafRoom(len(refs))), refs...)
}

// low returns the start of the first ref below n.
func (n *sliceNode) low() uint64 {
	if n.kids == nil {
		return n.refs[0].start
	}
	return n.kids[0].low
}

// newKid sums n up.
func newKid(n *sliceNode) sliceKid {
	return sliceKid{low: n.low(), newest: n.newest(), count: n.count(), node: n}
}
