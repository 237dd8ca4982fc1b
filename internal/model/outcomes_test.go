package model_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

// story is a written sequence: after given, in the cluster that stage sets up, do ends as how.
type story struct {
	how    string
	given  []meta.Command
	do     meta.Command
	again  *meta.Request  // of do; nil: a new one where it needs one
	first  []meta.Request // with which before was sent
	before meta.Command
	alone  bool // without a request although do needs one
	bare   bool // without the stage
}

// TestEveryOutcome forces every outcome that the table of commands names, each by a sequence written for it, through meta
// and the model, and compares answers, changes, records, lists, a dry run and a snapshot after it. It fails where an
// outcome of the table has no sequence, so that no coverage depends on what a random run happens to reach.
func TestEveryOutcome(t *testing.T) {
	t.Parallel()
	cov := coverage{}
	for kind, told := range allStories() {
		for i, s := range told {
			t.Run(fmt.Sprintf("%v/%s/%d", kind, s.how, i), func(t *testing.T) { s.tell(t, kind, cov) })
		}
	}
	findOutcomes(t, cov)
	for kind, names := range outcomes {
		for _, how := range strings.Fields(names) {
			if cov[outcome{kind, how}] == 0 {
				t.Errorf("no sequence makes %v end with %s", kindName(kind), how)
			}
		}
	}
	for code := meta.Code(1); code < meta.CodeKeyNotFound; code++ {
		if !slices.ContainsFunc(slices.Collect(maps.Values(outcomes)), func(names string) bool {
			return slices.Contains(strings.Fields(names), code.String())
		}) {
			t.Errorf("the table of outcomes names no command that is refused with %v", code)
		}
	}
	for o := range cov {
		if !slices.Contains(strings.Fields(outcomes[o.kind]), o.how) {
			t.Errorf("%v ended with %s, which the table does not name", kindName(o.kind), o.how)
		}
	}
	cov.log(t)
}

// tell runs one story; only how it ends is counted.
func (s story) tell(t *testing.T, kind meta.Kind, cov coverage) {
	b := &bounds{pair: newPair(t, coverage{})}
	b.quick = true
	if !s.bare {
		b.do(stage()...)
	}
	for _, c := range s.given {
		b.do(c)
	}
	for _, r := range s.first {
		b.row(meta.Proposal{Request: &r, Command: s.before})
	}
	b.quick, b.cov = false, coverage{}
	q := meta.Proposal{Stamp: 1, Request: s.again, Command: s.do}
	if s.again == nil && !s.alone {
		q.Request = b.requestFor(s.do)
	}
	b.plan(q)
	b.row(q)
	if b.cov[outcome{kind, s.how}] == 0 {
		t.Fatalf("%s ended so: %v", show(q), b.cov)
	}
	cov[outcome{kind, s.how}]++
	for o, n := range b.cov {
		if o.kind == kind && o.how != s.how {
			cov[o] += n // an effect besides
		}
	}
	if b.cov[outcome{kind, "APPLIED"}] > 0 && kind != meta.KindAtomic { // all else leaves what the stage made
		b.compareLists(2)
		b.reload()
	}
}

// stage sets up what the stories happen in. Nodes: 1, 2 live; 3 came back, at epoch 2; 4 fenced, claimed by 1; 5 fenced
// without a claim. Streams: 1 open at node 1, with [0, 10); 2 never opened; 3 open at node 2, with [0, 5); 4 open at node 4.
// Objects: 1 and 7 committed; 2 to 6 prepared by node 1, 8 by node 2, 9 by node 4; 10 deletable. Key k holds v.
func stage() (out []meta.Command) {
	for id := uint64(1); id <= 5; id++ {
		out = append(out, register(id, 1))
	}
	return append(out, register(3, 2),
		meta.CreateStream{Identity: at(1), Name: "s1"}, meta.CreateStream{Identity: at(1), Name: "s2"},
		meta.CreateStream{Identity: at(1), Name: "s3"}, meta.CreateStream{Identity: at(1), Name: "s4"},
		meta.OpenStream{Identity: at(1), StreamID: 1}, meta.OpenStream{Identity: at(2), StreamID: 3}, meta.OpenStream{Identity: at(4), StreamID: 4},
		meta.PrepareObjects{Identity: at(1), Count: 6, Deadline: 100}, meta.PrepareObjects{Identity: at(2), Count: 2, Deadline: 100},
		meta.PrepareObjects{Identity: at(4), Count: 1, Deadline: 100}, meta.PrepareObjects{Identity: at(2), Count: 1, Deadline: 1},
		meta.ReclaimObjects{Time: 2, Limit: 1},
		commit(1, 1, meta.Slice{StreamID: 1, StreamEpoch: 1, EndOffset: 10}),
		commit(2, 7, meta.Slice{StreamID: 3, StreamEpoch: 1, EndOffset: 5}),
		meta.FenceNode{NodeID: 4, Epoch: 1, Rescuer: at(1)}, meta.FenceNode{NodeID: 5, Epoch: 1},
		meta.PutKey{Key: "k", Value: []byte("v")})
}

func register(node uint64, start byte) meta.RegisterNode {
	return meta.RegisterNode{NodeID: node, Instance: [16]byte{byte(node), start}, FormatLevel: 2}
}

func commit(node, object uint64, content ...meta.Slice) meta.CommitObjects {
	return meta.CommitObjects{Identity: at(node), Objects: []meta.Object{{ObjectID: object, Size: 9, Slices: content}}}
}

// valid holds a command of each kind that is applied on the stage; CheckKey is redundant.
var valid = map[meta.Kind]meta.Command{
	meta.KindRegisterNode:     register(6, 1),
	meta.KindRenewNode:        meta.RenewNode{Identity: at(1)},
	meta.KindUnregisterNode:   meta.UnregisterNode{NodeID: 3, Epoch: 2},
	meta.KindFenceNode:        meta.FenceNode{NodeID: 3, Epoch: 2, Rescuer: at(1)},
	meta.KindCreateStream:     meta.CreateStream{Identity: at(1), Name: "new"},
	meta.KindOpenStream:       meta.OpenStream{Identity: at(1), StreamID: 2},
	meta.KindCloseStream:      meta.CloseStream{Identity: at(1), StreamID: 1, Epoch: 1},
	meta.KindTrimStream:       meta.TrimStream{Identity: at(1), StreamID: 1, Epoch: 1, StartOffset: 5},
	meta.KindLabelStream:      meta.LabelStream{StreamID: 1, Labels: []meta.Label{{Name: "zone", Value: "a"}}},
	meta.KindDeleteStream:     meta.DeleteStream{Identity: at(1), StreamID: 2},
	meta.KindRecordTransfer:   meta.RecordTransfer{Identity: at(1), StreamID: 1, Epoch: 1, ToNode: 2, Boundary: 20},
	meta.KindForceCloseStream: meta.ForceCloseStream{StreamID: 1, Epoch: 1},
	meta.KindPrepareObjects:   meta.PrepareObjects{Identity: at(1), Count: 2, Deadline: 100},
	meta.KindCommitObjects:    commit(1, 2, meta.Slice{StreamID: 1, StreamEpoch: 1, StartOffset: 10, EndOffset: 12}),
	meta.KindCompactObjects: meta.CompactObjects{Identity: at(1), Sources: []uint64{1},
		Objects: []meta.Object{{ObjectID: 2, Slices: []meta.Slice{{StreamID: 1, EndOffset: 10}}}}},
	meta.KindReclaimObjects: meta.ReclaimObjects{Time: 200, Limit: 10},
	meta.KindForgetObjects:  meta.ForgetObjects{ObjectIDs: []uint64{10}},
	meta.KindPutKey:         meta.PutKey{Identity: at(1), Key: "n", Value: []byte("v")},
	meta.KindDeleteKey:      meta.DeleteKey{Identity: at(1), Key: "k"},
	meta.KindCheckKey:       meta.CheckKey{Key: "absent", IfAbsent: true},
	meta.KindAtomic:         meta.Atomic{Commands: []meta.Command{meta.PutKey{Key: "n"}}},
	meta.KindSetFormat:      meta.SetFormat{Level: 2},
}

// allStories are the written ones, those that follow for every kind alike, and every refusal by a rule once more inside
// Atomic.
func allStories() map[meta.Kind][]story {
	out := map[meta.Kind][]story{}
	for _, kind := range meta.Kinds() {
		applied := "APPLIED"
		if kind == meta.KindCheckKey {
			applied = "REDUNDANT"
		}
		out[kind] = append([]story{{how: applied, do: valid[kind]}}, written()[kind]...)
		out[kind] = append(out[kind], identities(kind)...)
		out[kind] = append(out[kind], streamChecks(kind)...)
		out[kind] = append(out[kind], requestStories(kind)...)
	}
	for _, kind := range meta.Kinds() {
		switch kind {
		case meta.KindAtomic, meta.KindRenewNode, meta.KindSetFormat:
			continue
		}
		for _, s := range out[kind] {
			if s.again != nil || s.alone {
				continue // the memory of requests is not asked inside
			}
			if s.how == "APPLIED" || s.how == strings.ToLower(s.how) {
				s.how = "APPLIED"
			}
			s.do = meta.Atomic{Commands: []meta.Command{meta.CheckKey{Key: "absent", IfAbsent: true}, s.do}}
			out[meta.KindAtomic] = append(out[meta.KindAtomic], s)
		}
	}
	return out
}

// with returns a copy of c in which one field has another value; ok is false where there is no such field.
func with(c meta.Command, field string, value any) (changed meta.Command, ok bool) {
	v := reflect.New(reflect.TypeOf(c)).Elem()
	v.Set(reflect.ValueOf(c))
	f := v.FieldByName(field)
	if !f.IsValid() {
		return c, false
	}
	f.Set(reflect.ValueOf(value))
	return v.Interface().(meta.Command), true
}

// identities are the refusals of whoever acts.
func identities(kind meta.Kind) (out []story) {
	field := "Identity"
	if kind == meta.KindFenceNode {
		field = "Rescuer"
	}
	for how, id := range map[string]meta.Identity{
		"NODE_NOT_FOUND": {NodeID: 99, NodeEpoch: 1}, "NODE_EPOCH_STALE": {NodeID: 3, NodeEpoch: 1}, "NODE_EPOCH_UNKNOWN": {NodeID: 1, NodeEpoch: 7},
		"NODE_FENCED": {NodeID: 5, NodeEpoch: 1}, "TOO_LARGE": {NodeID: 1, NodeEpoch: 1 << 63}, "INVALID_ARGUMENT": {NodeEpoch: 1},
	} {
		if c, ok := with(valid[kind], field, id); ok {
			out = append(out, story{how: how, do: c})
		}
	}
	return out
}

// streamChecks are the refusals of commands that name a stream and its epoch.
func streamChecks(kind meta.Kind) (out []story) {
	c, ok := with(valid[kind], "Epoch", uint64(1))
	if _, names := with(c, "StreamID", uint64(1)); !ok || !names || kind == meta.KindOpenStream {
		return nil
	}
	for _, s := range []struct {
		how           string
		stream, epoch uint64
	}{{"STREAM_NOT_FOUND", 99, 1}, {"STREAM_NOT_FOUND", 0, 1}, {"STREAM_EPOCH_STALE", 1, 0}, {"STREAM_EPOCH_UNKNOWN", 1, 2}, {"TOO_LARGE", 1, 1 << 63},
		{"STREAM_NOT_OWNED", 3, 1}} {
		d, _ := with(c, "StreamID", s.stream)
		d, _ = with(d, "Epoch", s.epoch)
		if _, acts := with(d, "Identity", at(1)); s.how == "STREAM_NOT_OWNED" && (!acts || kind == meta.KindDeleteStream) {
			continue
		}
		out = append(out, story{how: s.how, do: d})
	}
	return out
}

// requestStories are what the memory of requests answers, and requests that cannot be.
func requestStories(kind meta.Kind) []story {
	request := func(sequence, oldest uint64) meta.Request {
		return meta.Request{Client: [16]byte{9}, Sequence: sequence, Oldest: oldest}
	}
	sent := func(how string, do, before meta.Command, again meta.Request, first ...meta.Request) story {
		return story{how: how, do: do, before: before, again: &again, first: first}
	}
	c, other := valid[kind], meta.PutKey{Key: "o"}
	if kind == meta.KindRenewNode {
		return []story{sent("INVALID_ARGUMENT", c, nil, request(1, 1))} // it carries none
	}
	return []story{
		sent("REPEATED", c, c, request(1, 1), request(1, 1)),
		sent("REQUEST_REUSED", c, other, request(1, 1), request(1, 1)),
		sent("REQUEST_EXPIRED", c, nil, request(7, 7)), // a client that nobody knows
		sent("REQUEST_EXPIRED", c, other, request(2, 1), request(1, 1), request(3, 3)),
		sent("INVALID_ARGUMENT", c, nil, meta.Request{Sequence: 1}),
		sent("INVALID_ARGUMENT", c, nil, request(257, 1)),
		sent("INVALID_ARGUMENT", c, nil, request(1, 2)),
	}
}

// findOutcomes reaches every reason for which FindObjects stops.
func findOutcomes(t *testing.T, cov coverage) {
	t.Helper()
	owes := valid[meta.KindRecordTransfer]
	for _, s := range []struct {
		given []meta.Command
		limit int
	}{{nil, 10}, {[]meta.Command{valid[meta.KindCommitObjects]}, 1}, {[]meta.Command{owes}, 10},
		{[]meta.Command{owes, meta.ForceCloseStream{StreamID: 1, Epoch: 1, WriteOff: true}}, 10}} {
		b := &bounds{pair: newPair(t, cov)}
		b.quick, b.cov = true, coverage{}
		b.do(append(stage(), s.given...)...)
		b.cov = cov
		for _, from := range []uint64{0, 5, 10, 30} {
			b.compareFind(1, from, 0, s.limit)
		}
	}
}
