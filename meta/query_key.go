package meta

import "strings"

// Key returns the key's value and version, and whether there is such a key.
func (s *State) Key(key string) (Key, bool) {
	k, ok := s.keys.Get(key)
	if !ok {
		return Key{}, false
	}
	return keyOf(key, k), true
}

// Keys lists the keys that begin with prefix in the order of their bytes; the empty prefix is that of all. The cursor
// is empty for the first page, then Page.Next; the limit is 1 to MaxPage, or 0 for 100; a page also ends where its
// values reach 1 MiB. The error is an *Error.
func (s *State) Keys(prefix, cursor string, limit int) (Page[Key], error) {
	return s.listKeys(prefix, cursor, limit, true)
}

// KeyNames lists keys as Keys does, without their values.
func (s *State) KeyNames(prefix, cursor string, limit int) (Page[Key], error) {
	return s.listKeys(prefix, cursor, limit, false)
}

func (s *State) listKeys(prefix, cursor string, limit int, values bool) (Page[Key], error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return Page[Key]{}, err
	}
	from, err := openTextCursor(listKeys, cursor)
	if err != nil {
		return Page[Key]{}, err
	}
	return listing[string, keyRecord, Key]{
		entries: s.keys.From(max(from, prefix)),
		within:  func(key string) bool { return strings.HasPrefix(key, prefix) },
		show: func(key string, k keyRecord) (Key, int) {
			if !values {
				return Key{Key: key, Version: k.version}, 0
			}
			return keyOf(key, k), len(k.value)
		},
		cursor: func(key string) string { return textCursor(listKeys, key) },
	}.page(limit), nil
}
