package headwater_test

import (
	"fmt"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/session"
)

// TestProposeAllocates: a put on its way from an embedding program through session, store, engine, log in memory and state
// machine, all goroutines together. What a lone one costs is that of its row and its view, too; in a full row these are shared.
func TestProposeAllocates(t *testing.T) {
	log := oplog.NewMemory().Open()
	if _, err := headwater.Init(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	s, err := headwater.Open(t.Context(), log, headwater.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p := session.New().Wrap(s)
	full := make([]meta.Proposal, 256)
	for _, tt := range []struct {
		name      string
		proposals []meta.Proposal
		most      float64 // for each put
	}{{"one put", full[:1], 75}, {"a full row", full, 12}} {
		round := 0
		got := testing.AllocsPerRun(100, func() {
			round++
			for i := range tt.proposals {
				tt.proposals[i].Command = meta.PutKey{Key: keys[i], Value: []byte{byte(round), byte(round >> 8), byte(i)}}
			}
			for _, a := range p.Propose(t.Context(), tt.proposals...) {
				if a.Err != nil {
					t.Fatal(a.Err)
				}
			}
		}) / float64(len(tt.proposals))
		t.Logf("%s: %.1f allocations for each", tt.name, got)
		if got > tt.most {
			t.Errorf("%s: %.1f allocations for each, at most %v are wanted", tt.name, got, tt.most)
		}
	}
}

var keys = func() (keys [256]string) {
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	return keys
}()
