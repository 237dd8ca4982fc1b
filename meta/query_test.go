package meta_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

// collect reads a list page by page and holds the promises about pages.
func collect[T any](t *testing.T, name string, limit int, list func(cursor string, limit int) (meta.Page[T], error)) []T {
	t.Helper()
	var all []T
	seen := map[string]bool{}
	for cursor := ""; ; {
		p, err := list(cursor, limit)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(p.Items) > limit {
			t.Fatalf("%s: a page of %d items, the limit is %d", name, len(p.Items), limit)
		}
		all = append(all, p.Items...)
		if p.Next == "" {
			return all
		}
		if seen[p.Next] {
			t.Fatalf("%s: the list goes round in circles", name)
		}
		seen[p.Next] = true
		cursor = p.Next
	}
}

// records returns the records of one type of an export for which keep holds.
func records[T meta.Record](s *meta.State, keep func(T) bool) []T {
	var out []T
	for r := range s.Export() {
		if v, ok := r.(T); ok && (keep == nil || keep(v)) {
			out = append(out, v)
		}
	}
	return out
}

func sorted[T any](list []T, compare func(a, b T) int) []T {
	slices.SortStableFunc(list, compare)
	return list
}

// compareList wants the list, at several page sizes, to be what the export says.
func compareList[T any](t *testing.T, name string, want []T, list func(cursor string, limit int) (meta.Page[T], error)) {
	t.Helper()
	for _, limit := range []int{1, 2, 7, meta.MaxPage} {
		got := collect(t, name, limit, list)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("%s in pages of %d (-export +list):\n%s", name, limit, diff)
		}
	}
}

// TestListsAgreeWithTheExport compares every list of random states with the export, filtered plainly.
func TestListsAgreeWithTheExport(t *testing.T) {
	t.Parallel()
	for range 4 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		c := newChurn(t, seed)
		for range 3 {
			c.run(120)
			checkStreamLists(t, c.s)
			checkDebtLists(t, c.s)
			checkObjectLists(t, c.s)
			s := c.s
			compareList(t, "nodes", records(s, func(n meta.Node) bool { return n.Registered }), s.Nodes)
			for _, n := range records[meta.Node](s, nil) {
				if got, ok := s.Node(n.ID); !ok || !gocmp.Equal(got, n) {
					t.Fatalf("node %d: %+v, %v", n.ID, got, ok)
				}
			}
			for _, prefix := range []string{"", "k", "k1", "k12", "zzz"} {
				keep := func(k meta.Key) bool { return strings.HasPrefix(k.Key, prefix) }
				compareList(t, "keys "+prefix, records(s, keep), func(cursor string, limit int) (meta.Page[meta.Key], error) {
					return s.Keys(prefix, cursor, limit)
				})
				names := records(s, keep)
				for i := range names {
					if k, ok := s.Key(names[i].Key); !ok || !gocmp.Equal(k, names[i]) {
						t.Fatalf("key %q: %+v, %v", names[i].Key, k, ok)
					}
					names[i].Value = nil
				}
				compareList(t, "key names "+prefix, names, func(cursor string, limit int) (meta.Page[meta.Key], error) {
					return s.KeyNames(prefix, cursor, limit)
				})
			}
		}
	}
}

func checkStreamLists(t *testing.T, s *meta.State) {
	t.Helper()
	all := records[meta.Stream](s, nil)
	compareList(t, "streams", all, s.Streams)
	for _, st := range all {
		byName, ok := s.StreamByName(st.Name)
		if !ok || !gocmp.Equal(byName, st) {
			t.Fatalf("stream %q: %+v, %v", st.Name, byName, ok)
		}
		compareList(t, "ranges", records(s, func(r meta.Range) bool { return r.StreamID == st.ID }),
			func(cursor string, limit int) (meta.Page[meta.Range], error) { return s.Ranges(st.ID, cursor, limit) })
		compareList(t, "losses", records(s, func(l meta.Loss) bool { return l.StreamID == st.ID }),
			func(cursor string, limit int) (meta.Page[meta.Loss], error) { return s.Losses(st.ID, cursor, limit) })
	}
	for _, prefix := range []string{"", "a", "a/", "ab/1", "q"} {
		want := records(s, func(st meta.Stream) bool { return strings.HasPrefix(st.Name, prefix) })
		sorted(want, func(a, b meta.Stream) int { return cmp.Compare(a.Name, b.Name) })
		compareList(t, "streams by name "+prefix, want, func(cursor string, limit int) (meta.Page[meta.Stream], error) {
			return s.StreamsByName(prefix, cursor, limit)
		})
	}
	for node := range uint64(7) {
		want := records(s, func(st meta.Stream) bool { return st.Open && st.Owner.NodeID == node })
		compareList(t, "streams by owner", want, func(cursor string, limit int) (meta.Page[meta.Stream], error) {
			return s.StreamsByOwner(node, cursor, limit)
		})
	}
	for node := uint64(1); node < 7; node++ {
		want := records(s, func(st meta.Stream) bool { return st.ReservedFor == node })
		compareList(t, "streams reserved", want, func(cursor string, limit int) (meta.Page[meta.Stream], error) {
			return s.StreamsReservedFor(node, cursor, limit)
		})
	}
	for _, label := range []meta.Label{{Name: "rack", Value: "0"}, {Name: "team", Value: "2"}, {Name: "team", Value: "x"}} {
		want := records(s, func(st meta.Stream) bool { return slices.Contains(st.Labels, label) })
		compareList(t, "streams by label", want, func(cursor string, limit int) (meta.Page[meta.Stream], error) {
			return s.StreamsByLabel(label, cursor, limit)
		})
	}
}

func checkDebtLists(t *testing.T, s *meta.State) {
	t.Helper()
	for stream := range uint64(30) {
		if _, ok := s.Stream(stream); !ok && stream != 0 {
			continue
		}
		for node := range uint64(6) {
			f := meta.DebtFilter{StreamID: stream, NodeID: node}
			want := records(s, func(d meta.Debt) bool {
				return (stream == 0 || d.StreamID == stream) && (node == 0 || d.NodeID == node)
			})
			if stream == 0 {
				sorted(want, func(a, b meta.Debt) int {
					return cmp.Or(cmp.Compare(a.NodeID, b.NodeID), cmp.Compare(a.StreamID, b.StreamID), cmp.Compare(a.StartOffset, b.StartOffset))
				})
			}
			compareList(t, fmt.Sprintf("debts %+v", f), want, func(cursor string, limit int) (meta.Page[meta.Debt], error) {
				return s.Debts(f, cursor, limit)
			})
		}
	}
}

func checkObjectLists(t *testing.T, s *meta.State) {
	t.Helper()
	all := records[meta.ObjectRecord](s, nil)
	var expiry int64
	for _, o := range all {
		expiry = max(expiry, o.Deadline)
		if got, ok := s.Object(o.ID); !ok || !gocmp.Equal(got, o) {
			t.Fatalf("object %d: %+v, %v", o.ID, got, ok)
		}
	}
	for _, f := range []meta.ObjectFilter{{}, {State: meta.ObjectPrepared}, {State: meta.ObjectCommitted}, {State: meta.ObjectDeletable},
		{State: meta.ObjectPrepared, ExpiredAt: expiry}, {State: meta.ObjectPrepared, ExpiredAt: expiry - 8000},
		{State: meta.ObjectPrepared, ExpiredAt: 1}, {State: meta.ObjectPrepared, ExpiredAt: -1}} {
		for _, f.WithSlices = range []bool{false, true} {
			want := records(s, func(o meta.ObjectRecord) bool {
				return (f.State == 0 || o.State == f.State) && (f.ExpiredAt == 0 || o.Deadline < f.ExpiredAt)
			})
			if f.State == meta.ObjectPrepared {
				sorted(want, func(a, b meta.ObjectRecord) int { return cmp.Compare(a.Deadline, b.Deadline) })
			}
			if !f.WithSlices {
				for i := range want {
					want[i].Slices = nil
				}
			}
			compareList(t, fmt.Sprintf("objects %+v", f), want, func(cursor string, limit int) (meta.Page[meta.ObjectRecord], error) {
				return s.Objects(f, cursor, limit)
			})
		}
	}
}

// TestCountsAgreeWithTheExport counts what the export shows.
func TestCountsAgreeWithTheExport(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := newChurn(t, seed)
	for range 5 {
		c.run(100)
		var want meta.Counts
		for r := range c.s.Export() {
			switch r := r.(type) {
			case meta.Node:
				if r.Registered {
					want.Nodes++
				}
				if r.Fenced {
					want.FencedNodes++
				}
			case meta.Stream:
				want.Streams++
				if r.Open {
					want.OpenStreams++
				}
			case meta.ObjectRecord:
				*map[meta.ObjectState]*uint64{meta.ObjectPrepared: &want.PreparedObjects,
					meta.ObjectCommitted: &want.CommittedObjects, meta.ObjectDeletable: &want.DeletableObjects}[r.State]++
			case meta.StoredSlice:
				want.Slices++
			case meta.Debt:
				want.Debts++
			case meta.Key:
				want.Keys++
			case meta.ClientRecord:
				want.Clients++
			case meta.AnswerRecord:
				want.Results++
			}
		}
		if got := c.s.Counts(); got != want {
			t.Fatalf("counts %+v, the export has %+v", got, want)
		}
	}
}

// lists is every list, for what holds for all.
var lists = map[string]func(s *meta.State, cursor string, limit int) (next string, err error){
	"nodes":   func(s *meta.State, c string, n int) (string, error) { p, err := s.Nodes(c, n); return p.Next, err },
	"streams": func(s *meta.State, c string, n int) (string, error) { p, err := s.Streams(c, n); return p.Next, err },
	"streams by name": func(s *meta.State, c string, n int) (string, error) {
		p, err := s.StreamsByName("", c, n)
		return p.Next, err
	},
	"streams by owner": func(s *meta.State, c string, n int) (string, error) {
		p, err := s.StreamsByOwner(1, c, n)
		return p.Next, err
	},
	"streams reserved": func(s *meta.State, c string, n int) (string, error) {
		p, err := s.StreamsReservedFor(1, c, n)
		return p.Next, err
	},
	"streams by label": func(s *meta.State, c string, n int) (string, error) {
		p, err := s.StreamsByLabel(meta.Label{Name: "tier", Value: "hot"}, c, n)
		return p.Next, err
	},
	"ranges": func(s *meta.State, c string, n int) (string, error) { p, err := s.Ranges(1, c, n); return p.Next, err },
	"losses": func(s *meta.State, c string, n int) (string, error) { p, err := s.Losses(1, c, n); return p.Next, err },
	"debts": func(s *meta.State, c string, n int) (string, error) {
		p, err := s.Debts(meta.DebtFilter{}, c, n)
		return p.Next, err
	},
	"objects": func(s *meta.State, c string, n int) (string, error) {
		p, err := s.Objects(meta.ObjectFilter{}, c, n)
		return p.Next, err
	},
	"prepared": func(s *meta.State, c string, n int) (string, error) {
		p, err := s.Objects(meta.ObjectFilter{State: meta.ObjectPrepared}, c, n)
		return p.Next, err
	},
	"deletable": func(s *meta.State, c string, n int) (string, error) {
		p, err := s.Objects(meta.ObjectFilter{State: meta.ObjectDeletable}, c, n)
		return p.Next, err
	},
	"keys": func(s *meta.State, c string, n int) (string, error) { p, err := s.Keys("", c, n); return p.Next, err },
}

// TestBadPagesAreRefused covers limits and cursors, also those of every other list.
func TestBadPagesAreRefused(t *testing.T) {
	t.Parallel()
	s := filledState(t, 2000, true)
	cursors := map[string]string{}
	for name, list := range lists {
		if _, err := list(s, "", -1); meta.CodeOf(err) != meta.CodeInvalidArgument {
			t.Errorf("%s, limit -1: %v", name, err)
		}
		if _, err := list(s, "", meta.MaxPage+1); meta.CodeOf(err) != meta.CodeTooLarge {
			t.Errorf("%s, limit %d: %v", name, meta.MaxPage+1, err)
		}
		next, err := list(s, "", 1)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if next != "" {
			cursors[name] = next
		}
	}
	if len(cursors) < 7 {
		t.Fatalf("only %d lists are long enough for a second page: the test shows little", len(cursors))
	}
	for name, list := range lists {
		for of, cursor := range cursors {
			if _, err := list(s, cursor, 1); (err == nil) != (of == name) {
				t.Errorf("%s with the cursor of %s: %v", name, of, err)
			}
		}
		for _, cursor := range []string{"!", "AA", strings.Repeat("A", 5000), "AQ", "Af__________________8B"} {
			if _, err := list(s, cursor, 1); meta.CodeOf(err) != meta.CodeInvalidArgument && name != "streams by name" && name != "keys" {
				t.Errorf("%s with cursor %.20q: %v", name, cursor, err)
			}
		}
	}
}

// TestListsOfWhatIsNotThere tells what is empty from what does not exist.
func TestListsOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s := meta.NewState()
	for name, list := range lists {
		next, err := list(s, "", 10)
		if name == "ranges" || name == "losses" {
			if meta.CodeOf(err) != meta.CodeStreamNotFound {
				t.Errorf("%s of stream 1: %v", name, err)
			}
		} else if next != "" || err != nil {
			t.Errorf("%s of an empty state: %q, %v", name, next, err)
		}
	}
	if _, err := s.Debts(meta.DebtFilter{StreamID: 7}, "", 1); meta.CodeOf(err) != meta.CodeStreamNotFound {
		t.Errorf("debts of stream 7: %v", err)
	}
	for _, f := range []meta.ObjectFilter{{State: 4}, {ExpiredAt: 1}, {State: meta.ObjectDeletable, ExpiredAt: 1}} {
		if _, err := s.Objects(f, "", 1); meta.CodeOf(err) != meta.CodeInvalidArgument {
			t.Errorf("objects %+v: %v", f, err)
		}
	}
	_, node := s.Node(1)
	_, stream := s.Stream(1)
	_, byName := s.StreamByName("a")
	_, object := s.Object(1)
	_, key := s.Key("k")
	if node || stream || byName || object || key {
		t.Error("an empty state has something")
	}
}

// TestPagesDoBoundedWork holds pages to their bounds where nearly nothing passes the filter, and where items are large.
func TestPagesDoBoundedWork(t *testing.T) {
	t.Parallel()
	s := meta.NewState()
	apply := func(commands ...meta.Command) {
		t.Helper()
		var row [][]byte
		for _, c := range commands {
			p := meta.Proposal{Command: c}
			if _, ok := c.(meta.PrepareObjects); ok {
				p.Request = &meta.Request{Client: [16]byte{9}, Sequence: s.Index()}
			}
			b, err := meta.AppendProposal(nil, p)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, b)
		}
		next, answers, err := s.Apply(s.Index()+1, row)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		s = next
	}
	apply(meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}})
	for range 25 {
		apply(meta.PrepareObjects{Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}, Count: 1000, Deadline: 5})
	}
	pages := 1
	for cursor := ""; ; pages++ {
		p, err := s.Objects(meta.ObjectFilter{State: meta.ObjectCommitted}, cursor, 10)
		if err != nil || len(p.Items) > 0 {
			t.Fatal(p.Items, err)
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if pages != 3 {
		t.Errorf("25,000 objects that do not pass the filter were looked at in %d pages, want 3", pages)
	}
	value := make([]byte, meta.MaxValueBytes)
	for i := range 10 {
		apply(meta.PutKey{Key: fmt.Sprint(i), Value: value})
	}
	p, err := s.Keys("", "", 0)
	if err != nil || len(p.Items) != 4 || p.Next == "" {
		t.Errorf("a page of the largest values: %d items, next %q, %v", len(p.Items), p.Next, err)
	}
	if all := collect(t, "keys", 100, func(c string, n int) (meta.Page[meta.Key], error) { return s.Keys("", c, n) }); len(all) != 10 {
		t.Errorf("%d keys", len(all))
	}
}

// TestPagesGoOnBehindWhatIsGone takes the entry away at which the next page would begin.
func TestPagesGoOnBehindWhatIsGone(t *testing.T) {
	t.Parallel()
	s := meta.NewState()
	apply := func(cmd meta.Command) {
		b, err := meta.AppendProposal(nil, meta.Proposal{Command: cmd})
		if err == nil {
			s, _, err = s.Apply(s.Index()+1, [][]byte{b})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []string{"a", "b", "c"} {
		apply(meta.PutKey{Key: k})
	}
	p, err := s.Keys("", "", 1)
	if err != nil {
		t.Fatal(err)
	}
	apply(meta.DeleteKey{Key: "b"})
	if p, err = s.Keys("", p.Next, 1); err != nil || len(p.Items) != 1 || p.Items[0].Key != "c" {
		t.Errorf("after the deletion: %+v, %v", p, err)
	}
}

// TestExportStopsWhenTold breaks off at every record.
func TestExportStopsWhenTold(t *testing.T) {
	t.Parallel()
	c := newChurn(t, 11)
	c.run(200)
	total := len(slices.Collect(c.s.Export()))
	for stop := range total {
		n := 0
		for range c.s.Export() {
			if n++; n > stop {
				break
			}
		}
		if n != stop+1 {
			t.Fatalf("stopped after %d records, want %d", n, stop+1)
		}
	}
}

// TestQueryErrorsAreRefusals holds the promise that every error of a query is an *Error.
func TestQueryErrorsAreRefusals(t *testing.T) {
	t.Parallel()
	for name, list := range lists {
		_, err := list(meta.NewState(), "?", 1)
		var e *meta.Error
		if !errors.As(err, &e) || e.Inner != -1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLookUpsDoNotAllocate holds look-ups on the hot path to no allocation.
func TestLookUpsDoNotAllocate(t *testing.T) {
	s := filledState(t, 2000, true)
	for name, f := range map[string]func(){
		"Stream":       func() { s.Stream(77) },
		"StreamByName": func() { s.StreamByName("tenant-5/topic-5") },
		"Node":         func() { s.Node(5) },
		"Counts":       func() { s.Counts() },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
