package pmap

import (
	"cmp"
	"fmt"
)

// Check walks the whole tree and returns the first broken rule of its shape. It is inside the package because the
// shape is not visible from outside.
func Check[K cmp.Ordered, V any](m Map[K, V]) error {
	if m.root == nil {
		if m.size != 0 {
			return fmt.Errorf("no root, but size %d", m.size)
		}
		return nil
	}
	var zero K
	count, _, err := check(m.root, zero, zero, false, false, true)
	if err == nil && count != m.size {
		err = fmt.Errorf("%d entries, but size %d", count, m.size)
	}
	return err
}

func check[K cmp.Ordered, V any](n *node[K, V], lo, hi K, hasLo, hasHi, root bool) (count, depth int, err error) {
	for i, k := range n.keys {
		if i > 0 && !(n.keys[i-1] < k) || hasLo && k < lo || hasHi && !(k < hi) {
			return 0, 0, fmt.Errorf("key %v is out of order or of bounds [%v, %v)", k, lo, hi)
		}
	}
	if cap(n.keys) > maxLeaf {
		return 0, 0, fmt.Errorf("room for %d keys", cap(n.keys))
	}
	if n.kids == nil {
		if len(n.keys) == 0 || len(n.keys) != len(n.vals) {
			return 0, 0, fmt.Errorf("leaf with %d keys and %d values", len(n.keys), len(n.vals))
		}
		return len(n.keys), 1, nil
	}
	if n.vals != nil || len(n.keys) > maxKids-1 || root && len(n.keys) == 0 {
		return 0, 0, fmt.Errorf("inner node with %d keys, values %v", len(n.keys), n.vals)
	}
	for i, kid := range n.kids {
		if (kid != nil) != (i <= len(n.keys)) {
			return 0, 0, fmt.Errorf("inner node with %d keys has kid %d: %v", len(n.keys), i, kid != nil)
		}
		if kid == nil {
			continue
		}
		klo, khi, khasLo, khasHi := lo, hi, hasLo, hasHi
		if i > 0 {
			klo, khasLo = n.keys[i-1], true
		}
		if i < len(n.keys) {
			khi, khasHi = n.keys[i], true
		}
		c, d, err := check(kid, klo, khi, khasLo, khasHi, false)
		if err != nil {
			return 0, 0, err
		}
		if i > 0 && d != depth {
			return 0, 0, fmt.Errorf("kids of depth %d and %d", depth, d)
		}
		count, depth = count+c, d
	}
	return count, depth + 1, nil
}

// Shape returns the number of nodes, and of key and value places they have in memory.
func Shape[K cmp.Ordered, V any](m Map[K, V]) (nodes, places int) {
	var walk func(n *node[K, V])
	walk = func(n *node[K, V]) {
		nodes++
		places += max(cap(n.keys), cap(n.vals))
		if n.kids != nil {
			for _, kid := range n.kids[:len(n.keys)+1] {
				walk(kid)
			}
		}
	}
	if m.root != nil {
		walk(m.root)
	}
	return nodes, places
}
