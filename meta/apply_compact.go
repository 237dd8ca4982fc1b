package meta

import (
	"cmp"
	"slices"
)

// piece is the live part of one slice of a compaction: of a source, or of a result.
type piece struct {
	stream, start, end uint64
	object, slice      int // of a result: its place in the command
}

// placed is a slice of a source as it stands in the index of its stream.
type placed struct {
	stream uint64
	ref    sliceRef
}

func (t *tx) compactObjects(c CompactObjects) outcome {
	node, err := t.checkIdentity(c.Identity, 0)
	if err != nil {
		return rejected(err)
	}
	sources := make([]*object, len(c.Sources))
	var held uint64
	gone := true // every source is forgotten or deletable
	for i, id := range c.Sources {
		o := t.object(id)
		sources[i] = o
		if o != nil && o.content != nil {
			held += uint64(o.content.count())
		}
		gone = gone && (o == nil && t.objectHandedOut(id) || o != nil && o.state == ObjectDeletable)
	}
	if held > MaxSlices {
		return reject(CodeTooLarge, "the %d sources hold %d slices, at most %d are allowed", len(c.Sources), held, MaxSlices)
	}
	if err := t.chargeSlices(held); err != nil {
		return rejected(err)
	}
	if gone && t.allCommitted(c.Objects) {
		return redundant(nil)
	}
	for i, o := range sources {
		if o == nil || o.state != ObjectCommitted {
			return rejected(t.sourceNotCommitted(c.Sources[i], o))
		}
	}
	for i := range c.Objects {
		id := c.Objects[i].ObjectID
		if o := t.object(id); o != nil && o.content != nil {
			return reject(CodeObjectExists, "object %d was committed at index %d", id, o.committedAt)
		}
		if err := t.judgePrepared(id, node, node); err != nil {
			return rejected(err)
		}
	}
	out, live := t.sourceSlices(sources)
	in, err := t.resultPieces(c.Objects)
	if err == nil {
		err = sameCoverage(live, in)
	}
	if err != nil {
		return rejected(err)
	}
	t.doCompact(c, out, in)
	return applied(nil)
}

// allCommitted reports whether every result was committed before with the same content.
func (t *tx) allCommitted(objects []Object) bool {
	for i := range objects {
		if same, err := t.judgeCommitted(&objects[i]); err != nil || !same {
			return false
		}
	}
	return true
}

func (t *tx) sourceNotCommitted(id uint64, o *object) *Error {
	switch {
	case o != nil:
		return refuse(CodeObjectNotFound, "source %d is %s, not committed", id, o.state)
	case t.objectHandedOut(id):
		return refuse(CodeObjectNotFound, "source %d was forgotten", id)
	}
	return refuse(CodeObjectNotFound, "source %d was never prepared", id)
}

// sourceSlices returns all slices of the sources that stand in an index, dead ones too, and the live parts of them,
// both by stream and offset.
func (t *tx) sourceSlices(sources []*object) (all []placed, live []piece) {
	for _, o := range sources {
		var stream, deadBelow uint64 // of the slice before: most objects have several of one stream, or none
		var x sliceIndex
		for at, s := range o.content.all {
			if s.StreamID != stream {
				stream = s.StreamID
				x, deadBelow = t.slicesOf(stream)
			}
			t.work += x.height()
			// Refs do not overlap: the one that covers the slice's last offset is this slice, if it is indexed.
			r, ok := x.at(s.EndOffset - 1)
			if !ok || r.object.id != o.content.id || r.at != at {
				continue
			}
			all = append(all, placed{stream: stream, ref: r})
			if s.EndOffset > deadBelow {
				live = append(live, piece{stream: stream, start: max(r.start, deadBelow), end: s.EndOffset})
			}
		}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.ref.start, b.ref.start))
	})
	slices.SortFunc(live, comparePieces)
	return all, live
}

// resultPieces returns the live parts of the results by stream and offset. They must not overlap.
func (t *tx) resultPieces(objects []Object) ([]piece, *Error) {
	var in []piece
	for i := range objects {
		for j := range objects[i].Slices {
			s := &objects[i].Slices[j]
			rec := t.stream(s.StreamID)
			switch {
			case rec != nil && s.EndOffset > rec.start:
				in = append(in, piece{stream: s.StreamID, start: max(s.StartOffset, rec.start), end: s.EndOffset, object: i, slice: j})
			case rec == nil && !t.streamHandedOut(s.StreamID):
				return nil, refuse(CodeCoverageMismatch, "object %d holds a slice of stream %d, which does not exist", objects[i].ObjectID, s.StreamID)
			}
		}
	}
	slices.SortFunc(in, comparePieces)
	for i := 1; i < len(in); i++ {
		if a, b := in[i-1], in[i]; a.stream == b.stream && a.end > b.start {
			return nil, refuse(CodeCoverageMismatch, "the results hold offset %d of stream %d twice", b.start, b.stream)
		}
	}
	return in, nil
}

func comparePieces(a, b piece) int {
	return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.start, b.start))
}

// sameCoverage judges whether the results hold exactly what is live of the sources. A debt or a loss is held by no
// source, so a result that bridges one holds too much.
func sameCoverage(live, in []piece) *Error {
	for len(live) > 0 && len(in) > 0 {
		var a, b piece
		a, live = nextRun(live)
		b, in = nextRun(in)
		switch {
		case a.stream < b.stream || a.stream == b.stream && a.start < b.start:
			return refuse(CodeCoverageMismatch, "the results do not hold offset %d of stream %d, which the sources hold", a.start, a.stream)
		case a.stream > b.stream || a.start > b.start:
			return refuse(CodeCoverageMismatch, "the results hold offset %d of stream %d, which the sources do not hold", b.start, b.stream)
		case a.end > b.end:
			return refuse(CodeCoverageMismatch, "the results do not hold offset %d of stream %d, which the sources hold", b.end, b.stream)
		case a.end < b.end:
			return refuse(CodeCoverageMismatch, "the results hold offset %d of stream %d, which the sources do not hold", a.end, a.stream)
		}
	}
	if len(live) > 0 {
		return refuse(CodeCoverageMismatch, "the results do not hold offset %d of stream %d, which the sources hold", live[0].start, live[0].stream)
	}
	if len(in) > 0 {
		return refuse(CodeCoverageMismatch, "the results hold offset %d of stream %d, which the sources do not hold", in[0].start, in[0].stream)
	}
	return nil
}

// nextRun joins the adjoining pieces at the front into one.
func nextRun(p []piece) (run piece, rest []piece) {
	run, p = p[0], p[1:]
	for len(p) > 0 && p[0].stream == run.stream && p[0].start == run.end {
		run.end, p = p[0].end, p[1:]
	}
	return run, p
}

// doCompact puts the results in the place of the sources: each stream gets its new index in one step.
func (t *tx) doCompact(c CompactObjects, out []placed, in []piece) {
	packed := make([]*content, len(c.Objects))
	first := make([]int, len(c.Objects)) // where the places of an object's slices begin
	indexed := make([]int, len(c.Objects))
	var places []uint32
	for i := range c.Objects {
		first[i] = len(places)
		packed[i], places = packContent(&c.Objects[i], places)
	}
	for len(out) > 0 {
		stream := out[0].stream
		x, start := t.slicesOf(stream)
		for ; len(out) > 0 && out[0].stream == stream; out = out[1:] {
			t.removeSlice(stream, &x, out[0].ref)
		}
		for ; len(in) > 0 && in[0].stream == stream; in = in[1:] {
			p := in[0]
			indexed[p.object]++
			at := places[first[p.object]+p.slice]
			t.insertSlice(stream, &x, newSliceRef(packed[p.object], at, c.Objects[p.object].Slices[p.slice], start))
		}
		t.setSlices(stream, x)
	}
	for _, id := range c.Sources {
		o := *t.object(id)
		o.unreleased = 0
		t.makeDeletable(id, o)
	}
	for i, p := range packed {
		t.commitObject(p, indexed[i])
	}
}

// makeDeletable makes an object, of which no slice is indexed any more, deletable.
func (t *tx) makeDeletable(id uint64, o object) {
	o.state, o.deletableAt, o.deletableStamp = ObjectDeletable, t.index, t.stamp
	t.setObject(id, &o)
}
