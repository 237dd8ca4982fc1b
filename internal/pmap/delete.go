package pmap

import "cmp"

// Delete removes the entry at k and returns its value, if there was one. Nodes that e does not own are copied first;
// where there is nothing at k nothing is copied.
func (m *Map[K, V]) Delete(e *Edit, k K) (old V, deleted bool) {
	if m.root == nil {
		return old, false
	}
	if e == nil {
		e = NewEdit()
	}
	root, old, deleted := m.root.remove(e, k)
	if !deleted {
		return old, false
	}
	m.size--
	switch {
	case m.size == 0:
		root = nil
	case root.kids != nil && len(root.keys) == 0:
		root = root.kids[0]
	}
	m.root = root
	return old, true
}

// remove takes the entry at k from below n and returns n or the copy that takes its place.
func (n *node[K, V]) remove(e *Edit, k K) (now *node[K, V], old V, deleted bool) {
	if n.kids == nil {
		i := atOrAbove(n.keys, k)
		if i == len(n.keys) || n.keys[i] != k {
			return n, old, false
		}
		old = n.vals[i]
		return n.removeLeaf(e, i), old, true
	}
	i := above(n.keys, k)
	kid := n.kids[i]
	now, old, deleted = kid.remove(e, k)
	if !deleted {
		return n, old, false
	}
	if now != kid {
		n = n.owned(e)
		n.kids[i] = now
	}
	if now.fill() < minFill && len(n.keys) > 0 {
		n.refill(e, i)
	}
	return n, old, true
}

// removeLeaf takes the entry at position i from a leaf.
func (n *node[K, V]) removeLeaf(e *Edit, i int) *node[K, V] {
	if n.edit == e {
		n.keys = removeAt(n.keys, i)
		n.vals = removeAt(n.vals, i)
		return n
	}
	e.nodes++
	c := &node[K, V]{edit: e}
	c.keys = removeAt(n.keys[:len(n.keys):len(n.keys)], i)
	c.vals = removeAt(n.vals[:len(n.vals):len(n.vals)], i)
	return c
}

// fill returns how much a node holds: entries of a leaf, kids of an inner node.
func (n *node[K, V]) fill() int {
	if n.kids == nil {
		return len(n.keys)
	}
	return len(n.keys) + 1
}

// refill joins kid i of an owned inner node with a neighbour, or shares the neighbour's content with it.
func (n *node[K, V]) refill(e *Edit, i int) {
	if i == len(n.keys) {
		i--
	}
	l, r := n.kids[i], n.kids[i+1]
	total := l.fill() + r.fill()
	if total <= joinFill {
		n.kids[i] = join(e, l, r, n.keys[i], 0, total)
		copy(n.kids[i+1:], n.kids[i+2:len(n.keys)+1])
		n.kids[len(n.keys)] = nil
		n.keys = removeAt(n.keys, i)
		return
	}
	half := total / 2
	left := join(e, l, r, n.keys[i], 0, half)
	right := join(e, l, r, n.keys[i], half, total)
	var sep K
	switch {
	case right.kids == nil:
		sep = right.keys[0]
	case half < l.fill():
		sep = l.keys[half-1]
	case half == l.fill():
		sep = n.keys[i]
	default:
		sep = r.keys[half-l.fill()-1]
	}
	n.kids[i], n.kids[i+1] = left, right
	n.keys = cut(n.keys, len(n.keys)) // they may be shared with an older version
	n.keys[i] = sep
}

// join returns a node with the entries or kids from..to of l and r side by side, which sep separates.
func join[K cmp.Ordered, V any](e *Edit, l, r *node[K, V], sep K, from, to int) *node[K, V] {
	if l.kids == nil {
		n := newLeaf[K, V](e, to-from)
		spread(n.keys, l.keys, r.keys, from)
		spread(n.vals, l.vals, r.vals, from)
		return n
	}
	var kids [2 * maxKids]*node[K, V]
	var keys [2 * maxKids]K
	lk := len(l.keys) + 1
	copy(kids[:], l.kids[:lk])
	copy(kids[lk:], r.kids[:len(r.keys)+1])
	copy(keys[:], l.keys)
	keys[lk-1] = sep
	copy(keys[lk:], r.keys)
	return newInner(e, keys[from:to-1], kids[from:to]...)
}

// spread fills dst from position from on of l and r side by side.
func spread[T any](dst, l, r []T, from int) {
	if from < len(l) {
		n := copy(dst, l[from:])
		copy(dst[n:], r)
		return
	}
	copy(dst, r[from-len(l):])
}

// removeAt returns s without position i: in place where s has free capacity, but not so much of it that a new array
// is better.
func removeAt[T any](s []T, i int) []T {
	if free := cap(s) - len(s); free > 0 && free < 2*slack {
		copy(s[i:], s[i+1:])
		clear(s[len(s)-1:])
		return s[:len(s)-1]
	}
	out := make([]T, len(s)-1, roomFor(len(s)))
	copy(out, s[:i])
	copy(out[i:], s[i+1:])
	return out
}
