package headwater_test

import (
	"context"
	"errors"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// leaper is a log of which calls fail, and which can leap.
type leaper struct {
	*faultlog.Log
	inner oplog.Log
}

func (l leaper) Leap(ctx context.Context, from, to oplog.Index, mark, payload []byte) error {
	return l.inner.(oplog.Leaper).Leap(ctx, from, to, mark, payload)
}

// done proposes a command that must succeed.
func done[R meta.Result](t *testing.T, s *headwater.Store, c meta.CommandOf[R]) R {
	t.Helper()
	r, err := meta.Propose(t.Context(), s, c)
	if err != nil {
		t.Fatalf("%s: %v", meta.KindOf(c), err)
	}
	return r
}

// TestRestore: a new history begins above the old one, nothing is lost, and a node of the old one halts. Broken off at any
// step, a restore that is repeated goes on. Field case 07.4.
func TestRestore(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]*faultlog.Rule{
		"in one go":                    nil,
		"broken off before a part":     {Op: faultlog.WritePart, Before: oplog.ErrUnavailable},
		"broken off at the commit":     {Op: faultlog.CommitSnapshot, Before: oplog.ErrUnavailable},
		"broken off at the truncation": {Op: faultlog.Truncate, Before: oplog.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRestore(t, fault)
		})
	}
}

func testRestore(t *testing.T, fault *faultlog.Rule) {
	db := oplog.NewMemory()
	old := clustertest.Nodes(t, headwater.Options{}, db.Open())[0]
	me := meta.Identity{NodeID: 1, NodeEpoch: done(t, old, meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}}).Epoch}
	stream := done(t, old, meta.CreateStream{Identity: me, Name: "s"}).StreamID
	epoch := done(t, old, meta.OpenStream{Identity: me, StreamID: stream}).Epoch
	version := done(t, old, meta.PutKey{Key: "k", Value: []byte("v")}).Version
	before := old.View()

	log := leaper{faultlog.Wrap(db.Open()), db.Open()}
	if fault != nil {
		log.Add(*fault)
		if _, err := headwater.Restore(t.Context(), log); !errors.Is(err, oplog.ErrUnavailable) {
			t.Fatalf("a restore that is broken off: %v", err)
		}
	}
	info, err := headwater.Restore(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	if fault == nil && (info.LastIndex != uint64(before.Index) || info.FirstIndex != uint64(before.Index)+1<<32) {
		t.Errorf("restored from %d to %d, the view was at %d", info.LastIndex, info.FirstIndex, before.Index)
	}
	sounds := func() {
		t.Helper()
		if r, err := headwater.Check(t.Context(), db.Open(), nil); err != nil || !r.OK() || r.Incarnation != info.Incarnation {
			t.Errorf("check: %+v, %v", r, err)
		}
	}
	sounds()
	if _, err := old.Wait(t.Context(), uint64(before.Index)+1); !errors.Is(err, meta.ErrHalted) || old.View() != before {
		t.Errorf("a node of the old history: %v at %d, want that it halts where it was", err, old.View().Index)
	}
	fresh := clustertest.Nodes(t, headwater.Options{}, db.Open())[0]
	if st := fresh.Status(); st.Incarnation != info.Incarnation || st.Incarnation == old.Status().Incarnation || st.ClusterID != old.Status().ClusterID {
		t.Errorf("status: %+v", st)
	}
	if k, ok := fresh.View().State.Key("k"); !ok || string(k.Value) != "v" || k.Version != version {
		t.Errorf("key: %+v, %v", k, ok)
	}
	nothingTwice(t, fresh, me, stream, epoch, info.FirstIndex)
	sounds()
}

// nothingTwice: after a restore nobody acts by an epoch of before, and what is handed out lies above everything of before.
func nothingTwice(t *testing.T, s *headwater.Store, me meta.Identity, stream, epoch, first uint64) {
	t.Helper()
	const margin = 1 << 40
	stale := func(want meta.Code) {
		t.Helper()
		_, err := meta.Propose(t.Context(), s, meta.CloseStream{Identity: me, StreamID: stream, Epoch: epoch})
		if meta.CodeOf(err) != want {
			t.Errorf("close by epochs of before: %v, want %v", err, want)
		}
	}
	stale(meta.CodeNodeEpochStale)
	r := done(t, s, meta.RegisterNode{NodeID: me.NodeID, Instance: [16]byte{2}})
	me.NodeEpoch = r.Epoch
	if r.OwnedStreams != 1 {
		t.Errorf("the node owns %d streams, want the one of before", r.OwnedStreams)
	}
	stale(meta.CodeStreamEpochStale)
	request := meta.Request{Client: [16]byte{1}, Sequence: 1}
	objects, err := meta.ProposeRequest(t.Context(), s, request, meta.PrepareObjects{Identity: me, Count: 1, Deadline: 1})
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range map[string]uint64{
		"node epoch":   r.Epoch,
		"stream epoch": done(t, s, meta.OpenStream{Identity: me, StreamID: stream}).Epoch,
		"stream":       done(t, s, meta.CreateStream{Identity: me, Name: "t"}).StreamID,
		"object":       objects.FirstObjectID,
	} {
		if n <= margin {
			t.Errorf("the next %s is %d, want one above %d", what, n, uint64(margin))
		}
	}
	if v := done(t, s, meta.PutKey{Key: "k", Value: []byte("w")}).Version; v <= first*256 {
		t.Errorf("the next version is %d, want one above those of row %d", v, first)
	}
	if err := s.View().State.Verify(); err != nil {
		t.Error(err)
	}
}
