package model

import (
	"bytes"

	"github.com/headwaterdb/headwater/meta"
)

func keyRefusal(code meta.Code, present bool, k meta.Key) verdict {
	e := refusal(code)
	if present {
		e.Current = &k
	}
	return refused(e)
}

func (s *state) putKey(at place, c meta.PutKey) verdict {
	if err := s.optional(c.Identity); err != nil {
		return refused(err)
	}
	k, present := s.keys[c.Key]
	if present && bytes.Equal(k.Value, c.Value) {
		return redundant(meta.PutKeyResult{Version: k.Version})
	}
	if c.IfAbsent && present {
		return keyRefusal(meta.CodeKeyExists, present, k)
	}
	if c.IfVersion != 0 && (!present || k.Version != c.IfVersion) {
		return keyRefusal(meta.CodeKeyVersionMismatch, present, k)
	}
	version := at.index*256 + uint64(at.position)
	s.keys[c.Key] = meta.Key{Key: c.Key, Value: c.Value, Version: version}
	return applied(meta.PutKeyResult{Version: version})
}

func (s *state) deleteKey(c meta.DeleteKey) verdict {
	if err := s.optional(c.Identity); err != nil {
		return refused(err)
	}
	k, present := s.keys[c.Key]
	if !present {
		return redundant(nil)
	}
	if c.IfVersion != 0 && k.Version != c.IfVersion {
		return keyRefusal(meta.CodeKeyVersionMismatch, present, k)
	}
	delete(s.keys, c.Key)
	return applied(nil)
}

func (s *state) checkKey(c meta.CheckKey) verdict {
	k, present := s.keys[c.Key]
	if c.IfAbsent && present {
		return keyRefusal(meta.CodeKeyExists, present, k)
	}
	if c.IfVersion != 0 && (!present || k.Version != c.IfVersion) {
		return keyRefusal(meta.CodeKeyVersionMismatch, present, k)
	}
	return redundant(nil)
}
