package model_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/internal/model"
	"github.com/headwaterdb/headwater/meta"
)

// compareChanges holds the changes that meta reports for one command against the difference of two models.
func (p *pair) compareChanges(q meta.Proposal, got []meta.Change, before, after *model.Model) {
	p.t.Helper()
	was, is := entries(before), entries(after)
	want := map[string][2]meta.Record{}
	for key, old := range was {
		if now := is[key]; !reflect.DeepEqual(old, now) {
			want[key] = [2]meta.Record{old, now}
		}
	}
	for key, now := range is {
		if was[key] == nil {
			want[key] = [2]meta.Record{nil, now}
		}
	}
	for _, key := range slices.Collect(maps.Keys(want)) {
		if r, ok := want[key][0].(meta.Range); ok && want[key][1] == nil && streamOf(after, r.StreamID).ID == 0 {
			delete(want, key) // of a deleted stream, not all ranges are told
		}
	}
	told := map[string][2]meta.Record{}
	for _, c := range got {
		old, now := entry(c.Old), entry(c.New)
		if reflect.DeepEqual(old, now) {
			continue // a count moved, which follows from other entries
		}
		if r, ok := old.(meta.Range); ok && now == nil && streamOf(after, r.StreamID).ID == 0 {
			continue
		}
		told[string(c.Kind)+" "+c.Key] = [2]meta.Record{old, now}
	}
	if !reflect.DeepEqual(want, told) {
		p.t.Fatalf("row %d: changes of %s (-model +meta):\n%s", p.model.Index(), show(q), cmp.Diff(want, told))
	}
}

// entries are the records of a model by kind and key, as changes name them.
func entries(m *model.Model) map[string]meta.Record {
	out := map[string]meta.Record{}
	for _, r := range m.Export() {
		var key string
		switch r := r.(type) {
		case meta.Node:
			key = fmt.Sprint("node ", r.ID)
		case meta.Stream:
			key = fmt.Sprint("stream ", r.ID)
		case meta.Range:
			key = fmt.Sprintf("range %d/%d", r.StreamID, r.Epoch)
		case meta.Debt:
			key = fmt.Sprintf("debt %d/%d", r.StreamID, r.StreamEpoch)
		case meta.Loss:
			key = fmt.Sprintf("loss %d/%d", r.StreamID, r.StartOffset)
		case meta.ObjectRecord:
			key = fmt.Sprint("object ", r.ID)
		case meta.StoredSlice:
			key = fmt.Sprintf("slice %d/%d/%d", r.Slice.StreamID, r.StartOffset, r.ObjectID)
		case meta.Key:
			key = "key " + r.Key
		case meta.ClusterRecord:
			key = "format "
		default:
			continue // the request memory
		}
		out[key] = entry(r)
	}
	return out
}

// entry is a record without what follows from other entries, and of the cluster the level alone.
func entry(r meta.Record) meta.Record {
	switch r := r.(type) {
	case meta.Node:
		r.OwnedStreams, r.OwedDebts = 0, 0
		return plain(r)
	case meta.Stream:
		r.Ranges, r.Debts, r.Losses, r.Slices = 0, 0, 0, 0
		return plain(r)
	case meta.ObjectRecord:
		r.LiveSlices, r.Slices = 0, nil
		return plain(r)
	case meta.ClusterRecord:
		return meta.ClusterRecord{FormatLevel: r.FormatLevel}
	}
	if r == nil {
		return nil
	}
	return plain(r)
}
