package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/headwaterdb/headwater/meta"
)

// part is what is checked for linearizability by itself.
type part struct {
	name  string
	model porcupine.Model
	ops   []porcupine.Operation
}

// divider divides operations by what they touch. A command that touches several parts is in each of them; in that of the
// nodes it asks whether its identity counted.
type divider struct {
	parts   map[string]*part
	streams map[string]uint64 // ids by name
}

// divide returns the parts of a history, by name, and the first command that the rules of this package do not know, if
// there is one. Commands that certainly have no effect, those of unknown outcome that without names, and reads that promise
// less than linearizability, are in none.
func divide(ops []Op, without func(*Op) bool) (parts []*part, strange *Op) {
	d := divider{parts: map[string]*part{}, streams: map[string]uint64{}}
	for i := range ops {
		if c, ok := ops[i].Command.(meta.CreateStream); ok {
			if r, ok := ops[i].Answer.Result.(meta.CreateStreamResult); ok {
				d.streams[c.Name] = r.StreamID
			}
		}
	}
	for i := range ops {
		op := &ops[i]
		switch {
		case op.Outcome == Failed, op.Outcome == Unknown && without(op):
		case op.Command != nil && !known(op.Command):
			if strange == nil {
				strange = op
			}
		case op.Command != nil:
			d.command(op)
		case op.Outcome == Answered && op.Read.Freshness == Linearizable:
			d.read(op)
		}
	}
	for _, p := range d.parts {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b *part) int { return cmp.Compare(a.name, b.name) })
	return parts, strange
}

// known reports whether the rules know a command: those that histories are made of, in the simple forms that they have
// there.
func known(c meta.Command) bool {
	switch c := c.(type) {
	case meta.RegisterNode:
		return c.NodeID <= maxNodes && c.Epoch == 0
	case meta.FenceNode:
		return c.NodeID <= maxNodes && c.Renewals == 0
	case meta.OpenStream:
		return c.Epoch == 0
	case meta.CreateStream:
		return len(c.Labels) == 0
	case meta.CommitObjects:
		return len(c.Objects) == 1 && len(c.Objects[0].Slices) == 1
	case meta.RenewNode, meta.PrepareObjects, meta.CloseStream, meta.TrimStream, meta.RecordTransfer, meta.PutKey, meta.DeleteKey, meta.CheckKey:
		return true
	case meta.Atomic: // of keys of one group, without identities
		var groups []string
		for _, inner := range c.Commands {
			key, _, _ := conditionOf(inner)
			id, _ := identityOf(inner)
			if key == "" || id != (meta.Identity{}) {
				return false
			}
			groups = append(groups, Group(key))
		}
		return len(slices.Compact(groups)) == 1
	}
	return false
}

func (d *divider) add(name string, model func() porcupine.Model, op *Op) {
	p := d.parts[name]
	if p == nil {
		p = &part{name: name, model: model()}
		d.parts[name] = p
	}
	p.ops = append(p.ops, porcupine.Operation{ClientId: op.Session, Input: op, Call: int64(op.Call), Return: int64(op.Return)})
}

// Group returns the group of a key: what stands before its first slash.
func Group(key string) string {
	group, _, _ := strings.Cut(key, "/")
	return group
}

func (d *divider) command(op *Op) {
	if id, _ := identityOf(op.Command); id != (meta.Identity{}) && op.Outcome == Answered {
		d.add("nodes", nodeRules.model, op)
	}
	switch c := op.Command.(type) {
	case meta.RegisterNode, meta.FenceNode:
		d.add("nodes", nodeRules.model, op)
	case meta.CreateStream:
		d.add("names", nameRules.model, op)
	case meta.PrepareObjects:
		d.add("objects", objectRules.model, op)
	case meta.OpenStream:
		d.stream(c.StreamID, op)
	case meta.CloseStream:
		d.stream(c.StreamID, op)
	case meta.TrimStream:
		d.stream(c.StreamID, op)
	case meta.RecordTransfer:
		d.stream(c.StreamID, op)
	case meta.CommitObjects:
		d.stream(c.Objects[0].Slices[0].StreamID, op)
	case meta.PutKey, meta.DeleteKey, meta.CheckKey:
		d.keys(c, op)
	case meta.Atomic:
		d.keys(c.Commands[0], op)
	}
}

func (d *divider) keys(c meta.Command, op *Op) {
	key, _, _ := conditionOf(c)
	d.add("keys "+Group(key), keyRules.model, op)
}

func (d *divider) stream(id uint64, op *Op) {
	d.add(fmt.Sprintf("stream %d", id), streamRules.model, op)
}

// read knows whole groups of keys, single streams by their whole name, and all nodes.
func (d *divider) read(op *Op) {
	switch r := op.Read; {
	case strings.HasSuffix(r.Keys, "/"):
		d.add("keys "+Group(r.Keys), keyRules.model, op)
	case r.Streams != "":
		if id := d.streams[r.Streams]; id != 0 {
			d.stream(id, op)
		}
	case r.Nodes:
		d.add("nodes", nodeRules.model, op)
	}
}
