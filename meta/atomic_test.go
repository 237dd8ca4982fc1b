package meta_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

func all(cmds ...meta.Command) meta.Atomic { return meta.Atomic{Commands: cmds} }

func inner(status meta.Status, result meta.Result) meta.InnerAnswer {
	return meta.InnerAnswer{Status: status, Result: result}
}

func TestAtomic(t *testing.T) {
	t.Parallel()
	runClauses(t, nodes, []clause{
		{name: "one after another, each against what the earlier ones left", cmd: all(createStream("a"), openStream(at(1, 1), 1, 0), createStream("a"), putKey("k", "v")), want: "applied",
			result: meta.AtomicResult{Answers: []meta.InnerAnswer{
				inner(meta.Applied, meta.CreateStreamResult{StreamID: 1}), inner(meta.Applied, meta.OpenStreamResult{Epoch: 1}),
				inner(meta.Redundant, meta.CreateStreamResult{StreamID: 1}), inner(meta.Applied, meta.PutKeyResult{Version: 4 * 256}),
			}}},
		{name: "the first refusal refuses all", cmd: all(createStream("a"), putKey("k", "v"), openStream(at(1, 1), 2, 0), openStream(at(9, 1), 1, 0)), want: "STREAM_NOT_FOUND", check: func(t *testing.T, c *world) {
			if _, ok := c.s.StreamByName("a"); ok {
				t.Error("the stream is there")
			}
			if a := c.do(createStream("b")); a.Result != (meta.CreateStreamResult{StreamID: 1}) {
				t.Errorf("the refused stream took an id: %+v", a.Result)
			}
		}},
		{name: "all redundant: redundant", given: []meta.Command{createStream("a")}, cmd: all(createStream("a"), meta.DeleteKey{Key: "k"}, meta.CheckKey{Key: "k", IfAbsent: true}), want: "redundant",
			result: meta.AtomicResult{Answers: []meta.InnerAnswer{inner(meta.Redundant, meta.CreateStreamResult{StreamID: 1}), inner(meta.Redundant, nil), inner(meta.Redundant, nil)}}},
		{name: "what ends where it began is applied all the same", cmd: all(putKey("other", "x"), putKey("k", "v"), meta.DeleteKey{Key: "k"}), want: "applied"},
		{name: "a check that does not hold", given: []meta.Command{putKey("k", "v")}, cmd: all(putKey("l", "w"), meta.CheckKey{Key: "k", IfVersion: 9}), want: "KEY_VERSION_MISMATCH"},
		{name: "a check sees what the earlier ones left", cmd: all(putKey("k", "v"), meta.CheckKey{Key: "k", IfAbsent: true}), want: "KEY_EXISTS"},
		{name: "compare and set several keys", given: []meta.Command{putKey("k", "1"), putKey("l", "1")},
			cmd: all(meta.PutKey{Key: "k", Value: []byte("2"), IfVersion: 4 * 256}, meta.PutKey{Key: "l", Value: []byte("2"), IfVersion: 5 * 256}), want: "applied"},
		{name: "move a set of streams", given: []meta.Command{createStream("a"), createStream("b"), openStream(at(1, 1), 1, 0), openStream(at(1, 1), 2, 0)},
			cmd: all(closeStream(at(1, 1), 1, 1), openStream(at(2, 1), 1, 0), closeStream(at(1, 1), 2, 1), openStream(at(2, 1), 2, 0)), want: "applied"},
		{name: "prepare and commit in one step", given: []meta.Command{createStream("a"), openStream(at(1, 1), 1, 0)},
			cmd: all(prepareObjects(at(1, 1), 2), commitSlice(at(1, 1), 1, 1, 1, 0, 5), commitSlice(at(1, 1), 2, 1, 1, 5, 9)), want: "applied"},
		{name: "a refused commit is undone too", given: []meta.Command{createStream("a"), openStream(at(1, 1), 1, 0), prepareObjects(at(1, 1), 2)},
			cmd: all(commitSlice(at(1, 1), 1, 1, 1, 0, 5), commitSlice(at(1, 1), 2, 1, 1, 6, 9)), want: "OFFSET_MISMATCH", check: func(t *testing.T, c *world) {
				if s := c.stream(1); s.EndOffset != 0 || s.Slices != 0 {
					t.Errorf("got %+v", s)
				}
			}},
		{name: "a refused registration is undone", cmd: all(registerNode(1, "1b"), closeStream(at(1, 1), 1, 1)), want: "NODE_EPOCH_STALE", check: func(t *testing.T, c *world) {
			if n := c.node(1); n.Epoch != 1 {
				t.Errorf("got %+v", n)
			}
		}},
		{name: "no commands", cmd: all(), want: "INVALID_ARGUMENT"},
		{name: "RenewNode inside", cmd: all(meta.RenewNode{Identity: at(1, 1)}), want: "INVALID_ARGUMENT"},
		{name: "SetFormat inside", cmd: all(meta.SetFormat{Level: 2}), want: "INVALID_ARGUMENT"},
		{name: "limits are judged first", cmd: all(openStream(at(9, 1), 1, 0), createStream("")), want: "INVALID_ARGUMENT"},
		{name: "counts and ids come to 10,000", cmd: all(prepares(10)...), want: "applied"},
		{name: "counts and ids come to 10,001", cmd: all(append(prepares(10), prepareObjects(at(1, 1), 1))...), want: "TOO_LARGE"},
	})
}

func prepares(n int) []meta.Command {
	var cmds []meta.Command
	for range n {
		cmds = append(cmds, prepareObjects(at(1, 1), 1000))
	}
	return cmds
}

// TestAtomicSourceSlices: the slices of compaction sources, which only the state knows, count towards the limit.
func TestAtomicSourceSlices(t *testing.T) {
	t.Parallel()
	c := newWorld(t).given(then(opened, prepareObjects(at(1, 1), 4))...)
	big := meta.CommitObjects{Identity: at(1, 1), Objects: []meta.Object{{ObjectID: 1, Size: 1}}}
	for i := range uint64(6000) {
		big.Objects[0].Slices = append(big.Objects[0].Slices, meta.Slice{StreamID: 1, StreamEpoch: 1, StartOffset: i, EndOffset: i + 1})
	}
	c.given(big)
	compact := meta.CompactObjects{Identity: at(1, 1), Sources: []uint64{1}, Objects: commitSlice(at(1, 1), 2, 1, 1, 0, 6000).Objects}
	// 6,000 slices of the source, 1 source, 1 slice of the result: 3,998 are left.
	for _, tt := range []struct {
		more uint64
		want string
	}{{3999, "TOO_LARGE"}, {3998, "applied"}} {
		var cmds []meta.Command
		for left := tt.more; left > 0; left -= min(left, 1000) {
			cmds = append(cmds, prepareObjects(at(1, 1), min(left, 1000)))
		}
		before := meta.RuleDigest(c.s)
		a := c.do(all(append(cmds, compact)...))
		if ending(a) != tt.want {
			t.Fatalf("with %d more: %s (%v), want %s", tt.more, ending(a), a.Err, tt.want)
		}
		if tt.want != "applied" && before != meta.RuleDigest(c.s) {
			t.Fatal("a refused Atomic left something")
		}
		c.verify()
	}
}

// TestAtomicSaysWhichCommand: a refusal carries the position of the command inside, and -1 where it stood alone.
func TestAtomicSaysWhichCommand(t *testing.T) {
	t.Parallel()
	c := newWorld(t).given(nodes...)
	for _, tt := range []struct {
		cmd  meta.Command
		want int
	}{
		{all(openStream(at(1, 1), 1, 0)), 0},
		{all(createStream("a"), openStream(at(1, 1), 1, 0), openStream(at(2, 1), 1, 0)), 2},
		{all(createStream("a"), createStream("")), 1},
		{openStream(at(1, 1), 9, 0), -1},
	} {
		var e *meta.Error
		if a := c.do(tt.cmd); !errors.As(a.Err, &e) || e.Inner != tt.want {
			t.Errorf("%+v is refused with %+v, want position %d", tt.cmd, e, tt.want)
		}
	}
}

// TestAtomicAmongOthers: what an Atomic undoes is only its own, in the middle of a row too.
func TestAtomicAmongOthers(t *testing.T) {
	t.Parallel()
	c := newWorld(t).given(nodes...)
	rows := func(cmds ...meta.Command) (answers []meta.Answer) {
		var ps []meta.Proposal
		for i, cmd := range cmds {
			p := meta.Proposal{Command: cmd}
			if _, ok := cmd.(meta.Atomic); ok {
				p.Request = request("row", uint64(i)+1, 1)
			}
			ps = append(ps, p)
		}
		return c.row(ps...)
	}
	held := c.s
	digest := held.Digest()
	answers := rows(createStream("a"), all(createStream("b"), openStream(at(1, 1), 1, 0), openStream(at(2, 1), 1, 0)), createStream("c"), all(openStream(at(1, 1), 1, 0), openStream(at(1, 1), 2, 0)), putKey("k", "v"))
	var got []string
	for _, a := range answers {
		got = append(got, ending(a))
	}
	if diff := cmp.Diff([]string{"applied", "STREAM_NOT_CLOSED", "applied", "applied", "applied"}, got); diff != "" {
		t.Fatal(diff)
	}
	if answers[4].Result != (meta.PutKeyResult{Version: 4*256 + 4}) || answers[2].Result != (meta.CreateStreamResult{StreamID: 2}) {
		t.Errorf("results %+v, %+v", answers[2].Result, answers[4].Result)
	}
	if held.Digest() != digest || held.Verify() != nil {
		t.Error("the state before the row has changed")
	}
	c.verify()
}
