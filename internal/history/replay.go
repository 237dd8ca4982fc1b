package history

import (
	"cmp"
	"encoding/hex"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/api"
	"github.com/headwaterdb/headwater/meta"
)

// replayer applies the rows of a history, one after the other, to a state of its own.
type replayer struct {
	*Report
	ops     []Op
	reads   []*Op // those that are compared, by index
	state   *meta.State
	digests [][16]byte // by index
	// copies are the answers that the replay gives to each operation's command, by its id; most have one.
	copies      map[uint64][]meta.Answer
	incarnation string
}

// replay checks rows, answers and reads. It returns which operations had no effect by what the log holds; nothing is said
// of any where the log cannot be replayed to its end.
func (r *Report) replay(h *History) (without func(*Op) bool) {
	p := &replayer{Report: r, ops: h.Ops, state: meta.NewState(), copies: map[uint64][]meta.Answer{}}
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Read != nil && op.Outcome == Answered {
			p.reads = append(p.reads, op)
		}
	}
	slices.SortStableFunc(p.reads, func(a, b *Op) int { return cmp.Compare(a.Read.Index, b.Read.Index) })
	for i := range h.Rows {
		if !p.row(uint64(i), &h.Rows[i]) {
			return func(*Op) bool { return false }
		}
		p.compare()
	}
	for _, op := range p.reads {
		r.fault("there is no row at the index of %v", op)
	}
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Command != nil {
			p.command(op)
		}
	}
	return func(op *Op) bool {
		return !slices.ContainsFunc(p.copies[op.ID], func(a meta.Answer) bool { return a.Status == meta.Applied })
	}
}

// row applies one row, and reports whether the next can follow.
func (p *replayer) row(index uint64, row *headwater.LogRow) bool {
	switch {
	case row.Index != index:
		p.fault("where row %d should be stands row %d", index, row.Index)
		return false
	case row.Undecodable != "":
		p.fault("row %d cannot be decoded: %s", index, row.Undecodable)
		return false
	case index == 0:
		p.incarnation = row.Incarnation
	case row.Incarnation != p.incarnation:
		p.fault("row %d is of incarnation %s, row 0 of %s", index, row.Incarnation, p.incarnation)
	case row.WriterApplied >= index:
		p.fault("the writer of row %d had applied %d", index, row.WriterApplied)
	default:
		p.Digests++
		if d := hex.EncodeToString(p.digests[row.WriterApplied][:]); d != row.WriterDigest {
			p.fault("the writer of row %d had digest %s at %d, the replay has %s", index, row.WriterDigest, row.WriterApplied, d)
		}
	}
	if index > 0 && !p.apply(index, row.Proposals) {
		return false
	}
	p.digests = append(p.digests, p.state.Digest())
	return true
}

func (p *replayer) apply(index uint64, proposals []meta.Proposal) bool {
	commands := make([][]byte, len(proposals))
	for i, c := range proposals {
		var err error
		if commands[i], err = meta.AppendProposal(nil, c); err != nil {
			p.fault("encode command %d of row %d again: %v", i, index, err)
			return false
		}
	}
	next, answers, err := p.state.Apply(index, commands)
	if err != nil {
		p.fault("replay: %v", err)
		return false
	}
	p.state = next
	for i, c := range proposals {
		id := uint64(c.Stamp)
		if id == 0 || id > uint64(len(p.ops)) || !sameCommand(p.ops[id-1].Command, c.Command) {
			p.fault("row %d, command %d is one that nobody proposed: %T %+v", index, i, c.Command, c.Command)
			continue
		}
		p.copies[id] = append(p.copies[id], answers[i])
	}
	return true
}

func sameCommand(a, b meta.Command) bool {
	return a != nil && proto.Equal(api.FromProposal(meta.Proposal{Command: a}), api.FromProposal(meta.Proposal{Command: b}))
}

// command holds what the client was told against what stands in the log.
func (p *replayer) command(op *Op) {
	copies := p.copies[op.ID]
	if len(copies) > 1 {
		p.Repeated++
	}
	effects := 0
	for i := range copies {
		if copies[i].Status == meta.Applied {
			effects++
		}
	}
	if _, renew := op.Command.(meta.RenewNode); effects > 1 && !renew { // which carries no request: a client may repeat it
		p.fault("%v took effect %d times", op, effects)
	}
	switch op.Outcome {
	case Failed:
		if len(copies) > 0 {
			p.fault("%v stands in the log, row %d, although it was to take no effect", op, copies[0].Index)
		}
	case Unknown:
		p.Settled += effects
	case Answered:
		p.answered(op, copies)
	}
}

// answered holds an answer against the copy of the command that stands where it says. A node that installed a snapshot
// above its row answers from the snapshot's memory of requests: then the index is the snapshot's, and the first copy tells.
func (p *replayer) answered(op *Op, copies []meta.Answer) {
	a := &op.Answer
	at := slices.IndexFunc(copies, func(c meta.Answer) bool { return c.Index == a.Index && c.Position == a.Position })
	first := slices.IndexFunc(copies, func(c meta.Answer) bool { return c.Index == a.FirstIndex && c.Position == a.FirstPosition })
	switch {
	case at >= 0 && !proto.Equal(api.FromAnswer(copies[at]), api.FromAnswer(*a)):
		p.fault("%v: the replay of that row answers %+v", op, copies[at])
	case at >= 0:
	case !recalled(a) || first < 0 || a.Index <= a.FirstIndex:
		p.fault("%v: the command does not stand at place %d of that row", op, a.Position)
	case meta.CodeOf(copies[first].Err) != meta.CodeOf(a.Err) || !proto.Equal(api.FromResult(copies[first].Result), api.FromResult(a.Result)):
		p.fault("%v: the replay of its first row answers %+v", op, copies[first])
	}
}

// compare holds the reads at the index of the state against it.
func (p *replayer) compare() {
	for len(p.reads) > 0 && p.reads[0].Read.Index == p.state.Index() {
		op := p.reads[0]
		p.reads = p.reads[1:]
		p.Replayed++
		if op.Read.Incarnation != p.incarnation {
			p.fault("%v is of incarnation %s, the log of %s", op, op.Read.Incarnation, p.incarnation)
		}
		if want := Answer(p.state, op.Read); !sameRecords(want, op.Read.Got) {
			p.fault("%v, where the replay has: %s", op, describe(want))
		}
		if op.Read.Status {
			p.Digests++
		}
	}
}

// Answer returns what a state answers to a read.
func Answer(s *meta.State, r *Read) (out []meta.Record) {
	switch {
	case r.Keys != "":
		page, _ := s.Keys(r.Keys, "", meta.MaxPage)
		for _, k := range page.Items {
			out = append(out, k)
		}
	case r.Streams != "":
		page, _ := s.StreamsByName(r.Streams, "", meta.MaxPage)
		for _, st := range page.Items {
			out = append(out, st)
		}
	case r.Slices != 0:
		found, _ := s.FindObjects(r.Slices, 0, 0, meta.MaxPage) // an error is an empty answer
		out = Found(found)
	case r.Nodes:
		page, _ := s.Nodes("", meta.MaxPage)
		for _, n := range page.Items {
			out = append(out, n)
		}
	default:
		out = append(out, meta.ClusterRecord{Index: s.Index(), Digest: s.Digest()})
	}
	return out
}

// Found returns the slices of an answer as records.
func Found(f meta.Found) (out []meta.Record) {
	for _, s := range f.Slices {
		out = append(out, meta.StoredSlice{ObjectID: s.ObjectID, StartOffset: s.Slice.StartOffset, Slice: s.Slice})
	}
	return out
}

func sameRecords(a, b []meta.Record) bool {
	return slices.EqualFunc(a, b, func(a, b meta.Record) bool { return proto.Equal(api.FromRecord(a), api.FromRecord(b)) })
}

// ordered checks that the log keeps to real time over everything: what was called after something had returned is
// behind it. That holds for the row of every command, for linearizable reads, and for other reads as far as they promise.
func (r *Report) ordered(ops []Op) {
	calls, returns := make([]*Op, 0, len(ops)), make([]*Op, 0, len(ops))
	for i := range ops {
		if ops[i].Outcome == Answered {
			calls, returns = append(calls, &ops[i]), append(returns, &ops[i])
		}
	}
	slices.SortStableFunc(calls, func(a, b *Op) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(returns, func(a, b *Op) int { return cmp.Compare(a.Return, b.Return) })
	var seen *Op // the highest index that anybody was told before the call at hand
	for _, op := range calls {
		for len(returns) > 0 && returns[0].Return < op.Call {
			if seen == nil || indexOf(returns[0]) > indexOf(seen) {
				seen = returns[0]
			}
			returns = returns[1:]
		}
		r.behind(op, seen)
	}
}

// indexOf returns that of the view, or of the row, that the operation was told.
func indexOf(op *Op) uint64 {
	if op.Read != nil {
		return op.Read.Index
	}
	return op.Answer.Index
}

func (r *Report) behind(op, seen *Op) {
	if op.Read != nil && op.Read.Freshness == AtLeast && op.Read.Index < op.Read.AtLeast {
		r.fault("%v is older than was promised", op)
	}
	if seen == nil {
		return
	}
	switch {
	case op.Read != nil && op.Read.Freshness == Linearizable && op.Read.Index < indexOf(seen):
		r.fault("%v is stale: before it was called had returned %v", op, seen)
	case op.Command != nil && op.Answer.FirstIndex <= indexOf(seen):
		r.fault("%v took its row before it was called: before that had returned %v", op, seen)
	}
}
