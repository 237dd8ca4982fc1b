package clustertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// Backup is a database that can be set back to an older state under running nodes.
type Backup struct {
	Open func() oplog.Log
	Save func() // stops the server, keeps its data aside, and starts it again
	Load func() // stops the server, puts back what Save kept, and starts it again
}

// Run is field case 07.4: nodes run on for 400 rows after a backup at row 500 (40 after 50 where not at full size), then it is
// put in place of the database. All nodes that were ahead halt and say from where to where they were set back, waits end,
// nothing is proposed, for two minutes at full size. Restore begins a new history; nodes that start work from the backup,
// and far above everything the lost rows had, while those of before stay where they are.
func (b Backup) Run(t *testing.T) {
	t.Helper()
	at, more, watched := 50, 40, time.Second
	if Full {
		at, more, watched = 500, 400, 2*time.Minute
	}
	stores := Nodes(t, headwater.Options{}, b.Open(), b.Open(), b.Open())
	write := func(rows int) {
		t.Helper()
		for i := range rows {
			if _, err := meta.Propose(t.Context(), stores[i%3], meta.PutKey{Key: "k", Value: []byte{byte(i), byte(i >> 8)}}); err != nil {
				t.Fatalf("put: %v", err)
			}
		}
	}
	write(at)
	Agree(t, stores)
	kept := stores[0].View().Index
	b.Save()
	write(more)
	Agree(t, stores)
	lost := stores[0].View().Index
	waits := make(chan error, len(stores))
	for _, s := range stores {
		go func() { _, err := s.Wait(t.Context(), uint64(lost)+1); waits <- err }()
	}
	b.Load()
	for range stores {
		if err := <-waits; !errors.Is(err, meta.ErrHalted) {
			t.Errorf("a wait for what comes later: %v, want that the node halted", err)
		}
	}
	halted := func() {
		t.Helper()
		for i, s := range stores {
			st := s.Status()
			if st.Condition != headwater.Rewound || !strings.Contains(st.Reason, fmt.Sprint(lost)) || s.View().Index != lost {
				t.Errorf("node %d: %+v", i, st)
			}
			if _, err := meta.Propose(t.Context(), s, meta.PutKey{Key: "k", Value: []byte("w")}); !errors.Is(err, meta.ErrHalted) {
				t.Errorf("node %d takes a proposal: %v", i, err)
			}
		}
	}
	for end := time.Now().Add(watched); time.Now().Before(end); sleep(t, 100*time.Millisecond) {
		halted()
		if t.Failed() {
			return
		}
	}
	if reason := stores[0].Status().Reason; !strings.Contains(reason, fmt.Sprint(kept)) {
		t.Errorf("the reason does not say that the log ends at %d: %s", kept, reason)
	}

	l := b.Open()
	info, err := headwater.Restore(t.Context(), l)
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if info.LastIndex != uint64(kept) || info.FirstIndex <= uint64(lost) || info.Incarnation == stores[0].Status().Incarnation {
		t.Errorf("restored to %+v from row %d of incarnation %s", info, kept, stores[0].Status().Incarnation)
	}
	fresh := Nodes(t, headwater.Options{}, b.Open(), b.Open())
	if v := fresh[0].View(); uint64(v.Index) != info.FirstIndex {
		t.Errorf("a node that starts is at %d, want %d", v.Index, info.FirstIndex)
	}
	for _, s := range fresh {
		r, err := meta.Propose(t.Context(), s, meta.PutKey{Key: "k", Value: []byte(s.Status().Incarnation + fmt.Sprint(s.View().Index))})
		if err != nil || r.Version <= info.FirstIndex*256 {
			t.Errorf("put in the new history: %+v, %v", r, err)
		}
	}
	Agree(t, fresh)
	l = b.Open()
	r, err := headwater.Check(t.Context(), l, nil)
	if err := errors.Join(err, l.Close()); err != nil || !r.OK() {
		t.Errorf("check: %+v, %v", r, err)
	}
	halted()
}
