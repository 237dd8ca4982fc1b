package meta_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

func TestPutKey(t *testing.T) {
	t.Parallel()
	// Row 2 holds the first command after node 1, at position 0.
	base := []meta.Command{registerNode(1, "1a")}
	put := func(key, value string, change func(*meta.PutKey)) meta.PutKey {
		c := putKey(key, value)
		if change != nil {
			change(&c)
		}
		return c
	}
	ifAbsent := func(c *meta.PutKey) { c.IfAbsent = true }
	ifVersion := func(v uint64) func(*meta.PutKey) { return func(c *meta.PutKey) { c.IfVersion = v } }
	is := func(value string, version uint64) func(*testing.T, *world) {
		return func(t *testing.T, c *world) {
			got, ok := c.s.Key("k")
			if diff := cmp.Diff(meta.Key{Key: "k", Value: []byte(value), Version: version}, got); !ok || diff != "" {
				t.Error(diff)
			}
		}
	}
	present := []meta.Command{putKey("k", "a")}
	runClauses(t, base, []clause{
		{name: "absent: version is row index × 256 + position", cmd: putKey("k", "a"), want: "applied", result: meta.PutKeyResult{Version: 512}, check: is("a", 512)},
		{name: "an empty value", cmd: putKey("k", ""), want: "applied", check: is("", 512)},
		{name: "present with another value", given: present, cmd: putKey("k", "b"), want: "applied", result: meta.PutKeyResult{Version: 768}, check: is("b", 768)},
		{name: "present with the same value: redundant", given: present, cmd: putKey("k", "a"), want: "redundant", result: meta.PutKeyResult{Version: 512}},
		{name: "the same value goes before if-absent", given: present, cmd: put("k", "a", ifAbsent), want: "redundant", result: meta.PutKeyResult{Version: 512}},
		{name: "the same value goes before the version", given: present, cmd: put("k", "a", ifVersion(7)), want: "redundant", result: meta.PutKeyResult{Version: 512}},
		{name: "if-absent, absent", cmd: put("k", "a", ifAbsent), want: "applied", check: is("a", 512)},
		{name: "if-absent, present", given: present, cmd: put("k", "b", ifAbsent), want: "KEY_EXISTS"},
		{name: "version equal", given: present, cmd: put("k", "b", ifVersion(512)), want: "applied", check: is("b", 768)},
		{name: "version differs", given: present, cmd: put("k", "b", ifVersion(511)), want: "KEY_VERSION_MISMATCH"},
		{name: "version, absent", cmd: put("k", "b", ifVersion(512)), want: "KEY_VERSION_MISMATCH"},
		{name: "identity", cmd: put("k", "b", func(c *meta.PutKey) { c.Identity = at(1, 1) }), want: "applied"},
		{name: "identity first", given: present, cmd: put("k", "a", func(c *meta.PutKey) { c.Identity = at(1, 2) }), want: "NODE_EPOCH_UNKNOWN"},
		{name: "both conditions", cmd: put("k", "b", func(c *meta.PutKey) { c.IfAbsent, c.IfVersion = true, 1 }), want: "INVALID_ARGUMENT"},
	})
}

// TestKeyRefusalsShowTheKey: a refusal that the present key causes carries it, so that a caller need not ask again.
func TestKeyRefusalsShowTheKey(t *testing.T) {
	t.Parallel()
	c := newWorld(t).given(putKey("k", "a"))
	want := &meta.Key{Key: "k", Value: []byte("a"), Version: 256}
	for _, tt := range []struct {
		cmd  meta.Command
		want *meta.Key
	}{
		{meta.PutKey{Key: "k", Value: []byte("b"), IfAbsent: true}, want},
		{meta.PutKey{Key: "k", Value: []byte("b"), IfVersion: 7}, want},
		{meta.DeleteKey{Key: "k", IfVersion: 7}, want},
		{meta.CheckKey{Key: "k", IfAbsent: true}, want},
		{meta.CheckKey{Key: "k", IfVersion: 7}, want},
		{meta.CheckKey{Key: "other", IfVersion: 7}, nil},
		{meta.PutKey{Key: "other", IfVersion: 7}, nil},
	} {
		var e *meta.Error
		if !errors.As(c.do(tt.cmd).Err, &e) {
			t.Fatalf("%+v is not refused", tt.cmd)
		}
		if diff := cmp.Diff(tt.want, e.Current); diff != "" {
			t.Errorf("%+v:\n%s", tt.cmd, diff)
		}
	}
}

func TestDeleteKey(t *testing.T) {
	t.Parallel()
	present := []meta.Command{registerNode(1, "1a"), putKey("k", "a")}
	runClauses(t, nil, []clause{
		{name: "present", given: present, cmd: meta.DeleteKey{Key: "k"}, want: "applied", check: func(t *testing.T, c *world) {
			if k, ok := c.s.Key("k"); ok {
				t.Errorf("still there: %+v", k)
			}
		}},
		{name: "absent: redundant", cmd: meta.DeleteKey{Key: "k"}, want: "redundant"},
		{name: "absent: redundant, whatever the version", cmd: meta.DeleteKey{Key: "k", IfVersion: 7}, want: "redundant"},
		{name: "version equal", given: present, cmd: meta.DeleteKey{Key: "k", IfVersion: 512}, want: "applied"},
		{name: "version differs", given: present, cmd: meta.DeleteKey{Key: "k", IfVersion: 7}, want: "KEY_VERSION_MISMATCH"},
		{name: "identity first", cmd: meta.DeleteKey{Key: "k", Identity: at(9, 1)}, want: "NODE_NOT_FOUND"},
	})
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	present := []meta.Command{putKey("k", "a")}
	runClauses(t, nil, []clause{
		{name: "absent, as it should be: redundant", cmd: meta.CheckKey{Key: "k", IfAbsent: true}, want: "redundant"},
		{name: "absent, but present", given: present, cmd: meta.CheckKey{Key: "k", IfAbsent: true}, want: "KEY_EXISTS"},
		{name: "version equal: redundant", given: present, cmd: meta.CheckKey{Key: "k", IfVersion: 256}, want: "redundant"},
		{name: "version differs", given: present, cmd: meta.CheckKey{Key: "k", IfVersion: 255}, want: "KEY_VERSION_MISMATCH"},
		{name: "version, but absent", cmd: meta.CheckKey{Key: "k", IfVersion: 256}, want: "KEY_VERSION_MISMATCH"},
		{name: "neither condition", cmd: meta.CheckKey{Key: "k"}, want: "INVALID_ARGUMENT"},
	})
}
