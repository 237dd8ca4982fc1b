package fieldcase

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/internal/wire"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// tally is the state of the slow machine: how many commands it has applied, and a digest of all of them in order.
type tally struct{ count, digest uint64 }

// slowMachine adds up commands, and takes delay for each.
func slowMachine(delay time.Duration) replica.Machine[tally, uint64] {
	return replica.Machine[tally, uint64]{
		Apply: func(s tally, _ oplog.Index, commands [][]byte) (tally, []uint64, error) {
			results := make([]uint64, len(commands))
			for i, c := range commands {
				for _, b := range c {
					s.digest = (s.digest ^ uint64(b)) * 1099511628211
				}
				s.count++
				results[i] = s.count
				pass(delay)
			}
			return s, results, nil
		},
		Digest: func(s tally) (d replica.Digest) {
			copy(d[:], wire.AppendUint64(wire.AppendUint64(nil, s.count), s.digest))
			return d
		},
		Encode: func(s tally, w io.Writer) error {
			_, err := w.Write(wire.AppendUint64(wire.AppendUint64(nil, s.count), s.digest))
			return err
		},
		Decode: func(r io.Reader) (s tally, err error) {
			all, err := io.ReadAll(r)
			if err == nil {
				in := wire.NewReader(all)
				s = tally{in.Uint64(), in.Uint64()}
				err = in.Done()
			}
			return s, err
		},
	}
}

// RowBoundaries is field case 05.2: rows of 256 commands that take their time to apply, and snapshots at moments drawn from
// a seed. Each stands for whole rows: what it holds is what a replay of all rows up to its index gives. 5 snapshots with a
// command in 50 µs, or 100 with one in 1 ms.
func RowBoundaries(t *testing.T, d *Database) {
	snapshots, delay := size(5, 100), size(50*time.Microsecond, time.Millisecond)
	l := d.open(t)
	t.Cleanup(func() { l.Close() })
	if _, err := replica.Init(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	m := slowMachine(delay)
	r, err := replica.Open(t.Context(), l, m, replica.Options{SnapshotInterval: -1, KeepRows: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	ctx, stop := context.WithCancel(t.Context())
	var proposers sync.WaitGroup
	for p := range 4 {
		proposers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				commands := make([][]byte, 256)
				for i := range commands {
					commands[i] = fmt.Appendf(nil, "%d/%d/%d", p, n, i)
				}
				for _, res := range r.Propose(t.Context(), commands...) {
					if res.Err != nil {
						t.Errorf("propose: %v", res.Err)
						return
					}
				}
			}
		})
	}
	stored := map[oplog.Index]tally{}
	for len(stored) < snapshots && !t.Failed() {
		pass(time.Duration(chance.Int64N(int64(300 * delay))))
		at, err := r.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, known := stored[at]; known || at == 0 {
			continue
		}
		snap, err := replica.LoadSnapshot(t.Context(), l, m)
		if err != nil || snap.Index != at {
			t.Fatalf("the snapshot at %d: %v, %v", at, snap, err)
		}
		stored[at] = snap.State
	}
	stop()
	proposers.Wait()
	whole := 0
	replay(t, l, func(at oplog.Index, s tally, commands int) {
		if got, ok := stored[at]; ok && got != s {
			t.Errorf("the snapshot at %d holds %+v, a replay of the rows gives %+v", at, got, s)
		}
		if commands == 256 {
			whole++
		}
	})
	if whole == 0 {
		t.Error("no row had 256 commands")
	}
}

// replay applies all rows of a log of the slow machine, without delay, and tells of the state after each.
func replay(t *testing.T, l oplog.Log, after func(at oplog.Index, s tally, commands int)) {
	t.Helper()
	m, at, s := slowMachine(0), oplog.Index(0), tally{}
	for {
		rows, err := l.Read(t.Context(), at, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			return
		}
		for _, row := range rows {
			info, err := replica.DecodeRow(row.Index, row.Payload)
			if err != nil || row.Index != at+1 {
				t.Fatalf("row %d after row %d: %v", row.Index, at, err)
			}
			if s, _, err = m.Apply(s, row.Index, info.Commands); err != nil {
				t.Fatal(err)
			}
			at = row.Index
			after(at, s, len(info.Commands))
		}
	}
}

// HeldSnapshotRow is field case 05.4: while a node takes a snapshot and truncates, another session holds the row of the
// snapshot for longer than the server lets anybody wait. At no moment are rows gone that the stored snapshot does not stand
// for; the proposers notice nothing, the status tells of it, and when the row is let go the node finishes by itself. The row
// is held until two attempts have failed, or for 30 s.
func HeldSnapshotRow(t *testing.T, d *Database) {
	o := headwater.Options{}
	o.Engine.SnapshotInterval, o.Engine.KeepRows = 20, -1
	failed := make(chan struct{}, 1<<10)
	o.Engine.Events.Retry = func(what string, _ error, _ time.Duration) {
		if what == "snapshot" {
			failed <- struct{}{}
		}
	}
	s := d.Nodes(t, 1, o)[0]
	covered := func() {
		t.Helper()
		// One statement sees one moment.
		if n := d.number(t, "SELECT CASE WHEN (SELECT MIN(idx) FROM %[1]s_log) > (SELECT idx FROM %[1]s_snapshot WHERE id = 1) + 1 THEN 1 ELSE 0 END", d.prefix()); n != 0 {
			t.Error("rows are gone that no snapshot stands for")
		}
	}
	tx, err := d.Admin.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE %s_snapshot SET size = size", d.prefix())); err != nil {
		t.Fatal(err)
	}
	meter := d.meter()
	start, rows := time.Now(), 0
	for attempts := 0; attempts < 2 || full() && time.Since(start) < 30*time.Second; {
		mustPut(t, s, "k", "x")
		covered()
		rows++
		select {
		case <-failed:
			attempts++
			if st := s.Status(); st.DatabaseError == "" {
				t.Errorf("the status does not tell of it: %+v", st)
			}
		default:
		}
		if time.Since(start) > 2*time.Minute {
			t.Fatal("the snapshot never failed")
		}
	}
	meter.Slow(t, 1, 3*int64(rows), time.Since(start)) // a row costs its append, and looks
	if n := d.number(t, "SELECT MIN(idx) FROM %s", d.Log); n != 0 {
		t.Errorf("the oldest row is %d although there is no snapshot", n)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	await(t, "the snapshot and the truncation", func() bool {
		covered()
		return d.number(t, "SELECT MIN(idx) FROM %s", d.Log) > 0
	})
	d.Whole(t, []*headwater.Store{s})
}

// prefix begins the names of the tables.
func (d *Database) prefix() string { return d.Log[:len(d.Log)-len("_log")] }

// LongTruncation is field case 05.6: 2,000,000 rows (quick: 20,000) stand below the snapshot when three nodes with a
// statement timeout of 5 s start and work. They go in portions and in order, never above the snapshot; the log is whole at
// every moment; the nodes do not collide so that nobody gets on, and the 99th percentile of proposals stays below three
// times of what it is without (asserted at full size).
func LongTruncation(t *testing.T, d *Database) {
	rows := size(20_000, 2_000_000)
	d.load(t, filler(t, rows, func(int) []byte { return []byte{1} }))
	all := headwater.Options{}
	all.Engine.SnapshotInterval = -1
	keeping := all // Snapshot truncates, too
	keeping.Engine.KeepRows = 1 << 30
	start := time.Now()
	first := d.Nodes(t, 1, keeping)[0]
	if _, err := first.Wait(t.Context(), uint64(rows)); err != nil {
		t.Fatal(err)
	}
	if at, err := first.Snapshot(t.Context()); err != nil || at != uint64(rows) {
		t.Fatalf("snapshot at %d: %v, want it at %d", at, err, rows)
	}
	t.Logf("%d rows replayed and a snapshot stored in %v", rows, time.Since(start))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, n := d.bounds(t); n != int64(rows)+1 {
		t.Fatalf("%d rows are there, want %d", n, rows+1)
	}
	d.exec(t, "%s", d.Analyze)
	load := clustertest.Load{Clients: 6, Patience: time.Minute, Every: 20 * time.Millisecond, Strict: true}
	idle := d.Nodes(t, 3, all) // nodes that do not truncate
	normal := load.Run(t, idle, func() { pass(size(time.Second, 30*time.Second)) })
	for _, s := range idle {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var portions, deleted atomic.Int64
	o := headwater.Options{}
	o.Engine.KeepRows, o.Engine.SnapshotInterval = -1, size(20, 0) // soon, or as it comes
	o.Engine.Events.Truncated = func(_ oplog.Index, n int) { portions.Add(1); deleted.Add(int64(n)) }
	stores := d.Nodes(t, 3, o)
	start = time.Now()
	during := load.Run(t, stores, func() {
		oldest, covered := int64(0), int64(0)
		await(t, "the truncation", func() bool {
			at, newest, n := d.bounds(t)
			snapshot := d.number(t, "SELECT idx FROM %s_snapshot WHERE id = 1", d.prefix()) // later, so not below the one of then
			if n != newest-at+1 || at < oldest || at > snapshot+1 || snapshot < covered {
				t.Errorf("%d rows from %d to %d and a snapshot at %d, after %d was the oldest and %d covered", n, at, newest, snapshot, oldest, covered)
			}
			oldest, covered = at, snapshot
			pass(size(50*time.Millisecond, time.Second))
			return at >= int64(rows) || t.Failed()
		})
	})
	t.Logf("%d rows gone in %v; p99 %v, without %v", rows, time.Since(start), clustertest.P99(during), clustertest.P99(normal))
	if p := clustertest.P99(during); full() && p > 3*clustertest.P99(normal) {
		t.Errorf("the 99th percentile is %v, without a truncation %v", p, clustertest.P99(normal))
	}
	d.Whole(t, stores)
}

// bounds returns the oldest and the newest row and how many there are, in one moment.
func (d *Database) bounds(t testing.TB) (oldest, newest, n int64) {
	t.Helper()
	err := d.Admin.QueryRowContext(context.Background(), "SELECT MIN(idx), MAX(idx), COUNT(*) FROM "+d.Log).Scan(&oldest, &newest, &n)
	if err != nil {
		t.Fatal(err)
	}
	return oldest, newest, n
}

// LargeSnapshot is field case 05.8: proposals go on while a large state is stored again and again. Quick, the state has 4
// MiB, and the parts of its snapshot are held back by the network until 20 proposals have been applied meanwhile. At full
// size it has 200 MB, there are 500 proposals a second and 10 snapshots, and what they cost is measured and held to the
// bounds: the 99th percentile to three times of what it is without, a pause in applying to 500 ms.
func LargeSnapshot(t *testing.T, d *Database) {
	var last, pause atomic.Int64
	o := headwater.Options{}
	o.Engine.SnapshotInterval = -1
	o.Engine.Events.Applied = func(oplog.Index, int) {
		now := time.Now().UnixNano()
		if before := last.Swap(now); before > 0 && now-before > pause.Load() {
			pause.Store(now - before)
		}
	}
	s := d.Nodes(t, 1, o)[0]
	grow(t, s, size(4, 200))
	if !full() {
		gate := proxy.NewGate()
		trap := d.Proxy.Add(proxy.Rule{From: proxy.Client, Text: "INSERT INTO " + d.prefix() + "_snapshot_part", Runs: true, Hold: gate})
		done := make(chan error, 1)
		go func() { _, err := s.Snapshot(t.Context()); done <- err }()
		<-trap.Sprung()
		for range 20 {
			mustPut(t, s, "meanwhile", "x")
		}
		select {
		case err := <-done:
			t.Fatalf("the snapshot was not held back: %v", err)
		default:
		}
		gate.Open()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		d.Whole(t, []*headwater.Store{s})
		return
	}
	load := clustertest.Load{Clients: 10, Patience: time.Minute, Every: 20 * time.Millisecond, Strict: true}
	last.Store(0)
	normal := load.Run(t, []*headwater.Store{s}, func() { pass(20 * time.Second) })
	quiet := time.Duration(pause.Swap(0))
	last.Store(0)
	during := load.Run(t, []*headwater.Store{s}, func() {
		for i := range 10 {
			mustPut(t, s, "meanwhile", fmt.Sprint(i))
			start := time.Now()
			if _, err := s.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("snapshot %d of %d bytes in %v", i, s.Status().SnapshotSize, time.Since(start))
		}
	})
	n, p, stall := clustertest.P99(normal), clustertest.P99(during), time.Duration(pause.Load())
	t.Logf("p99 %v, without %v; longest pause in applying %v, without %v", p, n, stall, quiet)
	if p > 3*n {
		t.Errorf("the 99th percentile of proposals is %v, without snapshots %v", p, n)
	}
	if stall > quiet+500*time.Millisecond { // beyond what the machine alone takes
		t.Errorf("nothing was applied for %v, without snapshots for %v", stall, quiet)
	}
	d.Whole(t, []*headwater.Store{s})
}

// grow makes the state hold so many MiB that no compression makes smaller, in keys of 64 KiB.
func grow(t testing.TB, s *headwater.Store, mib int) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{1})
	for i := range mib {
		var batch []meta.Proposal
		for k := range 16 {
			value := make([]byte, 64<<10)
			random.Read(value)
			batch = append(batch, meta.Proposal{Command: meta.PutKey{Key: fmt.Sprintf("big/%d/%d", i, k), Value: value}})
		}
		for _, a := range s.Propose(t.Context(), batch...) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
	}
}
