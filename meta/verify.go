package meta

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// Verify builds the state anew from its entries and compares digest, derived indexes and counts with those that were
// kept while rows were applied; and it checks what must hold inside each entry. It returns what is wrong, joined into
// one error, and nil for every state that rows led to. It walks all of the state: it is for tests and for offline checks.
func (s *State) Verify() error {
	fresh := newTx(NewState(), s.index)
	fresh.format, fresh.nextStream, fresh.nextObject = s.format, s.nextStream, s.nextObject
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for id, n := range s.nodes.All() {
		fresh.setNode(id, n)
		verifyNode(id, n, s, wrong)
	}
	for id, st := range s.streams.All() {
		verifyStream(id, st, s, wrong)
		copied := *st
		if st.rare != nil {
			r := *st.rare
			r.sum = sumOfRare(id, &r)
			copied.rare = &r
		}
		copied.setNames(st.name, st.labels)
		fresh.setStream(id, &copied)
	}
	for key, k := range s.keys.All() {
		fresh.setKey(key, pmap.Place{}, k)
	}
	for id, c := range s.clients.All() {
		copied := *c
		copied.sum = sumOfResults(id, c)
		fresh.results += uint64(c.results.Len())
		fresh.clients.Set(fresh.edit, id, &copied)
		fresh.listClient(id, &copied)
		verifyClient(id, c, s, wrong)
	}
	fresh.verifyObjects(s, wrong)
	compareStates(s, &fresh.State, wrong)
	return errors.Join(errs...)
}

func verifyNode(id uint64, n *node, s *State, wrong func(string, ...any)) {
	switch {
	case id == 0 || n.epoch == 0 || n.epoch >= maxNumber:
		wrong("node %d: epoch %d", id, n.epoch)
	case len(n.instances) == 0 || len(n.instances) > maxInstances:
		wrong("node %d: %d instances", id, len(n.instances))
	case !n.registered && (n.address != "" || n.labels != nil || n.format != 0 || n.renewals != 0 || n.fenced || n.rescuer != Identity{} || n.registeredIndex != 0):
		wrong("node %d: unregistered, yet more than its epoch is left", id)
	case !n.registered:
		owned, _ := s.owners.Get(id)
		if owes, _ := s.debtors.Get(id); owned.Len() > 0 || owes.debts > 0 {
			wrong("node %d: unregistered, yet it owns %d streams and owes %d debts", id, owned.Len(), owes.debts)
		}
	case n.format < s.format || n.renewals == 0 || !n.fenced && n.rescuer != Identity{}:
		wrong("node %d: format level %d, %d renewals, rescuer %v", id, n.format, n.renewals, n.rescuer)
	}
}

func verifyStream(id uint64, st *stream, s *State, wrong func(string, ...any)) {
	switch {
	case id == 0 || id >= s.nextStream:
		wrong("stream %d: never handed out", id)
	case st.start > st.end || st.end >= maxNumber || st.rangeStart > st.end:
		wrong("stream %d: start %d, end %d, last range from %d", id, st.start, st.end, st.rangeStart)
	case (st.rangeEpoch == 0) != (st.owner == Identity{}) || st.rangeEpoch > st.epoch || st.open && st.rangeEpoch == 0:
		wrong("stream %d: epoch %d, range epoch %d, owner %v, open %v", id, st.epoch, st.rangeEpoch, st.owner, st.open)
	}
	if st.rare == nil {
		return
	}
	r := st.rare
	if r.orNil() == nil {
		wrong("stream %d: an empty rare part", id)
	}
	if st.open && r.transfer != nil {
		wrong("stream %d: open, yet transferred", id)
	}
	if (r.transfer == nil && r.reservedFor != 0) || (r.transfer != nil && r.reservedFor != r.transfer.to) {
		wrong("stream %d: reserved for node %d, transfer %+v", id, r.reservedFor, r.transfer)
	}
	verifyIntervals(id, st, wrong)
	var end uint64
	for start, p := range r.ranges.All() {
		if start < end || p.end <= start || p.end > st.rangeStart {
			wrong("stream %d: past range [%d, %d)", id, start, p.end)
		}
		end = p.end
	}
}

// verifyIntervals checks that debts and losses lie inside the stream, in order and apart.
func verifyIntervals(id uint64, st *stream, wrong func(string, ...any)) {
	r := st.rare
	at := st.start
	for _, d := range r.debts {
		if d.start < at || d.boundary <= d.start || d.boundary > st.end || d.epoch > st.epoch {
			wrong("stream %d: debt %+v", id, d)
		}
		at = d.boundary
	}
	at = st.start
	for i, l := range r.losses {
		if l.start < at || i > 0 && l.start == at || l.end <= l.start || l.end > st.end {
			wrong("stream %d: loss %+v", id, l)
		}
		at = l.end
		for _, d := range r.debts {
			if l.start < d.boundary && d.start < l.end {
				wrong("stream %d: debt %+v is also a loss %+v", id, d, l)
			}
		}
	}
	if len(r.debts) > maxDebts || len(r.losses) > maxLosses {
		wrong("stream %d: %d debts, %d losses", id, len(r.debts), len(r.losses))
	}
}

func verifyClient(id string, c *client, s *State, wrong func(string, ...any)) {
	if c.own != nil {
		wrong("client %x: its record is a transaction's own", id)
	}
	if len(id) != len(Request{}.Client) || c.oldest == 0 || c.seen >= ordinal(s.index+1, 0) {
		wrong("client %x: oldest %d, seen %d", id, c.oldest, c.seen)
	}
	for sequence, k := range c.results.All() {
		if sequence < c.oldest || sequence-c.oldest >= RequestWindow {
			wrong("client %x: an answer to sequence %d, oldest is %d", id, sequence, c.oldest)
		}
		if _, err := DecodeResult([]byte(k.result)); err != nil && k.status != Rejected {
			wrong("client %x: answer to sequence %d: %v", id, sequence, err)
		}
	}
}

// compareStates compares what was kept with what was computed anew.
func compareStates(kept, fresh *State, wrong func(string, ...any)) {
	if kept.sum != fresh.sum {
		wrong("digest of the entries: kept %x, computed %x", kept.sum, fresh.sum)
	}
	if kept.requestSum != fresh.requestSum {
		wrong("digest of the request memory: kept %x, computed %x", kept.requestSum, fresh.requestSum)
	}
	same := func(a, b uint64) bool { return a == b }
	sameSet := func(a, b idSet) bool { return equalMaps(a, b, func(struct{}, struct{}) bool { return true }) }
	for _, index := range []struct {
		name  string
		equal bool
	}{
		{"names", equalMaps(kept.names, fresh.names, same)},
		{"owners", equalMaps(kept.owners, fresh.owners, sameSet)},
		{"reservations", equalMaps(kept.reserved, fresh.reserved, sameSet)},
		{"labels", equalMaps(kept.labels, fresh.labels, sameSet)},
		{"levels", equalMaps(kept.levels, fresh.levels, same)},
		{"seen", equalMaps(kept.seen, fresh.seen, func(a, b string) bool { return a == b })},
		{"debtors", equalMaps(kept.debtors, fresh.debtors, func(a, b debtorSet) bool {
			return a.debts == b.debts && equalMaps(a.streams, b.streams, same)
		})},
	} {
		if !index.equal {
			wrong("the index of %s differs from the one computed anew", index.name)
		}
	}
	a := [...]uint64{kept.registered, kept.fenced, kept.openStreams, kept.debts, kept.results}
	b := [...]uint64{fresh.registered, fresh.fenced, fresh.openStreams, fresh.debts, fresh.results}
	if a != b {
		wrong("counts of nodes, fenced nodes, open streams, debts, results: kept %d, computed %d", a, b)
	}
}

func equalMaps[K cmp.Ordered, V any](a, b pmap.Map[K, V], equal func(V, V) bool) bool {
	if a.Len() != b.Len() {
		return false
	}
	for k, v := range a.All() {
		if w, ok := b.Get(k); !ok || !equal(v, w) {
			return false
		}
	}
	return true
}
