package model

import (
	"maps"
	"slices"

	"github.com/headwaterdb/headwater/meta"
)

// Model is a cluster's state. It is changed in place by Apply and Step; it is not safe for concurrent use.
type Model struct {
	index   uint64 // of the last row applied
	now     state
	clients map[[16]byte]*client
	results int // kept for all clients
}

// state is everything but the request memory: what an Atomic may have to give back.
type state struct {
	format     uint64
	nextStream uint64
	nextObject uint64
	nodes      map[uint64]*node
	streams    map[uint64]*stream // deleted ones stay
	objects    map[uint64]*object // forgotten ones go
	keys       map[string]meta.Key
}

// place is where a command stands in the log, and the stamp that it carries.
type place struct {
	index    uint64
	position int
	stamp    int64
	left     *uint64 // inside Atomic: how many slices of sources its compactions may still name
}

// verdict is what the rules say about one command. Of a refusal only code, inner and current are filled in.
type verdict struct {
	status meta.Status
	result meta.Result
	err    *meta.Error
}

// New returns the model of a cluster before row 1.
func New() *Model {
	return &Model{
		now: state{format: 1, nextStream: 1, nextObject: 1, nodes: map[uint64]*node{}, streams: map[uint64]*stream{},
			objects: map[uint64]*object{}, keys: map[string]meta.Key{}},
		clients: map[[16]byte]*client{},
	}
}

// Index returns the index of the last row applied.
func (m *Model) Index() uint64 { return m.index }

// Clone returns a copy that shares nothing with m that either would change.
func (m *Model) Clone() *Model {
	c := &Model{index: m.index, now: m.now.clone(), clients: map[[16]byte]*client{}, results: m.results}
	for id, cl := range m.clients {
		copied := *cl
		copied.kept = maps.Clone(cl.kept)
		c.clients[id] = &copied
	}
	return c
}

// Apply applies one row and returns an answer for each proposal. The messages of refusals are empty.
func (m *Model) Apply(index uint64, proposals []meta.Proposal) []meta.Answer {
	var answers []meta.Answer
	for position, p := range proposals {
		answers = append(answers, m.Step(index, position, p))
	}
	m.index = index
	return answers
}

// Step applies one command of the row at index. The caller steps through a row in the order of positions, from 0.
func (m *Model) Step(index uint64, position int, p meta.Proposal) meta.Answer {
	m.index = index
	at := place{index: index, position: position, stamp: p.Stamp}
	answer := meta.Answer{Index: index, Position: position, FirstIndex: index, FirstPosition: position}
	if err := limits(p); err != nil {
		return answered(answer, verdict{status: meta.Rejected, err: err})
	}
	if p.Request == nil {
		return answered(answer, m.run(at, p.Command))
	}
	return m.requested(at, answer, p)
}

// run judges one command and keeps its effect if it has one.
func (m *Model) run(at place, c meta.Command) verdict {
	next := m.now.clone()
	v := next.judge(at, c)
	if v.status == meta.Applied {
		m.now = next
	}
	return v
}

func answered(a meta.Answer, v verdict) meta.Answer {
	a.Status, a.Result = v.status, v.result
	if v.err != nil {
		a.Err = v.err
	}
	return a
}

func applied(r meta.Result) verdict   { return verdict{status: meta.Applied, result: r} }
func redundant(r meta.Result) verdict { return verdict{status: meta.Redundant, result: r} }
func refused(e *meta.Error) verdict   { return verdict{status: meta.Rejected, err: e} }
func reject(code meta.Code) verdict   { return refused(refusal(code)) }

func refusal(code meta.Code) *meta.Error { return &meta.Error{Code: code, Inner: -1} }

// judge gives the verdict on c, and changes s where that is applied; s is a copy, thrown away otherwise.
func (s *state) judge(at place, c meta.Command) verdict {
	switch c := c.(type) {
	case meta.RegisterNode:
		return s.registerNode(at, c)
	case meta.RenewNode:
		return s.renewNode(c)
	case meta.UnregisterNode:
		return s.unregisterNode(c)
	case meta.FenceNode:
		return s.fenceNode(c)
	case meta.CreateStream:
		return s.createStream(c)
	case meta.OpenStream:
		return s.openStream(c)
	case meta.CloseStream:
		return s.closeStream(c)
	case meta.TrimStream:
		return s.trimStream(c)
	case meta.LabelStream:
		return s.labelStream(c)
	case meta.DeleteStream:
		return s.deleteStream(c)
	case meta.RecordTransfer:
		return s.recordTransfer(c)
	case meta.ForceCloseStream:
		return s.forceCloseStream(c)
	case meta.PrepareObjects:
		return s.prepareObjects(c)
	case meta.CommitObjects:
		return s.commitObjects(at, c)
	case meta.CompactObjects:
		return s.compactObjects(at, c)
	case meta.ReclaimObjects:
		return s.reclaimObjects(at, c)
	case meta.ForgetObjects:
		return s.forgetObjects(c)
	case meta.PutKey:
		return s.putKey(at, c)
	case meta.DeleteKey:
		return s.deleteKey(c)
	case meta.CheckKey:
		return s.checkKey(c)
	case meta.Atomic:
		return s.atomic(at, c)
	case meta.SetFormat:
		return s.setFormat(c)
	}
	return reject(meta.CodeInvalidArgument)
}

// atomic judges the commands one after another, each against what the earlier ones left.
func (s *state) atomic(at place, c meta.Atomic) verdict {
	var answers []meta.InnerAnswer
	left := uint64(maxSlices - atomicWeight(c))
	at.left = &left
	all := meta.Redundant
	for i, inner := range c.Commands {
		copied := s.clone()
		v := copied.judge(at, inner)
		if v.status == meta.Rejected {
			v.err.Inner = i
			return v
		}
		if v.status == meta.Applied {
			*s, all = copied, meta.Applied
		}
		answers = append(answers, meta.InnerAnswer{Status: v.status, Result: v.result})
	}
	return verdict{status: all, result: meta.AtomicResult{Answers: answers}}
}

func (s *state) setFormat(c meta.SetFormat) verdict {
	if c.Level <= s.format {
		return redundant(meta.SetFormatResult{Level: s.format})
	}
	if c.Level > s.format+1 {
		return reject(meta.CodeInvalidArgument)
	}
	registered := 0
	for _, n := range s.nodes {
		if !n.registered {
			continue
		}
		registered++
		if n.format < c.Level {
			return reject(meta.CodeFormatUnsupported)
		}
	}
	if registered == 0 {
		return reject(meta.CodeFormatUnsupported)
	}
	s.format = c.Level
	return applied(meta.SetFormatResult{Level: s.format})
}

func (s *state) clone() state {
	c := *s
	c.nodes, c.streams, c.objects = map[uint64]*node{}, map[uint64]*stream{}, map[uint64]*object{}
	for id, n := range s.nodes {
		copied := *n
		copied.instances = slices.Clone(n.instances)
		c.nodes[id] = &copied
	}
	for id, st := range s.streams {
		copied := *st
		copied.ranges, copied.debts = slices.Clone(st.ranges), slices.Clone(st.debts)
		copied.losses, copied.index = slices.Clone(st.losses), slices.Clone(st.index)
		c.streams[id] = &copied
	}
	for id, o := range s.objects {
		copied := *o
		c.objects[id] = &copied
	}
	c.keys = maps.Clone(s.keys)
	return c
}
