package history_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/internal/history"
	"github.com/headwaterdb/headwater/meta"
)

// outside is how faults begin that were found without the log.
const outside = " is not linearizable"

// TestBadHistories: each of these is a history that no correct cluster has, and each must be found, by the checks that
// can: from outside, from inside, or both.
func TestBadHistories(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		make func(w *world)
		want []string // parts of faults
	}{
		"stale linearizable read": {func(w *world) {
			first := w.must(0, put("k/a", "1")).Answer.Index
			w.must(0, put("k/a", "2"))
			w.read(1, first, linearizable(history.Read{Keys: "k/"}))
		}, []string{"keys k" + outside, "is stale: before it was called had returned"}},
		"linearizable reads that go back": {func(w *world) {
			w.must(0, put("k/a", "1"))
			id := w.call(0, put("k/a", "2"))
			w.row(id)
			w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
			w.read(2, w.head()-1, linearizable(history.Read{Keys: "k/"}))
			w.ret(id)
		}, []string{"keys k" + outside, "is stale"}},
		"read of what was never written": {func(w *world) {
			w.must(0, put("k/a", "1"))
			op := w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
			op.Read.Got = []meta.Record{meta.Key{Key: "k/a", Value: []byte("9"), Version: w.version("k/a")}}
		}, []string{"keys k" + outside, "where the replay has"}},
		"half of what is atomic": {func(w *world) {
			w.must(0, put("k/a", "1"))
			w.must(0, meta.Atomic{Commands: []meta.Command{put("k/a", "2"), put("k/b", "2")}})
			op := w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
			op.Read.Got = op.Read.Got[:1]
		}, []string{"keys k" + outside, "where the replay has"}},
		"lost update": {func(w *world) {
			w.must(0, put("k/a", "1"))
			v := w.version("k/a")
			w.must(0, meta.PutKey{Key: "k/a", Value: []byte("2"), IfVersion: v})
			second := w.do(1, meta.PutKey{Key: "k/a", Value: []byte("3"), IfVersion: v})
			told := w.ops[second.ID-2].Answer // the loser of the race is told what the winner was
			told.Result = meta.PutKeyResult{Version: 256 * second.Answer.Index}
			told.Index, told.FirstIndex = second.Answer.Index, second.Answer.FirstIndex
			second.Answer = told
		}, []string{"keys k" + outside, "the replay of that row answers"}},
		"acknowledged and lost": {func(w *world) {
			id := w.call(0, put("k/a", "1"))
			w.must(1, put("k/b", "1"))
			w.answers[id] = meta.Answer{Status: meta.Applied, Index: 1, FirstIndex: 1, Result: meta.PutKeyResult{Version: 256}}
			w.ret(id)
			w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
		}, []string{"keys k" + outside, "does not stand at place 0 of that row"}},
		"refused and done": {func(w *world) {
			op := w.must(0, put("k/a", "1"))
			op.Answer = rejected(meta.CodeKeyExists, op.Answer)
			w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
		}, []string{"keys k" + outside, "the replay of that row answers"}},
		"failed for certain and done": {func(w *world) {
			op := w.must(0, put("k/a", "1"))
			op.Outcome, op.Error = history.Failed, "not applied"
			w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
		}, []string{"keys k" + outside, "although it was to take no effect"}},
		"done twice": {func(w *world) {
			w.must(0, node(1, 1))
			id := w.call(0, meta.PrepareObjects{Identity: identity(1, 1), Count: 1, Deadline: 1})
			w.row(id)
			w.append([]meta.Proposal{w.proposal(id, 1000)}) // under another request
			w.ret(id)
			w.must(1, meta.PrepareObjects{Identity: identity(1, 1), Count: 1, Deadline: 1})
		}, []string{"objects" + outside, "took effect 2 times"}},
		"an id handed out twice": {func(w *world) {
			w.must(0, node(1, 1))
			w.must(0, meta.PrepareObjects{Identity: identity(1, 1), Count: 2, Deadline: 1})
			op := w.must(1, meta.PrepareObjects{Identity: identity(1, 1), Count: 1, Deadline: 1})
			op.Answer.Result = meta.PrepareObjectsResult{FirstObjectID: 2, Count: 1}
		}, []string{"objects" + outside, "the replay of that row answers"}},
		"fencing is off": {func(w *world) {
			w.stream()
			w.must(1, node(1, 2))
			op := w.do(0, commit(identity(1, 1), 1, 1, 1, 0, 5))
			op.Answer.Status, op.Answer.Err, op.Answer.Result = meta.Applied, nil, meta.CommitObjectsResult{}
		}, []string{"nodes" + outside, "the replay of that row answers"}},
		"a fenced node goes on": {func(w *world) {
			w.stream()
			w.must(1, meta.FenceNode{NodeID: 1, Epoch: 1, Rescuer: identity(2, 1)})
			op := w.do(0, commit(identity(1, 1), 1, 1, 1, 0, 5))
			op.Answer.Status, op.Answer.Err, op.Answer.Result = meta.Applied, nil, meta.CommitObjectsResult{}
		}, []string{"nodes" + outside, "the replay of that row answers"}},
		"two rescuers": {func(w *world) {
			w.stream()
			w.must(1, node(3, 1))
			w.must(1, meta.FenceNode{NodeID: 1, Epoch: 1, Rescuer: identity(2, 1)})
			op := w.do(2, meta.FenceNode{NodeID: 1, Epoch: 1, Rescuer: identity(3, 1)})
			op.Answer.Status, op.Answer.Err = meta.Applied, nil
		}, []string{"nodes" + outside, "the replay of that row answers"}},
		"one epoch for two processes": {func(w *world) {
			w.must(0, node(1, 1))
			op := w.must(1, node(1, 2))
			op.Answer.Result = meta.RegisterNodeResult{Epoch: 1}
		}, []string{"nodes" + outside, "the replay of that row answers"}},
		"two owners": {func(w *world) {
			w.stream()
			op := w.do(1, meta.OpenStream{Identity: identity(2, 1), StreamID: 1})
			op.Answer.Status, op.Answer.Err, op.Answer.Result = meta.Applied, nil, meta.OpenStreamResult{Epoch: 2}
		}, []string{"stream 1" + outside, "the replay of that row answers"}},
		"the same offsets twice": {func(w *world) {
			w.stream()
			w.must(0, commit(identity(1, 1), 1, 1, 1, 0, 5))
			op := w.do(0, commit(identity(1, 1), 2, 1, 1, 0, 5))
			op.Answer.Status, op.Answer.Err, op.Answer.Result = meta.Applied, nil, meta.CommitObjectsResult{}
		}, []string{"stream 1" + outside, "the replay of that row answers"}},
		"the end goes back": {func(w *world) {
			w.stream()
			w.must(0, commit(identity(1, 1), 1, 1, 1, 0, 5))
			w.read(1, w.head()-1, linearizable(history.Read{Streams: "s"}))
		}, []string{"stream 1" + outside, "is stale"}},
		"two streams with one id": {func(w *world) {
			w.stream()
			op := w.must(1, meta.CreateStream{Identity: identity(1, 1), Name: "t"})
			op.Answer.Result = meta.CreateStreamResult{StreamID: 1}
		}, []string{"names" + outside, "the replay of that row answers"}},
		"fork, seen by a digest": {func(w *world) {
			w.must(0, put("k/a", "1"))
			op := w.read(100, w.head(), history.Read{Freshness: history.Local, Status: true})
			op.Read.Got = []meta.Record{meta.ClusterRecord{Index: w.head(), Digest: [16]byte{1}}}
		}, []string{"where the replay has"}},
		"fork, seen by a writer": {func(w *world) {
			w.must(0, put("k/a", "1"))
			w.must(0, put("k/a", "2"))
			w.rows[2].WriterDigest = strings.Repeat("0", 32)
		}, []string{"the writer of row 2 had digest"}},
		"fork, seen by a reader": {func(w *world) {
			w.must(0, put("k/a", "1"))
			op := w.read(1, w.head(), history.Read{Freshness: history.Local, Keys: "k/"})
			op.Read.Got = []meta.Record{meta.Key{Key: "k/a", Value: []byte("9"), Version: w.version("k/a")}}
		}, []string{"where the replay has"}},
		"view of another history": {func(w *world) {
			w.must(0, put("k/a", "1"))
			w.read(1, w.head(), history.Read{Freshness: history.Local, Keys: "k/"}).Read.Incarnation = "00000000000000bb"
		}, []string{"is of incarnation 00000000000000bb"}},
		"view beyond the log": {func(w *world) {
			w.must(0, put("k/a", "1"))
			w.read(1, w.head(), history.Read{Freshness: history.Local, Keys: "k/"}).Read.Index++
		}, []string{"there is no row at the index of"}},
		"older than promised": {func(w *world) {
			w.must(0, put("k/a", "1"))
			w.must(0, put("k/a", "2"))
			w.read(1, 1, history.Read{Freshness: history.AtLeast, AtLeast: 2, Keys: "k/"})
		}, []string{"is older than was promised"}},
		"a row before the call": {func(w *world) {
			// Two keys, so that each alone looks right.
			early := w.call(1, put("l/a", "1"))
			w.row(early)
			w.must(0, put("k/a", "1"))
			w.ops[early-1].Call = w.tick()
			w.ret(early)
		}, []string{"took its row before it was called"}},
		"a hole in the log": {func(w *world) {
			w.must(0, put("k/a", "1"))
			w.must(0, put("k/a", "2"))
			w.rows = slices.Delete(w.rows, 1, 2)
		}, []string{"where row 1 should be stands row 2"}},
		"a row of another history": {func(w *world) {
			w.must(0, put("k/a", "1"))
			w.rows[1].Incarnation = "00000000000000bb"
		}, []string{"row 1 is of incarnation"}},
		"a row that cannot be read": {func(w *world) {
			w.must(0, put("k/a", "1"))
			w.rows[1].Undecodable = "checksum"
		}, []string{"row 1 cannot be decoded"}},
		"a command that nobody sent": {func(w *world) {
			id := w.call(0, put("k/a", "1"))
			p := w.proposal(id, id)
			p.Command = put("k/a", "2")
			w.append([]meta.Proposal{p})
		}, []string{"is one that nobody proposed"}},
		"a command that the rules do not know": {func(w *world) {
			w.stream()
			w.must(0, meta.ForceCloseStream{StreamID: 1, Epoch: 1})
		}, []string{"meta.ForceCloseStream, which the rules of this package do not know"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.make(w)
			r := history.Check(w.history(), 0)
			for _, want := range tt.want {
				if !slices.ContainsFunc(r.Faults, func(f string) bool { return strings.Contains(f, want) }) {
					t.Errorf("no fault with %q in %q", want, r.Faults)
				}
			}
			if r.OK() {
				t.Error("the history was found to be right")
			}
		})
	}
}

// TestRightHistories are those that look strange and are right.
func TestRightHistories(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(w *world){
		"unknown and never done": func(w *world) {
			w.must(0, put("k/a", "1"))
			w.call(0, put("k/a", "2"))
			w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
		},
		"unknown and done much later": func(w *world) {
			w.must(0, put("k/a", "1"))
			id := w.call(0, put("k/a", "2"))
			w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
			w.must(0, put("k/b", "3"))
			w.row(id)
			w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
			w.do(1, meta.PutKey{Key: "k/a", Value: []byte("4"), IfVersion: w.version("k/a")})
		},
		"unknown, with a condition on a version that nobody was told": func(w *world) {
			id := w.call(0, put("k/a", "1"))
			w.row(id)
			v := w.version("k/a")
			w.do(1, meta.PutKey{Key: "k/a", Value: []byte("2"), IfVersion: v - 1})
			w.do(1, meta.PutKey{Key: "k/a", Value: []byte("2"), IfVersion: v})
			w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
		},
		"sent twice": func(w *world) {
			w.must(0, node(1, 1))
			id := w.call(0, meta.PrepareObjects{Identity: identity(1, 1), Count: 1, Deadline: 1})
			w.row(id)
			w.must(1, meta.PrepareObjects{Identity: identity(1, 1), Count: 1, Deadline: 1})
			w.row(id)
			w.ret(id)
		},
		"told from a snapshot's memory": func(w *world) {
			id := w.call(0, put("k/a", "1"))
			w.row(id)
			w.must(1, put("l/a", "1"))
			a := w.answers[id]
			a.Status, a.Index, a.Position = meta.Redundant, w.head(), 0
			w.answers[id] = a
			w.ret(id)
		},
		"a sign of life, sent twice": func(w *world) {
			w.must(0, node(1, 1))
			id := w.call(0, meta.RenewNode{Identity: identity(1, 1)})
			for range 2 {
				p := w.proposal(id, id)
				p.Request = nil
				w.answers[id] = w.append([]meta.Proposal{p})[0]
			}
			w.ret(id)
		},
		"refused, and told so the second time": func(w *world) {
			w.must(0, put("k/a", "1"))
			id := w.call(0, meta.PutKey{Key: "k/a", Value: []byte("2"), IfAbsent: true})
			w.row(id)
			w.must(1, meta.DeleteKey{Key: "k/a"})
			w.row(id)
			w.ret(id)
		},
		"local reads of long ago": func(w *world) {
			w.must(0, put("k/a", "1"))
			w.must(0, put("k/a", "2"))
			w.read(1, 0, history.Read{Freshness: history.Local, Keys: "k/"})
			w.read(1, 1, history.Read{Freshness: history.Local, Keys: "k/"})
		},
		"at the same time": func(w *world) {
			a, b := w.call(0, put("k/a", "1")), w.call(1, put("k/a", "2"))
			w.row(b, a)
			w.ret(a)
			w.ret(b)
			w.read(1, w.head(), linearizable(history.Read{Keys: "k/"}))
		},
		"handed over with a debt": func(w *world) {
			w.stream()
			w.must(0, meta.RecordTransfer{Identity: identity(1, 1), StreamID: 1, Epoch: 1, ToNode: 2, Boundary: 4})
			w.must(1, meta.OpenStream{Identity: identity(2, 1), StreamID: 1})
			w.must(1, commit(identity(2, 1), 6, 1, 2, 4, 6))
			w.must(0, commit(identity(1, 1), 1, 1, 1, 0, 3))
			w.do(0, commit(identity(1, 1), 2, 1, 1, 2, 4))
			w.must(0, commit(identity(1, 1), 2, 1, 1, 3, 4))
			w.must(0, commit(identity(1, 1), 2, 1, 1, 3, 4)) // sent again
			w.read(2, w.head(), linearizable(history.Read{Streams: "s"}))
			w.read(2, w.head(), linearizable(history.Read{Nodes: true}))
			w.read(2, w.head(), history.Read{Freshness: history.Local, Slices: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			make(w)
			if r := history.Check(w.history(), 0); !r.OK() {
				t.Errorf("faults %q", r.Faults)
			}
		})
	}
}
