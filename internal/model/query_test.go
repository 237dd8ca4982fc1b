package model_test

import (
	"reflect"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headwaterdb/headwater/meta"
)

// compareQueries asks both for intervals and timestamps of streams; the model answers by a walk over everything.
func (p *pair) compareQueries(g *gen) {
	p.t.Helper()
	if holes := p.model.Uncovered(); len(holes) > 0 {
		p.t.Fatalf("row %d: neither found once, nor owed, nor lost: %+v", p.model.Index(), holes)
	}
	for _, st := range p.model.Streams() {
		p.compareFind(st.ID, 0, 0, 1000)
		start := g.upTo(st.EndOffset + 2)
		p.compareFind(st.ID, start, start+1+g.upTo(9), 1+int(g.upTo(4)))
		t := int64(g.upTo(st.EndOffset+20)) - 5
		offset, found, err := p.state.FindOffset(st.ID, t)
		if o, f := p.model.FindOffset(st.ID, t); err != nil || o != offset || f != found {
			p.t.Fatalf("row %d: find offset of stream %d at %d: meta %d, %v, %v; model %d, %v", p.model.Index(), st.ID, t, offset, found, err, o, f)
		}
	}
	if id := g.upTo(30); g.chance(10) {
		p.compareFind(id, 0, 0, 10)
	}
	if g.chance(10) {
		p.compareLists()
	}
}

func (p *pair) compareFind(stream, start, end uint64, limit int) {
	p.t.Helper()
	got, err := p.state.FindObjects(stream, start, end, limit)
	want, ok := p.model.FindObjects(stream, start, end, limit)
	if !ok {
		if meta.CodeOf(err) != meta.CodeStreamNotFound {
			p.t.Fatalf("row %d: find in stream %d: %v; there is none", p.model.Index(), stream, err)
		}
		return
	}
	if err != nil {
		p.t.Fatalf("row %d: find [%d, %d) of stream %d: %v", p.model.Index(), start, end, stream, err)
	}
	for _, f := range []*meta.Found{&got, &want} {
		f.Slices = orNil(f.Slices)
		for i := range f.Slices {
			f.Slices[i].Attributes = orNil(f.Slices[i].Attributes)
		}
	}
	if !reflect.DeepEqual(got, want) {
		p.t.Fatalf("row %d: find [%d, %d) of stream %d, at most %d (-model +meta):\n%s", p.model.Index(), start, end,
			stream, limit, cmp.Diff(want, got))
	}
	p.cov[outcome{find, got.Stop.String()}]++
}

// compareLists compares the lists that stand on indexes of their own.
func (p *pair) compareLists() {
	p.t.Helper()
	streams := p.model.Streams()
	filter := func(keep func(meta.Stream) bool) (out []meta.Stream) {
		for _, st := range streams {
			if keep(st) {
				out = append(out, st)
			}
		}
		return out
	}
	compare := func(what string, got meta.Page[meta.Stream], err error, want []meta.Stream) {
		p.t.Helper()
		if diff := cmp.Diff(want, got.Items, cmpopts.EquateEmpty()); diff != "" || err != nil {
			p.t.Fatalf("row %d: streams %s: %v (-model +meta):\n%s", p.model.Index(), what, err, diff)
		}
	}
	page, err := p.state.Streams("", 0)
	compare("all", page, err, streams)
	for _, id := range p.model.Nodes() {
		page, err := p.state.StreamsByOwner(id, "", 0)
		compare("by owner", page, err, filter(func(st meta.Stream) bool { return st.Open && st.Owner.NodeID == id }))
		page, err = p.state.StreamsReservedFor(id, "", 0)
		compare("reserved", page, err, filter(func(st meta.Stream) bool { return st.ReservedFor == id }))
	}
	label := meta.Label{Name: "zone", Value: "a"}
	page, err = p.state.StreamsByLabel(label, "", 0)
	compare("by label", page, err, filter(func(st meta.Stream) bool {
		return len(st.Labels) > 0 && st.Labels[len(st.Labels)-1] == label
	}))
	for _, st := range streams {
		if got, ok := p.state.StreamByName(st.Name); !ok || got.ID != st.ID {
			p.t.Fatalf("row %d: stream %q is %d, not %d, %v", p.model.Index(), st.Name, st.ID, got.ID, ok)
		}
	}
	p.compareObjectLists()
}

func (p *pair) compareObjectLists() {
	p.t.Helper()
	for _, want := range p.model.Objects() {
		got, ok := p.state.Object(want.ID)
		if !ok || !reflect.DeepEqual(plain(got), plain(want)) {
			p.t.Fatalf("row %d: object %d, %v (-model +meta):\n%s", p.model.Index(), want.ID, ok, cmp.Diff(plain(want), plain(got)))
		}
	}
	page, err := p.state.Debts(meta.DebtFilter{}, "", 1000)
	if want := p.model.Debts(); err != nil || len(page.Items) != len(want) {
		p.t.Fatalf("row %d: debts %+v, %v; model %+v", p.model.Index(), page.Items, err, want)
	}
}
