package pmap

import "cmp"

// Set puts v at k and returns the value that was there, if any. Nodes that e does not own are copied first; a nil e
// owns nothing.
func (m *Map[K, V]) Set(e *Edit, k K, v V) (old V, replaced bool) {
	if e == nil {
		e = NewEdit()
	}
	if m.root == nil {
		m.root = newLeaf[K, V](e, 1)
		m.root.keys[0], m.root.vals[0] = k, v
		m.size = 1
		return old, false
	}
	s := setting[K, V]{edit: e, key: k, val: v}
	root := m.root.set(&s, true)
	if s.right != nil {
		root = newInner(e, []K{s.sep}, root, s.right)
	}
	m.root = root
	if !s.replaced {
		m.size++
	}
	return s.old, s.replaced
}

// Replace is Set for a key that Find has found, and spares looking for it anew. Where the map has changed since, so that
// something else is there or nothing, or where Find has not found it, it is Set.
func (m *Map[K, V]) Replace(e *Edit, p Place, k K, v V) (old V, replaced bool) {
	if e == nil || !m.isAt(p, k) {
		return m.Set(e, k, v)
	}
	n := m.root.owned(e)
	m.root = n
	depth := 0
	for ; n.kids != nil; depth++ {
		kid := &n.kids[p.at[depth]]
		*kid = (*kid).owned(e)
		n = *kid
	}
	val := &n.vals[p.at[depth]]
	old, *val = *val, v
	return old, true
}

// isAt reports whether the entry at k is at p.
func (m *Map[K, V]) isAt(p Place, k K) bool {
	n := m.root
	if n == nil || !p.found {
		return false
	}
	depth := 0
	for ; n.kids != nil; depth++ {
		if depth == maxDepth-1 || int(p.at[depth]) > len(n.keys) {
			return false
		}
		n = n.kids[p.at[depth]]
	}
	i := int(p.at[depth])
	return i < len(n.keys) && n.keys[i] == k
}

// setting is one call of Set on its way down and up.
type setting[K cmp.Ordered, V any] struct {
	edit     *Edit
	key      K
	val      V
	old      V
	replaced bool
	// right is the new neighbour to the right of the node that set returned, if it was split, and sep is the
	// separator between the two.
	right *node[K, V]
	sep   K
}

// set puts the entry below n and returns n or the copy that takes its place. last says that nothing lies to the
// right of n in the whole tree.
func (n *node[K, V]) set(s *setting[K, V], last bool) *node[K, V] {
	if n.kids == nil {
		return n.setLeaf(s, last)
	}
	i := above(n.keys, s.key)
	kid := n.kids[i]
	now := kid.set(s, last && i == len(n.keys))
	if now != kid {
		n = n.owned(s.edit)
		n.kids[i] = now
	}
	if s.right != nil {
		n = n.addKid(s, i, last)
	}
	return n
}

func (n *node[K, V]) setLeaf(s *setting[K, V], last bool) *node[K, V] {
	i := atOrAbove(n.keys, s.key)
	if i < len(n.keys) && n.keys[i] == s.key {
		n = n.owned(s.edit)
		s.old, s.replaced = n.vals[i], true
		n.vals[i] = s.val
		return n
	}
	if len(n.keys) < maxLeaf {
		return n.insertLeaf(s.edit, i, s.key, s.val)
	}
	if last && i == maxLeaf {
		// Ids are handed out in ascending order. Leaving the full leaf as it is keeps such maps dense.
		s.right = newLeaf[K, V](s.edit, 1)
		s.right.keys[0], s.right.vals[0] = s.key, s.val
		s.sep = s.key
		return n
	}
	const half = maxLeaf / 2
	s.right = newLeaf[K, V](s.edit, maxLeaf-half)
	copy(s.right.keys, n.keys[half:])
	copy(s.right.vals, n.vals[half:])
	left := newLeaf[K, V](s.edit, half)
	copy(left.keys, n.keys)
	copy(left.vals, n.vals)
	if i <= half {
		left = left.insertLeaf(s.edit, i, s.key, s.val)
	} else {
		s.right = s.right.insertLeaf(s.edit, i-half, s.key, s.val)
	}
	s.sep = s.right.keys[0]
	return left
}

// insertLeaf puts an entry at position i of a leaf with room for it.
func (n *node[K, V]) insertLeaf(e *Edit, i int, k K, v V) *node[K, V] {
	room := 1
	if n.edit == e {
		room = slack
	} else {
		e.nodes++
		n = &node[K, V]{edit: e, keys: n.keys[:len(n.keys):len(n.keys)], vals: n.vals[:len(n.vals):len(n.vals)]}
	}
	n.keys = insertAt(n.keys, i, k, room)
	n.vals = insertAt(n.vals, i, v, room)
	return n
}

// addKid puts s.right after kid i and clears it, or splits n and sets it to n's new neighbour.
func (n *node[K, V]) addKid(s *setting[K, V], i int, last bool) *node[K, V] {
	n = n.owned(s.edit)
	kid, sep := s.right, s.sep
	s.right = nil
	if count := len(n.keys) + 1; count == maxKids {
		at := maxKids / 2
		if last && i == count-1 {
			at = maxKids - 1 // leave a dense node behind, as in setLeaf
		}
		s.sep = n.keys[at-1]
		s.right = newInner(s.edit, n.keys[at:], n.kids[at:]...)
		n.keys = cut(n.keys, at-1)
		clear(n.kids[at:])
		if i >= at {
			s.right.putKid(i-at, sep, kid)
			return n
		}
	}
	n.putKid(i, sep, kid)
	return n
}

// putKid puts a kid after kid i of a node that is owned and has room for it.
func (n *node[K, V]) putKid(i int, sep K, kid *node[K, V]) {
	copy(n.kids[i+2:], n.kids[i+1:len(n.keys)+1])
	n.kids[i+1] = kid
	n.keys = insertAt(n.keys, i, sep, slack)
}

// owned returns n if e owns it, otherwise a copy that e owns. The copy shares the keys, without free capacity.
func (n *node[K, V]) owned(e *Edit) *node[K, V] {
	if n.edit == e {
		return n
	}
	e.nodes++
	c := &node[K, V]{edit: e, keys: n.keys[:len(n.keys):len(n.keys)]}
	if n.kids != nil {
		c.kids = new([maxKids]*node[K, V])
		copy(c.kids[:], n.kids[:len(n.keys)+1])
		return c
	}
	c.vals = make([]V, len(n.vals))
	copy(c.vals, n.vals)
	return c
}

// newLeaf returns an owned leaf with n entries to fill in.
func newLeaf[K cmp.Ordered, V any](e *Edit, n int) *node[K, V] {
	e.nodes++
	return &node[K, V]{edit: e, keys: make([]K, n, roomFor(n)), vals: make([]V, n, roomFor(n))}
}

// newInner returns an owned inner node with copies of keys and kids.
func newInner[K cmp.Ordered, V any](e *Edit, keys []K, kids ...*node[K, V]) *node[K, V] {
	e.nodes++
	n := &node[K, V]{edit: e, kids: new([maxKids]*node[K, V]), keys: make([]K, len(keys), roomFor(len(keys)))}
	copy(n.keys, keys)
	copy(n.kids[:], kids)
	return n
}

// roomFor rounds a number of entries up to a capacity that wastes little in the allocator's size classes.
func roomFor(n int) int {
	if n <= 2 {
		return n
	}
	return min((n+3)&^3, maxLeaf)
}

// insertAt returns s with v at position i: in place where s has free capacity, otherwise in a new array with at
// least room-1 free places more, as far as a node can use them.
func insertAt[T any](s []T, i int, v T, room int) []T {
	if cap(s) > len(s) {
		s = s[:len(s)+1]
		copy(s[i+1:], s[i:])
		s[i] = v
		return s
	}
	out := make([]T, len(s)+1, max(len(s)+1, min(roomFor(len(s)+room), maxLeaf)))
	copy(out, s[:i])
	out[i] = v
	copy(out[i+1:], s[i:])
	return out
}

// cut returns the first n of s in an array that is not shared.
func cut[T any](s []T, n int) []T {
	out := make([]T, n, roomFor(n))
	copy(out, s)
	return out
}
