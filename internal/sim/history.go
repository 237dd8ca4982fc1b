package sim

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/headwaterdb/headwater/internal/model"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// history is everything that was ever committed, replayed alone, row by row, by the state machine and, beside it, by the
// independent model. It is what all that nodes show and say is held against.
//
// It is a line, unless a fail-over lost its end: then it is a tree, of which one branch goes on.
type history struct {
	tip     *entry
	at      map[oplog.Index][]*entry
	calls   map[string]place     // of each command that was proposed: its call, and its place in that
	order   map[int]place        // of each call: the last of its commands that was committed
	placed  map[string]*entry    // where each command of a proposal stands
	refused map[string]string    // commands that were said not to have been applied, and never to be
	effects map[request]*entry   // requests that had an effect
	epochs  map[uint64]uint64    // the epoch at which each node registered last
	model   *model.Model         // nil: this run does without
	intact  oplog.Index          // no row above it was ever stood for by a snapshot that decodes
	broken  map[[16]byte]bool    // snapshots of which bits were flipped
	jumps   map[oplog.Index]bool // where a snapshot was ever current: a node may come there without the row before
	liars   bool                 // rows were written whose digests are false: a node may have replaced its state by the right one
}

// place is the place of a command in a call, or of a call's command in the log.
type place struct{ call, at int }

type request struct {
	client   [16]byte
	sequence uint64
}

// entry is a committed row and what it makes.
type entry struct {
	index   oplog.Index
	payload []byte
	parent  *entry
	row     replica.RowInfo
	state   *meta.State
	answers []meta.Answer
	node    int  // who wrote it
	lost    bool // by a fail-over
	hollow  bool // its writer was told that it may not last
	acked   bool // somebody was told of a result in it
}

func newHistory(withModel bool, genesis []byte) *history {
	h := &history{at: map[oplog.Index][]*entry{}, placed: map[string]*entry{}, refused: map[string]string{},
		effects: map[request]*entry{}, epochs: map[uint64]uint64{}, broken: map[[16]byte]bool{}, jumps: map[oplog.Index]bool{},
		calls: map[string]place{}, order: map[int]place{}}
	if withModel {
		h.model = model.New()
	}
	h.tip = &entry{payload: genesis, state: meta.NewState()}
	h.at[0] = []*entry{h.tip}
	return h
}

// digest is that of the state after e.
func (e *entry) digest() replica.Digest { return replica.Digest(e.state.Digest()) }

// back returns the entry at index on e's way; nil: it has none.
func (e *entry) back(index oplog.Index) *entry {
	for e != nil && e.index > index {
		e = e.parent
	}
	if e == nil || e.index != index {
		return nil
	}
	return e
}

// append takes a row that was committed, or says which invariant that breaks.
func (h *history) append(index oplog.Index, payload []byte, node int) error {
	for _, e := range h.at[index] {
		if !e.lost {
			return fmt.Errorf("one history: node %d wrote row %d, which node %d had written before", node, index, e.node)
		}
	}
	if h.outdated() {
		return fmt.Errorf("levels: node %d wrote row %d after the format level was raised to one that it does not know", node, index)
	}
	if index != h.tip.index+1 {
		return fmt.Errorf("dense: node %d wrote row %d, the newest was %d", node, index, h.tip.index)
	}
	row, err := replica.DecodeRow(index, payload)
	if err != nil {
		return fmt.Errorf("node %d wrote row %d: %w", node, index, err)
	}
	if last := replica.Checksum(h.tip.payload); last != row.Previous {
		return fmt.Errorf("a chain: node %d wrote row %d to follow on checksum %016x, and row %d has %016x", node, index, row.Previous, h.tip.index, last)
	}
	seen := h.tip.back(row.Seen)
	if seen == nil || seen.digest() != row.SeenDigest {
		return fmt.Errorf("same index, same state: node %d wrote row %d with digest %s of row %d, which is not that of the history",
			node, index, row.SeenDigest, row.Seen)
	}
	state, answers, err := h.tip.state.Apply(uint64(index), row.Commands)
	if err != nil {
		return fmt.Errorf("node %d wrote row %d: %w", node, index, err)
	}
	e := &entry{index: index, payload: payload, parent: h.tip, row: row, state: state, answers: answers, node: node}
	h.at[index] = append(h.at[index], e)
	h.tip = e
	return h.judge(e)
}

// outdated reports whether the newest row has raised the format level above what the nodes know.
func (h *history) outdated() bool { return h.tip.state.FormatLevel() > meta.MaxFormat }

// judge holds the commands of e against what went before.
func (h *history) judge(e *entry) error {
	proposals := make([]meta.Proposal, len(e.row.Commands))
	for i, c := range e.row.Commands {
		if old := h.placed[string(c)]; old != nil && !old.lost {
			return fmt.Errorf("at most once: command %d of row %d stands in row %d already", i, e.index, old.index)
		}
		if said, ok := h.refused[string(c)]; ok {
			return fmt.Errorf("acknowledged is permanent: command %d of row %d was refused before: %s", i, e.index, said)
		}
		h.placed[string(c)] = e
		if p, ok := h.calls[string(c)]; ok {
			if last, some := h.order[p.call]; some && last.at > p.at {
				return fmt.Errorf("in order: command %d of a call stands in row %d, after command %d of the same call", p.at, e.index, last.at)
			}
			h.order[p.call] = p
		}
		p, err := meta.DecodeProposal(c)
		if err != nil {
			return fmt.Errorf("command %d of row %d: %w", i, e.index, err)
		}
		proposals[i] = p
		if err := h.judgeOne(e, i, p); err != nil {
			return err
		}
	}
	if h.model == nil {
		return nil
	}
	for i, want := range h.model.Apply(uint64(e.index), proposals) {
		if !sameAnswer(e.answers[i], want) {
			return fmt.Errorf("rules: command %d of row %d, %+v: answered %+v, the model says %+v", i, e.index, proposals[i].Command, e.answers[i], want)
		}
	}
	return nil
}

func (h *history) judgeOne(e *entry, i int, p meta.Proposal) error {
	a := e.answers[i]
	if p.Request != nil && a.Status == meta.Applied {
		r := request{p.Request.Client, p.Request.Sequence}
		if old := h.effects[r]; old != nil && !old.lost {
			return fmt.Errorf("retries are safe: request %d of row %d had its effect in row %d already", r.sequence, e.index, old.index)
		}
		h.effects[r] = e
	}
	if id, ok := identity(p.Command); ok && id.NodeEpoch < h.epochs[id.NodeID] && a.Status != meta.Rejected && a.FirstIndex == a.Index {
		return fmt.Errorf("epochs fence: command %d of row %d carries node %d at epoch %d, which is at %d, and was answered %+v",
			i, e.index, id.NodeID, id.NodeEpoch, h.epochs[id.NodeID], a)
	}
	if c, ok := p.Command.(meta.RegisterNode); ok && a.Status == meta.Applied {
		h.epochs[c.NodeID] = a.Result.(meta.RegisterNodeResult).Epoch
	}
	return nil
}

// identity returns who acts in a command, where somebody does.
func identity(c meta.Command) (meta.Identity, bool) {
	f := reflect.ValueOf(c).FieldByName("Identity")
	if !f.IsValid() {
		return meta.Identity{}, false
	}
	id := f.Interface().(meta.Identity)
	return id, id != meta.Identity{}
}

// sameAnswer compares what the answer to a command says, but for the words of a refusal.
func sameAnswer(a, b meta.Answer) bool {
	ea, eb := a.Err, b.Err
	a.Err, b.Err = nil, nil
	if !reflect.DeepEqual(a, b) {
		return false
	}
	var x, y *meta.Error
	if !errors.As(ea, &x) || !errors.As(eb, &y) {
		return ea == nil && eb == nil
	}
	return x.Code == y.Code && x.Inner == y.Inner
}

// lose takes back everything above index: a fail-over lost it.
func (h *history) lose(index oplog.Index) (rows, acked int) {
	for h.tip.index > index {
		h.tip.lost = true
		rows++
		if h.tip.acked && !h.tip.hollow {
			acked++
		}
		h.tip = h.tip.parent
	}
	h.epochs = map[uint64]uint64{}
	var way []*entry
	for e := h.tip; e.parent != nil; e = e.parent {
		way = append(way, e)
	}
	if h.model != nil {
		h.model = model.New()
	}
	h.effects, h.order = map[request]*entry{}, map[int]place{}
	for _, e := range slices.Backward(way) {
		var proposals []meta.Proposal
		for i, c := range e.row.Commands {
			if p, ok := h.calls[string(c)]; ok {
				h.order[p.call] = p
			}
			p, err := meta.DecodeProposal(c)
			if err == nil {
				err = h.judgeOne(e, i, p)
			}
			if err != nil {
				panic(err) // it was judged before
			}
			proposals = append(proposals, p)
		}
		if h.model != nil {
			h.model.Apply(uint64(e.index), proposals)
		}
	}
	return rows, acked
}

// committed is told of each commit of the database, and says which invariant it breaks.
func (h *history) committed(x *tx, before, after *state) error {
	for _, r := range after.rows {
		if !before.has(r.Index) {
			if err := h.append(r.Index, r.Payload, x.node); err != nil {
				return err
			}
		}
	}
	for i := 1; i < len(after.rows); i++ {
		if after.rows[i].Index != after.rows[i-1].Index+1 {
			return fmt.Errorf("dense: after %s row %d follows on row %d", x.what, after.rows[i].Index, after.rows[i-1].Index)
		}
	}
	if len(after.rows) == 0 || after.rows[len(after.rows)-1].Index != h.tip.index {
		return fmt.Errorf("recovery is bounded: %s took the newest row, %d", x.what, h.tip.index)
	}
	if after.snap.token != before.snap.token {
		if err := h.snapshot(x, before, after); err != nil {
			return err
		}
	}
	for _, r := range before.rows {
		if !after.has(r.Index) && r.Index > h.intact {
			return fmt.Errorf("recovery is bounded: node %d deleted row %d, and the newest snapshot that can be decoded is at %d", x.node, r.Index, h.intact)
		}
	}
	return h.recoverable(after)
}

// snapshot checks the snapshot that became the current one.
func (h *history) snapshot(x *tx, before, after *state) error {
	now := after.snap
	if before.snap.info.Parts > 0 && now.info.Index <= before.snap.info.Index {
		return fmt.Errorf("recovery is bounded: node %d put its snapshot at %d over the one at %d", x.node, now.info.Index, before.snap.info.Index)
	}
	want := h.tip.back(now.info.Index)
	if want == nil {
		return fmt.Errorf("recovery is bounded: node %d stored a snapshot at %d, which the log does not reach", x.node, now.info.Index)
	}
	h.jumps[now.info.Index] = true
	if h.broken[now.token] {
		return nil
	}
	got, err := decodeStored(after)
	if err != nil {
		return fmt.Errorf("recovery is bounded: node %d stored a snapshot that cannot be read: %w", x.node, err)
	}
	if got.Index != now.info.Index || got.Digest != want.digest() {
		return fmt.Errorf("same index, same state: the snapshot of node %d at %d has digest %s, the history has %s", x.node, now.info.Index, got.Digest, want.digest())
	}
	h.intact = max(h.intact, now.info.Index)
	return nil
}

// repaired notes that every damage to what is stored was repaired.
func (h *history) repaired(s *state) {
	clear(h.broken)
	if _, err := decodeStored(s); err == nil {
		h.intact = max(h.intact, s.snap.info.Index)
	}
}

// recoverable reports where snapshot and rows together no longer make the newest state.
func (h *history) recoverable(s *state) error {
	oldest := s.rows[0].Index
	switch {
	case s.snap.info.Parts == 0 && oldest > 0:
		return fmt.Errorf("recovery is bounded: row 0 is gone and there is no snapshot")
	case s.snap.info.Parts > 0 && oldest > s.snap.info.Index+1:
		return fmt.Errorf("recovery is bounded: rows %d to %d are gone, the snapshot is at %d", s.snap.info.Index+1, oldest-1, s.snap.info.Index)
	case s.snap.info.Parts > 0 && h.parts(s) != s.snap.info.Parts:
		return fmt.Errorf("recovery is bounded: %d of %d parts of the snapshot at %d are there", h.parts(s), s.snap.info.Parts, s.snap.info.Index)
	}
	return nil
}

func (h *history) parts(s *state) (n int) {
	for _, p := range s.parts {
		if p.token == s.snap.token {
			n++
		}
	}
	return n
}

// viewed is told that a node which stood at from (nil: nowhere) shows a state now, and finds where that is.
func (h *history) viewed(from *entry, index oplog.Index, state *meta.State) (*entry, error) {
	got := replica.Digest(state.Digest())
	var found *entry
	for _, e := range h.at[index] {
		if e.digest() != got {
			continue
		}
		if found == nil || from != nil && e.parent == from || found.lost && !e.lost && (from == nil || e.parent != from) {
			found = e
		}
	}
	switch {
	case found == nil && len(h.at[index]) == 0:
		return nil, fmt.Errorf("nothing is skipped: a view at %d, and there is no such row", index)
	case found == nil:
		return nil, fmt.Errorf("same index, same state: a view at %d has digest %s, the history has %s", index, got, h.at[index][0].digest())
	case from != nil && !follows(found, from) && !(h.jumps[index] && index > from.index) && !h.liars:
		return nil, fmt.Errorf("dense: a view at %d follows on one at %d, and no snapshot stands there", index, from.index)
	}
	return found, nil
}

// follows reports whether e comes next after a state like that of from. After a fail-over rows may have been replaced by
// others that have the same effect.
func follows(e, from *entry) bool {
	return e.parent == from || e.parent != nil && e.parent.index == from.index && e.parent.digest() == from.digest()
}

// answered checks what a proposer was told of a command by a node that stands at here.
func (h *history) answered(here *entry, command []byte, a meta.Answer) error {
	if here == nil || uint64(here.index) < a.Index {
		return fmt.Errorf("own writes: answered of row %d by a node that shows row %d", a.Index, at(here))
	}
	e := here.back(oplog.Index(a.Index))
	if e == nil {
		return fmt.Errorf("acknowledged is permanent: answered of row %d, which is not in the node's history", a.Index)
	}
	if own := h.placed[string(command)]; own != nil && own.hollow {
		return fmt.Errorf("acknowledged is permanent: answered as a success of row %d, which its synchronous standby may not have", own.index)
	}
	// Either by the row in which it stands, or, after a snapshot was installed over that, from the memory in it.
	said := a.Position < len(e.row.Commands) && bytes.Equal(e.row.Commands[a.Position], command) && sameAnswer(a, e.answers[a.Position])
	if !said {
		want, known := e.state.Recall(command)
		if !known || !sameAnswer(a, want) {
			return fmt.Errorf("acknowledged is permanent: answered %+v of row %d, the history says %+v", a, a.Index, want)
		}
	}
	if first := here.back(oplog.Index(a.FirstIndex)); first != nil {
		first.acked = true
	}
	e.acked = true
	return nil
}

func at(e *entry) oplog.Index {
	if e == nil {
		return 0
	}
	return e.index
}

// never notes that a proposer was told that a command is not applied and never will be.
func (h *history) never(command []byte, said error) error {
	if e := h.placed[string(command)]; e != nil && !e.lost {
		return fmt.Errorf("acknowledged is permanent: a command that stands in row %d was refused: %w", e.index, said)
	}
	h.refused[string(command)] = said.Error()
	return nil
}
