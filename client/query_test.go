package client_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/meta"
)

// small fills a store with a little of everything: node 1 transferred stream 1 and still owes, wrote off a part of
// stream 2, and has a fenced neighbour.
func small(t testing.TB, s *headwater.Store) {
	t.Helper()
	me, other := meta.Identity{NodeID: 1, NodeEpoch: 1}, meta.Identity{NodeID: 2, NodeEpoch: 1}
	object := func(id, stream, epoch, start, end uint64) []meta.Object {
		return []meta.Object{{ObjectID: id, Size: 100, Attributes: []byte("crc"), Slices: []meta.Slice{{StreamID: stream,
			StreamEpoch: epoch, StartOffset: start, EndOffset: end, Length: 100, MaxTimestamp: int64(end)}}}}
	}
	for i, c := range []meta.Command{
		meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}, Address: "a:1", Labels: []meta.Label{{Name: "zone", Value: "a"}}},
		meta.RegisterNode{NodeID: 2, Instance: [16]byte{2}},
		meta.CreateStream{Identity: me, Name: "orders-0", Labels: []meta.Label{{Name: "topic", Value: "orders"}}},
		meta.CreateStream{Identity: me, Name: "orders-1"},
		meta.CreateStream{Identity: me, Name: "bills-0"},
		meta.OpenStream{Identity: me, StreamID: 1}, meta.OpenStream{Identity: me, StreamID: 2},
		meta.PrepareObjects{Identity: me, Count: 5, Deadline: 1000},
		meta.CommitObjects{Identity: me, Objects: object(1, 1, 1, 0, 10)},
		meta.CommitObjects{Identity: me, Objects: object(2, 1, 1, 10, 30)},
		meta.CommitObjects{Identity: me, Objects: object(3, 2, 1, 0, 5)},
		meta.RecordTransfer{Identity: me, StreamID: 1, Epoch: 1, ToNode: 2, Boundary: 40},
		meta.RecordTransfer{Identity: me, StreamID: 2, Epoch: 1, ToNode: 2, Boundary: 9},
		meta.ForceCloseStream{StreamID: 2, Epoch: 1, WriteOff: true, Reason: "lost"},
		meta.OpenStream{Identity: other, StreamID: 2},
		meta.PutKey{Key: "cfg/a", Value: []byte("1")}, meta.PutKey{Key: "cfg/b", Value: []byte("2")}, meta.PutKey{Key: "x", Value: []byte("3")},
		meta.FenceNode{NodeID: 2, Epoch: 1, Rescuer: me},
	} {
		p := meta.Proposal{Command: c}
		if _, ok := c.(meta.PrepareObjects); ok {
			p.Request = &meta.Request{Client: [16]byte{9}, Sequence: 1, Oldest: 1}
		}
		if a := s.Propose(t.Context(), p)[0]; a.Status != meta.Applied {
			t.Fatalf("command %d, %T: %+v", i, c, a)
		}
	}
}

// TestQueries compares what the client returns with what the state says.
func TestQueries(t *testing.T) {
	t.Parallel()
	store := openStore(t, newLog(t))
	small(t, store)
	_, addr := serve(t, store)
	c := open(t, client.Options{Endpoints: []string{addr}})
	s, ctx := store.View().State, t.Context()
	same := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	counts, at, err := c.Counts(ctx)
	same("counts", counts, s.Counts(), err)
	if at.Index != s.Index() || at.Incarnation != store.Status().Incarnation {
		t.Errorf("at %+v", at)
	}
	for id := range uint64(4) {
		n, _, err := c.Node(ctx, id)
		if want, ok := s.Node(id); ok {
			same("node", n, want, err)
		} else {
			refused(t, "node", err, meta.CodeNodeNotFound)
		}
		st, _, err := c.Stream(ctx, id)
		if want, ok := s.Stream(id); ok {
			same("stream", st, want, err)
		} else {
			refused(t, "stream", err, map[bool]meta.Code{true: meta.CodeInvalidArgument, false: meta.CodeStreamNotFound}[id == 0])
		}
		o, _, err := c.Object(ctx, id)
		if want, ok := s.Object(id); ok {
			same("object", o, want, err)
		} else {
			refused(t, "object", err, meta.CodeObjectNotFound)
		}
	}
	named, _, err := c.StreamByName(ctx, "bills-0")
	want, _ := s.StreamByName("bills-0")
	same("stream by name", named, want, err)
	_, _, err = c.StreamByName(ctx, "bills")
	refused(t, "stream by name", err, meta.CodeStreamNotFound)
	key, _, err := c.Key(ctx, "cfg/a")
	wantKey, _ := s.Key("cfg/a")
	same("key", key, wantKey, err)
	_, _, err = c.Key(ctx, "cfg")
	refused(t, "key", err, meta.CodeKeyNotFound)

	for _, at := range [][2]uint64{{0, 0}, {5, 12}, {30, 0}, {99, 0}} {
		f, _, err := c.FindObjects(ctx, 1, at[0], at[1], 0)
		want, _ := s.FindObjects(1, at[0], at[1], 0)
		same("objects", f, want, err)
	}
	f, _, err := c.FindObjects(ctx, 2, 0, 0, 10)
	wantFound, _ := s.FindObjects(2, 0, 0, 10)
	same("objects up to a loss", f, wantFound, err)
	if f.Stop != meta.StopLoss {
		t.Errorf("stop %s", f.Stop)
	}
	_, _, err = c.FindObjects(ctx, 1, 9, 3, 0)
	refused(t, "backwards", err, meta.CodeInvalidArgument)
	_, _, err = c.FindObjects(ctx, 1, 0, 0, meta.MaxFound+1)
	refused(t, "too many", err, meta.CodeTooLarge)
	offset, found, _, err := c.FindOffset(ctx, 1, 12)
	same("offset", fmt.Sprint(offset, found), "10 true", err)
	offset, found, _, err = c.FindOffset(ctx, 1, 99)
	same("offset", fmt.Sprint(offset, found), "40 false", err)
	losses, _, err := c.Losses(ctx, 2)
	wantLosses, _ := s.Losses(2, "", 0)
	same("losses", losses, wantLosses.Items, err)
	_, _, err = c.Losses(ctx, 0)
	refused(t, "losses of none", err, meta.CodeStreamNotFound)
}

func refused(t *testing.T, what string, err error, code meta.Code) {
	t.Helper()
	if meta.CodeOf(err) != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// TestLists goes through every list in pages of one and compares with the state's own pages.
func TestLists(t *testing.T) {
	t.Parallel()
	store := openStore(t, newLog(t))
	small(t, store)
	_, addr := serve(t, store)
	c := open(t, client.Options{Endpoints: []string{addr}})
	s, ctx := store.View().State, t.Context()
	list(t, "nodes", func(cur string) (client.Page[meta.Node], error) { return c.Nodes(ctx, cur, 1) },
		func(cur string) (meta.Page[meta.Node], error) { return s.Nodes(cur, 1) }, 2)
	list(t, "streams", func(cur string) (client.Page[meta.Stream], error) { return c.Streams(ctx, cur, 1) },
		func(cur string) (meta.Page[meta.Stream], error) { return s.Streams(cur, 1) }, 3)
	list(t, "by name", func(cur string) (client.Page[meta.Stream], error) { return c.StreamsByName(ctx, "orders", cur, 1) },
		func(cur string) (meta.Page[meta.Stream], error) { return s.StreamsByName("orders", cur, 1) }, 2)
	list(t, "by owner", func(cur string) (client.Page[meta.Stream], error) { return c.StreamsByOwner(ctx, 2, cur, 1) },
		func(cur string) (meta.Page[meta.Stream], error) { return s.StreamsByOwner(2, cur, 1) }, 1)
	label := meta.Label{Name: "topic", Value: "orders"}
	list(t, "by label", func(cur string) (client.Page[meta.Stream], error) { return c.StreamsByLabel(ctx, label, cur, 1) },
		func(cur string) (meta.Page[meta.Stream], error) { return s.StreamsByLabel(label, cur, 1) }, 1)
	list(t, "ranges", func(cur string) (client.Page[meta.Range], error) { return c.Ranges(ctx, 2, cur, 1) },
		func(cur string) (meta.Page[meta.Range], error) { return s.Ranges(2, cur, 1) }, 2)
	list(t, "candidates", func(cur string) (client.Page[meta.CompactionCandidate], error) {
		return c.CompactionCandidates(ctx, 1, 0, cur, 1)
	}, func(cur string) (meta.Page[meta.CompactionCandidate], error) {
		return s.CompactionCandidates(1, 0, cur, 1)
	}, 2)
	for _, f := range []meta.ObjectFilter{{}, {WithSlices: true}, {State: meta.ObjectPrepared, ExpiredAt: 2000}, {State: meta.ObjectCommitted}} {
		n := map[meta.ObjectState]int{0: 5, meta.ObjectPrepared: 2, meta.ObjectCommitted: 3}[f.State]
		list(t, "objects", func(cur string) (client.Page[meta.ObjectRecord], error) { return c.Objects(ctx, f, cur, 1) },
			func(cur string) (meta.Page[meta.ObjectRecord], error) { return s.Objects(f, cur, 1) }, n)
	}
	for _, f := range []meta.DebtFilter{{}, {StreamID: 1}, {NodeID: 1}} {
		list(t, "debts", func(cur string) (client.Page[meta.Debt], error) { return c.Debts(ctx, f, cur, 1) },
			func(cur string) (meta.Page[meta.Debt], error) { return s.Debts(f, cur, 1) }, 1)
	}
	list(t, "keys", func(cur string) (client.Page[meta.Key], error) { return c.Keys(ctx, "cfg/", cur, 1) },
		func(cur string) (meta.Page[meta.Key], error) { return s.Keys("cfg/", cur, 1) }, 2)
	list(t, "key names", func(cur string) (client.Page[meta.Key], error) { return c.KeyNames(ctx, "", cur, 1) },
		func(cur string) (meta.Page[meta.Key], error) { return s.KeyNames("", cur, 1) }, 3)
	_, err := c.Streams(ctx, "garbage", 1)
	refused(t, "cursor", err, meta.CodeInvalidArgument)
	_, err = c.Streams(ctx, "", meta.MaxPage+1)
	refused(t, "limit", err, meta.CodeTooLarge)
}

func list[T any](t *testing.T, what string, get func(string) (client.Page[T], error), want func(string) (meta.Page[T], error), n int) {
	t.Helper()
	var got []T
	if err := client.All(get, func(item T) error { got = append(got, item); return nil }); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	var all []T
	for cursor := ""; ; {
		p, err := want(cursor)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if all = append(all, p.Items...); p.Next == "" {
			break
		}
		cursor = p.Next
	}
	if d := cmp.Diff(all, got); d != "" || len(got) != n {
		t.Errorf("%s: %d items, want %d (-want +got):\n%s", what, len(got), n, d)
	}
	stop := errors.New("stop")
	if err := client.All(get, func(T) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%s: an error of the function: %v", what, err)
	}
}

func TestExportAndTheRest(t *testing.T) {
	t.Parallel()
	store := openStore(t, newLog(t))
	small(t, store)
	_, addr := serve(t, store)
	c := open(t, client.Options{Endpoints: []string{addr}})
	var got, want []meta.Record
	if err := c.Export(t.Context(), func(r meta.Record) error { got = append(got, r); return nil }); err != nil {
		t.Fatal(err)
	}
	for r := range store.View().State.Export() {
		want = append(want, r)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("export (-want +got):\n%s", d)
	}
	linearizable := c.Reading(client.Read{Linearizable: true})
	answers, changes, at, err := linearizable.DryRun(t.Context(), put("cfg/a"), meta.Proposal{Command: meta.DeleteKey{Key: "x"}})
	wantAnswers, wantChanges, _ := store.DryRun(t.Context(), put("cfg/a"), meta.Proposal{Command: meta.DeleteKey{Key: "x"}})
	if d := cmp.Diff(wantAnswers, answers) + cmp.Diff(wantChanges, changes); err != nil || d != "" || at.Index != uint64(store.View().Index) {
		t.Errorf("dry run at %+v, %v (-want +got):\n%s", at, err, d)
	}
	st, err := c.Status(t.Context())
	own := store.Status()
	if err != nil || st.AppliedIndex != own.AppliedIndex || st.Digest != own.Digest || st.ClusterID != own.ClusterID ||
		st.Version != "test" || st.Endpoint != addr || st.Backend != own.Backend {
		t.Errorf("status %+v, %v", st, err)
	}
	i, err := c.Snapshot(t.Context())
	if err != nil || i != own.AppliedIndex {
		t.Errorf("snapshot at %d, %v; want %d", i, err, own.AppliedIndex)
	}
	rows := 0
	if err := c.ReadLog(t.Context(), 0, 0, func(client.LogRow) error { rows++; return nil }); err != nil || rows == 0 {
		t.Errorf("%d rows, %v", rows, err)
	}
}
