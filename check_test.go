package headwater_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// filled makes a cluster with rows 0 to n, and a snapshot at snapshotAt where that is not 0.
func filled(t *testing.T, n, snapshotAt int, keep int) *oplog.Memory {
	t.Helper()
	memory := oplog.NewMemory()
	o := headwater.Options{}
	o.Engine.SnapshotInterval, o.Engine.KeepRows = -1, keep
	s, done := node(t, memory.Open, o)
	defer done()
	for i := 1; i <= n; i++ {
		if a := s.Propose(t.Context(), put(i))[0]; a.Err != nil || a.Index != uint64(i) {
			t.Fatalf("row %d: %+v", i, a)
		}
		if i == snapshotAt {
			if _, err := s.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return memory
}

func put(i int) meta.Proposal {
	return meta.Proposal{Command: meta.PutKey{Key: fmt.Sprintf("key-%d", i), Value: fmt.Appendf(nil, "value %d", i)}}
}

// payload returns the stored bytes of a row.
func payload(t *testing.T, m *oplog.Memory, index oplog.Index) []byte {
	t.Helper()
	rows, err := m.Open().Read(context.Background(), index-1, 0)
	if err != nil || len(rows) == 0 || rows[0].Index != index {
		t.Fatalf("read row %d: %v, %v", index, rows, err)
	}
	return rows[0].Payload
}

// rewritten returns the row at index with something changed and a checksum that fits.
func rewritten(t *testing.T, m *oplog.Memory, index oplog.Index, change func(*replica.RowInfo)) []byte {
	t.Helper()
	r, err := replica.DecodeRow(index, payload(t, m, index))
	if err != nil {
		t.Fatal(err)
	}
	change(&r)
	return replica.AppendRow(nil, &r)
}

// TestCheckFindsDamage damages a log of ten rows in one way after another, and wants the damage named.
func TestCheckFindsDamage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		snapshotAt int
		damage     func(t *testing.T, m *oplog.Memory)
		want       []string // in the faults, one each, in this order; none: the log is sound
	}{
		{"sound", 0, func(*testing.T, *oplog.Memory) {}, nil},
		{"sound, with a snapshot in the middle", 5, func(*testing.T, *oplog.Memory) {}, nil},
		{"sound, with a snapshot at the newest row", 10, func(*testing.T, *oplog.Memory) {}, nil},
		{"a row is missing", 0, func(_ *testing.T, m *oplog.Memory) { m.Drop(4) }, []string{"rows 4 to 4 are missing"}},
		{"row 0 is missing and nothing covers it", 0, func(_ *testing.T, m *oplog.Memory) { m.Drop(0) }, []string{"rows 0 to 0 are truncated"}},
		{"the row behind the snapshot is missing", 5, func(_ *testing.T, m *oplog.Memory) { m.Drop(6) }, []string{"rows 6 to 6 are missing"}},
		{"a bit is flipped", 0, func(t *testing.T, m *oplog.Memory) {
			p := payload(t, m, 3)
			p[len(p)/2] ^= 4
			m.Put(3, p)
		}, []string{"row 3"}},
		{"a row is cut", 0, func(t *testing.T, m *oplog.Memory) {
			p := payload(t, m, 3)
			m.Put(3, p[:len(p)-1])
		}, []string{"row 3"}},
		{"a row is empty", 0, func(_ *testing.T, m *oplog.Memory) { m.Put(3, nil) }, []string{"row 3"}},
		{"a row stands where another belongs", 0, func(t *testing.T, m *oplog.Memory) { m.Put(7, payload(t, m, 6)) }, []string{"it says that it is row 6"}},
		{"a row is of another incarnation", 0, func(t *testing.T, m *oplog.Memory) {
			m.Put(8, rewritten(t, m, 8, func(r *replica.RowInfo) { r.Incarnation ^= 1 }))
		}, []string{"row 8 belongs to incarnation", "row 9 follows on"}},
		{"a command cannot be decoded", 0, func(t *testing.T, m *oplog.Memory) {
			m.Put(9, rewritten(t, m, 9, func(r *replica.RowInfo) { r.Commands = [][]byte{{0xff, 1, 2}} }))
		}, []string{"row 9, command 0", "row 10 follows on"}},
		{"a command was exchanged", 0, func(t *testing.T, m *oplog.Memory) {
			other, err := meta.AppendProposal(nil, meta.Proposal{Stamp: 1, Command: meta.PutKey{Key: "other", Value: []byte("x")}})
			if err != nil {
				t.Fatal(err)
			}
			m.Put(5, rewritten(t, m, 5, func(r *replica.RowInfo) { r.Commands = [][]byte{other} }))
		}, []string{"row 6 follows on a row with checksum", "row 6: its writer", "row 7: its writer", "row 8: its writer", "row 9: its writer", "row 10: its writer"}},
		{"a row below the snapshot was exchanged", 8, func(t *testing.T, m *oplog.Memory) {
			other, err := meta.AppendProposal(nil, meta.Proposal{Stamp: 1, Command: meta.PutKey{Key: "other", Value: []byte("x")}})
			if err != nil {
				t.Fatal(err)
			}
			m.Put(8, rewritten(t, m, 8, func(r *replica.RowInfo) { r.Commands = [][]byte{other} }))
		}, []string{"snapshot at index 8 is of a history", "snapshot at index 8 has digest", "row 9 follows on a row with checksum", "row 9: its writer", "row 10: its writer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := filled(t, 10, c.snapshotAt, 1000)
			c.damage(t, m)
			var done, total uint64
			report, err := headwater.Check(t.Context(), m.Open(), func(d, n uint64) { done, total = d, n })
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Faults) != len(c.want) {
				t.Fatalf("faults %q, want %q", report.Faults, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(report.Faults[i], want) {
					t.Errorf("fault %q, want %q", report.Faults[i], want)
				}
			}
			if report.OK() != (len(c.want) == 0) || done != total || total == 0 {
				t.Errorf("ok %v, progress %d of %d", report.OK(), done, total)
			}
		})
	}
}

// TestCheckTruncated checks a log whose beginning was truncated behind a snapshot.
func TestCheckTruncated(t *testing.T) {
	t.Parallel()
	m := filled(t, 30, 20, -1)
	report, err := headwater.Check(t.Context(), m.Open(), nil)
	if err != nil || !report.OK() {
		t.Fatalf("%v, faults %q", err, report.Faults)
	}
	if report.OldestIndex == 0 || report.SnapshotIndex != 20 || report.Replayed != 10 || report.DigestIndex != 30 {
		t.Errorf("report %+v", report)
	}
}

// TestReadLog reads rows from the middle, up to a limit, and past one that cannot be decoded.
func TestReadLog(t *testing.T) {
	t.Parallel()
	m := filled(t, 10, 0, 1000)
	m.Put(6, []byte("nonsense"))
	for _, c := range []struct {
		from  uint64
		limit int
		want  string
	}{
		{0, 0, "0* 1 2 3 4 5 6! 7 8 9 10"},
		{4, 0, "4 5 6! 7 8 9 10"},
		{4, 2, "4 5"},
		{10, 5, "10"},
		{11, 0, ""},
	} {
		var got []string
		err := headwater.ReadLog(t.Context(), m.Open(), c.from, c.limit, func(r headwater.LogRow) error {
			s := fmt.Sprint(r.Index)
			switch {
			case r.Undecodable != "":
				s += "!"
			case r.ClusterID != "":
				s += "*"
			case len(r.Proposals) != 1 || r.Proposals[0].Command.(meta.PutKey).Key != fmt.Sprintf("key-%d", r.Index):
				t.Errorf("row %d decodes to %+v", r.Index, r.Proposals)
			}
			got = append(got, s)
			return nil
		})
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("from %d, limit %d: %q, %v; want %q", c.from, c.limit, got, err, c.want)
		}
	}
}

// TestCheckSnapshotSize: the row of the snapshot says another size than its parts have.
func TestCheckSnapshotSize(t *testing.T) {
	t.Parallel()
	memory := filled(t, 5, 3, 5)
	for _, c := range []struct {
		wrong  int64
		faults int
	}{{0, 0}, {1, 1}, {-1, 1}} {
		log := faultlog.Wrap(memory.Open(), faultlog.Rule{Op: faultlog.Bounds, Times: -1, EditBounds: func(b oplog.Bounds) oplog.Bounds {
			b.Snapshot.Size += c.wrong
			return b
		}})
		defer log.Close()
		r, err := headwater.Check(t.Context(), log, nil)
		if err != nil || len(r.Faults) != c.faults {
			t.Errorf("size wrong by %d: faults %q, %v", c.wrong, r.Faults, err)
		}
	}
}
