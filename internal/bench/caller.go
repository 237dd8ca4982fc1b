package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headwaterdb/headwater/meta"
)

// The shape of what is committed and found.
const (
	recordsPerSlice = 100
	bytesPerSlice   = 4096
	preparedAtOnce  = 100 // object ids that a caller takes at a time
	foundAtOnce     = 10  // slices
	retained        = 50  // slices that the store keeps of a stream
	forgetEvery     = 10  // reclaims
	deadline        = 24 * time.Hour
)

// caller is one caller's part of the work. Its streams are its own, so that callers do not refuse each other's commands.
type caller struct {
	plan    *Plan
	t       Target
	other   Target // where reads of at-least go
	node    int    // whose identity it acts under
	rnd     *rand.Rand
	value   []byte
	attrs   []byte // of an object, random
	streams []*ownStream

	objects  uint64                           // the next prepared id
	left     uint64                           // how many there are
	last     uint64                           // the index of the newest answer
	wrote    uint64                           // a number for each value, so that each differs from the last
	reclaims int                              // so far
	followUp func(ctx context.Context) Sample // what has to come next
}

// ownStream is a stream of a caller, as the caller knows it.
type ownStream struct {
	id, epoch  uint64
	start, end uint64
	node       int // the owner, or the last one
	opener     int // who may open it, where it is closed
	open       bool
	unsure     bool // a command ended so that the stream must be looked at
}

func newCaller(p *Plan, i int) *caller {
	c := &caller{plan: p, t: p.targets[i%len(p.targets)], other: p.targets[(i+1)%len(p.targets)], node: i % len(p.nodes),
		rnd: seeded(p.work.Seed, i), value: make([]byte, p.work.ValueBytes), attrs: make([]byte, 16)}
	for _, b := range [][]byte{c.value, c.attrs} {
		for k := range b {
			b[k] = byte(c.rnd.Uint32())
		}
	}
	return c
}

func (c *caller) me() meta.Identity { return c.plan.nodes[c.node] }

// propose proposes one command and remembers how new its answer is.
func propose[R meta.Result](ctx context.Context, c *caller, command meta.CommandOf[R]) (R, error) {
	answers := c.t.Propose(ctx, meta.Proposal{Command: command})
	if len(answers) != 1 {
		var none R
		return none, fmt.Errorf("%d answers to one command: %w", len(answers), meta.ErrOutcomeUnknown)
	}
	c.last = max(c.last, answers[0].Index)
	return meta.ResultOf(answers[0], command)
}

// read is where and how fresh the caller reads.
func (c *caller) read() (Target, Fresh) {
	switch c.plan.work.Reads {
	case "linearizable":
		return c.t, Fresh{Linearizable: true}
	case "at-least":
		return c.other, Fresh{AtLeast: c.last}
	}
	return c.t, Fresh{}
}

func (c *caller) key() string { return c.plan.keys[c.rnd.IntN(len(c.plan.keys))] }

// fresh returns a value that was not written before. A node in this process may keep it until it is encoded, which it is
// when the call returns.
func (c *caller) fresh() []byte {
	c.wrote++
	binary.LittleEndian.PutUint64(c.value, c.wrote)
	return c.value
}

func (c *caller) put(ctx context.Context) Sample {
	_, err := propose(ctx, c, meta.PutKey{Key: c.key(), Value: c.fresh()})
	return Sample{Op: opPut, Err: err}
}

func (c *caller) get(ctx context.Context) Sample {
	t, f := c.read()
	_, err := t.Key(ctx, f, c.key())
	return Sample{Op: opGet, Err: err}
}

func (c *caller) visible(ctx context.Context) Sample {
	if s := c.put(ctx); s.Err != nil {
		return Sample{Op: opVisible, Err: s.Err}
	}
	answered := time.Now()
	return Sample{Op: opVisible, Err: c.other.Wait(ctx, c.last), Start: answered}
}

// commit commits an object, or takes ids for the next ones.
func (c *caller) commit(ctx context.Context) Sample {
	if c.left == 0 {
		r, err := propose(ctx, c, meta.PrepareObjects{Identity: c.me(), Count: preparedAtOnce, Deadline: time.Now().Add(deadline).UnixMilli()})
		c.objects, c.left = r.FirstObjectID, r.Count
		return Sample{Op: opPrepare, Err: err}
	}
	binary.LittleEndian.PutUint64(c.attrs[c.rnd.IntN(len(c.attrs)-7):], c.rnd.Uint64()) // an object's etag, say: another one each time
	o := meta.Object{ObjectID: c.objects, Size: uint64(c.plan.work.Slices) * bytesPerSlice, Attributes: c.attrs,
		Slices: make([]meta.Slice, 0, c.plan.work.Slices)}
	touched := make([]*ownStream, 0, c.plan.work.Slices)
	for i := range c.plan.work.Slices {
		st, err := c.owned(ctx)
		if err != nil {
			return Sample{Op: opCommit, Err: err}
		}
		o.Slices = append(o.Slices, meta.Slice{StreamID: st.id, StreamEpoch: st.epoch, StartOffset: st.end, EndOffset: st.end + recordsPerSlice,
			Position: uint64(i) * bytesPerSlice, Length: bytesPerSlice, MaxTimestamp: 1_700_000_000_000 + int64(st.end)})
		st.end += recordsPerSlice // what the next slice of the same stream begins at
		touched = append(touched, st)
	}
	c.objects, c.left = c.objects+1, c.left-1
	_, err := propose(ctx, c, meta.CommitObjects{Identity: c.me(), Objects: []meta.Object{o}})
	for _, st := range touched {
		st.unsure = st.unsure || err != nil
	}
	return Sample{Op: opCommit, Err: err}
}

// owned returns a random stream of the caller, open and owned by the caller's node: as they all are, unless a command
// failed.
func (c *caller) owned(ctx context.Context) (*ownStream, error) {
	st := c.streams[c.rnd.IntN(len(c.streams))]
	if st.unsure {
		if err := c.look(ctx, st); err != nil {
			return nil, err
		}
	}
	if st.open && st.node == c.node {
		return st, nil
	}
	if !st.open {
		if err := c.openAs(ctx, st, st.opener); err != nil || st.node == c.node {
			return st, err
		}
	}
	if err := c.closeAs(ctx, st, st.node); err != nil {
		return nil, err
	}
	return st, c.openAs(ctx, st, c.node)
}

// look finds out how a stream stands.
func (c *caller) look(ctx context.Context, st *ownStream) error {
	r, err := c.t.Stream(ctx, Fresh{Linearizable: true}, st.id)
	if err != nil {
		return err
	}
	st.epoch, st.start, st.end, st.open, st.unsure = r.Epoch, r.StartOffset, r.EndOffset, r.Open, false
	st.opener = c.node
	for i, n := range c.plan.nodes {
		if n.NodeID == r.Owner.NodeID {
			st.node = i
		}
		if n.NodeID == r.ReservedFor {
			st.opener = i
		}
	}
	return nil
}

func (c *caller) closeAs(ctx context.Context, st *ownStream, node int) error {
	_, err := propose(ctx, c, meta.CloseStream{Identity: c.plan.nodes[node], StreamID: st.id, Epoch: st.epoch})
	st.open, st.unsure, st.opener = false, err != nil, c.node
	return err
}

func (c *caller) openAs(ctx context.Context, st *ownStream, node int) error {
	r, err := propose(ctx, c, meta.OpenStream{Identity: c.plan.nodes[node], StreamID: st.id})
	if err != nil {
		st.unsure = true
		return err
	}
	st.epoch, st.start, st.end, st.open, st.node = r.Epoch, r.StartOffset, r.EndOffset, true, node
	return nil
}

func (c *caller) find(ctx context.Context) Sample {
	st := c.streams[c.rnd.IntN(len(c.streams))]
	start := st.start
	if st.end > st.start {
		start += c.rnd.Uint64N(st.end - st.start)
	}
	t, f := c.read()
	_, err := t.Find(ctx, f, st.id, start, foundAtOnce)
	return Sample{Op: opFind, Err: err}
}

func (c *caller) stream(ctx context.Context) Sample {
	t, f := c.read()
	_, err := t.Stream(ctx, f, c.streams[c.rnd.IntN(len(c.streams))].id)
	return Sample{Op: opStream, Err: err}
}

// next does what has to come next, or else first.
func (c *caller) next(ctx context.Context, first Caller) Sample {
	if next := c.followUp; next != nil {
		c.followUp = nil
		return next(ctx)
	}
	return first(ctx)
}

// reopen closes a stream, and opens it when it is called again.
func (c *caller) reopen(ctx context.Context) Sample {
	return c.next(ctx, func(ctx context.Context) Sample {
		st, err := c.owned(ctx)
		if err != nil {
			return Sample{Op: opClose, Err: err}
		}
		return c.bringHome(ctx, st)
	})
}

// bringHome closes a stream, whoever owns it, and next opens it for the caller's node.
func (c *caller) bringHome(ctx context.Context, st *ownStream) Sample {
	if err := c.closeAs(ctx, st, st.node); err != nil {
		return Sample{Op: opClose, Err: err}
	}
	c.followUp = func(ctx context.Context) Sample { return Sample{Op: opOpen, Err: c.openAs(ctx, st, c.node)} }
	return Sample{Op: opClose}
}

// transfer hands a stream over. When it is called again the new owner opens it, and then it goes back.
func (c *caller) transfer(ctx context.Context) Sample {
	return c.next(ctx, func(ctx context.Context) Sample {
		st, err := c.owned(ctx)
		if err != nil {
			return Sample{Op: opTransfer, Err: err}
		}
		to := (c.node + 1) % len(c.plan.nodes)
		_, err = propose(ctx, c, meta.RecordTransfer{Identity: c.me(), StreamID: st.id, Epoch: st.epoch,
			ToNode: c.plan.nodes[to].NodeID, Boundary: st.end})
		st.open, st.unsure = false, err != nil
		if err != nil {
			return Sample{Op: opTransfer, Err: err}
		}
		c.followUp = func(ctx context.Context) Sample {
			err := c.openAs(ctx, st, to)
			if err == nil {
				c.followUp = func(ctx context.Context) Sample { return c.bringHome(ctx, st) }
			}
			return Sample{Op: opOpen, Err: err}
		}
		return Sample{Op: opTransfer}
	})
}

// trim forgets the oldest part of a stream. Next, what nothing reads any more is reclaimed, and now and then its objects
// are forgotten.
func (c *caller) trim(ctx context.Context) Sample {
	st, err := c.owned(ctx)
	const keep = retained * recordsPerSlice
	switch {
	case err != nil:
		return Sample{Op: opTrim, Err: err}
	case st.end < st.start+keep+keep/2: // not worth it yet
		return c.commit(ctx)
	}
	r, err := propose(ctx, c, meta.TrimStream{Identity: c.me(), StreamID: st.id, Epoch: st.epoch, StartOffset: st.end - keep})
	if st.unsure = err != nil; err != nil {
		return Sample{Op: opTrim, Err: err}
	}
	st.start, c.followUp = r.StartOffset, c.reclaim
	return Sample{Op: opTrim}
}

func (c *caller) reclaim(ctx context.Context) Sample {
	_, err := propose(ctx, c, meta.ReclaimObjects{Time: 1, Limit: 1000})
	if c.reclaims++; c.reclaims%forgetEvery == 0 {
		c.followUp = c.forget
	}
	return Sample{Op: opReclaim, Err: err}
}

func (c *caller) forget(ctx context.Context) Sample {
	ids, err := c.t.Deletable(ctx, 1000)
	if err == nil && len(ids) > 0 {
		_, err = propose(ctx, c, meta.ForgetObjects{ObjectIDs: ids})
	}
	if code := meta.CodeOf(err); code == meta.CodeObjectInUse || code == meta.CodeObjectNotFound {
		err = nil // another caller was quicker, and saw the same ids
	}
	return Sample{Op: opForget, Err: err}
}

// store is the mixture of a stream store.
func (c *caller) store(ctx context.Context) Sample {
	return c.next(ctx, func(ctx context.Context) Sample {
		switch n := c.rnd.IntN(100); {
		case n < 60:
			return c.commit(ctx)
		case n < 90:
			return c.find(ctx)
		case n < 93:
			return c.stream(ctx)
		case n < 95:
			return c.reopen(ctx)
		case n < 97:
			return c.transfer(ctx)
		}
		return c.trim(ctx)
	})
}
