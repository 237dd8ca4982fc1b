package sqlite_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/oplog"
)

// TestTornCycle: hazard 5 and field case 05.4. The snapshot cycle ends between any two of its statements, before or after
// the statement took effect: what is left recovers, and the next cycle goes through and leaves nothing behind.
func TestTornCycle(t *testing.T) {
	errCrash := errors.New("crash")
	type stop struct {
		op   faultlog.Op
		skip int
	}
	var stops []stop
	for skip := range 3 {
		stops = append(stops, stop{faultlog.WritePart, skip}, stop{faultlog.Truncate, skip})
	}
	stops = append(stops, stop{faultlog.CommitSnapshot, 0})
	inner, path := cluster(t, 2)
	if err := cycle(inner, 2, func(oplog.Index) {}); err != nil {
		t.Fatalf("first cycle: %v", err)
	}
	db := rawDB(t, path)
	for _, s := range stops {
		for _, after := range []bool{false, true} {
			rule := faultlog.Rule{Op: s.op, Skip: s.skip, Before: errCrash}
			if after {
				rule.Before, rule.After = nil, errCrash
			}
			newest, err := inner.Newest(t.Context())
			if err != nil {
				t.Fatalf("newest: %v", err)
			}
			appendRows(t, inner, newest+1, newest+6)
			at := newest + 5
			name := fmt.Sprintf("cycle at %d, crash at %v %d, after: %v", at, s.op, s.skip, after)
			if err := cycle(faultlog.Wrap(inner, rule), at, func(oplog.Index) {}); !errors.Is(err, errCrash) {
				t.Fatalf("%s: %v, the crash did not happen", name, err)
			}
			verifyKilled(t, inner, int(at), map[oplog.Index]string{newest + 6: fmt.Sprintf("row %d", newest+6)}, newest+6, newest-1)
			if err := cycle(inner, newest+6, func(oplog.Index) {}); err != nil {
				t.Errorf("%s: next cycle: %v", name, err)
			}
			var parts int
			if err := db.QueryRow("SELECT count(*) FROM headwater_snapshot_part").Scan(&parts); err != nil || parts != 3 {
				t.Errorf("%s: %d parts are stored (%v), want the 3 of the current snapshot", name, parts, err)
			}
			verifyKilled(t, inner, int(at)+1, nil, newest+6, newest+6)
		}
	}
}
