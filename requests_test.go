package headwater_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// TestRepeatThroughAnyNode is field case 02.1: the reply to a request is lost; repeated through the same node, through
// another one and after a restart it is redundant, with the first index and the ids that the first application gave.
func TestRepeatThroughAnyNode(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "repeat.db")
	gate := faultlog.NewGate()
	var log *faultlog.Log
	a, aDone := node(t, func() oplog.Log { log = faultlog.Wrap(openSQLite(t, file)); return log }, headwater.Options{})
	b, bDone := node(t, func() oplog.Log { return openSQLite(t, file) }, headwater.Options{})
	defer bDone()
	if _, err := meta.Propose(t.Context(), a, meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}}); err != nil {
		t.Fatal(err)
	}
	request := meta.Proposal{Request: &meta.Request{Client: [16]byte{7}, Sequence: 1, Oldest: 1},
		Command: meta.PrepareObjects{Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}, Count: 3, Deadline: 1}}

	log.Add(faultlog.Rule{Op: faultlog.Append, Linger: gate}) // the row is there, the answer is not
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan meta.Answer)
	go func() { first <- a.Propose(ctx, request)[0] }()
	<-gate.Reached()
	cancel()
	lost := <-first
	gate.Open()
	if lost.Err != nil && !errors.Is(lost.Err, meta.ErrOutcomeUnknown) {
		t.Fatalf("the first call: %v", lost.Err)
	}
	var want meta.Answer
	repeat := func(who string, s *headwater.Store) {
		t.Helper()
		got := s.Propose(t.Context(), request)[0]
		if want.FirstIndex == 0 {
			want = got
		}
		if got.Err != nil || got.Status != meta.Redundant || got.FirstIndex != want.FirstIndex || got.FirstIndex >= got.Index ||
			got.Result != want.Result || got.Result.(meta.PrepareObjectsResult).FirstObjectID != 1 {
			t.Errorf("%s: %+v, want redundant with row %d and %+v", who, got, want.FirstIndex, want.Result)
		}
	}
	repeat("the same node", a)
	repeat("another node", b)
	aDone()
	again, againDone := node(t, func() oplog.Log { return openSQLite(t, file) }, headwater.Options{})
	defer againDone()
	repeat("the node after a restart", again)
	if n := again.View().State.Counts().PreparedObjects; n != 3 {
		t.Errorf("%d objects are prepared, want the 3 of one effect", n)
	}
	clustertest.Agree(t, []*headwater.Store{b, again})
}

// TestForgettingIsDecidedByTheLog is field case 02.4: two nodes whose clocks are an hour apart answer a late repeat alike,
// at both sides of each edge of what is remembered: the client's oldest sequence, and, at full size, the 65,536 clients.
func TestForgettingIsDecidedByTheLog(t *testing.T) {
	t.Parallel()
	db := oplog.NewMemory()
	late := headwater.Options{Now: func() time.Time { return time.Now().Add(-time.Hour) }}
	a, aDone := node(t, db.Open, headwater.Options{})
	defer aDone()
	b, bDone := node(t, db.Open, late)
	defer bDone()
	both := []*headwater.Store{a, b}
	put := func(client, sequence, oldest uint64) meta.Proposal {
		return meta.Proposal{Request: &meta.Request{Client: [16]byte{1, byte(client >> 16), byte(client >> 8), byte(client)}, Sequence: sequence, Oldest: oldest},
			Command: meta.PutKey{Key: "k", Value: []byte{byte(sequence)}}}
	}
	ends := func(p meta.Proposal, want meta.Code) {
		t.Helper()
		for i, s := range both {
			got := s.Propose(t.Context(), p)[0]
			if meta.CodeOf(got.Err) != want || want == 0 && got.Status != meta.Redundant {
				t.Errorf("node %d answers %+v: %+v, want code %q", i, p.Request, got, want)
			}
		}
	}
	for i := range uint64(256) { // a window is full
		if got := both[i%2].Propose(t.Context(), put(0, i+1, 1))[0]; got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	ends(put(0, 1, 1), 0)
	ends(put(0, 257, 1), meta.CodeInvalidArgument)
	if got := a.Propose(t.Context(), put(0, 257, 100))[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	ends(put(0, 99, 1), meta.CodeRequestExpired)
	ends(put(0, 100, 1), 0)
	if os.Getenv("HEADWATER_TEST_FULL") != "" {
		for client := uint64(1); client <= 65_535; client += 255 {
			var row []meta.Proposal
			for i := range uint64(255) {
				row = append(row, put(client+i, 1, 1))
			}
			both[client%2].Propose(t.Context(), row...)
		}
		ends(put(0, 257, 100), 0) // seen last before all others, and still there
		ends(put(65_536, 2, 2), meta.CodeRequestExpired)
		if got := a.Propose(t.Context(), put(65_536, 1, 1))[0]; got.Err != nil { // one too many
			t.Fatal(got.Err)
		}
		ends(put(1, 2, 2), meta.CodeRequestExpired) // the one that had not been seen for longest is forgotten
		ends(put(65_535, 1, 1), 0)
	}
	clustertest.Agree(t, both)
}
