package replica_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// bounds looks at db.
func bounds(t testing.TB, db *oplog.Memory) oplog.Bounds {
	t.Helper()
	log := db.Open()
	defer log.Close()
	b, err := log.Bounds(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// parts returns the stored snapshot as one piece.
func parts(t testing.TB, db *oplog.Memory) []byte {
	t.Helper()
	log := db.Open()
	defer log.Close()
	r, err := log.OpenSnapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []byte
	for i := range r.Info().Parts {
		part, err := r.ReadPart(context.Background(), i)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) > oplog.MaxPart {
			t.Errorf("part %d has %d bytes", i, len(part))
		}
		all = append(all, part...)
	}
	return all
}

// plant stores b as the snapshot at index of a fresh database, and returns that.
func plant(t testing.TB, index oplog.Index, b []byte) *oplog.Memory {
	t.Helper()
	db := oplog.NewMemory()
	db.Put(index, []byte("the newest row, kept"))
	log := db.Open()
	defer log.Close()
	w, err := log.CreateSnapshot(context.Background(), index, nil)
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 0 {
		n := min(len(b), oplog.MaxPart)
		if err := w.WritePart(context.Background(), b[:n]); err != nil {
			t.Fatal(err)
		}
		b = b[n:]
	}
	if err := w.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	if snap, err := replica.LoadSnapshot(context.Background(), log, machine(nil)); err == nil {
		db.Put(index, binary.BigEndian.AppendUint64(nil, snap.Row)) // the row that it was taken after, as far as nodes look
	}
	return db
}

// TestSnapshotCycle: every interval a snapshot is stored and the log truncated one interval behind it; a node that starts
// then has the same state (invariants 5 and 8).
func TestSnapshotCycle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		r := open(t, db.Open(), replica.Options{SnapshotInterval: 16, KeepRows: 16})
		for i := range 100 {
			propose(t, r, fmt.Sprint(i))
			time.Sleep(time.Second)
			b := bounds(t, db)
			if i >= 16 && b.Snapshot.Index+48 < oplog.Index(i) { // the interval stretches to the snapshot's weight
				t.Fatalf("after %d rows the snapshot is at %d", i+1, b.Snapshot.Index)
			}
			if want := max(b.Snapshot.Index, 15) - 15; b.Oldest != want {
				t.Errorf("snapshot at %d, oldest row %d, want %d", b.Snapshot.Index, b.Oldest, want)
			}
		}
		if st := r.Status(); st.SnapshotIndex != bounds(t, db).Snapshot.Index || st.SnapshotSize == 0 {
			t.Errorf("status %+v, stored %+v", st, bounds(t, db).Snapshot)
		}
		fresh := open(t, db.Open(), never)
		if a, b := wait(t, fresh, 100).State, r.View().State; a.digest != b.digest || a.count != b.count {
			t.Errorf("digest by snapshot and rows %x of %d, live %x of %d", a.digest, a.count, b.digest, b.count)
		}
		snap, err := replica.LoadSnapshot(t.Context(), db.Open(), machine(nil))
		if err != nil || snap.Index != bounds(t, db).Snapshot.Index || snap.Size != bounds(t, db).Snapshot.Size ||
			snap.Genesis.ClusterID != r.Status().ClusterID {
			t.Errorf("loaded %+v, %v", snap, err)
		}
	})
}

// TestSnapshotStretches: where the snapshot outweighs the rows of an interval, it comes only when as many bytes of rows
// have come as it has, so that snapshots do not write more than the log.
func TestSnapshotStretches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		var written, logged int64
		var mu sync.Mutex
		r := open(t, db.Open(), replica.Options{SnapshotInterval: 8, Events: replica.Events{
			Snapshot: func(_ oplog.Index, bytes int64, _ time.Duration, err error) {
				mu.Lock()
				defer mu.Unlock()
				written += bytes
			},
			Appended: func(_ oplog.Index, _, bytes int, _ time.Duration) { logged += int64(bytes) },
		}})
		rng := rand.New(rand.NewPCG(1, 1))
		noise := make([]byte, 50000) // does not compress
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		propose(t, r, string(noise))
		for i := range 1500 {
			propose(t, r, fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if written == 0 || written > logged+60000 {
			t.Errorf("snapshots wrote %d bytes, the log %d", written, logged)
		}
	})
}

// TestSnapshotRace: three nodes on one log, and none of the snapshots is taken three times over.
func TestSnapshotRace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		var taken sync.Map
		var rs []*node
		for range 3 {
			rs = append(rs, open(t, db.Open(), replica.Options{SnapshotInterval: 32, Events: replica.Events{
				Snapshot: func(at oplog.Index, _ int64, _ time.Duration, err error) {
					if _, twice := taken.LoadOrStore(at, true); twice || err != nil {
						t.Errorf("snapshot at %d: %v, twice %v", at, err, twice)
					}
				},
			}}))
		}
		for i := range 600 {
			propose(t, rs[i%3], fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		n := 0
		taken.Range(func(any, any) bool { n++; return true })
		if n == 0 || n > 600/32 {
			t.Errorf("%d snapshots of 600 rows", n)
		}
		if b := bounds(t, db); b.Oldest+oplog.Index(2*200) < b.Newest {
			t.Errorf("rows %d to %d are left", b.Oldest, b.Newest)
		}
	})
}

// TestTornCycle: the cycle breaks off at each of its steps, with and without the step having been done. Whatever is left
// recovers to the same state, no row above a readable snapshot is gone, and the next cycle finishes (hazard 5, field case
// 05.4).
func TestTornCycle(t *testing.T) {
	t.Parallel()
	ops := []faultlog.Op{faultlog.Bounds, faultlog.CreateSnapshot, faultlog.WritePart, faultlog.CommitSnapshot,
		faultlog.OpenSnapshot, faultlog.ReadPart, faultlog.Truncate}
	for _, op := range ops {
		for _, done := range []bool{false, true} {
			for skip := range 2 {
				t.Run(fmt.Sprintf("%v done %v skip %d", op, done, skip), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { tornCycle(t, op, done, skip) })
				})
			}
		}
	}
}

func tornCycle(t *testing.T, op faultlog.Op, done bool, skip int) {
	db := cluster(t)
	first := open(t, db.Open(), replica.Options{SnapshotInterval: -1, KeepRows: 5})
	for i := range 300 {
		propose(t, first, fmt.Sprint(i))
	}
	if _, err := first.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		propose(t, first, fmt.Sprint("more ", i))
	}
	first.Close()
	rule := faultlog.Rule{Op: op, Skip: skip, Before: oplog.ErrUnavailable, Times: 3}
	if done {
		rule.Before, rule.After = nil, oplog.ErrUnknown
	}
	log := faultlog.Wrap(db.Open())
	r := open(t, log, replica.Options{SnapshotInterval: -1, KeepRows: 5})
	log.Add(rule)
	_, err := r.Snapshot(t.Context())
	t.Logf("torn: %v", err)
	r.Close()

	left := bounds(t, db)
	if left.Oldest > left.Snapshot.Index+1 {
		t.Fatalf("rows %d to %d are left, the snapshot is at %d", left.Oldest, left.Newest, left.Snapshot.Index)
	}
	after := open(t, db.Open(), replica.Options{SnapshotInterval: -1, KeepRows: 5})
	if v := wait(t, after, 900); v.State.digest != first.View().State.digest {
		t.Errorf("recovered to another state: %d commands", v.State.count)
	}
	propose(t, after, "goes on")
	if at, err := after.Snapshot(t.Context()); err != nil || at != 901 {
		t.Errorf("the next snapshot: %d, %v", at, err)
	}
	if b := bounds(t, db); b.Oldest != 897 || b.Snapshot.Index != 901 {
		t.Errorf("after it: %+v", b)
	}
}

// TestOlderSnapshotter: a snapshotter that was slow never puts its older snapshot over a newer one, and does not truncate
// by its own.
func TestOlderSnapshotter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, gate := cluster(t), faultlog.NewGate()
		o := replica.Options{SnapshotInterval: -1, KeepRows: -1}
		slow := open(t, faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.CommitSnapshot, Hold: gate}), o)
		quick := open(t, db.Open(), o)
		propose(t, slow, "one")
		var at oplog.Index
		var err error
		var done sync.WaitGroup
		done.Go(func() { at, err = slow.Snapshot(t.Context()) })
		<-gate.Reached()
		for i := range 10 {
			propose(t, quick, fmt.Sprint(i))
		}
		if at, err := quick.Snapshot(t.Context()); at != 11 || err != nil {
			t.Errorf("quick: %d, %v", at, err)
		}
		gate.Open()
		done.Wait()
		if at != 11 || err != nil {
			t.Errorf("slow: %d, %v; want the newer one's index", at, err)
		}
		if b := bounds(t, db); b.Snapshot.Index != 11 {
			t.Errorf("stored %+v", b)
		}
	})
}

// TestBadEncoder: a state that does not decode to its digest is noticed before it replaces a good snapshot, and nothing
// is truncated.
func TestBadEncoder(t *testing.T) {
	t.Parallel()
	good := machine(nil)
	for name, encode := range map[string]func(list, io.Writer) error{
		"cut":   func(l list, w io.Writer) error { return good.Encode(l, &cutWriter{w, 20}) },
		"older": func(l list, w io.Writer) error { l.last, l.count = l.last.before, l.count-1; return good.Encode(l, w) },
		"more": func(l list, w io.Writer) error {
			return errors.Join(good.Encode(l, w), second(w.Write([]byte("more"))))
		},
		"error": func(l list, w io.Writer) error { return errors.New("no memory") },
		"panic": func(l list, w io.Writer) error { panic("in encode") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := cluster(t)
				r := open(t, db.Open(), replica.Options{SnapshotInterval: -1, KeepRows: -1})
				for i := range 10 {
					propose(t, r, fmt.Sprint(i))
				}
				if _, err := r.Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
				before := bounds(t, db)
				bad := good
				bad.Encode = encode
				b, err := openWith(t, db.Open(), bad, replica.Options{SnapshotInterval: -1, KeepRows: -1})
				if err != nil {
					t.Fatal(err)
				}
				propose(t, b, "more")
				propose(t, b, "and more")
				if _, err := b.Snapshot(t.Context()); err == nil {
					t.Error("a bad snapshot was stored without an error")
				}
				if st := b.Status(); st.Database == "" || st.Condition != replica.Ready {
					t.Errorf("status %+v", st)
				}
				after := bounds(t, db)
				if after.Snapshot != before.Snapshot || after.Oldest != before.Oldest {
					t.Errorf("before %+v, after %+v", before, after)
				}
			})
		})
	}
}

// cutWriter loses everything after its first bytes.
type cutWriter struct {
	w    io.Writer
	left int
}

func (c *cutWriter) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.left -= n
	_, err := c.w.Write(b[:n])
	return len(b), err
}

// TestSnapshotDamage: whatever happens to a stored snapshot, it is noticed, and told from a newer format and from a
// database that does not answer.
func TestSnapshotDamage(t *testing.T) {
	t.Parallel()
	db := cluster(t)
	r := open(t, db.Open(), replica.Options{SnapshotInterval: -1})
	for i := range 30 {
		propose(t, r, fmt.Sprint(i))
	}
	if _, err := r.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := parts(t, db)
	load := func(b []byte) error {
		_, err := replica.LoadSnapshot(t.Context(), plant(t, 30, b).Open(), machine(nil))
		return err
	}
	if err := load(whole); err != nil {
		t.Fatalf("whole: %v", err)
	}
	for bit := range len(whole) * 8 {
		bad := bytes.Clone(whole)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := load(bad); err == nil {
			t.Errorf("bit %d flipped: no error", bit)
		}
	}
	for n := 1; n < len(whole); n++ {
		if err := load(whole[:n]); !errors.Is(err, replica.ErrUndecodable) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	if err := load(append(bytes.Clone(whole), 0)); !errors.Is(err, replica.ErrUndecodable) {
		t.Errorf("a byte more: %v", err)
	}
	newer := bytes.Clone(whole)
	newer[0] = 3
	if err := load(newer); !errors.Is(err, replica.ErrFormat) || !strings.Contains(err.Error(), "format 3 and this program supports up to 1") {
		t.Errorf("newer: %v", err)
	}
	if _, err := replica.LoadSnapshot(t.Context(), plant(t, 31, whole).Open(), machine(nil)); !errors.Is(err, replica.ErrUndecodable) {
		t.Errorf("at another index: %v", err)
	}
	away := faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.ReadPart, Before: oplog.ErrUnavailable})
	if _, err := replica.LoadSnapshot(t.Context(), away, machine(nil)); !errors.Is(err, oplog.ErrUnavailable) || errors.Is(err, replica.ErrUndecodable) {
		t.Errorf("database away: %v", err)
	}
	replaced := faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.ReadPart, Before: oplog.ErrReplaced, Times: 3})
	if _, err := replica.LoadSnapshot(t.Context(), replaced, machine(nil)); err != nil {
		t.Errorf("replaced three times while reading: %v", err)
	}
}

// TestSnapshotVector: a frozen snapshot decodes to the state it was made of, for ever.
func TestSnapshotVector(t *testing.T) {
	t.Parallel()
	b := vector(t, "snapshot", func() []byte {
		db := cluster(t)
		r := open(t, db.Open(), never)
		for i := range 20 {
			propose(t, r, fmt.Sprint("word ", i))
		}
		if _, err := r.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		return parts(t, db)
	})
	snap, err := replica.LoadSnapshot(t.Context(), plant(t, 20, b).Open(), machine(nil))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("index %d\nincarnation %016x\ncluster %s\nformat %d\ndigest %s\nwords %s\n", snap.Index, snap.Genesis.Incarnation,
		snap.Genesis.ClusterID, snap.Genesis.Format, snap.Digest, strings.Join(snap.State.all(), ", "))
	path := filepath.Join("testdata", "v1", "snapshot.txt")
	want, err := os.ReadFile(path)
	if *rewrite && errors.Is(err, os.ErrNotExist) {
		want, err = []byte(got), os.WriteFile(path, []byte(got), 0o644)
	}
	if err != nil || got != string(want) {
		t.Errorf("%v\ngot  %swant %s", err, got, want)
	}
}

// TestLargeSnapshot is stored in parts, and comes back.
func TestLargeSnapshot(t *testing.T) {
	t.Parallel()
	db := cluster(t)
	r := open(t, db.Open(), replica.Options{SnapshotInterval: -1})
	rng := rand.New(rand.NewPCG(2, 2))
	noise := make([]byte, 900<<10)
	for range 4 {
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		propose(t, r, hex.EncodeToString(noise))
	}
	if _, err := r.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b := bounds(t, db); b.Snapshot.Parts < 4 || b.Snapshot.Size != int64(len(parts(t, db))) {
		t.Errorf("stored %+v", b.Snapshot)
	}
	if v := open(t, db.Open(), never).View(); v.State.digest != r.View().State.digest {
		t.Error("another state came back")
	}
}

// TestLeftoverTruncation: the node that was truncating is gone; another one takes over after a while, by itself, having
// read the snapshot back first (field case 05.6).
func TestLeftoverTruncation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		fill(t, db, never, 700)
		log := faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.Truncate, Skip: 1, Before: oplog.ErrUnavailable, Times: -1})
		gone := open(t, log, replica.Options{SnapshotInterval: -1, KeepRows: 10})
		if _, err := gone.Snapshot(t.Context()); err == nil {
			t.Fatal("the truncation was to break off")
		}
		gone.Close()
		if b := bounds(t, db); b.Oldest == 0 || b.Oldest >= 691 {
			t.Fatalf("left over: %+v", b)
		}
		var batches []int
		open(t, db.Open(), replica.Options{SnapshotInterval: 5000, KeepRows: 10, Events: replica.Events{
			Truncated: func(_ oplog.Index, rows int) { batches = append(batches, rows) },
		}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if b := bounds(t, db); b.Oldest != 691 || len(batches) != 1 {
			t.Errorf("after a minute: %+v, %v", b, batches)
		}
	})
}

// rotLog is a log whose stored snapshots come back with a bit flipped.
type rotLog struct{ oplog.Log }

type rotReader struct{ oplog.SnapshotReader }

func (l rotLog) OpenSnapshot(ctx context.Context) (oplog.SnapshotReader, error) {
	r, err := l.Log.OpenSnapshot(ctx)
	return rotReader{r}, err
}

func (r rotReader) ReadPart(ctx context.Context, i int) ([]byte, error) {
	part, err := r.SnapshotReader.ReadPart(ctx, i)
	part = bytes.Clone(part)
	part[len(part)/2] ^= 1
	return part, err
}

// TestReadBack: a snapshot that does not come back as it was written is reported, and nothing is truncated on it.
func TestReadBack(t *testing.T) {
	t.Parallel()
	db := cluster(t)
	r := open(t, rotLog{db.Open()}, replica.Options{SnapshotInterval: -1, KeepRows: -1})
	for i := range 10 {
		propose(t, r, fmt.Sprint(i))
	}
	if _, err := r.Snapshot(t.Context()); !errors.Is(err, replica.ErrUndecodable) {
		t.Errorf("snapshot: %v", err)
	}
	if b := bounds(t, db); b.Snapshot.Index != 10 || b.Oldest != 0 {
		t.Errorf("left: %+v", b)
	}
}

// TestLeftoverBadSnapshot: rows are never truncated on the word of a snapshot that does not decode.
func TestLeftoverBadSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		fill(t, db, never, 50)
		r := open(t, db.Open(), replica.Options{SnapshotInterval: 1000, KeepRows: 10})
		log := db.Open()
		w, err := log.CreateSnapshot(t.Context(), 50, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.WritePart(t.Context(), []byte("nonsense")), w.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if b := bounds(t, db); b.Oldest != 0 {
			t.Errorf("truncated to %d", b.Oldest)
		}
		if st := r.Status(); st.Database == "" {
			t.Error("nothing is said about it")
		}
		propose(t, r, "goes on")
		if at, err := r.Snapshot(t.Context()); at != 51 || err != nil {
			t.Errorf("a newer snapshot: %d, %v", at, err)
		}
		if b := bounds(t, db); b.Oldest != 42 {
			t.Errorf("oldest %d after the good one", b.Oldest)
		}
	})
}

// TestSnapshotDoesNotStall: while the state is being encoded, proposals and reads go on (field case 05.8).
func TestSnapshotDoesNotStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := machine(nil)
		release, encoding := make(chan struct{}), make(chan struct{})
		var once sync.Once
		encode := slow.Encode
		slow.Encode = func(l list, w io.Writer) error {
			once.Do(func() { close(encoding) })
			<-release
			return encode(l, w)
		}
		db := cluster(t)
		r, err := openWith(t, db.Open(), slow, never)
		if err != nil {
			t.Fatal(err)
		}
		propose(t, r, "before")
		var at oplog.Index
		var done sync.WaitGroup
		done.Go(func() { at, err = r.Snapshot(t.Context()) })
		<-encoding
		for i := range 50 {
			propose(t, r, fmt.Sprint(i))
		}
		close(release)
		done.Wait()
		if at != 1 || err != nil {
			t.Errorf("snapshot of the view from before: %d, %v", at, err)
		}
	})
}

// slowly writes a megabyte a second.
type slowly struct{ io.Writer }

func (w slowly) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(len(b)) * time.Microsecond)
	return w.Writer.Write(b)
}

// TestSnapshotMakesWay: encoding rests for twice as long as it works while rows come, and goes on without where none do.
func TestSnapshotMakesWay(t *testing.T) {
	t.Parallel()
	for _, rows := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			slow := machine(nil)
			encode := slow.Encode
			slow.Encode = func(l list, w io.Writer) error { return encode(l, slowly{w}) }
			r, err := openWith(t, cluster(t).Open(), slow, never)
			if err != nil {
				t.Fatal(err)
			}
			noise := make([]byte, 50<<10)
			rng := rand.NewChaCha8([32]byte{})
			size := 0
			for range 40 {
				rng.Read(noise)
				propose(t, r, hex.EncodeToString(noise))
				size += 2 * len(noise)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var others sync.WaitGroup
			others.Go(func() {
				for rows && ctx.Err() == nil {
					propose(t, r, "row")
					time.Sleep(10 * time.Millisecond)
				}
			})
			start := time.Now()
			if _, err := r.Snapshot(t.Context()); err != nil {
				t.Error(err)
			}
			took, work := time.Since(start), time.Duration(size)*time.Microsecond
			cancel()
			others.Wait()
			if least := 5 * work / 2; rows && took < least {
				t.Errorf("a snapshot that takes %v was there after %v beside rows, want %v at least", work, took, least)
			}
			if most := 5 * work / 4; !rows && took > most {
				t.Errorf("a snapshot that takes %v was there after %v although no row came, want %v at most", work, took, most)
			}
		})
	}
}

// TestSnapshotThatFails: a snapshot that the database refuses is not begun anew by every row that finds one due, but after
// the pause of the retries, and whoever asks for one gets an attempt at once; rows go on, none is truncated, and the first
// attempt that is let through succeeds (field cases 12.4 and 16.1).
func TestSnapshotThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		log := faultlog.Wrap(db.Open(), faultlog.Rule{Op: faultlog.WritePart, Before: oplog.ErrTooLarge, Times: -1})
		r := open(t, log, replica.Options{SnapshotInterval: 2, KeepRows: -1, RetryMin: 100 * time.Millisecond, RetryMax: time.Second})
		for i := range 200 { // all at one moment of this clock
			propose(t, r, fmt.Sprint(i))
			synctest.Wait()
		}
		if n := log.Calls(faultlog.WritePart); n != 1 {
			t.Errorf("%d attempts within a moment, want 1", n)
		}
		if _, err := r.Snapshot(t.Context()); !errors.Is(err, oplog.ErrTooLarge) {
			t.Errorf("a snapshot that was asked for: %v, want too large", err)
		}
		if n := log.Calls(faultlog.WritePart); n != 2 {
			t.Errorf("%d attempts after one was asked for, want 2", n)
		}
		time.Sleep(time.Minute) // of this clock
		if n := log.Calls(faultlog.WritePart); n < 30 || n > 90 {
			t.Errorf("%d attempts within a minute, want about one a second", n)
		}
		if b, err := log.Bounds(t.Context()); err != nil || b.Oldest != 0 || b.Snapshot.Parts != 0 {
			t.Errorf("bounds without a snapshot: %+v, %v", b, err)
		}
		log.Clear()
		time.Sleep(2 * time.Second)
		if b, err := log.Bounds(t.Context()); err != nil || b.Snapshot.Index != 200 {
			t.Errorf("bounds when snapshots are let through: %+v, %v", b, err)
		}
	})
}

// staleLog is a log whose member is behind: it shows the snapshot before the current one, whole.
type staleLog struct {
	oplog.Log
	info  oplog.SnapshotInfo
	parts [][]byte
}

// keep takes the stored snapshot of db as what l shows from now on.
func (l *staleLog) keep(t testing.TB) {
	t.Helper()
	r, err := l.Log.OpenSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l.info = r.Info()
	for i := range l.info.Parts {
		part, err := r.ReadPart(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		l.parts = append(l.parts, part)
	}
}

func (l *staleLog) OpenSnapshot(context.Context) (oplog.SnapshotReader, error) {
	return staleReader{l}, nil
}

type staleReader struct{ l *staleLog }

func (r staleReader) Info() oplog.SnapshotInfo { return r.l.info }

func (r staleReader) ReadPart(_ context.Context, i int) ([]byte, error) { return r.l.parts[i], nil }

func (r staleReader) Close() error { return nil }

// TestTruncateOnStaleRead: the snapshot that a truncation relies on must have been read, not the one before it, which a
// member that is behind still shows.
func TestTruncateOnStaleRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := cluster(t)
		writer := open(t, db.Open(), replica.Options{SnapshotInterval: -1, KeepRows: 100})
		behind := &staleLog{Log: db.Open()}
		for i, command := range []string{"a", "b", "c"} {
			propose(t, writer, command)
			if _, err := writer.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				behind.keep(t)
			}
		}
		r := open(t, behind, replica.Options{SnapshotInterval: -1, KeepRows: -1})
		if _, err := r.Snapshot(t.Context()); err == nil {
			t.Error("a truncation relied on a snapshot that was not read")
		}
		if b := bounds(t, db); b.Oldest != 0 {
			t.Errorf("rows below %d were deleted", b.Oldest)
		}
	})
}
