package replica_test

import (
	"testing"

	"github.com/headwaterdb/headwater/replica"
)

// The tests of this file count allocations, so they are not parallel.

// TestRowsAllocate: encoding nothing into a buffer with room, decoding the list of commands and nothing for each of them.
func TestRowsAllocate(t *testing.T) {
	commands := make([][]byte, replica.MaxRowCommands)
	for i := range commands {
		commands[i] = make([]byte, 100)
	}
	info := replica.RowInfo{Index: 7, Incarnation: 1, Batch: 3, Seen: 6, Commands: commands}
	row := replica.AppendRow(nil, &info)
	if n := testing.AllocsPerRun(100, func() { replica.AppendRow(row[:0], &info) }); n != 0 {
		t.Errorf("encoding allocates %v times, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := replica.DecodeRow(7, row); err != nil {
			t.Fatal(err)
		}
	}); n != 1 {
		t.Errorf("decoding allocates %v times, want 1", n)
	}
}

// TestProposeAllocates: the way of one command through queue, flusher, log and tailer, all goroutines together. What a
// single caller's command costs is that of its row; in a call of a full row it is shared.
func TestProposeAllocates(t *testing.T) {
	r := open(t, cluster(t).Open(), never)
	full := make([][]byte, replica.MaxRowCommands)
	for i := range full {
		full[i] = []byte("x")
	}
	for _, tt := range []struct {
		name     string
		commands [][]byte
		most     float64 // for each command
	}{{"one command", full[:1], 30}, {"a full row", full, 1.5}} {
		got := testing.AllocsPerRun(200, func() {
			for _, res := range r.Propose(t.Context(), tt.commands...) {
				if res.Err != nil {
					t.Fatal(res.Err)
				}
			}
		}) / float64(len(tt.commands))
		t.Logf("%s: %.2f allocations for each", tt.name, got)
		if got > tt.most {
			t.Errorf("%s: %.2f allocations for each, at most %v are wanted", tt.name, got, tt.most)
		}
	}
}
