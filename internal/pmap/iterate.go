package pmap

import (
	"cmp"
	"fmt"
	"iter"
)

// All returns the entries in ascending order of their keys. The sequence may be run more than once; it shows the map
// as it was when All was called, provided that later changes are made with a newer Edit.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.ascend(yield)
		}
	}
}

// From returns the entries with keys at or above k in ascending order, as All does. Finding the first costs as much
// as a look-up.
func (m Map[K, V]) From(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.ascendFrom(k, yield)
		}
	}
}

// Backward returns the entries with keys at or below k in descending order, as From does upward.
func (m Map[K, V]) Backward(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.descendFrom(k, yield)
		}
	}
}

// ascend yields all that is below n and reports whether to go on.
func (n *node[K, V]) ascend(yield func(K, V) bool) bool {
	if n.kids != nil {
		for _, kid := range n.kids[:len(n.keys)+1] {
			if !kid.ascend(yield) {
				return false
			}
		}
		return true
	}
	vals := n.vals[:len(n.keys)]
	for i, k := range n.keys {
		if !yield(k, vals[i]) {
			return false
		}
	}
	return true
}

// ascendFrom yields what is below n and at or above k.
func (n *node[K, V]) ascendFrom(k K, yield func(K, V) bool) bool {
	if n.kids == nil {
		for i := atOrAbove(n.keys, k); i < len(n.keys); i++ {
			if !yield(n.keys[i], n.vals[i]) {
				return false
			}
		}
		return true
	}
	i := above(n.keys, k)
	if !n.kids[i].ascendFrom(k, yield) {
		return false
	}
	for _, kid := range n.kids[i+1 : len(n.keys)+1] {
		if !kid.ascend(yield) {
			return false
		}
	}
	return true
}

// descend yields all that is below n from the end.
func (n *node[K, V]) descend(yield func(K, V) bool) bool {
	for i := n.fill() - 1; i >= 0; i-- {
		if n.kids != nil {
			if !n.kids[i].descend(yield) {
				return false
			}
		} else if !yield(n.keys[i], n.vals[i]) {
			return false
		}
	}
	return true
}

// descendFrom yields what is below n and at or below k, from the end.
func (n *node[K, V]) descendFrom(k K, yield func(K, V) bool) bool {
	i := above(n.keys, k)
	if n.kids == nil {
		for i--; i >= 0; i-- {
			if !yield(n.keys[i], n.vals[i]) {
				return false
			}
		}
		return true
	}
	if !n.kids[i].descendFrom(k, yield) {
		return false
	}
	for i--; i >= 0; i-- {
		if !n.kids[i].descend(yield) {
			return false
		}
	}
	return true
}

// FromSorted returns a map of the entries of seq, with full leaves. The keys must ascend strictly; otherwise the
// error says which two do not, and the rest of seq is not read.
func FromSorted[K cmp.Ordered, V any](seq iter.Seq2[K, V]) (Map[K, V], error) {
	var (
		e      = NewEdit()
		level  []*node[K, V]
		mins   []K // the least key below each node of level
		keys   [maxLeaf]K
		vals   [maxLeaf]V
		n      int
		size   int
		latest K
		err    error
	)
	flush := func() {
		leaf := &node[K, V]{edit: e, keys: make([]K, n), vals: make([]V, n)}
		copy(leaf.keys, keys[:n])
		copy(leaf.vals, vals[:n])
		level, mins, n = append(level, leaf), append(mins, leaf.keys[0]), 0
	}
	for k, v := range seq {
		if size > 0 && !(latest < k) {
			err = fmt.Errorf("build a map from sorted entries: key %v after %v", k, latest)
			break
		}
		if n == maxLeaf {
			flush()
		}
		keys[n], vals[n], latest = k, v, k
		n++
		size++
	}
	if err != nil || size == 0 {
		return Map[K, V]{}, err
	}
	flush()
	for len(level) > 1 {
		level, mins = parents(e, level, mins)
	}
	return Map[K, V]{root: level[0], size: size}, nil
}

// parents returns the level above level, with the least key below each node.
func parents[K cmp.Ordered, V any](e *Edit, level []*node[K, V], mins []K) ([]*node[K, V], []K) {
	var above []*node[K, V]
	var aboveMins []K
	for at := 0; at < len(level); {
		take := min(maxKids, len(level)-at)
		if len(level)-at == maxKids+1 {
			take-- // or the last node would have a single kid
		}
		above = append(above, newInner(e, mins[at+1:at+take], level[at:at+take]...))
		aboveMins = append(aboveMins, mins[at])
		at += take
	}
	return above, aboveMins
}
