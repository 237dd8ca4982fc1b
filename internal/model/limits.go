package model

import (
	"unicode"
	"unicode/utf8"

	"github.com/headwaterdb/headwater/meta"
)

// The limits of the table.
const (
	limit63      = uint64(1) << 63 // offsets, epochs and sizes stay below
	maxSlices    = 10_000          // slices of one command
	maxIDs       = 1000            // ids or objects of one command
	maxInner     = 100             // commands inside Atomic
	maxCommand   = 1 << 20         // bytes
	maxName      = 255
	maxAddress   = 255
	maxLabels    = 32
	maxLabel     = 256
	maxKey       = 1 << 10
	maxValue     = 256 << 10
	maxReason    = 1 << 10
	maxAttrs     = 256
	requestAhead = 256 // a sequence is below the oldest plus this
)

// finding collects what a command violates; the first one counts.
type finding struct{ code meta.Code }

func (f *finding) add(code meta.Code, violated bool) {
	if violated && f.code == 0 {
		f.code = code
	}
}

func (f *finding) invalid(violated bool)  { f.add(meta.CodeInvalidArgument, violated) }
func (f *finding) tooLarge(violated bool) { f.add(meta.CodeTooLarge, violated) }

// limits judges what can be judged without the state.
func limits(p meta.Proposal) *meta.Error {
	var f finding
	if r := p.Request; r != nil {
		oldest := max(r.Oldest, 1)
		f.invalid(r.Client == [16]byte{} || r.Sequence < oldest || r.Sequence-oldest >= requestAhead)
	}
	switch c := p.Command.(type) {
	case meta.RenewNode:
		f.invalid(p.Request != nil)
	case meta.PrepareObjects:
		f.invalid(p.Request == nil)
	case meta.Atomic:
		f.invalid(p.Request == nil)
		if e := f.atomic(c); e != nil {
			return e
		}
	}
	f.command(p.Command)
	if f.code == 0 {
		f.tooLarge(len(meta.AppendCommand(nil, p.Command)) > maxCommand)
	}
	if f.code != 0 {
		return refusal(f.code)
	}
	return nil
}

// atomic judges an Atomic; the error is that of a command inside.
func (f *finding) atomic(c meta.Atomic) *meta.Error {
	f.invalid(len(c.Commands) == 0)
	f.tooLarge(len(c.Commands) > maxInner)
	if f.code != 0 {
		return nil
	}
	for i, inner := range c.Commands {
		var g finding
		switch inner.(type) {
		case nil, meta.Atomic, meta.RenewNode, meta.SetFormat:
			g.invalid(true)
		}
		g.command(inner)
		if g.code != 0 {
			return &meta.Error{Code: g.code, Inner: i}
		}
	}
	f.tooLarge(atomicWeight(c) > maxSlices)
	return nil
}

// atomicWeight counts the slices, counts, limits and ids in c.
func atomicWeight(c meta.Atomic) (n int) {
	for _, inner := range c.Commands {
		switch c := inner.(type) {
		case meta.PrepareObjects:
			n += int(c.Count)
		case meta.ReclaimObjects:
			n += int(c.Limit)
		case meta.ForgetObjects:
			n += len(c.ObjectIDs)
		case meta.CommitObjects:
			n += slicesOf(c.Objects)
		case meta.CompactObjects:
			n += len(c.Sources) + slicesOf(c.Objects)
		}
	}
	return n
}

func slicesOf(objects []meta.Object) (n int) {
	for _, o := range objects {
		n += len(o.Slices)
	}
	return n
}

// command judges the fields of one command of any kind.
func (f *finding) command(c meta.Command) {
	switch c := c.(type) {
	case nil:
		f.invalid(true)
	case meta.RegisterNode:
		f.invalid(c.NodeID == 0 || c.Instance == [16]byte{})
		f.tooLarge(c.Epoch >= limit63 || len(c.Address) > maxAddress)
		f.invalid(!utf8.ValidString(c.Address))
		f.labels(c.Labels)
	case meta.RenewNode:
		f.identity(c.Identity)
	case meta.UnregisterNode:
		f.invalid(c.NodeID == 0)
		f.epoch(c.Epoch)
	case meta.FenceNode:
		f.invalid(c.NodeID == 0)
		f.epoch(c.Epoch)
		f.optional(c.Rescuer)
	case meta.CreateStream:
		f.identity(c.Identity)
		f.name(c.Name)
		f.labels(c.Labels)
	case meta.OpenStream:
		f.identity(c.Identity)
		f.epoch(c.Epoch)
	case meta.CloseStream:
		f.identity(c.Identity)
		f.epoch(c.Epoch)
	case meta.TrimStream:
		f.identity(c.Identity)
		f.epoch(c.Epoch)
		f.tooLarge(c.StartOffset >= limit63)
	case meta.LabelStream:
		f.labels(c.Labels)
	case meta.DeleteStream:
		f.optional(c.Identity)
		f.epoch(c.Epoch)
	case meta.RecordTransfer:
		f.identity(c.Identity)
		f.epoch(c.Epoch)
		f.tooLarge(c.Boundary >= limit63)
	case meta.ForceCloseStream:
		f.epoch(c.Epoch)
		f.tooLarge(len(c.Reason) > maxReason)
		f.invalid(!utf8.ValidString(c.Reason))
	default:
		f.objectCommand(c)
	}
}

func (f *finding) objectCommand(c meta.Command) {
	switch c := c.(type) {
	case meta.PrepareObjects:
		f.identity(c.Identity)
		f.invalid(c.Count == 0)
		f.tooLarge(c.Count > maxIDs)
	case meta.CommitObjects:
		f.identity(c.Identity)
		f.invalid(len(c.Objects) == 0)
		f.objects(c.Objects)
	case meta.CompactObjects:
		f.identity(c.Identity)
		f.ids(c.Sources)
		f.objects(c.Objects)
	case meta.ReclaimObjects:
		f.invalid(c.Limit == 0)
		f.tooLarge(c.Limit > maxIDs)
	case meta.ForgetObjects:
		f.ids(c.ObjectIDs)
	case meta.PutKey:
		f.optional(c.Identity)
		f.key(c.Key)
		f.tooLarge(len(c.Value) > maxValue)
		f.invalid(c.IfAbsent && c.IfVersion != 0)
	case meta.DeleteKey:
		f.optional(c.Identity)
		f.key(c.Key)
	case meta.CheckKey:
		f.key(c.Key)
		f.invalid(c.IfAbsent == (c.IfVersion != 0))
	case meta.SetFormat:
		f.invalid(c.Level == 0) // missing: levels count from 1
	}
}

func (f *finding) identity(id meta.Identity) {
	f.invalid(id.NodeID == 0) // an epoch of 0 is below every registered one
	f.tooLarge(id.NodeEpoch >= limit63)
}

func (f *finding) optional(id meta.Identity) {
	if id != (meta.Identity{}) {
		f.identity(id)
	}
}

func (f *finding) epoch(epoch uint64) { f.tooLarge(epoch >= limit63) }

func (f *finding) name(name string) {
	f.invalid(name == "" || !utf8.ValidString(name))
	for _, r := range name {
		f.invalid(unicode.Is(unicode.Cc, r))
	}
	f.tooLarge(len(name) > maxName)
}

func (f *finding) key(key string) {
	f.invalid(key == "" || !utf8.ValidString(key))
	f.tooLarge(len(key) > maxKey)
}

func (f *finding) labels(labels []meta.Label) {
	f.tooLarge(len(labels) > maxLabels)
	seen := map[string]bool{}
	for _, l := range labels {
		f.invalid(l.Name == "" || !utf8.ValidString(l.Name) || !utf8.ValidString(l.Value) || seen[l.Name])
		f.tooLarge(len(l.Name) > maxLabel || len(l.Value) > maxLabel)
		seen[l.Name] = true
	}
}

func (f *finding) ids(ids []uint64) {
	f.invalid(len(ids) == 0)
	f.tooLarge(len(ids) > maxIDs)
	seen := map[uint64]bool{}
	for _, id := range ids {
		f.invalid(seen[id])
		seen[id] = true
	}
}

func (f *finding) objects(objects []meta.Object) {
	f.tooLarge(len(objects) > maxIDs)
	seen := map[uint64]bool{}
	n := 0
	for _, o := range objects {
		f.invalid(seen[o.ObjectID])
		seen[o.ObjectID] = true
		f.tooLarge(o.Size >= limit63 || len(o.Attributes) > maxAttrs)
		for _, sl := range o.Slices {
			f.tooLarge(max(sl.StreamEpoch, sl.StartOffset, sl.EndOffset, sl.Position, sl.Length) >= limit63)
			f.invalid(sl.StartOffset >= sl.EndOffset)
			n++
		}
	}
	f.tooLarge(n > maxSlices)
}
