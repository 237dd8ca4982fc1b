package meta_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

// asked is a proposal with a request of the client named.
func asked(client string, sequence, oldest uint64, cmd meta.Command) meta.Proposal {
	return meta.Proposal{Request: request(client, sequence, oldest), Command: cmd}
}

// checkFirst checks when the first answer was given.
func checkFirst(t *testing.T, a meta.Answer, index uint64, position int) {
	t.Helper()
	if a.FirstIndex != index || a.FirstPosition != position {
		t.Errorf("first answered at %d.%d, want %d.%d", a.FirstIndex, a.FirstPosition, index, position)
	}
}

// TestRequestRepeat is field case 02.1: whatever became of a command, its repeat has no second effect and the same
// results, even where the command would end differently by now.
func TestRequestRepeat(t *testing.T) {
	t.Parallel()
	base := then(opened, filled(10)...)
	for _, tt := range []struct {
		name  string
		cmd   meta.Command
		want  string
		first string         // how the first answer ends, where not as want
		then  []meta.Command // what happens between the two
	}{
		{name: "RegisterNode", cmd: registerNode(7, "7a"), then: []meta.Command{registerNode(7, "7b")}, want: "redundant"},
		{name: "CreateStream after a delete", cmd: createStream("b"), then: []meta.Command{meta.DeleteStream{StreamID: 2}}, want: "redundant"},
		{name: "OpenStream with epoch 0", cmd: openStream(at(2, 1), 2, 0), first: "STREAM_NOT_FOUND", then: []meta.Command{createStream("b")}, want: "STREAM_NOT_FOUND"},
		{name: "CloseStream", cmd: closeStream(at(1, 1), 1, 1), then: []meta.Command{openStream(at(1, 1), 1, 0)}, want: "redundant"},
		{name: "TrimStream", cmd: trimStream(at(1, 1), 1, 1, 5), want: "redundant"},
		{name: "RecordTransfer", cmd: recordTransfer(at(1, 1), 1, 1, 2, 30), then: []meta.Command{openStream(at(2, 1), 1, 0)}, want: "redundant"},
		{name: "PrepareObjects", cmd: prepareObjects(at(1, 1), 3), want: "redundant"},
		{name: "CommitObjects", cmd: commitSlice(at(1, 1), 1, 1, 1, 0, 10), first: "redundant", want: "redundant"},
		{name: "PutKey", cmd: putKey("k", "a"), then: []meta.Command{putKey("k", "b")}, want: "redundant"},
		{name: "DeleteKey", cmd: meta.DeleteKey{Key: "k"}, first: "redundant", then: []meta.Command{putKey("k", "b")}, want: "redundant"},
		{name: "a refusal stays one", cmd: meta.CheckKey{Key: "k", IfVersion: 1}, first: "KEY_VERSION_MISMATCH", want: "KEY_VERSION_MISMATCH"},
		{name: "Atomic", cmd: all(createStream("b"), putKey("k", "v"), meta.CheckKey{Key: "none", IfAbsent: true}), then: []meta.Command{meta.DeleteKey{Key: "k"}}, want: "redundant"},
		{name: "a refused Atomic", cmd: all(createStream("b"), meta.CheckKey{Key: "k", IfVersion: 3}), first: "KEY_VERSION_MISMATCH", want: "KEY_VERSION_MISMATCH"},
		{name: "ReclaimObjects", cmd: meta.ReclaimObjects{Limit: 10}, first: "redundant", want: "redundant"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newWorld(t).given(base...)
			p := asked("client", 1, 1, tt.cmd)
			firstEnd := tt.first
			if firstEnd == "" {
				firstEnd = "applied"
			}
			a := c.row(meta.Proposal{Command: putKey("x", "x")}, p)[1]
			if ending(a) != firstEnd {
				t.Fatalf("first: %s (%v), want %s", ending(a), a.Err, firstEnd)
			}
			index := c.s.Index()
			checkFirst(t, a, index, 1)
			c.given(tt.then...)
			before := meta.RuleDigest(c.s)
			for range 2 {
				again := c.propose(p)
				if ending(again) != tt.want {
					t.Fatalf("again: %s (%v), want %s", ending(again), again.Err, tt.want)
				}
				checkFirst(t, again, index, 1)
				if again.Index != c.s.Index() || again.Position != 0 {
					t.Errorf("again at %d.%d, want %d.0", again.Index, again.Position, c.s.Index())
				}
				if diff := cmp.Diff(a.Result, again.Result); diff != "" {
					t.Errorf("the repeat has another result (-first +again):\n%s", diff)
				}
				var e1, e2 *meta.Error
				if errors.As(a.Err, &e1) && errors.As(again.Err, &e2) && (e1.Inner != e2.Inner || e2.Current != nil) {
					t.Errorf("refused with %+v, the repeat with %+v", e1, e2)
				}
			}
			if before != meta.RuleDigest(c.s) {
				t.Error("the repeat had an effect")
			}
			recalled, ok := c.s.Recall(encoded(t, p))
			if !ok || ending(recalled) != tt.want {
				t.Fatalf("recalled: %v, %s", ok, ending(recalled))
			}
			checkFirst(t, recalled, index, 1)
			if diff := cmp.Diff(a.Result, recalled.Result); diff != "" {
				t.Error(diff)
			}
			c.verify()
		})
	}
}

func encoded(t *testing.T, p meta.Proposal) []byte {
	t.Helper()
	b, err := meta.AppendProposal(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exchange is one request of a script, and how it has to end.
type exchange struct {
	client           string
	sequence, oldest uint64
	value            string // of the key that the request puts
	want             string
}

// run plays a script; each request puts a key of its own client and sequence.
func (c *world) run(script []exchange) {
	c.t.Helper()
	for i, x := range script {
		cmd := putKey(fmt.Sprintf("%s/%d", x.client, x.sequence), x.value)
		a := c.propose(asked(x.client, x.sequence, x.oldest, cmd))
		if ending(a) != x.want {
			c.t.Fatalf("exchange %d, %+v: %s (%v)", i, x, ending(a), a.Err)
		}
		c.verify()
	}
}

func TestRequestRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		script []exchange
	}{
		{"sequence from oldest on, below oldest + 256", []exchange{
			{"a", 1, 1, "v", "applied"}, {"a", 256, 1, "v", "applied"}, {"a", 257, 1, "v", "INVALID_ARGUMENT"}, {"a", 257, 2, "v", "applied"},
			{"a", 0, 0, "v", "INVALID_ARGUMENT"}, {"a", 3, 4, "v", "INVALID_ARGUMENT"}}},
		{"oldest 0 reads as 1", []exchange{{"a", 256, 0, "v", "applied"}, {"a", 257, 0, "v", "INVALID_ARGUMENT"}, {"a", 1, 0, "v", "applied"}}},
		{"another payload", []exchange{{"a", 1, 1, "v", "applied"}, {"a", 1, 1, "w", "REQUEST_REUSED"}, {"a", 1, 1, "v", "redundant"}}},
		{"another client has its own sequences", []exchange{{"a", 1, 1, "v", "applied"}, {"b", 1, 1, "w", "applied"}}},
		{"below the client's oldest", []exchange{{"a", 1, 1, "v", "applied"}, {"a", 3, 3, "v", "applied"}, {"a", 1, 1, "v", "REQUEST_EXPIRED"}, {"a", 2, 1, "v", "REQUEST_EXPIRED"}, {"a", 3, 1, "v", "redundant"}}},
		{"the highest oldest counts", []exchange{{"a", 1, 1, "v", "applied"}, {"a", 9, 5, "v", "applied"}, {"a", 8, 2, "v", "applied"}, {"a", 4, 2, "v", "REQUEST_EXPIRED"}, {"a", 5, 2, "v", "applied"}}},
		{"an unknown client whose oldest is above 1", []exchange{{"a", 5, 2, "v", "REQUEST_EXPIRED"}, {"a", 5, 2, "v", "REQUEST_EXPIRED"}, {"a", 1, 1, "v", "applied"}}},
		{"out of order", []exchange{{"a", 3, 1, "v", "applied"}, {"a", 1, 1, "v", "applied"}, {"a", 2, 1, "v", "applied"}, {"a", 3, 2, "v", "redundant"}, {"a", 1, 1, "v", "REQUEST_EXPIRED"}}},
		{"REQUEST_REUSED raises the oldest", []exchange{{"a", 1, 1, "v", "applied"}, {"a", 2, 1, "v", "applied"}, {"a", 2, 2, "w", "REQUEST_REUSED"}, {"a", 1, 1, "v", "REQUEST_EXPIRED"}}},
		{"a command that breaks a limit does not count as seen", []exchange{{"a", 1, 1, "v", "applied"}, {"a", 300, 300, string(make([]byte, 300_000)), "TOO_LARGE"}, {"a", 1, 1, "v", "redundant"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			newWorld(t).run(tt.script)
		})
	}
}

// TestRequestRefusalsNotKept: what the rules refuse with INVALID_ARGUMENT or TOO_LARGE may be sent corrected under the
// same sequence; it counts as seen all the same.
func TestRequestRefusalsNotKept(t *testing.T) {
	t.Parallel()
	c := newWorld(t).given(nodes...)
	c.run([]exchange{{"a", 1, 1, "v", "applied"}})
	for _, tt := range []struct {
		cmd  meta.Command
		want string
	}{
		{fenceNode(1, 1, at(1, 1)), "INVALID_ARGUMENT"},
		{meta.SetFormat{Level: 9}, "INVALID_ARGUMENT"},
		{fenceNode(1, 1, at(2, 1)), "applied"},
		{fenceNode(1, 1, at(2, 1)), "redundant"},
	} {
		if a := c.propose(asked("a", 2, 2, tt.cmd)); ending(a) != tt.want {
			t.Fatalf("%+v: %s, want %s", tt.cmd, ending(a), tt.want)
		}
	}
	c.run([]exchange{{"a", 1, 1, "v", "REQUEST_EXPIRED"}}) // the first of them raised the oldest
}

// TestRequestWindow is field case 02.4: what is forgotten, and when, is decided by the order of the log.
func TestRequestWindow(t *testing.T) {
	t.Parallel()
	small := func(t *testing.T, clients int, results uint64) *world {
		c := newWorld(t)
		c.s = meta.WithWindow(c.s, clients, results)
		return c
	}
	t.Run("clients: the least recently seen goes", func(t *testing.T) {
		t.Parallel()
		c := small(t, 3, 100)
		c.run([]exchange{{"a", 1, 1, "v", "applied"}, {"b", 1, 1, "v", "applied"}, {"c", 1, 1, "v", "applied"},
			{"a", 1, 1, "v", "redundant"}, // a repeat counts as seen
			{"d", 1, 1, "v", "applied"},   // b goes
			{"a", 2, 2, "v", "applied"}, {"c", 2, 2, "v", "applied"}, {"b", 2, 2, "v", "REQUEST_EXPIRED"}})
		if n := c.s.Counts(); n.Clients != 3 || n.Results != 3 {
			t.Errorf("%d clients, %d results, want 3 and 3", n.Clients, n.Results)
		}
	})
	t.Run("results: the least recently seen client goes with all of its", func(t *testing.T) {
		t.Parallel()
		c := small(t, 100, 4)
		c.run([]exchange{{"a", 1, 1, "v", "applied"}, {"a", 2, 1, "v", "applied"}, {"b", 1, 1, "v", "applied"}, {"b", 2, 1, "v", "applied"},
			{"c", 1, 1, "v", "applied"}, {"b", 1, 1, "v", "redundant"}, {"c", 1, 1, "v", "redundant"}, {"a", 3, 3, "v", "REQUEST_EXPIRED"}})
		if n := c.s.Counts(); n.Clients != 2 || n.Results != 3 {
			t.Errorf("%d clients, %d results, want 2 and 3", n.Clients, n.Results)
		}
	})
	t.Run("a client that is forgotten is not taken up again", func(t *testing.T) {
		t.Parallel()
		small(t, 1, 100).run([]exchange{{"a", 5, 1, "v", "applied"}, {"b", 1, 1, "v", "applied"},
			{"a", 5, 5, "v", "REQUEST_EXPIRED"}, {"a", 6, 5, "v", "REQUEST_EXPIRED"}, {"b", 2, 1, "v", "applied"}})
	})
	t.Run("a reused or expired request counts as seen, one that breaks a limit does not", func(t *testing.T) {
		t.Parallel()
		c := small(t, 2, 100)
		c.run([]exchange{{"a", 2, 1, "v", "applied"}, {"b", 2, 1, "v", "applied"}, {"a", 2, 2, "w", "REQUEST_REUSED"},
			{"c", 1, 1, "v", "applied"}, // b goes
			{"a", 1, 1, "v", "REQUEST_EXPIRED"},
			{"d", 1, 1, "v", "applied"}, // c goes
			{"a", 2, 2, "v", "redundant"}, {"d", 999, 1, "v", "INVALID_ARGUMENT"},
			{"e", 1, 1, "v", "applied"}, // d goes
			{"a", 2, 2, "v", "redundant"}})
	})
	t.Run("the window is full", func(t *testing.T) {
		t.Parallel()
		c := small(t, 64, 200)
		for i := range 1000 {
			// Each client sends five commands and never says that it has an answer.
			client, seq := fmt.Sprintf("client %d", i/5), uint64(i%5+1)
			if a := c.propose(asked(client, seq, 1, putKey(client, fmt.Sprint(seq)))); a.Status != meta.Applied {
				t.Fatal(a.Err)
			}
			if n := c.s.Counts(); n.Clients > 64 || n.Results > 200 {
				t.Fatalf("%d clients, %d results", n.Clients, n.Results)
			}
		}
		c.verify()
		// 40 clients of 5 results fill it: the last 40 are there, the one before is not.
		for _, tt := range []struct {
			client int
			want   bool
		}{{159, false}, {160, true}, {199, true}} {
			client := fmt.Sprintf("client %d", tt.client)
			if _, ok := c.s.Recall(encoded(t, asked(client, 1, 1, putKey(client, "1")))); ok != tt.want {
				t.Errorf("%s is remembered: %v, want %v", client, ok, tt.want)
			}
		}
	})
	t.Run("what was acknowledged takes no room", func(t *testing.T) {
		t.Parallel()
		c := small(t, 10, 10)
		for i := range uint64(1000) {
			if a := c.propose(asked("a", i+1, i+1, putKey("k", fmt.Sprint(i)))); a.Status != meta.Applied {
				t.Fatal(a.Err)
			}
		}
		if n := c.s.Counts(); n.Clients != 1 || n.Results != 1 {
			t.Errorf("%d clients, %d results, want 1 and 1", n.Clients, n.Results)
		}
		c.verify()
	})
}

func TestRecall(t *testing.T) {
	t.Parallel()
	c := newWorld(t)
	c.run([]exchange{{"a", 1, 1, "v", "applied"}, {"a", 2, 1, "v", "applied"}, {"a", 3, 2, "v", "applied"}})
	key := func(seq uint64) string { return fmt.Sprintf("a/%d", seq) }
	digest := c.s.Digest()
	for _, tt := range []struct {
		name string
		b    []byte
		want string // "" is not known
	}{
		{"kept", encoded(t, asked("a", 2, 1, putKey(key(2), "v"))), "redundant"},
		{"kept, with another stamp and oldest", encoded(t, meta.Proposal{Stamp: 7, Request: request("a", 3, 3), Command: putKey(key(3), "v")}), "redundant"},
		{"another payload", encoded(t, asked("a", 2, 1, putKey(key(2), "w"))), "REQUEST_REUSED"},
		{"below the oldest", encoded(t, asked("a", 1, 1, putKey(key(1), "v"))), ""},
		{"never seen", encoded(t, asked("a", 4, 1, putKey(key(4), "v"))), ""},
		{"unknown client", encoded(t, asked("b", 1, 1, putKey(key(1), "v"))), ""},
		{"no request", encoded(t, meta.Proposal{Command: putKey(key(2), "v")}), ""},
		{"breaks a limit", encoded(t, asked("a", 2, 1, putKey("", "v"))), ""},
		{"does not decode", []byte{1, 2, 3}, ""},
		{"empty", nil, ""},
	} {
		a, ok := c.s.Recall(tt.b)
		if ok != (tt.want != "") || ok && ending(a) != tt.want {
			t.Errorf("%s: %v, %s, want %q", tt.name, ok, ending(a), tt.want)
		}
		if ok && a.Index != c.s.Index() {
			t.Errorf("%s: at index %d, want that of the state, %d", tt.name, a.Index, c.s.Index())
		}
	}
	if c.s.Digest() != digest {
		t.Error("Recall changed the state")
	}
}
