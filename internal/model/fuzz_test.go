package model_test

import (
	"math/rand/v2"
	"testing"

	"github.com/headwaterdb/headwater/internal/wire"
	"github.com/headwaterdb/headwater/meta"
)

// FuzzSameAsMeta applies whatever decodes to meta and to the model and compares answers, changes, records, indexes and
// queries after each row, and the state once more after a snapshot. The input is a list of commands, each behind its
// length, in rows of as many as the first byte says; what does not decode is passed over.
func FuzzSameAsMeta(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(byte(1+seed%4), uint64(seed), script(f, seed, 14))
	}
	f.Fuzz(func(t *testing.T, perRow byte, queries uint64, script []byte) {
		p := newPair(t, coverage{})
		g := newGen(p.model, profile{nodes: 3, streams: 3, keys: 2, burst: 3})
		g.r = rand.New(rand.NewPCG(queries, 0))
		r := wire.NewReader(script)
		var row []meta.Proposal
		for total := 0; total < 60 && r.Err() == nil && r.Len() > 0; {
			q, err := meta.DecodeProposal(r.Bytes())
			if r.Err() != nil || err != nil {
				continue
			}
			total++
			if row = append(row, q); len(row) > int(perRow%8) {
				p.row(row...)
				p.compareQueries(g)
				row = nil
			}
		}
		p.row(row...)
		p.compareQueries(g)
		p.compareLists(2)
		p.reload()
	})
}

// script makes commands of a random run, as the fuzz target reads them.
func script(t tester, seed uint64, rows int) (out []byte) {
	p := newPair(t, coverage{})
	g := newGen(p.model, profile{nodes: 3, streams: 3, keys: 2, burst: 3,
		boosted: [2]meta.Kind{meta.KindCommitObjects, meta.KindOpenStream}})
	add := func(row []meta.Proposal) {
		p.row(row...)
		for _, q := range row {
			b, err := meta.AppendProposal(nil, q)
			if err == nil {
				out = wire.AppendBytes(out, b)
			}
		}
	}
	g.r = rand.New(rand.NewPCG(seed, 0))
	add(g.prelude())
	for i := range rows {
		add(g.row(seed, []uint64{uint64(3 * i), uint64(3*i + 1), uint64(3*i + 2)}))
	}
	return out
}
