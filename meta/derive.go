package meta

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// derive computes the sums and all derived indexes of a state that holds its entries only, as decoding leaves it, with the
// slices counted and added up. It fails where the entries contradict each other. The sums inside records must be right.
func (s *State) derive() error {
	s.deriveSums()
	for _, step := range []func() error{s.deriveNodes, s.deriveStreams, s.deriveClients, s.deriveObjects} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// deriveSums adds the hashes of all entries up but those of slices.
func (s *State) deriveSums() {
	var buf []byte
	add := func(to *sum, entry []byte) { *to, buf = to.plus(hashOf(entry)), entry[:0] }
	for id, n := range s.nodes.All() {
		add(&s.sum, appendNode(buf, id, n))
	}
	for id, st := range s.streams.All() {
		add(&s.sum, appendStream(buf, id, st))
		if st.rare != nil {
			s.sum = s.sum.plus(st.rare.sum)
		}
	}
	for key, k := range s.keys.All() {
		add(&s.sum, appendKey(buf, key, k))
	}
	for id, c := range s.clients.All() {
		add(&s.requestSum, appendClient(buf, id, c))
		s.requestSum = s.requestSum.plus(c.sum)
	}
	for id, o := range s.objects.All() {
		add(&s.sum, appendObject(buf, id, o))
	}
}

// all yields the refs of an index in offset order.
func (x sliceIndex) all() iter.Seq[sliceRef] {
	return func(yield func(sliceRef) bool) {
		cursor := x.seek(0)
		for r, ok := cursor.ref(); ok; r, ok = cursor.ref() {
			if !yield(r) {
				return
			}
			cursor.next()
		}
	}
}

// sumOfRare adds up the entries of a stream's ranges, debts and losses.
func sumOfRare(stream uint64, r *streamRare) (total sum) {
	var buf []byte
	for start, p := range r.ranges.All() {
		buf = appendRange(buf[:0], stream, start, p)
		total = total.plus(hashOf(buf))
	}
	for _, d := range r.debts {
		buf = appendDebt(buf[:0], stream, d)
		total = total.plus(hashOf(buf))
	}
	for _, l := range r.losses {
		buf = appendLoss(buf[:0], stream, l)
		total = total.plus(hashOf(buf))
	}
	return total
}

// sumOfResults adds up the entries of a client's results.
func sumOfResults(id string, c *client) (total sum) {
	var buf []byte
	for sequence, k := range c.results.All() {
		buf = appendKept(buf[:0], id, sequence, k)
		total = total.plus(hashOf(buf))
	}
	return total
}

func (s *State) deriveNodes() error {
	edit := pmap.NewEdit()
	for _, n := range s.nodes.All() {
		if !n.registered {
			continue
		}
		s.registered++
		if n.fenced {
			s.fenced++
		}
		count, _ := s.levels.Get(n.format)
		s.levels.Set(edit, n.format, count+1)
	}
	return nil
}

func (s *State) deriveStreams() (err error) {
	type named struct {
		name string
		id   uint64
	}
	names := make([]named, 0, s.streams.Len())
	var owners, reserved, debtors gathered[uint64]
	var labels gathered[string]
	var key []byte
	for id, st := range s.streams.All() {
		names = append(names, named{st.name, id})
		if owner := st.openOwner(); owner != 0 {
			owners.add(owner, id)
			s.openStreams++
		}
		if node := st.reservedFor(); node != 0 {
			reserved.add(node, id)
		}
		for _, d := range st.debts() {
			debtors.add(d.node, id)
			s.debts++
		}
		for _, l := range st.labels {
			key = append(appendString(key[:0], l.Name), l.Value...)
			if i, ok := labels.at[string(key)]; ok { // spares the string, as a rule
				labels.list[i].ids = append(labels.list[i].ids, id)
				continue
			}
			labels.add(string(key), id)
		}
	}
	slices.SortFunc(names, func(a, b named) int { return cmp.Compare(a.name, b.name) })
	s.names, err = pmap.FromSorted(func(yield func(string, uint64) bool) {
		for _, n := range names {
			if !yield(n.name, n.id) {
				return
			}
		}
	})
	if err != nil {
		return fmt.Errorf("index the names of streams: %w", err)
	}
	if s.owners, err = owners.sets(); err != nil {
		return fmt.Errorf("index the owners of streams: %w", err)
	}
	if s.reserved, err = reserved.sets(); err != nil {
		return fmt.Errorf("index the reservations of streams: %w", err)
	}
	if s.labels, err = labels.sets(); err != nil {
		return fmt.Errorf("index the labels of streams: %w", err)
	}
	edit := pmap.NewEdit()
	for node, ids := range debtors.all() {
		set := debtorSet{debts: uint64(len(ids))}
		for _, id := range ids {
			n, _ := set.streams.Get(id)
			set.streams.Set(edit, id, n+1)
		}
		s.debtors.Set(edit, node, set)
	}
	return nil
}

func (s *State) deriveClients() error {
	edit := pmap.NewEdit()
	for id, c := range s.clients.All() {
		s.results += uint64(c.results.Len())
		if other, replaced := s.seen.Set(edit, c.seen, id); replaced {
			return fmt.Errorf("clients %x and %x were both seen last at %d", other, id, c.seen)
		}
	}
	return nil
}

func (s *State) deriveObjects() (err error) {
	var prepared gathered[int64]
	edit := pmap.NewEdit()
	for id, o := range s.objects.All() {
		s.inState[o.state]++
		switch {
		case o.state == ObjectPrepared:
			prepared.add(o.deadline, id)
		case o.state == ObjectDeletable:
			s.deletable.Set(edit, id, struct{}{})
		case o.unreleased == 0:
			s.released.Set(edit, id, struct{}{})
		}
	}
	if s.prepared, err = prepared.sets(); err != nil {
		return fmt.Errorf("index the prepared objects: %w", err)
	}
	for id, st := range s.streams.All() {
		if r, ok := st.slices.first(); ok && r.end() <= st.start {
			s.dead.Set(edit, id, struct{}{})
		}
	}
	for id := range s.orphans.All() {
		s.dead.Set(edit, id, struct{}{})
	}
	return nil
}

// gathered collects ids under keys, to build an index in one go.
type gathered[K cmp.Ordered] struct {
	at   map[K]int // where in list
	list []gatheredIDs[K]
}

type gatheredIDs[K cmp.Ordered] struct {
	key K
	ids []uint64
}

// add puts id under key. Under one key the ids come in ascending order.
func (g *gathered[K]) add(key K, id uint64) {
	i, ok := g.at[key]
	if !ok {
		if g.at == nil {
			g.at = make(map[K]int)
		}
		i = len(g.list)
		g.at[key] = i
		g.list = append(g.list, gatheredIDs[K]{key: key})
	}
	g.list[i].ids = append(g.list[i].ids, id)
}

// all yields the keys in ascending order with their ids.
func (g *gathered[K]) all() iter.Seq2[K, []uint64] {
	slices.SortFunc(g.list, func(a, b gatheredIDs[K]) int { return cmp.Compare(a.key, b.key) })
	return func(yield func(K, []uint64) bool) {
		for _, x := range g.list {
			if !yield(x.key, x.ids) {
				return
			}
		}
	}
}

// sets builds the index.
func (g *gathered[K]) sets() (pmap.Map[K, idSet], error) {
	var broken error
	index, err := pmap.FromSorted(func(yield func(K, idSet) bool) {
		for key, ids := range g.all() {
			set, err := pmap.FromSorted(func(yield func(uint64, struct{}) bool) {
				for _, id := range ids {
					if !yield(id, struct{}{}) {
						return
					}
				}
			})
			if err != nil {
				broken = err
				return
			}
			if !yield(key, set) {
				return
			}
		}
	})
	return index, errors.Join(broken, err)
}
