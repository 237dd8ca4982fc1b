package model_test

import (
	"reflect"

	"github.com/google/go-cmp/cmp"

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
		p.compareFind(st.ID, start, g.upTo(start), 0) // backwards, or to the end
		t := int64(g.upTo(st.EndOffset+20)) - 5
		offset, found, err := p.state.FindOffset(st.ID, t)
		if o, f := p.model.FindOffset(st.ID, t); err != nil || o != offset || f != found {
			p.t.Fatalf("row %d: find offset of stream %d at %d: meta %d, %v, %v; model %d, %v", p.model.Index(), st.ID, t, offset, found, err, o, f)
		}
	}
	if id := g.upTo(30); g.chance(10) {
		p.compareFind(id, 0, 0, 10)
	}
	if g.chance(3) {
		p.compareLists(1 + int(g.upTo(4)))
	}
}

func (p *pair) compareFind(stream, start, end uint64, limit int) {
	p.t.Helper()
	got, err := p.state.FindObjects(stream, start, end, limit)
	if limit == 0 {
		limit = 100
	}
	want, ok := p.model.FindObjects(stream, start, end, limit)
	if ok && end != 0 && end <= start {
		if meta.CodeOf(err) != meta.CodeInvalidArgument {
			p.t.Fatalf("row %d: find [%d, %d) of stream %d: %v; that is backwards", p.model.Index(), start, end, stream, err)
		}
		return
	}
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
