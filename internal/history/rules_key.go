package history

import (
	"maps"

	"github.com/headwaterdb/headwater/meta"
)

// keys is a group of keys that are written and read together. A version that no answer has told yet is 0.
type keys struct {
	entries map[string]entry
	newest  uint64 // the highest version that was told: they only rise
}

type entry struct {
	value   string
	version uint64
}

var keyRules = rules[keys]{
	equal: func(a, b keys) bool { return a.newest == b.newest && maps.Equal(a.entries, b.entries) },
	judge: keys.judge,
	read:  keys.read,
}

// judge takes Atomic apart: it takes effect as a whole or not at all.
func (k keys) judge(c meta.Command, a *meta.Answer) (keys, bool) {
	if ofNode(a) {
		return k, true
	}
	commands := []meta.Command{c}
	if atomic, ok := c.(meta.Atomic); ok {
		commands = atomic.Commands
	}
	next := keys{maps.Clone(k.entries), k.newest}
	if next.entries == nil {
		next.entries = map[string]entry{}
	}
	all := redundant(nil)
	for i, c := range commands {
		switch v := next.one(c, told(a, i), k.newest, refusedAt(a) != i); v.status {
		case meta.Rejected:
			return k, a == nil || v.allows(a) && refusedAt(a) == i && next.shows(a, c)
		case meta.Applied:
			all = v
		}
	}
	return next, a == nil || all.allows(a)
}

// refusedAt returns the position of the command that was refused, -1 where none was.
func refusedAt(a *meta.Answer) int {
	if a == nil {
		return -1
	}
	if refusal, ok := a.Err.(*meta.Error); ok {
		return max(refusal.Inner, 0)
	}
	return -1
}

// one applies a command to k itself. The version is the one that the answer tells, or 0; a new one is above all before
// the command, and Atomic gives one version to all that it writes. Where a condition asks for a
// version and that of the key is not known yet, holds says how it was judged.
func (k *keys) one(c meta.Command, version, before uint64, holds bool) verdict {
	key, ifAbsent, ifVersion := conditionOf(c)
	e, present := k.entries[key]
	if present && e.version == 0 && ifVersion != 0 && holds {
		e.version = ifVersion
		k.set(key, e)
	}
	put, isPut := c.(meta.PutKey)
	_, isDelete := c.(meta.DeleteKey)
	switch {
	case isPut && present && e.value == string(put.Value):
		if version != 0 && e.version != 0 && version != e.version {
			return impossible
		}
		k.set(key, entry{e.value, max(e.version, version)})
		return redundant(nil)
	case isDelete && !present:
		return redundant(nil)
	case ifAbsent && present:
		return refused(meta.CodeKeyExists)
	case ifVersion != 0 && (!present || e.version != ifVersion):
		return refused(meta.CodeKeyVersionMismatch)
	case isPut && version != 0 && version <= before:
		return impossible
	case isPut:
		k.set(key, entry{string(put.Value), version})
		return applied(nil)
	case isDelete:
		delete(k.entries, key)
		return applied(nil)
	}
	return redundant(nil) // CheckKey
}

func (k *keys) set(key string, e entry) {
	k.entries[key] = e
	k.newest = max(k.newest, e.version)
}

func conditionOf(c meta.Command) (key string, ifAbsent bool, ifVersion uint64) {
	switch c := c.(type) {
	case meta.PutKey:
		return c.Key, c.IfAbsent, c.IfVersion
	case meta.DeleteKey:
		return c.Key, false, c.IfVersion
	case meta.CheckKey:
		return c.Key, c.IfAbsent, c.IfVersion
	}
	return "", false, 0
}

// told returns the version that an answer tells of its i-th command, or 0.
func told(a *meta.Answer, i int) uint64 {
	if a == nil {
		return 0
	}
	result := a.Result
	if atomic, ok := result.(meta.AtomicResult); ok {
		if i >= len(atomic.Answers) {
			return 0
		}
		result = atomic.Answers[i].Result
	}
	r, _ := result.(meta.PutKeyResult)
	return r.Version
}

// shows reports whether the key that a refusal shows is as it stands.
func (k keys) shows(a *meta.Answer, c meta.Command) bool {
	refusal, ok := a.Err.(*meta.Error)
	if !ok || refusal.Current == nil {
		return true
	}
	key, _, _ := conditionOf(c)
	return refusal.Current.Key == key && k.holds(*refusal.Current)
}

func (k keys) holds(got meta.Key) bool {
	e, present := k.entries[got.Key]
	return present && e.value == string(got.Value) && (e.version == got.Version || e.version == 0 && got.Version > 0)
}

// read wants all keys of the group and no other.
func (k keys) read(r *Read) (keys, bool) {
	if len(r.Got) != len(k.entries) {
		return k, false
	}
	next := k
	next.entries = maps.Clone(k.entries)
	for _, rec := range r.Got {
		got, ok := rec.(meta.Key)
		if !ok || !k.holds(got) {
			return k, false
		}
		next.set(got.Key, entry{string(got.Value), got.Version})
	}
	return next, true
}
