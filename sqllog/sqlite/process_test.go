package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// cluster makes a file with rows 0 to newest.
func cluster(t testing.TB, newest oplog.Index) (oplog.Log, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "headwater.db")
	l := open(t, sqlite.Options{Path: path, BusyTimeout: time.Minute})
	t.Cleanup(func() { l.Close() })
	if err := l.Init(t.Context(), []byte("genesis")); err != nil {
		t.Fatalf("init: %v", err)
	}
	appendRows(t, l, 1, newest)
	return l, path
}

func appendRows(t testing.TB, l oplog.Log, from, to oplog.Index) {
	t.Helper()
	for i := from; i <= to; i++ {
		if err := l.Append(t.Context(), i, nil, fmt.Appendf(nil, "row %d", i)); err != nil {
			t.Fatalf("append row %d: %v", i, err)
		}
	}
}

// dense reads all rows and checks that they follow each other.
func dense(t testing.TB, l oplog.Log) map[oplog.Index]string {
	t.Helper()
	b, err := l.Bounds(t.Context())
	if err != nil {
		t.Fatalf("bounds: %v", err)
	}
	got := map[oplog.Index]string{}
	for after := b.Oldest - 1; ; { // the one before 0 is oplog.Beginning
		rows, err := l.Read(t.Context(), after, 1<<20)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			if r.Index != after+1 {
				t.Fatalf("row %d follows row %d", r.Index, after)
			}
			got[r.Index], after = string(r.Payload), r.Index
		}
	}
	if b.Snapshot.Parts > 0 && b.Oldest > b.Snapshot.Index+1 {
		t.Fatalf("rows between snapshot %d and row %d are gone", b.Snapshot.Index, b.Oldest)
	}
	return got
}

// TestInitRacedByProcesses: field case 15.1 and hazard 17.
func TestInitRacedByProcesses(t *testing.T) {
	for round := range soak(2, 50) {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.db", round))
		var all []*child
		for i := range 8 {
			all = append(all, start(t, "init", path, fmt.Sprintf("genesis of %d", i)))
		}
		for _, c := range all {
			c.want("ready")
		}
		for _, c := range all {
			c.say("go")
		}
		created := ""
		for i, c := range all {
			switch line, _ := c.line(); line {
			case "created":
				if created != "" {
					t.Errorf("round %d: two created the cluster", round)
				}
				created = fmt.Sprintf("genesis of %d", i)
			case "exists":
			default:
				t.Errorf("round %d: process %d says %q", round, i, line)
			}
			c.want("newest 0")
		}
		l := open(t, sqlite.Options{Path: path, MustExist: true})
		if diff := cmp.Diff(map[oplog.Index]string{0: created}, dense(t, l)); diff != "" {
			t.Errorf("round %d (-want +got):\n%s", round, diff)
		}
		l.Close()
	}
}

// TestBusyNeverReachesProposers: field case 13.1, two processes with eight proposers each.
func TestBusyNeverReachesProposers(t *testing.T) {
	l, path := cluster(t, 0)
	rows := soak(10, 2000)
	want := map[oplog.Index]string{0: "genesis"}
	var all []*child
	for range 2 {
		all = append(all, start(t, "propose", path, "8", fmt.Sprint(rows)))
	}
	for _, c := range all {
		for {
			line, ok := c.line()
			if !ok {
				break
			}
			var index oplog.Index
			var payload string
			if n, err := fmt.Sscanf(line, "row %d %s", &index, &payload); n != 2 || err != nil {
				t.Fatalf("child says %q", line)
			}
			want[index] = payload
		}
	}
	if diff := cmp.Diff(want, dense(t, l)); len(want) != 1+2*8*rows || diff != "" {
		t.Errorf("%d rows were acknowledged, want %d (-acknowledged +stored):\n%s", len(want), 1+2*8*rows, diff)
	}
}

// TestKilled: field case 16.6 and hazards 2 and 5. A process that appends, stores snapshots and truncates is killed at
// any moment, again and again: no acknowledged row is lost, nothing has a hole, the snapshot is whole, and what the dead
// left is swept.
func TestKilled(t *testing.T) {
	l, path := cluster(t, 0)
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	acknowledged := map[oplog.Index]string{0: "genesis"}
	highest, snapshot := oplog.Index(0), oplog.Index(0)
	for round := range soak(20, 200) {
		c := start(t, "work", path, fmt.Sprintf("round%d", round), fmt.Sprint(rnd.IntN(60_000)))
		for {
			line, ok := c.line()
			if !ok {
				break
			}
			var index oplog.Index
			var payload string
			switch {
			case line == "ready":
			case strings.HasPrefix(line, "snapshot "):
				fmt.Sscanf(line, "snapshot %d", &snapshot)
			default:
				if n, err := fmt.Sscanf(line, "row %d %s", &index, &payload); n != 2 || err != nil {
					continue // cut off by the kill, or an error that shows below
				}
				acknowledged[index], highest = payload, max(highest, index)
			}
		}
		c.cmd.Wait()
		verifyKilled(t, l, round, acknowledged, highest, snapshot)
		if t.Failed() {
			return
		}
	}
	if highest < 20 || snapshot == 0 {
		t.Errorf("only %d rows and snapshot %d in all rounds: nothing was tested", highest, snapshot)
	}
	next, err := appendNext(l, "last")
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	if err := cycle(l, next, func(oplog.Index) {}); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	var parts int
	if err := rawDB(t, path).QueryRow("SELECT count(*) FROM headwater_snapshot_part").Scan(&parts); err != nil || parts != 3 {
		t.Errorf("%d parts are stored (%v), want the 3 of the current snapshot", parts, err)
	}
}

func verifyKilled(t *testing.T, l oplog.Log, round int, acknowledged map[oplog.Index]string, highest, snapshot oplog.Index) {
	t.Helper()
	rows := dense(t, l)
	b, err := l.Bounds(t.Context())
	if err != nil {
		t.Fatalf("round %d: bounds: %v", round, err)
	}
	if b.Newest < highest || b.Snapshot.Index < snapshot {
		t.Errorf("round %d: newest %d and snapshot %d, acknowledged were %d and %d", round, b.Newest, b.Snapshot.Index, highest, snapshot)
	}
	for index, payload := range acknowledged {
		if got, ok := rows[index]; ok && got != payload || !ok && index > b.Snapshot.Index {
			t.Errorf("round %d: row %d is %q, acknowledged was %q", round, index, got, payload)
		}
	}
	if b.Snapshot.Parts == 0 {
		return
	}
	r, err := l.OpenSnapshot(t.Context())
	if err != nil {
		t.Fatalf("round %d: open the snapshot: %v", round, err)
	}
	defer r.Close()
	for i := range r.Info().Parts {
		p, err := r.ReadPart(t.Context(), i)
		if err != nil || string(p) != string(snapshotPart(r.Info().Index, i)) {
			t.Errorf("round %d: part %d of the snapshot at %d: %d bytes, %v", round, i, r.Info().Index, len(p), err)
		}
	}
}
