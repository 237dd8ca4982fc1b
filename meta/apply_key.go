package meta

func (t *tx) putKey(c PutKey) outcome {
	if err := t.checkOptionalIdentity(c.Identity); err != nil {
		return rejected(err)
	}
	t.work++
	k, at, present := t.keys.Find(c.Key)
	switch {
	case present && k.value == string(c.Value):
		// Whatever the condition: a lock whose value names its holder can be taken again by a retry.
		return redundant(PutKeyResult{Version: k.version})
	case c.IfAbsent && present:
		return rejected(keyExists(c.Key, k))
	case c.IfVersion != 0 && (!present || k.version != c.IfVersion):
		return rejected(keyVersionMismatch(c.Key, k, present, c.IfVersion))
	}
	// Inside Atomic all puts of one key have one version: nobody can have seen the earlier ones.
	version := ordinal(t.index, t.position)
	t.setKey(c.Key, at, keyRecord{value: string(c.Value), version: version})
	return applied(PutKeyResult{Version: version})
}

func (t *tx) removeKey(c DeleteKey) outcome {
	if err := t.checkOptionalIdentity(c.Identity); err != nil {
		return rejected(err)
	}
	k, present := t.key(c.Key)
	switch {
	case !present:
		return redundant(nil)
	case c.IfVersion != 0 && k.version != c.IfVersion:
		return rejected(keyVersionMismatch(c.Key, k, present, c.IfVersion))
	}
	t.deleteKey(c.Key)
	return applied(nil)
}

func (t *tx) checkKey(c CheckKey) outcome {
	k, present := t.key(c.Key)
	switch {
	case c.IfAbsent && present:
		return rejected(keyExists(c.Key, k))
	case !c.IfAbsent && (!present || k.version != c.IfVersion):
		return rejected(keyVersionMismatch(c.Key, k, present, c.IfVersion))
	}
	return redundant(nil)
}

func keyExists(key string, k keyRecord) *Error {
	err := refuse(CodeKeyExists, "key %q exists at version %d", key, k.version)
	current := keyOf(key, k)
	err.Current = &current
	return err
}

func keyVersionMismatch(key string, k keyRecord, present bool, want uint64) *Error {
	if !present {
		return refuse(CodeKeyVersionMismatch, "key %q is absent, not at version %d", key, want)
	}
	err := refuse(CodeKeyVersionMismatch, "key %q is at version %d, not at version %d", key, k.version, want)
	current := keyOf(key, k)
	err.Current = &current
	return err
}
