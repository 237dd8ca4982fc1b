package model_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/headwaterdb/headwater/internal/model"
	"github.com/headwaterdb/headwater/meta"
)

// tester is what a comparison needs of a test; *testing.T and *rapid.T both have it.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// pair is a state and the model of it, at the same index.
type pair struct {
	t     tester
	state *meta.State
	model *model.Model
	cov   coverage
	quick bool // compare records and changes only when check is called
}

func newPair(t tester, cov coverage) *pair {
	return &pair{t: t, state: meta.NewState(), model: model.New(), cov: cov}
}

// row applies one row to both, and compares the answers and all records.
func (p *pair) row(proposals ...meta.Proposal) {
	p.t.Helper()
	var encoded [][]byte
	var kept []meta.Proposal
	for _, q := range proposals {
		b, err := meta.AppendProposal(nil, q)
		if err != nil {
			p.hasNoEncoding(q, err)
			continue
		}
		encoded, kept = append(encoded, b), append(kept, q)
	}
	index := p.model.Index() + 1
	next, answers, changes, err := p.state.ApplyWithChanges(index, encoded)
	if err != nil {
		p.t.Fatalf("row %d: %v", index, err)
	}
	for i, q := range kept {
		var before *model.Model
		if !p.quick {
			before = p.model.Clone()
		}
		want := p.model.Step(index, i, q)
		p.compareAnswer(q, answers[i], want)
		p.cov.count(q.Command, want)
		if p.quick {
			continue
		}
		p.cov.countEffects(q.Command, want, before, p.model)
		mine := slices.DeleteFunc(slices.Clone(changes), func(c meta.Change) bool { return c.Command != i })
		if want.Status == meta.Applied {
			p.compareChanges(q, mine, before, p.model)
		} else if len(mine) > 0 {
			p.t.Fatalf("row %d: %s changed nothing, but is told to have: %+v", index, show(q), mine)
		}
	}
	p.model.Apply(index, nil)
	p.state = next
	if !p.quick {
		p.check()
	}
}

// check compares all records, and meta's digest and indexes with its entries.
func (p *pair) check() {
	p.t.Helper()
	p.compareRecords()
	if err := p.state.Verify(); err != nil {
		p.t.Fatalf("row %d: verify: %v", p.model.Index(), err)
	}
}

// hasNoEncoding checks that what cannot be encoded is refused by the model's limits too, with the same code.
func (p *pair) hasNoEncoding(q meta.Proposal, err error) {
	p.t.Helper()
	got := p.model.Clone().Step(p.model.Index()+1, 0, q)
	if meta.CodeOf(got.Err) != meta.CodeOf(err) || got.Err == nil {
		p.t.Fatalf("%s has no encoding: %v; the model answers %v", show(q), err, got.Err)
	}
}

func (p *pair) compareAnswer(q meta.Proposal, got, want meta.Answer) {
	p.t.Helper()
	if gotText, wantText := answerText(got), answerText(want); gotText != wantText {
		p.t.Fatalf("%s\nmeta  %s %v\nmodel %s", show(q), gotText, got.Err, wantText)
	}
}

// answerText is an answer without the words of its message.
func answerText(a meta.Answer) string {
	text := fmt.Sprintf("status %d at %d/%d, first %d/%d, result %+v", a.Status, a.Index, a.Position, a.FirstIndex,
		a.FirstPosition, a.Result)
	if e, ok := a.Err.(*meta.Error); ok {
		text += fmt.Sprintf(", %v, inner %d", e.Code, e.Inner)
		if e.Current != nil {
			text += fmt.Sprintf(", current %+v", *e.Current)
		}
	} else if a.Err != nil {
		text += ", " + a.Err.Error()
	}
	return text
}

func show(q meta.Proposal) string {
	text := fmt.Sprintf("%T%+v", q.Command, q.Command)
	if q.Request != nil {
		text = fmt.Sprintf("request %x/%d/%d ", q.Request.Client[:2], q.Request.Sequence, q.Request.Oldest) + text
	}
	return text
}

// compareRecords compares everything that the state holds with what the model holds.
func (p *pair) compareRecords() {
	p.t.Helper()
	var got []meta.Record
	for r := range p.state.Export() {
		got = append(got, plain(r))
	}
	want := p.model.Export()
	for i := range want {
		want[i] = plain(want[i])
	}
	if !reflect.DeepEqual(got, want) {
		p.t.Fatalf("row %d: records (-model +meta):\n%s", p.model.Index(), cmp.Diff(want, got, cmpopts.EquateEmpty()))
	}
}

// plain leaves out what the model does not know, and writes empty lists as nil.
func plain(r meta.Record) meta.Record {
	switch r := r.(type) {
	case meta.ClusterRecord:
		r.Digest = [16]byte{}
		return r
	case meta.Node:
		r.Labels = orNil(r.Labels)
		return r
	case meta.Stream:
		r.Labels = orNil(r.Labels)
		return r
	case meta.Key:
		r.Value = orNil(r.Value)
		return r
	case meta.ObjectRecord:
		r.Attributes, r.Slices = orNil(r.Attributes), orNil(r.Slices)
		return r
	case meta.AnswerRecord:
		r.PayloadHash = [16]byte{}
		return r
	}
	return r
}

func orNil[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

// reload puts the state through a snapshot.
func (p *pair) reload() {
	p.t.Helper()
	var b bytes.Buffer
	if err := p.state.Encode(&b); err != nil {
		p.t.Fatalf("encode: %v", err)
	}
	decoded, err := meta.Decode(&b)
	if err != nil {
		p.t.Fatalf("decode: %v", err)
	}
	if decoded.Digest() != p.state.Digest() || decoded.Index() != p.state.Index() {
		p.t.Fatalf("decoded at %d with digest %x, was at %d with %x", decoded.Index(), decoded.Digest(), p.state.Index(), p.state.Digest())
	}
	p.state = decoded
	p.compareRecords()
}

// plan asks for a dry run of one proposal, and Recall, before both go on without it.
func (p *pair) plan(q meta.Proposal) {
	p.t.Helper()
	b, err := meta.AppendProposal(nil, q)
	if err != nil {
		return
	}
	copied := p.model.Clone()
	want := copied.Step(p.model.Index()+1, 0, q)
	got, _ := p.state.Plan([]meta.Proposal{q})
	p.compareAnswer(q, got[0], want)
	recalled, known := p.state.Recall(b)
	remembered := want.FirstIndex != want.Index
	if known && remembered {
		recalled.Index, recalled.Position = want.Index, want.Position // of no row: there is none
		p.compareAnswer(q, recalled, want)
	} else if remembered {
		p.t.Fatalf("%s\nis remembered, but not recalled", show(q))
	}
}

// seeds draws 16 bits without the bias of rapid's integers.
var seeds = rapid.Custom(func(t *rapid.T) uint64 {
	n := uint64(0)
	for range 16 {
		n <<= 1
		if rapid.Bool().Draw(t, "bit") {
			n |= 1
		}
	}
	return n
})

// run is one random history.
func run(t *rapid.T, cov coverage) {
	base := seeds.Draw(t, "run")
	r := rand.New(rand.NewPCG(base, 0))
	kinds := meta.Kinds()
	p := newPair(t, cov)
	bent := profile{nodes: 1 + r.Uint64N(5), streams: 1 + r.Uint64N(6), keys: r.Uint64N(4), burst: 4,
		boosted: [2]meta.Kind{kinds[r.IntN(len(kinds))], kinds[r.IntN(len(kinds))]}}
	if r.IntN(5) == 0 { // many slices of one stream, so that its index has several levels
		bent.nodes, bent.streams, bent.burst = 1+bent.nodes%2, 1, 150
		bent.boosted = [2]meta.Kind{meta.KindCommitObjects, meta.KindCompactObjects}
	}
	g := newGen(p.model, bent)
	p.row(g.prelude()...)
	t.Repeat(map[string]func(*rapid.T){
		"row": func(t *rapid.T) {
			drawn := rapid.SliceOfN(seeds, 1, 5).Draw(t, "commands")
			p.row(g.row(base, drawn)...)
			g.r = rand.New(rand.NewPCG(base, drawn[0]))
			p.plan(g.proposal(base<<20 ^ drawn[0]<<40))
			p.compareQueries(g)
			if g.chance(8) {
				p.reload()
			}
		},
	})
}

// row makes the proposals of one row, each in the state that the earlier ones left.
func (g *gen) row(base uint64, drawn []uint64) (out []meta.Proposal) {
	m := g.m
	defer func() { g.m = m }()
	g.m = m.Clone()
	for i, seed := range drawn {
		q := g.proposal(base<<16 ^ seed)
		out = append(out, q)
		g.m.Step(m.Index()+1, i, q)
	}
	return out
}

// prelude registers the nodes, makes the streams and opens them, and prepares objects.
func (g *gen) prelude() (out []meta.Proposal) {
	add := func(c meta.Command) { out = append(out, meta.Proposal{Stamp: 1, Command: c}) }
	for id := uint64(1); id <= g.nodes; id++ {
		g.instances[id] = 1
		add(meta.RegisterNode{NodeID: id, Instance: [16]byte{byte(id), 1, 1}, FormatLevel: 2})
	}
	for i := range g.streams {
		node := meta.Identity{NodeID: 1 + i%g.nodes, NodeEpoch: 1}
		add(meta.CreateStream{Identity: node, Name: "s" + string('0'+rune(i))})
		add(meta.OpenStream{Identity: node, StreamID: i + 1})
	}
	for id := uint64(1); id <= g.nodes; id++ {
		out = append(out, meta.Proposal{Stamp: 1, Request: &meta.Request{Client: [16]byte{0xaa, byte(id)}, Sequence: 1},
			Command: meta.PrepareObjects{Identity: meta.Identity{NodeID: id, NodeEpoch: 1}, Count: 3, Deadline: 100}})
	}
	return out
}
