package history_test

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/history"
	"github.com/headwaterdb/headwater/meta"
)

// world is a cluster in which nothing goes wrong by itself: one log, one state, and a clock that ticks with every event.
// Tests make histories with it, and then say things in them that are not so.
type world struct {
	t       testing.TB
	now     time.Duration
	state   *meta.State
	states  []*meta.State // by index
	ops     []history.Op
	rows    []headwater.LogRow
	answers map[uint64]meta.Answer // of the last copy of each command
}

const incarnation = "00000000000000aa"

func newWorld(t testing.TB) *world {
	s := meta.NewState()
	return &world{t: t, state: s, states: []*meta.State{s}, rows: []headwater.LogRow{{Incarnation: incarnation}}, answers: map[uint64]meta.Answer{}}
}

func (w *world) tick() time.Duration { w.now += time.Millisecond; return w.now }

func (w *world) history() *history.History {
	return &history.History{Seed: 7, Ops: w.ops, Rows: w.rows}
}

// call begins a command.
func (w *world) call(session int, c meta.Command) (id uint64) {
	id = uint64(len(w.ops) + 1)
	w.ops = append(w.ops, history.Op{ID: id, Session: session, Call: w.tick(), Return: history.Forever, Outcome: history.Unknown, Command: c})
	return id
}

// row appends a row with these commands. Each command carries a request, so that copies have no second effect.
func (w *world) row(ids ...uint64) {
	var ps []meta.Proposal
	for _, id := range ids {
		ps = append(ps, w.proposal(id, id))
	}
	for i, a := range w.append(ps) {
		w.answers[ids[i]] = a
	}
}

// proposal is a command under the request with a number.
func (w *world) proposal(id, number uint64) meta.Proposal {
	return meta.Proposal{Stamp: int64(id), Command: w.ops[id-1].Command,
		Request: &meta.Request{Client: [16]byte{1, byte(number >> 8), byte(number)}, Sequence: 1, Oldest: 1}}
}

func (w *world) append(ps []meta.Proposal) []meta.Answer {
	w.t.Helper()
	var commands [][]byte
	for _, p := range ps {
		b, err := meta.AppendProposal(nil, p)
		if err != nil {
			w.t.Fatal(err)
		}
		commands = append(commands, b)
	}
	seen := w.state.Digest()
	index := w.state.Index() + 1
	next, answers, err := w.state.Apply(index, commands)
	if err != nil {
		w.t.Fatal(err)
	}
	w.rows = append(w.rows, headwater.LogRow{Index: index, Incarnation: incarnation, Writer: "w", Batch: index,
		WriterApplied: index - 1, WriterDigest: hex.EncodeToString(seen[:]), Proposals: ps})
	w.state = next
	w.states = append(w.states, next)
	return answers
}

// ret has a command answered with what its last copy was.
func (w *world) ret(id uint64) {
	op := &w.ops[id-1]
	op.Return, op.Outcome, op.Answer = w.tick(), history.Answered, w.answers[id]
}

// do is a command from its call to its answer.
func (w *world) do(session int, c meta.Command) *history.Op {
	id := w.call(session, c)
	w.row(id)
	w.ret(id)
	return &w.ops[id-1]
}

// must is do of a command that is not refused.
func (w *world) must(session int, c meta.Command) *history.Op {
	w.t.Helper()
	op := w.do(session, c)
	if op.Answer.Err != nil {
		w.t.Fatal(op)
	}
	return op
}

// read is a read that the view at an index answers.
func (w *world) read(session int, index uint64, q history.Read) *history.Op {
	q.Index, q.Incarnation, q.Got = index, incarnation, history.Answer(w.states[index], &q)
	w.ops = append(w.ops, history.Op{ID: uint64(len(w.ops) + 1), Session: session, Call: w.tick(), Return: w.tick(), Outcome: history.Answered, Read: &q})
	return &w.ops[len(w.ops)-1]
}

// head is the index of the newest row.
func (w *world) head() uint64 { return w.state.Index() }

// version is that of a key as it stands.
func (w *world) version(key string) uint64 { k, _ := w.state.Key(key); return k.Version }

func put(key, value string) meta.PutKey { return meta.PutKey{Key: key, Value: []byte(value)} }

func linearizable(q history.Read) history.Read { q.Freshness = history.Linearizable; return q }

// node registers a node for the n-th time.
func node(id uint64, n int) meta.RegisterNode {
	return meta.RegisterNode{NodeID: id, Instance: [16]byte{byte(id), byte(n)}}
}

func identity(id, epoch uint64) meta.Identity { return meta.Identity{NodeID: id, NodeEpoch: epoch} }

// commit is that of one slice in one object.
func commit(who meta.Identity, object, stream, epoch, start, end uint64) meta.CommitObjects {
	return meta.CommitObjects{Identity: who, Objects: []meta.Object{{ObjectID: object, Size: 1, Slices: []meta.Slice{
		{StreamID: stream, StreamEpoch: epoch, StartOffset: start, EndOffset: end, Length: 1}}}}}
}

// stream makes stream 1, owned at epoch 1 by node 1, and objects 1 to 9 of nodes 1 and 2.
func (w *world) stream() {
	w.must(0, node(1, 1))
	w.must(0, node(2, 1))
	w.must(0, meta.CreateStream{Identity: identity(1, 1), Name: "s"})
	w.must(0, meta.OpenStream{Identity: identity(1, 1), StreamID: 1})
	w.must(0, meta.PrepareObjects{Identity: identity(1, 1), Count: 5, Deadline: 1})
	w.must(0, meta.PrepareObjects{Identity: identity(2, 1), Count: 4, Deadline: 1})
}

func rejected(code meta.Code, a meta.Answer) meta.Answer {
	return meta.Answer{Status: meta.Rejected, Index: a.Index, Position: a.Position, FirstIndex: a.FirstIndex, FirstPosition: a.FirstPosition,
		Err: &meta.Error{Code: code, Message: fmt.Sprint(code), Inner: -1}}
}
