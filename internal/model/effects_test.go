package model_test

import (
	"github.com/headwaterdb/headwater/internal/model"
	"github.com/headwaterdb/headwater/meta"
)

// countEffects counts what an applied command did, where that is more than its kind says.
func (c coverage) countEffects(cmd meta.Command, a meta.Answer, before, after *model.Model) {
	if a.Status != meta.Applied {
		return
	}
	note := func(how string, seen bool) {
		if seen {
			c[outcome{meta.KindOf(cmd), how}]++
		}
	}
	paid := owed(before) > owed(after)
	switch cmd := cmd.(type) {
	case meta.OpenStream:
		was, is := streamOf(before, cmd.StreamID), streamOf(after, cmd.StreamID)
		note("over-open", was.Open)
		note("ranges-dropped", was.Ranges > is.Ranges)
		note("reservation-lapsed", was.ReservedFor != 0 && was.ReservedFor != is.Owner.NodeID)
	case meta.CloseStream:
		note("on-behalf", cmd.OnBehalfOf != 0)
	case meta.TrimStream:
		note("cuts-debt", paid)
		note("cuts-loss", lost(before) > lost(after))
		note("moves-end", streamOf(before, cmd.StreamID).EndOffset < streamOf(after, cmd.StreamID).EndOffset)
	case meta.DeleteStream:
		note("with-debt", paid)
	case meta.RecordTransfer:
		note("owes", owed(before) < owed(after))
	case meta.ForceCloseStream:
		note("writes-off", paid)
	case meta.CommitObjects:
		note("on-behalf", cmd.OnBehalfOf != 0)
		note("dropped", a.Result.(meta.CommitObjectsResult).DroppedSlices > 0)
		note("debt-paid", paid)
		note("on-behalf-debt-paid", cmd.OnBehalfOf != 0 && paid)
	case meta.CompactObjects:
		note("nothing-live", len(cmd.Objects) == 0)
	}
}

// owed is how many offsets nodes still have to commit.
func owed(m *model.Model) (n uint64) {
	for _, d := range m.Debts() {
		n += d.Boundary - d.StartOffset
	}
	return n
}

// lost is how many offsets were written off.
func lost(m *model.Model) (n uint64) {
	for _, r := range m.Export() {
		if l, ok := r.(meta.Loss); ok {
			n += l.EndOffset - l.StartOffset
		}
	}
	return n
}

func streamOf(m *model.Model, id uint64) (found meta.Stream) {
	for _, st := range m.Streams() {
		if st.ID == id {
			found = st
		}
	}
	return found
}
