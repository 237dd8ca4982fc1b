package meta_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headwaterdb/headwater/meta"
)

var objectSeed = flag.Uint64("objectseed", 0, "run TestObjectsRandom with this seed only; 0: with all")

// TestObjectsRandom sends random commands to the state and to the naive model, several to a row, and compares verdicts,
// results, objects, queries and changes. Repeat one run with -run TestObjectsRandom -objectseed N.
func TestObjectsRandom(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 2, 3, 4, 5, 6}
	if *objectSeed != 0 {
		seeds = []uint64{*objectSeed}
	}
	runs := make([]*randomRun, len(seeds))
	t.Run("seeds", func(t *testing.T) {
		for i, seed := range seeds {
			t.Run(fmt.Sprintf("objectseed=%d", seed), func(t *testing.T) {
				t.Parallel()
				r := newRandomRun(t, seed)
				runs[i] = r
				for range 300 {
					r.step()
				}
				for _, k := range r.kept {
					if err := k.s.Verify(); err != nil || k.s.Digest() != k.digest {
						t.Fatalf("the state at %d changed after it was published: %v", k.s.Index(), err)
					}
					r.queries(k.s, k.m)
				}
			})
		}
	})
	seen := map[string]int{}
	for _, r := range runs {
		if r == nil || *objectSeed != 0 {
			return
		}
		for v, n := range r.seen {
			seen[v] += n
		}
	}
	for _, v := range []string{"applied", "redundant", "OBJECT_EXISTS", "OFFSET_MISMATCH", "COVERAGE_MISMATCH", "OBJECT_NOT_FOUND",
		"OBJECT_NOT_OWNED", "OBJECT_IN_USE", "STREAM_EPOCH_STALE", "STREAM_NOT_OWNED", "compacted", "debt paid", "kept out"} {
		if seen[v] < 5 {
			t.Errorf("too little was %s: %v", v, seen)
		}
	}
	t.Log(seen)
}

type randomRun struct {
	*cluster
	rnd  *rand.Rand
	m    *model
	sent []meta.Command // commits and compactions, to be sent again
	seen map[string]int
	kept []keptState
}

type keptState struct {
	s      *meta.State
	digest [16]byte
	m      *model
}

func newRandomRun(t *testing.T, seed uint64) *randomRun {
	r := &randomRun{cluster: newCluster(t), rnd: rand.New(rand.NewPCG(seed, 7)), seen: map[string]int{},
		m: &model{streams: map[uint64]*modelStream{}, objects: map[uint64]*modelObject{}, next: 1}}
	r.ok(register(1), register(2), register(3))
	return r
}

// step applies one row of one to four commands.
func (r *randomRun) step() {
	r.t.Helper()
	before, old := r.s, r.m
	r.m.index, r.m.stamp = r.s.Index()+1, int64(1000+r.s.Index())
	m := r.m
	var cmds []meta.Command
	var want []string
	var results []meta.Result
	for range 1 + r.rnd.IntN(4) {
		cmd := r.command(m)
		var v string
		var res meta.Result
		m, v, res = m.judge(cmd)
		r.seen[v]++
		cmds, want, results = append(cmds, cmd), append(want, v), append(results, res)
	}
	r.fast = r.rnd.IntN(10) > 0
	answers := r.row(cmds...)
	for i, a := range answers {
		if got := verdict(a); got != want[i] {
			r.t.Fatalf("row %d, command %d %+v: %s (%v), want %s", r.s.Index(), i, cmds[i], got, a.Err, want[i])
		}
		if diff := cmp.Diff(results[i], a.Result); diff != "" && want[i] != "redundant" && results[i] != nil {
			r.t.Fatalf("row %d, command %d %+v: result (-want +got):\n%s", r.s.Index(), i, cmds[i], diff)
		}
	}
	r.m = m
	if diff := m.diff(r.s); diff != "" {
		r.t.Fatalf("row %d %+v: (-want +got):\n%s", r.s.Index(), cmds, diff)
	}
	r.queries(r.s, m)
	if r.rnd.IntN(4) == 0 {
		r.changes(before, old, m, cmds)
	}
	if r.rnd.IntN(50) == 0 {
		r.kept = append(r.kept, keptState{s: r.s, digest: r.s.Digest(), m: m})
	}
}

// queries compares what the state and the model answer.
func (r *randomRun) queries(s *meta.State, m *model) {
	r.t.Helper()
	if len(m.streams) == 0 {
		return
	}
	id := 1 + r.rnd.Uint64N(uint64(len(m.streams)))
	st := m.streams[id]
	if st.deleted {
		if _, err := s.FindObjects(id, 0, 0, 0); meta.CodeOf(err) != meta.CodeStreamNotFound {
			r.t.Fatalf("find in deleted stream %d: %v", id, err)
		}
		return
	}
	start, end, limit := r.rnd.Uint64N(st.end+3), uint64(0), 1+r.rnd.IntN(8)
	if r.rnd.IntN(2) == 0 {
		end = start + 1 + r.rnd.Uint64N(60)
	}
	want, _ := m.find(id, start, end, limit)
	got, err := s.FindObjects(id, start, end, limit)
	if err != nil {
		r.t.Fatalf("find: %v", err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		r.t.Fatalf("row %d: find [%d, %d) of stream %d, limit %d (-want +got):\n%s", s.Index(), start, end, id, limit, diff)
	}
	ts := r.rnd.Int64N(400)
	offset, found, err := s.FindOffset(id, ts)
	if o, f := m.offsetAt(id, ts); err != nil || offset != o || found != f {
		r.t.Fatalf("row %d: offset at %d of stream %d: %d %v (%v), want %d %v", s.Index(), ts, id, offset, found, err, o, f)
	}
	page, err := s.CompactionCandidates(id, 6, "", 1000)
	if diff := cmp.Diff(m.candidates(id, 6), page.Items, cmpopts.EquateEmpty()); diff != "" || err != nil || page.Next != "" {
		r.t.Fatalf("row %d: candidates of stream %d (-want +got): %v\n%s", s.Index(), id, err, diff)
	}
}

// changes compares the changes of objects and slices with the difference of the models.
func (r *randomRun) changes(before *meta.State, old, m *model, cmds []meta.Command) {
	r.t.Helper()
	rows := make([][]byte, len(cmds))
	r.encode(before, cmds, rows)
	s, _, changes, err := before.ApplyWithChanges(before.Index()+1, rows)
	if err != nil || s.Digest() != r.s.Digest() {
		r.t.Fatalf("row %d: with changes the digest is %x, without %x: %v", r.s.Index(), s.Digest(), r.s.Digest(), err)
	}
	got := map[string]any{}
	for _, c := range changes { // the last of an entry is its new state
		if c.Kind == meta.ChangeObject || c.Kind == meta.ChangeSlice {
			got[string(c.Kind)+" "+c.Key] = c.New
		}
	}
	was, is := old.entries(), m.entries()
	want := map[string]any{}
	for k, v := range is {
		if !cmp.Equal(was[k], v) {
			want[k] = v
		}
	}
	for k := range was {
		if is[k] == nil {
			want[k] = nil
		}
	}
	// Several commands of the row may have left an entry as it was.
	for k, v := range got {
		if _, ok := want[k]; !ok && cmp.Equal(was[k], v) {
			delete(got, k)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Fatalf("row %d %+v: changes (-want +got):\n%s", r.s.Index(), cmds, diff)
	}
}

// encode encodes a row again as it was sent.
func (r *randomRun) encode(before *meta.State, cmds []meta.Command, rows [][]byte) {
	var requests uint64
	for _, cmd := range cmds {
		if _, ok := cmd.(meta.PrepareObjects); ok {
			requests++
		}
	}
	again := cluster{t: r.t, s: before, sent: r.cluster.sent - requests}
	for i, cmd := range cmds {
		b, err := meta.AppendProposal(nil, again.proposal(cmd))
		if err != nil {
			r.t.Fatal(err)
		}
		rows[i] = b
	}
}

// entries lists objects and slices as changes name them.
func (m *model) entries() map[string]any {
	out := map[string]any{}
	for id, o := range m.objects {
		out[fmt.Sprintf("object %d", id)] = o.ObjectRecord
	}
	for id, s := range m.streams {
		for _, x := range s.slices {
			out[fmt.Sprintf("slice %d/%d/%d", id, x.StartOffset, x.ObjectID)] = x
		}
	}
	return out
}

// command draws one command that is mostly right in the state of m.
func (r *randomRun) command(m *model) meta.Command {
	for {
		if cmd := r.draw(m); cmd != nil {
			return cmd
		}
	}
}

func (r *randomRun) draw(m *model) meta.Command {
	node := 1 + r.rnd.Uint64N(3)
	if len(m.streams) == 0 {
		return create(node, "1")
	}
	id := 1 + r.rnd.Uint64N(uint64(len(m.streams)))
	s := m.streams[id]
	switch p := r.rnd.IntN(100); {
	case p < 2 && len(m.streams) < 12:
		return create(node, fmt.Sprint(len(m.streams)+1))
	case p < 14:
		return meta.PrepareObjects{Identity: by(node), Count: 1 + r.rnd.Uint64N(6), Deadline: int64(m.index) + r.rnd.Int64N(200)}
	case p < 55:
		return r.drawCommit(m, node)
	case p < 70:
		return r.drawCompact(m, node)
	case p < 75:
		return reclaim(int64(m.index)+r.rnd.Int64N(50)-25, 1+r.rnd.Uint64N(12))
	case p < 80:
		return forget(r.someIDs(m, 1+r.rnd.IntN(3))...)
	case p < 83 && len(r.sent) > 0:
		return r.sent[r.rnd.IntN(len(r.sent))]
	case s.deleted:
		return nil
	case p < 90 && !s.open:
		for _, d := range s.debts {
			if d.NodeID == node {
				return nil
			}
		}
		return open(node, id)
	case p < 93 && s.end > s.start:
		owner := s.owner
		return trim(owner, id, s.epoch, s.start+1+r.rnd.Uint64N(min(s.end-s.start+5, 40)))
	case p < 95 && s.open && len(s.debts) < 5:
		return handOver(s.owner, id, s.epoch, 0, s.end+r.rnd.Uint64N(30))
	case p < 96 && s.open:
		return shut(s.owner, id, s.epoch)
	case p < 97 && len(s.debts) > 0:
		return meta.ForceCloseStream{StreamID: id, Epoch: s.epoch, WriteOff: true}
	case p < 98 && !s.open && r.rnd.IntN(8) == 0 && s.epoch > 0:
		return meta.DeleteStream{StreamID: id, Epoch: s.epoch}
	}
	return nil
}

// someIDs draws n different object ids, mostly of objects that are there.
func (r *randomRun) someIDs(m *model, n int) []uint64 {
	var out []uint64
	for len(out) < n {
		id := r.rnd.Uint64N(m.next + 1 + r.rnd.Uint64N(3))
		if (m.objects[id] == nil && r.rnd.IntN(4) > 0) || slices.Contains(out, id) {
			if r.rnd.IntN(20) == 0 {
				break
			}
			continue
		}
		out = append(out, id)
	}
	if len(out) == 0 {
		return []uint64{m.next}
	}
	return out
}

// drawPrepared draws an object of the node to commit; now and then any other.
func (r *randomRun) drawPrepared(m *model, node uint64, not []uint64) uint64 {
	for try := range 60 {
		id := 1 + r.rnd.Uint64N(m.next)
		o := m.objects[id]
		if !slices.Contains(not, id) && (r.rnd.IntN(2000) == 0 || o != nil && o.Owner == node && o.State == meta.ObjectPrepared || try > 55 && r.rnd.IntN(20) == 0) {
			return id
		}
	}
	return 0
}

func (r *randomRun) drawObject(id uint64) meta.Object {
	return meta.Object{ObjectID: id, Size: r.rnd.Uint64N(1000), Attributes: []byte{byte(id), byte(r.rnd.IntN(4))}}
}

func (r *randomRun) drawCommit(m *model, node uint64) meta.Command {
	c := meta.CommitObjects{Identity: by(node)}
	m = m.clone() // follows what the slices drawn so far do
	var taken []uint64
	for range 1 + r.rnd.IntN(2) {
		id := r.drawPrepared(m, node, taken)
		if id == 0 {
			break
		}
		taken = append(taken, id)
		o := r.drawObject(id)
		for range r.rnd.IntN(6) {
			x, ok := r.drawSlice(m, node)
			if ok {
				o.Slices = append(o.Slices, x)
			}
		}
		c.Objects = append(c.Objects, o)
	}
	if len(c.Objects) == 0 {
		return nil
	}
	r.sent = append(r.sent, c)
	if r.rnd.IntN(20) == 0 { // equal but for one byte
		d := c
		d.Objects = slices.Clone(c.Objects)
		d.Objects[0].Size++
		r.sent = append(r.sent, d)
	}
	return c
}

// drawSlice draws the next slice of some stream, or of a debt of the node.
func (r *randomRun) drawSlice(m *model, node uint64) (meta.Slice, bool) {
	id := 1 + r.rnd.Uint64N(uint64(len(m.streams)))
	s := m.streams[id]
	n := 1 + r.rnd.Uint64N(9)
	x := meta.Slice{StreamID: id, StreamEpoch: s.epoch, StartOffset: s.end, Position: r.rnd.Uint64N(100), Length: n, MaxTimestamp: int64(s.end/4) + r.rnd.Int64N(60)}
	usable := s.open && s.owner == node
	for _, d := range s.debts {
		if d.NodeID == node && r.rnd.IntN(2) == 0 {
			x.StreamEpoch, x.StartOffset, usable = d.StreamEpoch, d.StartOffset, true
			n = min(n, d.Boundary-d.StartOffset)
			r.seen["debt paid"]++
			break
		}
	}
	if !usable && r.rnd.IntN(60) > 0 && !s.deleted {
		return x, false
	}
	if x.StartOffset == s.start && s.start > 0 && r.rnd.IntN(2) == 0 {
		x.StartOffset -= min(x.StartOffset, r.rnd.Uint64N(10))
		n += s.start - x.StartOffset
	}
	x.EndOffset = x.StartOffset + n
	switch r.rnd.IntN(60) {
	case 0:
		x.StartOffset++
		x.EndOffset++
	case 1:
		x.StreamEpoch--
		x.StreamEpoch &= 1<<63 - 1
	case 2, 3:
		if s.start > 0 {
			x.StartOffset, x.EndOffset = s.start-1, s.start
			r.seen["kept out"]++
		}
	}
	if !s.deleted && x.EndOffset > s.start {
		s.put(x, node)
	}
	return x, true
}

// drawCompact draws a compaction of some objects: their live offsets, cut anew, now and then wrong by one.
func (r *randomRun) drawCompact(m *model, node uint64) meta.Command {
	var sources []uint64
	for range 1 + r.rnd.IntN(5) {
		id := r.rnd.Uint64N(m.next + 1)
		if o := m.objects[id]; !slices.Contains(sources, id) && (o != nil && o.State == meta.ObjectCommitted || r.rnd.IntN(60) == 0) {
			sources = append(sources, id)
		}
	}
	if len(sources) == 0 {
		return nil
	}
	live := map[[2]uint64]int{}
	for _, s := range m.streams {
		for _, x := range s.slices {
			if slices.Contains(sources, x.ObjectID) {
				m.cover(live, x.Slice)
			}
		}
	}
	var out []meta.Slice
	for id := uint64(1); id <= uint64(len(m.streams)); id++ {
		s := m.streams[id]
		for at := s.start; at <= s.end; at++ {
			if live[[2]uint64{id, at}] == 0 {
				continue
			}
			if n := len(out); n > 0 && out[n-1].StreamID == id && out[n-1].EndOffset == at && r.rnd.IntN(30) > 0 {
				out[n-1].EndOffset++
				continue
			}
			out = append(out, meta.Slice{StreamID: id, StreamEpoch: r.rnd.Uint64N(4), StartOffset: at, EndOffset: at + 1, Length: 1 + r.rnd.Uint64N(9), MaxTimestamp: r.rnd.Int64N(300)})
		}
	}
	out = r.blur(m, out)
	r.rnd.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	c := meta.CompactObjects{Identity: by(node), Sources: sources}
	var taken []uint64
	for len(out) > 0 || r.rnd.IntN(20) == 0 {
		id := r.drawPrepared(m, node, taken)
		if id == 0 {
			return nil
		}
		taken = append(taken, id)
		o := r.drawObject(id)
		n := min(len(out), 1+r.rnd.IntN(5))
		o.Slices, out = out[:n:n], out[n:]
		c.Objects = append(c.Objects, o)
	}
	r.sent = append(r.sent, c)
	r.seen["compacted"]++
	return c
}

// blur adds to the results what does not count, and sometimes what does.
func (r *randomRun) blur(m *model, out []meta.Slice) []meta.Slice {
	for i := range out {
		x := &out[i]
		s := m.streams[x.StreamID]
		if x.StartOffset == s.start && s.start > 0 && r.rnd.IntN(2) == 0 {
			x.StartOffset -= min(x.StartOffset, 7)
		}
		switch r.rnd.IntN(15) {
		case 0:
			x.EndOffset++
		case 1:
			if x.StartOffset+1 < x.EndOffset {
				x.StartOffset++
			}
		}
	}
	for id, n := uint64(1), uint64(len(m.streams)); id <= n; id++ {
		s := m.streams[id]
		if r.rnd.IntN(10) > 0 {
			continue
		}
		if s.deleted {
			out = append(out, meta.Slice{StreamID: id, EndOffset: 5})
		} else if s.start > 2 {
			out = append(out, meta.Slice{StreamID: id, StartOffset: s.start - 2, EndOffset: s.start})
		}
	}
	return out
}
