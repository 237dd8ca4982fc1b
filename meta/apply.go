package meta

import (
	"encoding/binary"
	"fmt"

	"github.com/headwaterdb/headwater/internal/pmap"
)

// Apply returns the state after the row at index, which must be the one after s.Index(), and one answer for each of its
// commands, in their order. It is pure and s stays as it was. An error means that the row cannot be passed: it is out
// of order, holds more commands than a row may, or one that does not decode; then nothing was applied.
//
// The commands are only read, and nothing of them is kept.
func (s *State) Apply(index uint64, commands [][]byte) (*State, []Answer, error) {
	next, answers, _, err := s.apply(index, commands, nil)
	return next, answers, err
}

// ApplyWithChanges is Apply, and also returns what the row changed, command by command.
func (s *State) ApplyWithChanges(index uint64, commands [][]byte) (*State, []Answer, []Change, error) {
	return s.apply(index, commands, &recorder{})
}

func (s *State) apply(index uint64, commands [][]byte, rec *recorder) (*State, []Answer, []Change, error) {
	if index != s.index+1 || index >= maxIndex {
		return nil, nil, nil, fmt.Errorf("apply row %d: the state is at %d, rows end below %d", index, s.index, uint64(maxIndex))
	}
	if len(commands) > maxRowCommands {
		return nil, nil, nil, fmt.Errorf("apply row %d: %d commands, a row has at most %d", index, len(commands), maxRowCommands)
	}
	proposals, requests := make([]Proposal, len(commands)), make([]Request, len(commands))
	for i, b := range commands {
		p, err := borrowProposal(b, &requests[i])
		if err != nil {
			return nil, nil, nil, fmt.Errorf("decode command %d of row %d: %w", i, index, err)
		}
		proposals[i] = p
	}
	t := newTx(s, index)
	t.rec = rec
	answers := make([]Answer, len(commands))
	for i, p := range proposals {
		var payload sum
		if p.Request != nil {
			payload = hashOf(commandPart(commands[i]))
		}
		answers[i] = t.run(i, p, payload)
	}
	return t.finish(), answers, rec.changes(), nil
}

// Plan tells what the proposals would be answered and what they would change if they were the next rows of the log:
// a dry run. The state stays as it is. The records in the changes may share memory with the proposals.
func (s *State) Plan(proposals []Proposal) ([]Answer, []Change) {
	t := newTx(s, s.index+1)
	t.rec = &recorder{}
	answers := make([]Answer, len(proposals))
	for i, p := range proposals {
		if i > 0 && i%maxRowCommands == 0 {
			t.index++
			t.State.index = t.index
		}
		answers[i] = t.plan(i, p)
	}
	return answers, t.rec.changes()
}

// plan runs one proposal that was not decoded, and so may have no encoding.
func (t *tx) plan(i int, p Proposal) Answer {
	if t.rec != nil {
		t.rec.offset = i - i%maxRowCommands
	}
	b, err := AppendProposal(nil, p)
	if err == nil {
		p, err = DecodeProposal(b)
	}
	if err != nil {
		e, ok := err.(*Error)
		if !ok {
			e = refuse(CodeInvalidArgument, "%v", err)
		}
		return t.answer(i%maxRowCommands, rejected(e))
	}
	return t.run(i%maxRowCommands, p, hashOf(commandPart(b)))
}

// commandPart returns the part of an encoded proposal that holds the command: all after head, stamp and request. The
// encoding is canonical, so its hash stands for the command.
func commandPart(b []byte) []byte {
	i := 1
	skip := func() {
		_, n := binary.Uvarint(b[i:])
		i += n
	}
	skip() // the stamp
	if b[0] != 0 {
		i += len(Request{}.Client)
		skip() // sequence
		skip() // oldest
	}
	return b[i:]
}

// run applies the command at a position of the row. Limits are judged first, then the request, then the rules.
func (t *tx) run(position int, p Proposal, payload sum) Answer {
	t.position, t.stamp = position, p.Stamp
	if t.rec != nil {
		t.rec.begin(position)
		defer t.rec.end()
	}
	if err := Validate(p); err != nil {
		return t.answer(position, rejected(err))
	}
	if p.Request != nil {
		return t.runRequest(p, payload)
	}
	return t.answer(position, t.judge(p.Command))
}

// answer makes the answer to the command at a position of the row.
func (t *tx) answer(position int, o outcome) Answer {
	a := Answer{Status: o.status, Result: o.result, Index: t.index, Position: position, FirstIndex: t.index, FirstPosition: position}
	if o.err != nil {
		a.Err = o.err
	}
	return a
}

// judge applies the rules of one command that has passed the limits: the identity first, then the rules in the order of
// docs/commands.md. Whoever refuses leaves everything as it was.
func (t *tx) judge(c Command) outcome {
	switch c := c.(type) {
	case RegisterNode:
		return t.registerNode(c)
	case RenewNode:
		return t.renewNode(c)
	case UnregisterNode:
		return t.unregisterNode(c)
	case FenceNode:
		return t.fenceNode(c)
	case CreateStream:
		return t.createStream(c)
	case OpenStream:
		return t.openStream(c)
	case CloseStream:
		return t.closeStream(c)
	case TrimStream:
		return t.trimStream(c)
	case LabelStream:
		return t.labelStream(c)
	case DeleteStream:
		return t.removeStream(c)
	case RecordTransfer:
		return t.recordTransfer(c)
	case ForceCloseStream:
		return t.forceCloseStream(c)
	case PrepareObjects, CommitObjects, CompactObjects, ReclaimObjects, ForgetObjects:
		return t.objectCommand(c)
	case PutKey:
		return t.putKey(c)
	case DeleteKey:
		return t.removeKey(c)
	case CheckKey:
		return t.checkKey(c)
	case Atomic:
		return t.atomic(c)
	case SetFormat:
		return t.setFormat(c)
	}
	return reject(CodeInvalidArgument, "a command of type %T is unknown", c)
}

// freshEdit gives the transaction a new edit: what the old one built is frozen.
func (t *tx) freshEdit() {
	t.touched += t.edit.Nodes()
	t.edit = pmap.NewEdit()
}
