package meta_test

import (
	"maps"
	"reflect"
	"slices"
	"sort"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

// The naive model of streams and objects: plain lists and maps, everything looked through from the begin, coverage
// counted offset by offset. It knows three nodes at epoch 1 that are never fenced.
type model struct {
	index   uint64
	stamp   int64
	streams map[uint64]*modelStream // all that were ever created
	objects map[uint64]*modelObject // all that are not forgotten
	next    uint64                  // object id
}

type modelStream struct {
	deleted, open bool
	epoch, owner  uint64
	start, end    uint64
	debts         []meta.Debt
	losses        []meta.Loss
	slices        []meta.StoredSlice // unreleased, by offset
}

type modelObject struct {
	meta.ObjectRecord
	content *meta.Object
}

func (m *model) clone() *model {
	c := *m
	c.streams = make(map[uint64]*modelStream)
	for id, s := range m.streams {
		d := *s
		d.debts, d.losses, d.slices = slices.Clone(s.debts), slices.Clone(s.losses), slices.Clone(s.slices)
		c.streams[id] = &d
	}
	c.objects = make(map[uint64]*modelObject)
	for id, o := range m.objects {
		d := *o
		c.objects[id] = &d
	}
	return &c
}

// judge says how a command must be judged, and the state that it must leave.
func (m *model) judge(cmd meta.Command) (*model, string, meta.Result) {
	c := m.clone()
	var verdict string
	var r meta.Result
	switch cmd := cmd.(type) {
	case meta.PrepareObjects:
		r = c.prepare(cmd)
	case meta.CommitObjects:
		verdict, r = c.commit(cmd)
	case meta.CompactObjects:
		verdict = c.compact(cmd)
	case meta.ReclaimObjects:
		verdict, r = c.reclaim(cmd)
	case meta.ForgetObjects:
		verdict, r = c.forget(cmd)
	default:
		c.stream(cmd)
	}
	switch verdict {
	case "":
		return c, "applied", r
	case "redundant":
		return m, verdict, r
	}
	return m, verdict, nil
}

// stream does what commands on streams do; the generator sends only such as are applied.
func (m *model) stream(cmd meta.Command) {
	switch cmd := cmd.(type) {
	case meta.CreateStream:
		m.streams[uint64(len(m.streams)+1)] = &modelStream{}
	case meta.OpenStream:
		s := m.streams[cmd.StreamID]
		s.open, s.owner, s.epoch = true, cmd.Identity.NodeID, s.epoch+1
	case meta.CloseStream:
		m.streams[cmd.StreamID].open = false
	case meta.DeleteStream:
		s := m.streams[cmd.StreamID]
		s.deleted, s.debts, s.losses = true, nil, nil
	case meta.TrimStream:
		m.streams[cmd.StreamID].trim(cmd.StartOffset)
	case meta.RecordTransfer:
		s := m.streams[cmd.StreamID]
		if s.end < cmd.Boundary {
			s.debts = append(s.debts, meta.Debt{StreamID: cmd.StreamID, StreamEpoch: s.epoch, NodeID: s.owner, StartOffset: s.end, Boundary: cmd.Boundary})
		}
		s.open, s.end = false, cmd.Boundary
	case meta.ForceCloseStream:
		s := m.streams[cmd.StreamID]
		s.open = false
		for _, d := range s.debts {
			s.losses = append(s.losses, meta.Loss{StreamID: cmd.StreamID, StartOffset: d.StartOffset, EndOffset: d.Boundary})
		}
		s.debts = nil
		s.mergeLosses()
	}
}

func (s *modelStream) trim(start uint64) {
	s.start, s.end = start, max(s.end, start)
	for i := range s.debts {
		s.debts[i].StartOffset = max(s.debts[i].StartOffset, start)
	}
	s.debts = slices.DeleteFunc(s.debts, func(d meta.Debt) bool { return d.StartOffset >= d.Boundary })
	for i := range s.losses {
		s.losses[i].StartOffset = max(s.losses[i].StartOffset, start)
	}
	s.losses = slices.DeleteFunc(s.losses, func(l meta.Loss) bool { return l.StartOffset >= l.EndOffset })
}

func (s *modelStream) mergeLosses() {
	sort.Slice(s.losses, func(i, j int) bool { return s.losses[i].StartOffset < s.losses[j].StartOffset })
	for i := 1; i < len(s.losses); {
		if s.losses[i-1].EndOffset == s.losses[i].StartOffset {
			s.losses[i-1].EndOffset = s.losses[i].EndOffset
			s.losses = slices.Delete(s.losses, i, i+1)
			continue
		}
		i++
	}
}

func (m *model) prepare(cmd meta.PrepareObjects) meta.Result {
	first := m.next
	for range cmd.Count {
		m.objects[m.next] = &modelObject{ObjectRecord: meta.ObjectRecord{ID: m.next, State: meta.ObjectPrepared, Owner: cmd.Identity.NodeID, Deadline: cmd.Deadline}}
		m.next++
	}
	return meta.PrepareObjectsResult{FirstObjectID: first, Count: cmd.Count}
}

// sameContent is what "equal content" means, nil and empty being alike.
func sameContent(a, b meta.Object) bool {
	return a.ObjectID == b.ObjectID && a.Size == b.Size && string(a.Attributes) == string(b.Attributes) && slices.Equal(a.Slices, b.Slices)
}

func (m *model) prepared(id, node uint64) string {
	o := m.objects[id]
	switch {
	case o == nil:
		return "OBJECT_NOT_FOUND"
	case o.Owner != node:
		return "OBJECT_NOT_OWNED"
	case o.State == meta.ObjectDeletable:
		return "OBJECT_EXPIRED"
	}
	return ""
}

func (m *model) commit(cmd meta.CommitObjects) (string, meta.Result) {
	node := cmd.Identity.NodeID
	var fresh []meta.Object
	for _, o := range cmd.Objects {
		if old := m.objects[o.ObjectID]; old != nil && old.content != nil {
			if !sameContent(*old.content, o) {
				return "OBJECT_EXISTS", nil
			}
			continue
		}
		if v := m.prepared(o.ObjectID, node); v != "" {
			return v, nil
		}
		fresh = append(fresh, o)
	}
	if len(fresh) == 0 {
		return "redundant", meta.CommitObjectsResult{}
	}
	var dropped uint64
	for _, o := range fresh {
		for _, x := range o.Slices {
			s := m.streams[x.StreamID]
			switch {
			case s == nil:
				return "STREAM_NOT_FOUND", nil
			case s.deleted:
				dropped++
				continue
			case x.EndOffset <= s.start:
				continue
			}
			if v := s.put(x, node); v != "" {
				return v, nil
			}
			s.add(o.ObjectID, x)
		}
		m.committed(o)
	}
	return "", meta.CommitObjectsResult{DroppedSlices: dropped}
}

// put judges one slice and moves the end, or a debt, on.
func (s *modelStream) put(x meta.Slice, node uint64) string {
	follows := func(next uint64) bool {
		return x.StartOffset == next || x.StartOffset < next && next == s.start
	}
	for i, d := range s.debts {
		if d.NodeID != node || d.StreamEpoch != x.StreamEpoch {
			continue
		}
		if !follows(d.StartOffset) || x.EndOffset > d.Boundary {
			return "OFFSET_MISMATCH"
		}
		s.debts[i].StartOffset = x.EndOffset
		if x.EndOffset == d.Boundary {
			s.debts = slices.Delete(s.debts, i, i+1)
		}
		return ""
	}
	switch {
	case x.StreamEpoch < s.epoch:
		return "STREAM_EPOCH_STALE"
	case x.StreamEpoch > s.epoch:
		return "STREAM_EPOCH_UNKNOWN"
	case s.owner != node:
		return "STREAM_NOT_OWNED"
	case !s.open:
		return "STREAM_NOT_OPEN"
	case !follows(s.end):
		return "OFFSET_MISMATCH"
	}
	s.end = x.EndOffset
	return ""
}

func (s *modelStream) add(object uint64, x meta.Slice) {
	s.slices = append(s.slices, meta.StoredSlice{ObjectID: object, StartOffset: max(x.StartOffset, s.start), Slice: x})
	sort.Slice(s.slices, func(i, j int) bool { return s.slices[i].StartOffset < s.slices[j].StartOffset })
}

func (m *model) committed(o meta.Object) {
	old := m.objects[o.ObjectID]
	old.content = &o
	old.State, old.CommittedIndex = meta.ObjectCommitted, m.index
	old.Size, old.Attributes, old.SliceCount = o.Size, o.Attributes, uint64(len(o.Slices))
	m.count(o.ObjectID)
}

// count counts what is unreleased of an object.
func (m *model) count(id uint64) uint64 {
	o := m.objects[id]
	o.LiveSlices = 0
	for _, s := range m.streams {
		for _, x := range s.slices {
			if x.ObjectID == id {
				o.LiveSlices++
			}
		}
	}
	return o.LiveSlices
}

func (m *model) deletable(id uint64) {
	o := m.objects[id]
	o.State, o.DeletableIndex, o.DeletableStamp = meta.ObjectDeletable, m.index, m.stamp
}

// cover counts how often each offset of a live stream above its start is held, and reports whether all streams exist.
func (m *model) cover(of map[[2]uint64]int, x meta.Slice) bool {
	s := m.streams[x.StreamID]
	if s == nil {
		return false
	}
	if !s.deleted {
		for at := max(x.StartOffset, s.start); at < x.EndOffset; at++ {
			of[[2]uint64{x.StreamID, at}]++
		}
	}
	return true
}

func (m *model) compact(cmd meta.CompactObjects) string {
	gone, equal := true, true
	for _, id := range cmd.Sources {
		o := m.objects[id]
		gone = gone && (o == nil && id > 0 && id < m.next || o != nil && o.State == meta.ObjectDeletable)
	}
	for _, o := range cmd.Objects {
		old := m.objects[o.ObjectID]
		equal = equal && old != nil && old.content != nil && sameContent(*old.content, o)
	}
	if gone && equal {
		return "redundant"
	}
	for _, id := range cmd.Sources {
		if o := m.objects[id]; o == nil || o.State != meta.ObjectCommitted {
			return "OBJECT_NOT_FOUND"
		}
	}
	for _, o := range cmd.Objects {
		if old := m.objects[o.ObjectID]; old != nil && old.content != nil {
			return "OBJECT_EXISTS"
		}
		if v := m.prepared(o.ObjectID, cmd.Identity.NodeID); v != "" {
			return v
		}
	}
	live, held := map[[2]uint64]int{}, map[[2]uint64]int{}
	for _, s := range m.streams {
		for _, x := range s.slices {
			if slices.Contains(cmd.Sources, x.ObjectID) {
				m.cover(live, x.Slice)
			}
		}
	}
	for _, o := range cmd.Objects {
		for _, x := range o.Slices {
			if !m.cover(held, x) {
				return "COVERAGE_MISMATCH"
			}
		}
	}
	if !maps.Equal(live, held) {
		return "COVERAGE_MISMATCH"
	}
	for _, s := range m.streams {
		s.slices = slices.DeleteFunc(s.slices, func(x meta.StoredSlice) bool { return slices.Contains(cmd.Sources, x.ObjectID) })
	}
	for _, id := range cmd.Sources {
		m.count(id)
		m.deletable(id)
	}
	for _, o := range cmd.Objects {
		for _, x := range o.Slices {
			if s := m.streams[x.StreamID]; !s.deleted && x.EndOffset > s.start {
				s.add(o.ObjectID, x)
			}
		}
		m.committed(o)
	}
	return ""
}

func (m *model) reclaim(cmd meta.ReclaimObjects) (string, meta.Result) {
	var r meta.ReclaimObjectsResult
	for id := uint64(1); id <= uint64(len(m.streams)); id++ {
		s := m.streams[id]
		for r.ReleasedSlices < cmd.Limit && len(s.slices) > 0 && (s.deleted || s.slices[0].Slice.EndOffset <= s.start) {
			object := s.slices[0].ObjectID
			s.slices = s.slices[1:]
			m.count(object)
			r.ReleasedSlices++
		}
	}
	var late, released []*modelObject
	for _, o := range m.objects {
		if o.State == meta.ObjectPrepared && o.Deadline < cmd.Time {
			late = append(late, o)
		}
		if o.State == meta.ObjectCommitted && o.LiveSlices == 0 {
			released = append(released, o)
		}
	}
	sort.Slice(late, func(i, j int) bool {
		a, b := late[i], late[j]
		return a.Deadline < b.Deadline || a.Deadline == b.Deadline && a.ID < b.ID
	})
	sort.Slice(released, func(i, j int) bool { return released[i].ID < released[j].ID })
	for _, o := range append(late, released...) {
		if r.DeletableObjects < cmd.Limit {
			m.deletable(o.ID)
			r.DeletableObjects++
		}
	}
	if r == (meta.ReclaimObjectsResult{}) {
		return "redundant", r
	}
	return "", r
}

func (m *model) forget(cmd meta.ForgetObjects) (string, meta.Result) {
	var r meta.ForgetObjectsResult
	for _, id := range cmd.ObjectIDs {
		if id == 0 || id >= m.next {
			return "OBJECT_NOT_FOUND", nil
		}
	}
	for _, id := range cmd.ObjectIDs {
		if o := m.objects[id]; o != nil {
			if o.State != meta.ObjectDeletable {
				return "OBJECT_IN_USE", nil
			}
			delete(m.objects, id)
			r.Forgotten++
		}
	}
	if r.Forgotten == 0 {
		return "redundant", r
	}
	return "", r
}

// find answers FindObjects offset by offset.
func (m *model) find(id, start, end uint64, limit int) (f meta.Found, ok bool) {
	s := m.streams[id]
	if s == nil || s.deleted {
		return f, false
	}
	at := max(start, s.start)
	f.StartOffset, f.StreamStartOffset, f.StreamEndOffset = at, s.start, s.end
	if end == 0 || end > s.end {
		end = s.end
	}
	for {
		f.EndOffset = at
		if at >= end {
			f.Stop = meta.StopEnd
			return f, true
		}
		for _, d := range s.debts {
			if d.StartOffset <= at && at < d.Boundary {
				f.Stop, f.Debt = meta.StopDebt, d
				return f, true
			}
		}
		for _, l := range s.losses {
			if l.StartOffset <= at && at < l.EndOffset {
				f.Stop, f.Loss = meta.StopLoss, l
				return f, true
			}
		}
		if len(f.Slices) == limit {
			f.Stop = meta.StopLimit
			return f, true
		}
		for _, x := range s.slices {
			if x.StartOffset <= at && at < x.Slice.EndOffset {
				o := m.objects[x.ObjectID]
				f.Slices = append(f.Slices, meta.FoundSlice{ObjectID: x.ObjectID, ObjectSize: o.Size, Attributes: o.Attributes, Slice: x.Slice})
				at = x.Slice.EndOffset
				break
			}
		}
		if at == f.EndOffset {
			panic("an offset that nobody holds, owes or lost")
		}
	}
}

// offsetAt answers FindOffset.
func (m *model) offsetAt(id uint64, t int64) (offset uint64, found bool) {
	s := m.streams[id]
	for _, x := range s.slices {
		if x.Slice.EndOffset > s.start && x.Slice.MaxTimestamp >= t {
			return max(x.StartOffset, s.start), true
		}
	}
	return s.end, false
}

// candidates answers CompactionCandidates where one page holds all.
func (m *model) candidates(id, small uint64) (out []meta.CompactionCandidate) {
	s := m.streams[id]
	for _, x := range s.slices {
		if x.Slice.EndOffset <= s.start || x.Slice.Length >= small {
			continue
		}
		i := slices.IndexFunc(out, func(c meta.CompactionCandidate) bool { return c.ObjectID == x.ObjectID })
		if i < 0 {
			i = len(out)
			out = append(out, meta.CompactionCandidate{ObjectID: x.ObjectID, ObjectSize: m.objects[x.ObjectID].Size})
		}
		out[i].SmallSlices++
		out[i].SmallBytes += x.Slice.Length
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return a.SmallSlices > b.SmallSlices || a.SmallSlices == b.SmallSlices && a.ObjectID < b.ObjectID
	})
	return out
}

// diff compares the model's streams and objects with a state.
func (m *model) diff(s *meta.State) string {
	for id, ms := range m.streams {
		st, ok := s.Stream(id)
		if ok == ms.deleted {
			return "a deleted stream is there, or the other way round"
		}
		if !ok {
			continue
		}
		got := modelStream{open: st.Open, epoch: st.Epoch, owner: st.Owner.NodeID, start: st.StartOffset, end: st.EndOffset}
		want := modelStream{open: ms.open, epoch: ms.epoch, owner: ms.owner, start: ms.start, end: ms.end}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(modelStream{})); d != "" {
			return d
		}
	}
	for id := uint64(0); id <= m.next; id++ {
		got, ok := s.Object(id)
		want := m.objects[id]
		if want != nil && want.content != nil && slices.Equal(want.content.Slices, got.Slices) {
			got.Slices = nil // the record of the model has none
		}
		if ok != (want != nil) {
			return "an object that was forgotten is there, or the other way round"
		}
		if ok && !reflect.DeepEqual(want.ObjectRecord, got) { // cmp.Diff is slow, and mostly there is none
			if d := cmp.Diff(want.ObjectRecord, got); d != "" {
				return d
			}
		}
	}
	return ""
}
