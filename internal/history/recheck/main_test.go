package main

import (
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/history"
)

func TestRecheck(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"right": true, "wrong": false} {
		h := &history.History{Rows: []headwater.LogRow{{}}}
		if !want {
			h.Rows = append(h.Rows, headwater.LogRow{Index: 2})
		}
		dir := t.TempDir()
		if err := history.Save(dir, h, history.Check(h, 0)); err != nil {
			t.Fatal(err)
		}
		if ok, err := recheck(dir); ok != want || err != nil {
			t.Errorf("%s: %t, %v", name, ok, err)
		}
	}
	if _, err := recheck(t.TempDir()); err == nil {
		t.Error("an empty folder was judged")
	}
}
