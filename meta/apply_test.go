package meta_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

// world is a state and the log that led to it, one command a row.
type world struct {
	t    *testing.T
	s    *meta.State
	rows [][][]byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, s: meta.NewState()}
}

// row applies one row of proposals.
func (c *world) row(proposals ...meta.Proposal) []meta.Answer {
	c.t.Helper()
	var row [][]byte
	for _, p := range proposals {
		b, err := meta.AppendProposal(nil, p)
		if err != nil {
			c.t.Fatalf("encode %T: %v", p.Command, err)
		}
		row = append(row, b)
	}
	next, answers, err := c.s.Apply(c.s.Index()+1, row)
	if err != nil {
		c.t.Fatalf("apply row %d: %v", c.s.Index()+1, err)
	}
	c.s, c.rows = next, append(c.rows, row)
	return answers
}

// propose applies one proposal in a row of its own.
func (c *world) propose(p meta.Proposal) meta.Answer {
	c.t.Helper()
	return c.row(p)[0]
}

// do applies one command in a row of its own, with a fresh request where the command needs one.
func (c *world) do(cmd meta.Command) meta.Answer {
	c.t.Helper()
	return c.propose(proposal(c.s, cmd))
}

// given applies commands that must be applied.
func (c *world) given(cmds ...meta.Command) *world {
	c.t.Helper()
	for i, cmd := range cmds {
		if a := c.do(cmd); a.Status != meta.Applied {
			c.t.Fatalf("given command %d, %T: status %d, %v", i, cmd, a.Status, a.Err)
		}
	}
	return c
}

// verify checks the whole state.
func (c *world) verify() {
	c.t.Helper()
	if err := c.s.Verify(); err != nil {
		c.t.Fatalf("the state at %d does not verify: %v", c.s.Index(), err)
	}
}

func (c *world) stream(id uint64) meta.Stream {
	c.t.Helper()
	s, ok := c.s.Stream(id)
	if !ok {
		c.t.Fatalf("stream %d is not there", id)
	}
	return s
}

func (c *world) node(id uint64) meta.Node {
	c.t.Helper()
	n, ok := c.s.Node(id)
	if !ok {
		c.t.Fatalf("node %d is not there", id)
	}
	return n
}

func (c *world) ranges(id uint64) []meta.Range {
	c.t.Helper()
	p, err := c.s.Ranges(id, "", 1000)
	if err != nil {
		c.t.Fatal(err)
	}
	return p.Items
}

func (c *world) losses(id uint64) []meta.Loss {
	c.t.Helper()
	p, err := c.s.Losses(id, "", 1000)
	if err != nil {
		c.t.Fatal(err)
	}
	return p.Items
}

func (c *world) debts(f meta.DebtFilter) []meta.Debt {
	c.t.Helper()
	p, err := c.s.Debts(f, "", 1000)
	if err != nil {
		c.t.Fatal(err)
	}
	return p.Items
}

// proposal wraps a command, with a request of a client of its own where the command needs one.
func proposal(s *meta.State, cmd meta.Command) meta.Proposal {
	p := meta.Proposal{Command: cmd, Stamp: 1_700_000_000_000}
	switch cmd.(type) {
	case meta.PrepareObjects, meta.Atomic:
		p.Request = request(fmt.Sprintf("row %d", s.Index()+1), 1, 1)
	}
	return p
}

func request(client string, sequence, oldest uint64) *meta.Request {
	r := &meta.Request{Sequence: sequence, Oldest: oldest}
	copy(r.Client[:], client)
	return r
}

// Words for the commands that tests say most.

func at(node, epoch uint64) meta.Identity { return meta.Identity{NodeID: node, NodeEpoch: epoch} }

func instance(of string) (b [16]byte) {
	copy(b[:], of)
	return b
}

func registerNode(id uint64, start string) meta.RegisterNode {
	return meta.RegisterNode{NodeID: id, Instance: instance(start)}
}

func createStream(name string) meta.CreateStream {
	return meta.CreateStream{Identity: at(1, 1), Name: name}
}

func openStream(by meta.Identity, stream, epoch uint64) meta.OpenStream {
	return meta.OpenStream{Identity: by, StreamID: stream, Epoch: epoch}
}

func closeStream(by meta.Identity, stream, epoch uint64) meta.CloseStream {
	return meta.CloseStream{Identity: by, StreamID: stream, Epoch: epoch}
}

func trimStream(by meta.Identity, stream, epoch, start uint64) meta.TrimStream {
	return meta.TrimStream{Identity: by, StreamID: stream, Epoch: epoch, StartOffset: start}
}

func recordTransfer(by meta.Identity, stream, epoch, to, boundary uint64) meta.RecordTransfer {
	return meta.RecordTransfer{Identity: by, StreamID: stream, Epoch: epoch, ToNode: to, Boundary: boundary}
}

func fenceNode(node, epoch uint64, rescuer meta.Identity) meta.FenceNode {
	return meta.FenceNode{NodeID: node, Epoch: epoch, Rescuer: rescuer}
}

func forceCloseStream(stream, epoch uint64, writeOff bool) meta.ForceCloseStream {
	return meta.ForceCloseStream{StreamID: stream, Epoch: epoch, WriteOff: writeOff, Reason: "test"}
}

func prepareObjects(by meta.Identity, count uint64) meta.PrepareObjects {
	return meta.PrepareObjects{Identity: by, Count: count, Deadline: 4_102_444_800_000}
}

// commit commits one object with one slice.
func commitSlice(by meta.Identity, object, stream, epoch, start, end uint64) meta.CommitObjects {
	return meta.CommitObjects{Identity: by, Objects: []meta.Object{{ObjectID: object, Size: 10, Slices: []meta.Slice{
		{StreamID: stream, StreamEpoch: epoch, StartOffset: start, EndOffset: end, Length: 10}}}}}
}

func putKey(key, value string) meta.PutKey { return meta.PutKey{Key: key, Value: []byte(value)} }

func labels(pairs ...string) []meta.Label {
	var out []meta.Label
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, meta.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

// nodes registers nodes 1, 2 and 3, each at epoch 1.
var nodes = []meta.Command{registerNode(1, "1a"), registerNode(2, "2a"), registerNode(3, "3a")}

// clause is one clause of the rules: after given, the command ends as want says.
type clause struct {
	name   string
	given  []meta.Command
	cmd    meta.Command
	want   string // "applied", "redundant", or the code of the refusal
	result meta.Result
	check  func(t *testing.T, c *world)
}

// runClauses runs a table. Whatever ends other than applied must leave all but index and request memory as it was; and
// every state must verify.
func runClauses(t *testing.T, base []meta.Command, clauses []clause) {
	for _, cl := range clauses {
		t.Run(cl.name, func(t *testing.T) {
			t.Parallel()
			c := newWorld(t).given(base...).given(cl.given...)
			before := meta.RuleDigest(c.s)
			old, oldDigest := c.s, c.s.Digest()
			a := c.do(cl.cmd)
			if got := ending(a); got != cl.want {
				t.Fatalf("%T ends as %s (%v), want %s", cl.cmd, got, a.Err, cl.want)
			}
			if same := before == meta.RuleDigest(c.s); same != (a.Status != meta.Applied) {
				t.Errorf("%s, yet the state stayed the same: %v", cl.want, same)
			}
			if cl.result != nil || a.Status == meta.Rejected {
				if diff := cmp.Diff(cl.result, a.Result); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
			}
			checkRefusal(t, a)
			if old.Digest() != oldDigest {
				t.Error("the state that the command was applied to has changed")
			}
			c.verify()
			if cl.check != nil {
				cl.check(t, c)
			}
		})
	}
}

// ending says how an answer ended in one word.
func ending(a meta.Answer) string {
	switch {
	case a.Status == meta.Applied && a.Err == nil:
		return "applied"
	case a.Status == meta.Redundant && a.Err == nil:
		return "redundant"
	case a.Status == meta.Rejected:
		return meta.CodeOf(a.Err).String()
	}
	return fmt.Sprintf("status %d with error %v", a.Status, a.Err)
}

// checkRefusal checks that a refusal says why in a sentence, and that nothing else has an error.
func checkRefusal(t *testing.T, a meta.Answer) {
	t.Helper()
	var e *meta.Error
	if errors.As(a.Err, &e) != (a.Status == meta.Rejected) {
		t.Errorf("status %d with error %v", a.Status, a.Err)
	}
	if e != nil && (e.Message == "" || e.Code == 0) {
		t.Errorf("a refusal without a reason: %#v", e)
	}
}
