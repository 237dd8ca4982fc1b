package fieldcase

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// ReadOnly is field case 08.1: the server becomes read-only under a node that proposes all the time, for a second, or for
// 20. Each proposal that it refuses certainly has no effect and says why, and so does one whose caller has no patience; reads
// go on; and after the end all is well by itself, within 3 s at full size.
func ReadOnly(t *testing.T, d *Database, on, off func()) {
	s := d.Nodes(t, 1, headwater.Options{})[0]
	mustPut(t, s, "before", "x")
	on()
	d.Proxy.Cut() // the server has ended these connections, and the news may be on the way
	meter := d.meter()
	start, told, left := time.Now(), 0, 0
	for n := 0; !t.Failed() && (time.Since(start) < size(time.Second, 20*time.Second) || told == 0 || left == 0); n++ {
		patience := time.Minute
		if n > 3 && n%2 == 0 { // by now the node rests between two tries
			patience = time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		a := put(ctx, s, "during", "x")
		cancel()
		switch {
		case a.Err == nil:
			t.Fatal("a proposal to a read-only server succeeded")
		case patience == time.Minute && errors.Is(a.Err, meta.ErrUnavailable) && !errors.Is(a.Err, meta.ErrOutcomeUnknown) && readOnly(a.Err):
			told++
		case patience < time.Minute && errors.Is(a.Err, meta.ErrNotApplied) && readOnly(a.Err):
			left++
		case patience == time.Minute: // an answer of the server is definite
			t.Errorf("proposal %d: %v", n, a.Err)
		}
		if _, ok := s.View().State.Key("before"); !ok {
			t.Fatal("the view lost a key")
		}
	}
	took := time.Since(start)
	meter.Slow(t, 1, 0, took)
	t.Logf("%d proposals were told that the server is read-only in %v and %d callers left, by %d statements", told, took, left, meter.Count())
	if st := s.Status(); !strings.Contains(st.DatabaseError, oplog.ErrReadOnly.Error()) {
		t.Errorf("the status does not say why: %q", st.DatabaseError)
	}
	off()
	start = time.Now()
	await(t, "the node to go on", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return put(ctx, s, "after", "x").Err == nil
	})
	if took := time.Since(start); full() && took > 3*time.Second {
		t.Errorf("normal again after %v", took)
	}
	d.Whole(t, []*headwater.Store{s})
}

// readOnly reports whether an error says that the server is.
func readOnly(err error) bool { return strings.Contains(err.Error(), oplog.ErrReadOnly.Error()) }
