package meta

import (
	"math"
	"sort"
	"sync/atomic"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// sliceRef is one slice in the index of its stream: 24 bytes, however long the numbers of the slice are; the rest
// is read from the object's content.
type sliceRef struct {
	// start is the first offset for which readers are sent here: the slice's own start, or the stream's start at
	// the time of the commit where that was higher. So refs of a stream never overlap.
	start  uint64
	object *content
	at     uint32 // where the slice begins in the object's content
	length uint32 // end - start; math.MaxUint32 where it is that or more, then the content tells
}

// newSliceRef makes the ref for the slice s, which stands in c at the given place, in a stream that starts at
// streamStart, which is below the slice's end.
func newSliceRef(c *content, at uint32, s Slice, streamStart uint64) sliceRef {
	start := max(s.StartOffset, streamStart)
	return sliceRef{start: start, object: c, at: at, length: uint32(min(s.EndOffset-start, math.MaxUint32))}
}

// end returns the offset behind the slice.
func (r sliceRef) end() uint64 {
	if r.length < math.MaxUint32 {
		return r.start + uint64(r.length)
	}
	return r.slice().EndOffset
}

// slice returns the slice as its committer sent it.
func (r sliceRef) slice() Slice {
	s, _ := r.object.slice(r.at)
	return s
}

// maxTimestamp returns the greatest record timestamp of the slice.
func (r sliceRef) maxTimestamp() int64 { return r.slice().MaxTimestamp }

// The shape of the index. Append is the hot path. It writes behind the end of a leaf where there is room, and copies one
// of at most 1.5 KiB where there is none, and one inner node of at most 1 KiB for each further level, so wider nodes
// would cost more than they save.
const (
	leafMax  = 64
	innerMax = 32
	// Two neighbours are merged when they fit in three quarters of a node, so that the next insert does not split
	// them again at once. It keeps the nodes of any index at least 3/8 full on average.
	leafMerge  = leafMax * 3 / 4
	innerMerge = innerMax * 3 / 4
	// maxHeight is beyond any index that fits in a machine: at least 12 kids a node on average.
	maxHeight = 14
)

// sliceIndex holds the slices of one stream that are not released yet, in offset order, as a B+ tree with
// copy-on-write nodes. The zero value is empty. It is a value: a copy of it is a snapshot, as long as later changes
// use another Edit. Look-ups write nothing.
//
// Each inner node knows of each of its kids how many refs there are below and the greatest timestamp of them, so
// that counting and the search by timestamp need O(log n).
type sliceIndex struct {
	root *sliceNode
	n    int // number of refs
}

type sliceNode struct {
	edit *pmap.Edit // who may change the node in place
	refs []sliceRef // of a leaf, ascending by start
	kids []sliceKid // of an inner node, ascending by low; never empty
	// shared: older versions of the leaf have the same array, and see less of it. It may be extended, not changed.
	shared bool
	// extended: a newer version of the leaf has the place behind refs.
	extended atomic.Bool
}

type sliceKid struct {
	low    uint64 // the start of the first ref below
	newest int64  // the greatest timestamp below
	count  int    // number of refs below
	node   *sliceNode
}

// len returns the number of refs.
func (x sliceIndex) len() int { return x.n }

// first returns the ref with the lowest start.
func (x sliceIndex) first() (sliceRef, bool) {
	n := x.root
	if n == nil {
		return sliceRef{}, false
	}
	for n.kids != nil {
		n = n.kids[0].node
	}
	return n.refs[0], true
}

// height returns the number of levels: the measure of what a change copies.
func (x sliceIndex) height() int {
	h := 0
	for n := x.root; n != nil; h++ {
		if n.kids == nil {
			return h + 1
		}
		n = n.kids[0].node
	}
	return h
}

// at returns the ref that covers the offset.
func (x sliceIndex) at(offset uint64) (sliceRef, bool) {
	n := x.root
	if n == nil {
		return sliceRef{}, false
	}
	for n.kids != nil {
		n = n.kids[n.kidFor(offset)].node
	}
	i := n.refsUpTo(offset)
	if i == 0 || n.refs[i-1].end() <= offset {
		return sliceRef{}, false
	}
	return n.refs[i-1], true
}

// rank returns how many refs end at or below the offset.
func (x sliceIndex) rank(offset uint64) int {
	total := 0
	n := x.root
	for n != nil && n.kids != nil {
		i := n.kidFor(offset)
		for j := range i {
			total += n.kids[j].count
		}
		n = n.kids[i].node
	}
	if n == nil {
		return 0
	}
	i := n.refsUpTo(offset)
	if i > 0 && n.refs[i-1].end() > offset {
		i--
	}
	return total + i
}

// newerThan returns the first ref, in offset order, that ends above from and whose greatest timestamp is at least
// t.
func (x sliceIndex) newerThan(from uint64, t int64) (sliceRef, bool) {
	if x.root == nil {
		return sliceRef{}, false
	}
	return x.root.newerThan(from, t)
}

func (n *sliceNode) newerThan(from uint64, t int64) (sliceRef, bool) {
	if n.kids == nil {
		for _, r := range n.refs[max(n.refsUpTo(from)-1, 0):] {
			if r.end() > from && r.maxTimestamp() >= t {
				return r, true
			}
		}
		return sliceRef{}, false
	}
	// Only the first kid can hold refs that end at or below from: a later one that is new enough has the answer.
	for i := n.kidFor(from); i < len(n.kids); i++ {
		if n.kids[i].newest < t {
			continue
		}
		if r, ok := n.kids[i].node.newerThan(from, t); ok {
			return r, true
		}
	}
	return sliceRef{}, false
}

// count returns the number of refs below n.
func (n *sliceNode) count() int {
	total := len(n.refs)
	for i := range n.kids {
		total += n.kids[i].count
	}
	return total
}

// newest returns the greatest timestamp below n.
func (n *sliceNode) newest() int64 {
	t := int64(math.MinInt64)
	for i := range n.refs {
		t = max(t, n.refs[i].maxTimestamp())
	}
	for i := range n.kids {
		t = max(t, n.kids[i].newest)
	}
	return t
}

// refsUpTo returns how many refs of the leaf start at or below the offset.
func (n *sliceNode) refsUpTo(offset uint64) int {
	if k := len(n.refs); k > 0 && n.refs[k-1].start <= offset {
		return k // the append path
	}
	return sort.Search(len(n.refs), func(i int) bool { return n.refs[i].start > offset })
}

// kidFor returns which kid holds the refs that start at the offset, or just below.
func (n *sliceNode) kidFor(offset uint64) int {
	i := len(n.kids) - 1
	if n.kids[i].low <= offset {
		return i // the append path
	}
	return max(sort.Search(i, func(i int) bool { return n.kids[i].low > offset })-1, 0)
}

// sliceCursor stands at a ref of an index, or behind the last. It lives on the stack.
type sliceCursor struct {
	depth int
	nodes [maxHeight]*sliceNode
	at    [maxHeight]int
}

// seek returns a cursor at the first ref that ends above the offset.
func (x sliceIndex) seek(offset uint64) (c sliceCursor) {
	c.depth = -1
	for n := x.root; n != nil; {
		c.depth++
		c.nodes[c.depth] = n
		if n.kids == nil {
			i := n.refsUpTo(offset)
			if i > 0 && n.refs[i-1].end() > offset {
				i--
			}
			c.at[c.depth] = i
			if i == len(n.refs) {
				c.at[c.depth]--
				c.next()
			}
			return c
		}
		i := n.kidFor(offset)
		c.at[c.depth] = i
		n = n.kids[i].node
	}
	return c
}

// ref returns where the cursor stands.
func (c *sliceCursor) ref() (sliceRef, bool) {
	if c.depth < 0 {
		return sliceRef{}, false
	}
	return c.nodes[c.depth].refs[c.at[c.depth]], true
}

// next moves the cursor by one.
func (c *sliceCursor) next() {
	if c.depth < 0 {
		return
	}
	c.at[c.depth]++
	if c.at[c.depth] < len(c.nodes[c.depth].refs) {
		return
	}
	up := c.depth - 1
	for up >= 0 && c.at[up] == len(c.nodes[up].kids)-1 {
		up--
	}
	if up < 0 {
		c.depth = -1
		return
	}
	c.at[up]++
	n := c.nodes[up].kids[c.at[up]].node
	for c.depth = up + 1; ; c.depth++ {
		c.nodes[c.depth], c.at[c.depth] = n, 0
		if n.kids == nil {
			return
		}
		n = n.kids[0].node
	}
}
