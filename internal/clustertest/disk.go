package clustertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// Disk is a database whose disk fills up under a node.
type Disk struct {
	Open     func() oplog.Log
	Full     func(s *headwater.Store) bool // whether the database has said so
	MakeRoom func()
	// Dies: the server ends where others refuse, so that the outcome of what it was about is unknown. MakeRoom starts it again.
	Dies bool
}

// Run fills the disk and makes room again. While it is full no proposal succeeds and each ends within its time, for certain
// refused where the server lives, and reads go on; then the node goes on by itself, everything that was acknowledged is there
// and nothing that was refused. Field case 16.1 on a node.
func (d Disk) Run(t *testing.T) {
	t.Helper()
	patience := 30 * time.Second
	if d.Dies {
		patience = 2 * time.Second
	}
	o := headwater.Options{}
	o.Engine.SnapshotInterval = -1 // the values go into rows only
	s := Nodes(t, o, d.Open())[0]
	there, never := map[string]bool{}, map[string]bool{}
	put := func(i int) error {
		key := fmt.Sprint(i)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		a := s.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: key, Value: make([]byte, 100<<10)}})[0]
		unknown := errors.Is(a.Err, meta.ErrOutcomeUnknown)
		switch {
		case a.Err == nil:
			there[key] = true
		case unknown && !d.Dies:
			t.Errorf("proposal %d: %v, want that it is refused for certain", i, a.Err)
		case !unknown:
			never[key] = true
		}
		return a.Err
	}
	i := 0
	for ; put(i) == nil || !d.Full(s); i++ {
		if i == 2000 {
			t.Fatal("the disk does not fill up")
		}
	}
	for range 2 {
		i++
		if err := put(i); err == nil {
			t.Fatalf("proposal %d to a full database succeeded", i)
		}
	}
	if st := s.Status(); st.Condition != headwater.Ready && st.Condition != headwater.CatchingUp || st.Queued > 0 || len(there) > 0 && st.AppliedIndex == 0 {
		t.Errorf("the status beside a full disk: %+v", st)
	}
	d.MakeRoom()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := meta.Propose(ctx, s, meta.PutKey{Key: "after", Value: []byte("v")}); err != nil {
		t.Fatalf("the node does not go on: %v (%+v)", err, s.Status())
	}
	fresh := Nodes(t, headwater.Options{}, d.Open())[0]
	Agree(t, []*headwater.Store{s, fresh})
	for key := range there {
		if _, ok := fresh.View().State.Key(key); !ok {
			t.Errorf("%s was acknowledged and is gone", key)
		}
	}
	for key := range never {
		if _, ok := fresh.View().State.Key(key); ok {
			t.Errorf("%s was refused and is there", key)
		}
	}
	t.Logf("%d values went in before the disk was full", len(there))
}
