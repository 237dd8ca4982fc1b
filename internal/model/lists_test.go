package model_test

import (
	"cmp"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headwaterdb/headwater/meta"
)

// compareLists asks for every list there is, in pages of so many items, and holds it against a walk over the model.
func (p *pair) compareLists(limit int) {
	p.t.Helper()
	p.compareNodes(limit)
	p.compareStreams(limit)
	p.compareParts(limit)
	p.compareObjects(limit)
	p.compareKeys(limit)
	p.compareCounts()
}

// same fails where a list, read page by page to its end, is not what the model has.
func same[T any](p *pair, what string, limit int, page func(cursor string, limit int) (meta.Page[T], error), want []T) {
	p.t.Helper()
	var got []T
	for cursor := ""; ; {
		pg, err := page(cursor, limit)
		if err != nil || len(pg.Items) > limit {
			p.t.Fatalf("row %d: %s: %d items, %v", p.model.Index(), what, len(pg.Items), err)
		}
		got = append(got, pg.Items...)
		if cursor = pg.Next; cursor == "" {
			break
		}
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		p.t.Fatalf("row %d: %s, in pages of %d (-model +meta):\n%s", p.model.Index(), what, limit, diff)
	}
}

// those returns the items that pass.
func those[T any](all []T, pass func(T) bool) (out []T) {
	for _, v := range all {
		if pass(v) {
			out = append(out, v)
		}
	}
	return out
}

func (p *pair) compareNodes(limit int) {
	p.t.Helper()
	var nodes []meta.Node
	for _, id := range p.model.Nodes() {
		nodes = append(nodes, p.model.Node(id))
	}
	same(p, "nodes", limit, p.state.Nodes, nodes)
	for id := range uint64(9) {
		got, ok := p.state.Node(id)
		if want, known := p.model.KnownNode(id); ok != known || !gocmp.Equal(got, want, cmpopts.EquateEmpty()) {
			p.t.Fatalf("row %d: node %d is %+v, %v; model %+v, %v", p.model.Index(), id, got, ok, want, known)
		}
	}
}

func (p *pair) compareStreams(limit int) {
	p.t.Helper()
	streams := p.model.Streams()
	same(p, "streams", limit, p.state.Streams, streams)
	for id := range uint64(7) {
		same(p, "streams by owner", limit, func(cursor string, limit int) (meta.Page[meta.Stream], error) {
			return p.state.StreamsByOwner(id, cursor, limit)
		}, those(streams, func(st meta.Stream) bool { return st.Open && st.Owner.NodeID == id }))
		if id == 0 {
			continue // reserved for nobody
		}
		same(p, "streams reserved", limit, func(cursor string, limit int) (meta.Page[meta.Stream], error) {
			return p.state.StreamsReservedFor(id, cursor, limit)
		}, those(streams, func(st meta.Stream) bool { return st.ReservedFor == id }))
	}
	for _, label := range []meta.Label{{Name: "zone", Value: "a"}, {Name: "zone", Value: "b"}, {Name: "team", Value: "x"}, {Name: "zone"}} {
		same(p, "streams by label", limit, func(cursor string, limit int) (meta.Page[meta.Stream], error) {
			return p.state.StreamsByLabel(label, cursor, limit)
		}, those(streams, func(st meta.Stream) bool { return slices.Contains(st.Labels, label) }))
	}
	byName := slices.SortedFunc(slices.Values(streams), func(a, b meta.Stream) int { return cmp.Compare(a.Name, b.Name) })
	for _, prefix := range []string{"", "s", "s1", "t"} {
		same(p, "streams by name", limit, func(cursor string, limit int) (meta.Page[meta.Stream], error) {
			return p.state.StreamsByName(prefix, cursor, limit)
		}, those(byName, func(st meta.Stream) bool { return strings.HasPrefix(st.Name, prefix) }))
	}
	for _, st := range streams {
		byName, ok := p.state.StreamByName(st.Name)
		byID, also := p.state.Stream(st.ID)
		if !ok || !also || !gocmp.Equal(byName, st, cmpopts.EquateEmpty()) || !gocmp.Equal(byID, st, cmpopts.EquateEmpty()) {
			p.t.Fatalf("row %d: stream %q is %+v by name and %+v by id; model %+v", p.model.Index(), st.Name, byName, byID, st)
		}
	}
	for _, id := range p.model.DeletedStreams() {
		if got, ok := p.state.Stream(id); ok {
			p.t.Fatalf("row %d: stream %d was deleted, and is %+v", p.model.Index(), id, got)
		}
	}
}

// compareParts compares what belongs to streams: ranges, debts, losses and what is worth compacting.
func (p *pair) compareParts(limit int) {
	p.t.Helper()
	for _, st := range p.model.Streams() {
		same(p, "ranges", limit, func(cursor string, limit int) (meta.Page[meta.Range], error) {
			return p.state.Ranges(st.ID, cursor, limit)
		}, recordsOf[meta.Range](p, func(r meta.Range) bool { return r.StreamID == st.ID }))
		same(p, "losses", limit, func(cursor string, limit int) (meta.Page[meta.Loss], error) {
			return p.state.Losses(st.ID, cursor, limit)
		}, recordsOf[meta.Loss](p, func(l meta.Loss) bool { return l.StreamID == st.ID }))
		got, err := p.state.CompactionCandidates(st.ID, 6, "", 1000)
		if want := p.model.Candidates(st.ID, 6); err != nil || !gocmp.Equal(got.Items, want, cmpopts.EquateEmpty()) {
			p.t.Fatalf("row %d: candidates of stream %d: %v (-model +meta):\n%s", p.model.Index(), st.ID, err, gocmp.Diff(want, got.Items))
		}
	}
	debts := p.model.Debts()
	byNode := slices.SortedStableFunc(slices.Values(debts), func(a, b meta.Debt) int { return cmp.Compare(a.NodeID, b.NodeID) })
	for node := range uint64(7) {
		mine := func(d meta.Debt) bool { return node == 0 || d.NodeID == node }
		same(p, "debts", limit, func(cursor string, limit int) (meta.Page[meta.Debt], error) {
			return p.state.Debts(meta.DebtFilter{NodeID: node}, cursor, limit)
		}, those(byNode, mine))
		for _, st := range p.model.Streams() {
			same(p, "debts of a stream", limit, func(cursor string, limit int) (meta.Page[meta.Debt], error) {
				return p.state.Debts(meta.DebtFilter{StreamID: st.ID, NodeID: node}, cursor, limit)
			}, those(debts, func(d meta.Debt) bool { return mine(d) && d.StreamID == st.ID }))
		}
	}
}

func recordsOf[R meta.Record](p *pair, pass func(R) bool) (out []R) {
	for _, r := range p.model.Export() {
		if r, ok := r.(R); ok && pass(r) {
			out = append(out, r)
		}
	}
	return out
}

func (p *pair) compareObjects(limit int) {
	p.t.Helper()
	var full, bare []meta.ObjectRecord
	for _, o := range p.model.Objects() {
		got, ok := p.state.Object(o.ID)
		if !ok || !gocmp.Equal(got, o, cmpopts.EquateEmpty()) {
			p.t.Fatalf("row %d: object %d, %v (-model +meta):\n%s", p.model.Index(), o.ID, ok, gocmp.Diff(o, got, cmpopts.EquateEmpty()))
		}
		full = append(full, o)
		o.Slices = nil
		bare = append(bare, o)
	}
	for state := range meta.ObjectDeletable + 1 {
		for _, filter := range []meta.ObjectFilter{{State: state}, {State: state, WithSlices: true}, {State: state, ExpiredAt: 90}} {
			if filter.ExpiredAt != 0 && state != meta.ObjectPrepared {
				continue
			}
			all := bare
			if filter.WithSlices {
				all = full
			}
			want := those(all, func(o meta.ObjectRecord) bool {
				return (state == 0 || o.State == state) && (filter.ExpiredAt == 0 || o.Deadline < filter.ExpiredAt)
			})
			if state == meta.ObjectPrepared {
				slices.SortStableFunc(want, func(a, b meta.ObjectRecord) int { return cmp.Compare(a.Deadline, b.Deadline) })
			}
			same(p, "objects", limit, func(cursor string, limit int) (meta.Page[meta.ObjectRecord], error) {
				return p.state.Objects(filter, cursor, limit)
			}, want)
		}
	}
}

func (p *pair) compareKeys(limit int) {
	p.t.Helper()
	keys := p.model.Keys()
	for _, prefix := range []string{"", "k", "k1", "z"} {
		want := those(keys, func(k meta.Key) bool { return strings.HasPrefix(k.Key, prefix) })
		same(p, "keys", limit, func(cursor string, limit int) (meta.Page[meta.Key], error) {
			return p.state.Keys(prefix, cursor, limit)
		}, want)
		for i := range want {
			want[i].Value = nil
		}
		same(p, "names of keys", limit, func(cursor string, limit int) (meta.Page[meta.Key], error) {
			return p.state.KeyNames(prefix, cursor, limit)
		}, want)
	}
	for _, k := range keys {
		if got, ok := p.state.Key(k.Key); !ok || !gocmp.Equal(got, k, cmpopts.EquateEmpty()) {
			p.t.Fatalf("row %d: key %+v, %v; model %+v", p.model.Index(), got, ok, k)
		}
	}
}

func (p *pair) compareCounts() {
	p.t.Helper()
	var want meta.Counts
	for _, r := range p.model.Export() {
		switch r := r.(type) {
		case meta.Node:
			if r.Registered {
				want.Nodes++
			}
			if r.Fenced {
				want.FencedNodes++
			}
		case meta.Stream:
			want.Streams++
			if r.Open {
				want.OpenStreams++
			}
		case meta.ObjectRecord:
			switch r.State {
			case meta.ObjectPrepared:
				want.PreparedObjects++
			case meta.ObjectCommitted:
				want.CommittedObjects++
			case meta.ObjectDeletable:
				want.DeletableObjects++
			}
		case meta.StoredSlice:
			want.Slices++
		case meta.Debt:
			want.Debts++
		case meta.Key:
			want.Keys++
		case meta.ClientRecord:
			want.Clients++
			want.Results += r.Results
		}
	}
	if got := p.state.Counts(); got != want {
		p.t.Fatalf("row %d: counts %+v, model %+v", p.model.Index(), got, want)
	}
}
