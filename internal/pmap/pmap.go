// Package pmap is a persistent ordered map: a map of which every earlier state can be kept and read at the price of
// what changed since. The whole cluster state is made of these maps, so that publishing a view copies nothing.
//
// It is a copy-on-write B+ tree. A Map is a small value; copying it is the snapshot. Changes are made with an Edit,
// the right to change in place what was made with the same Edit; every other node is copied first. Whoever publishes
// a copy of a map goes on with a new Edit, and so what was published can never change: there is no freezing pass and
// no reference count, and look-ups write nothing.
//
// It is not a set of maps with shared ownership, not safe for two writers of one Edit, and it knows nothing of the
// records it holds. docs/decisions/001-persistent-map.md says why it is our own and what it costs.
//
// Start reading at Map, then set.go and delete.go.
package pmap

import "cmp"

const (
	// maxLeaf and maxKids bound a node. 64 keys of 8 bytes are 8 cache lines: a smaller leaf costs look-ups a level
	// more, a larger one costs every update in a fresh row the copy.
	maxLeaf = 64
	maxKids = 64
	// minFill is the size below which a node that lost something is joined with its neighbour, or filled from it.
	// Arrays are cut to what they hold, so a lean node wastes only its header.
	minFill = 16
	// joinFill is the size up to which two neighbours are joined: low enough that the next few changes do not
	// split the node again.
	joinFill = 48
	// slack is how many free places a node is given when it grows under an Edit that owns it.
	slack = 8
)

// Edit is the right to change nodes in place: those that were made with the same Edit. Take a new one after each
// copy of a Map that is to keep its content. An Edit belongs to one goroutine at a time.
type Edit struct {
	nodes uint64
}

// NewEdit returns an Edit that owns nothing yet.
func NewEdit() *Edit { return new(Edit) }

// Nodes returns how many nodes were made or copied with this Edit, in all maps: the work done, for tests that count.
func (e *Edit) Nodes() uint64 { return e.nodes }

// Map is a persistent ordered map. The zero Map is empty and ready. Copying the struct takes a snapshot in constant
// time; it stays as it is for ever if later changes, through either copy, are made with an Edit taken after it.
//
// Look-ups and iterations may run in any number of goroutines, also beside the changes of another copy. Keys must be
// comparable with themselves: NaN is not allowed.
type Map[K cmp.Ordered, V any] struct {
	root *node[K, V]
	size int
}

// node is a leaf (kids nil) with a value for each key, or an inner node with len(keys)+1 kids, where keys[i] is above
// every key below kids[i] and not above any below kids[i+1].
//
// vals and kids belong to this node. keys may be shared with the older version that this node was copied from, and
// then has no free capacity; so keys may be changed in place only where the edit matches and cap(keys) > len(keys).
type node[K cmp.Ordered, V any] struct {
	edit *Edit
	kids *[maxKids]*node[K, V]
	keys []K
	vals []V
}

// Len returns the number of entries.
func (m Map[K, V]) Len() int { return m.size }

// Get returns the value at k, and whether there is one. It does not allocate.
func (m Map[K, V]) Get(k K) (V, bool) {
	n := m.root
	if n == nil {
		var none V
		return none, false
	}
	for n.kids != nil {
		n = n.kids[above(n.keys, k)]
	}
	if i := atOrAbove(n.keys, k); i < len(n.keys) && n.keys[i] == k {
		return n.vals[i], true
	}
	var none V
	return none, false
}

// Place is where Find found a key, for a Replace. The zero Place is nowhere.
type Place struct {
	found bool
	at    [maxDepth]uint8 // the kid on each level, then the position in the leaf
}

// maxDepth is above the height of any map that fits in memory: inner nodes but the root have minFill kids at least.
const maxDepth = 12

// Find is Get, and also returns where the entry is.
func (m Map[K, V]) Find(k K) (v V, p Place, found bool) {
	n := m.root
	if n == nil {
		return v, p, false
	}
	depth := 0
	for ; n.kids != nil; depth++ {
		i := above(n.keys, k)
		p.at[depth] = uint8(i)
		n = n.kids[i]
	}
	i := atOrAbove(n.keys, k)
	if i == len(n.keys) || n.keys[i] != k {
		return v, Place{}, false
	}
	p.at[depth], p.found = uint8(i), true
	return n.vals[i], p, true
}

// Has reports whether there is an entry at k.
func (m Map[K, V]) Has(k K) bool {
	_, ok := m.Get(k)
	return ok
}

// Min returns the entry with the least key, and false where the map is empty.
func (m Map[K, V]) Min() (k K, v V, ok bool) {
	n := m.root
	if n == nil {
		return k, v, false
	}
	for n.kids != nil {
		n = n.kids[0]
	}
	return n.keys[0], n.vals[0], true
}

// Max returns the entry with the greatest key, and false where the map is empty.
func (m Map[K, V]) Max() (k K, v V, ok bool) {
	if m.root == nil {
		return k, v, false
	}
	k, v = m.root.max()
	return k, v, true
}

// Floor returns the entry with the greatest key at or below k, and false where there is none.
func (m Map[K, V]) Floor(k K) (fk K, fv V, ok bool) {
	n := m.root
	if n == nil {
		return fk, fv, false
	}
	var before *node[K, V] // the subtree just before the path, where the floor is if the leaf has none
	for n.kids != nil {
		i := above(n.keys, k)
		if i > 0 {
			before = n.kids[i-1]
		}
		n = n.kids[i]
	}
	if i := above(n.keys, k); i > 0 {
		return n.keys[i-1], n.vals[i-1], true
	}
	if before == nil {
		return fk, fv, false
	}
	fk, fv = before.max()
	return fk, fv, true
}

// Ceil returns the entry with the least key at or above k, and false where there is none.
func (m Map[K, V]) Ceil(k K) (ck K, cv V, ok bool) {
	n := m.root
	if n == nil {
		return ck, cv, false
	}
	var after *node[K, V] // the subtree just after the path, where the ceiling is if the leaf has none
	for n.kids != nil {
		i := above(n.keys, k)
		if i < len(n.keys) {
			after = n.kids[i+1]
		}
		n = n.kids[i]
	}
	if i := atOrAbove(n.keys, k); i < len(n.keys) {
		return n.keys[i], n.vals[i], true
	}
	if after == nil {
		return ck, cv, false
	}
	for after.kids != nil {
		after = after.kids[0]
	}
	return after.keys[0], after.vals[0], true
}

// max returns the last entry below n.
func (n *node[K, V]) max() (K, V) {
	for n.kids != nil {
		n = n.kids[len(n.keys)]
	}
	last := len(n.keys) - 1
	return n.keys[last], n.vals[last]
}

// atOrAbove returns the position of the first of the sorted keys that is not below k. The loop has no branch that
// depends on a comparison other than a conditional move, since a missed branch costs more than a probe.
func atOrAbove[K cmp.Ordered](keys []K, k K) int {
	lo, n := 0, len(keys)
	for n > 0 {
		half := (n + 1) >> 1
		next := lo + half
		if keys[next-1] < k {
			lo = next
		}
		n -= half
	}
	return lo
}

// above returns the position of the first of the sorted keys that is above k.
func above[K cmp.Ordered](keys []K, k K) int {
	lo, n := 0, len(keys)
	for n > 0 {
		half := (n + 1) >> 1
		next := lo + half
		if keys[next-1] <= k {
			lo = next
		}
		n -= half
	}
	return lo
}
