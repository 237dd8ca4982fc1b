package fieldcase

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// Laggard is field case 06.1: an empty node starts over a slow network while others write without a pause and store one
// snapshot after another, so that the one that it installs is soon outdated. It gets to the tip within five installs and
// stays with the others. Quick, the state has 2 MiB, the network carries 4 MiB a second, and 2 MiB a second are overwritten;
// at full size the state has 100 MiB, the network carries 20 MB a second, of 2,000 commands a second some overwrite 5 MiB,
// and it goes on for 10 minutes.
func Laggard(t *testing.T, d *Database) {
	state, rate := size(2, 100), size(4<<20, 20_000_000)
	o := headwater.Options{}
	o.Engine.RowCommands, o.Engine.SnapshotInterval, o.Engine.KeepRows = size(4, 40), 20, 64
	var snapshots, installs atomic.Int64
	writing := o
	writing.Engine.Events.Snapshot = func(oplog.Index, int64, time.Duration, error) { snapshots.Add(1) }
	direct := make([]oplog.Log, 2)
	for i := range direct {
		l, err := d.Direct(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		direct[i] = l
	}
	writers := clustertest.Nodes(t, writing, direct...)
	grow(t, writers[0], state)
	if _, err := writers[0].Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Proxy.SetRate(rate)
	o.Engine.Events.Installed = func(oplog.Index) { installs.Add(1) }
	var late *headwater.Store
	load := clustertest.Load{Clients: size(4, 200), Patience: time.Minute, Every: size(20*time.Millisecond, 100*time.Millisecond)}
	load.Run(t, writers, func() {
		ctx, stop := context.WithCancel(t.Context())
		var overwriting sync.WaitGroup
		overwriting.Go(func() { overwrite(ctx, t, writers[1], state, size(2<<20, 5<<20)) })
		defer overwriting.Wait()
		defer stop()
		start := time.Now()
		late = d.Nodes(t, 1, o)[0] // the first install
		target := uint64(writers[0].View().Index)
		t.Logf("opened at %d after %v, the tip is %d", late.View().Index, time.Since(start), target)
		await(t, "the node to reach the tip", func() bool {
			st := late.Status()
			if st.Condition == headwater.CatchingUp && !strings.Contains(st.Reason, "is the newest known in the log") && !strings.Contains(st.Reason, "has to be looked up") {
				t.Errorf("the status does not tell the distance: %+v", st)
			}
			return st.AppliedIndex >= target
		})
		if n := installs.Load(); n > 4 {
			t.Errorf("%d installs and the first before the tip was reached, allowed are 5 in all", n)
		}
		t.Logf("at the tip after %v and %d more installs", time.Since(start), installs.Load())
		for stored := snapshots.Load(); snapshots.Load() < stored+2 || full() && time.Since(start) < 10*time.Minute; {
			at := uint64(writers[0].View().Index)
			follow, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := late.Wait(follow, at); err != nil {
				t.Fatalf("the node fell behind for good: %v", err)
			}
			cancel()
			pass(size(100*time.Millisecond, time.Second))
		}
	})
	d.Proxy.SetRate(0)
	t.Logf("%d installs after the first, %d rows, %d snapshots", installs.Load(), late.View().Index, snapshots.Load())
	d.Whole(t, append(writers, late))
}

// overwrite puts new values for keys of grow until ctx ends, rate bytes of them in a second.
func overwrite(ctx context.Context, t *testing.T, s *headwater.Store, mib, rate int) {
	const value = 64 << 10
	random := rand.NewChaCha8([32]byte{2})
	tick := time.NewTicker(time.Second * value / time.Duration(rate))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		bytes := make([]byte, value)
		random.Read(bytes)
		a := s.Propose(context.Background(), meta.Proposal{Command: meta.PutKey{Key: fmt.Sprintf("big/%d/%d", i%mib, i%16), Value: bytes}})[0]
		if a.Err != nil {
			t.Errorf("overwrite: %v", a.Err)
			return
		}
	}
}

// RowsBelow is field case 06.3: nothing is truncated, the snapshot stands at 2048 and rows 1 to 3000 are there (quick: 100
// and 150). An empty node applies what follows the snapshot, each row once, also where its first attempt to read the
// snapshot broke off in the middle.
func RowsBelow(t *testing.T, d *Database) {
	at, newest := size(oplog.Index(100), 2048), size(oplog.Index(150), 3000)
	o := headwater.Options{}
	o.Engine.RowCommands, o.Engine.SnapshotInterval, o.Engine.KeepRows = 1, -1, 1<<30
	s := d.Nodes(t, 1, o)[0]
	grow(t, s, 3)
	fill := func(to oplog.Index) {
		for s.View().Index < to {
			mustPut(t, s, "n", fmt.Sprint(s.View().Index))
		}
	}
	fill(at)
	if i, err := s.Snapshot(t.Context()); err != nil || oplog.Index(i) != at {
		t.Fatalf("snapshot at %d: %v", i, err)
	}
	fill(newest)
	if oldest, to, n := d.bounds(t); oldest != 0 || to != int64(newest) || n != to+1 {
		t.Fatalf("%d rows from %d to %d, want all", n, oldest, to)
	}
	for _, broken := range []bool{false, true} {
		var seen applied
		again := seen.options()
		again.Engine.SnapshotInterval = -1
		var trap *proxy.Trap
		if broken {
			trap = d.Proxy.Add(proxy.Rule{From: proxy.Client, Text: "SELECT data FROM " + d.prefix() + "_snapshot_part", Match: executes, Skip: 1, Cut: true})
		}
		for tries := 1; ; tries++ {
			l, err := d.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			fresh, err := headwater.Open(t.Context(), l, again)
			if err != nil {
				if !broken || tries > 1 || !errors.Is(err, oplog.ErrUnavailable) {
					t.Fatalf("open: %v", err)
				}
				_ = l.Close()
				continue
			}
			if _, err := fresh.Wait(t.Context(), uint64(newest)); err != nil {
				t.Fatal(err)
			}
			clustertest.Agree(t, []*headwater.Store{s, fresh})
			if err := errors.Join(fresh.Close(), l.Close()); err != nil {
				t.Error(err)
			}
			break
		}
		if trap != nil && trap.Hits() != 1 {
			t.Errorf("%d reads of the snapshot were broken off, want 1", trap.Hits())
		}
		seen.dense(t, at+1, newest)
	}
	d.Whole(t, []*headwater.Store{s})
}

// Backlog fills the log for field case 06.5: 2,000 rows of 4 MB (quick: 40) in a state of 4 MB, without a snapshot.
func Backlog(t *testing.T, d *Database) {
	rows := size(40, 2000)
	const row = 4 << 20
	o := headwater.Options{}
	o.Engine.SnapshotInterval, o.Engine.RowBytes = -1, 8<<20
	l, err := d.Direct(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := clustertest.Nodes(t, o, l)[0]
	value := make([]byte, 256<<10)
	for i := range rows {
		var batch []meta.Proposal
		for k := range row / len(value) {
			value[0] = byte(i)
			batch = append(batch, meta.Proposal{Command: meta.PutKey{Key: fmt.Sprint(k), Value: value}})
		}
		for _, a := range s.Propose(t.Context(), batch...) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
	}
	if at := int(s.View().Index); at != rows {
		t.Fatalf("the backlog has %d rows, want %d", at, rows)
	}
}

// backlogEnv tells the process of ReadBacklog what to open.
const backlogEnv = "HEADWATER_TEST_BACKLOG"

// ReadBacklog is field case 06.5: in a process of its own, a node starts on the log of Backlog, which place names to open. It
// runs the test of its caller a second time, in the other process; there backlog is not called. The process may never need
// more than the state, 64 MB and two rows beyond what it had before; quick, half as much again. What garbage there is beside
// that is up to the collector, which takes twice of what is needed and more on a machine that keeps it waiting; so it is told
// to make do with less than the bound, far below the 512 MB of the case.
func ReadBacklog(t *testing.T, backlog func() (place string), open func(ctx context.Context, place string) (oplog.Log, error)) {
	if place := os.Getenv(backlogEnv); place != "" {
		if err := readBacklog(t.Context(), func(ctx context.Context) (oplog.Log, error) { return open(ctx, place) }); err != nil {
			t.Error(err)
		}
		return
	}
	node := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	node.Env = append(os.Environ(), "GOMEMLIMIT=72MiB", backlogEnv+"="+backlog())
	out, err := node.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Errorf("the node: %v", err)
	}
}

func readBacklog(ctx context.Context, open func(context.Context) (oplog.Log, error)) error {
	// What the runtime has taken from the system is never less later, so it is the peak; the binary, and what the race
	// detector needs beside the heap, are not in it.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err := open(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	o := headwater.Options{}
	o.Engine.SnapshotInterval = -1
	s, err := headwater.Open(ctx, l, o)
	if err != nil {
		return err
	}
	defer s.Close()
	v, err := s.Linearize(ctx)
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	fmt.Printf("%d rows, peak %d MB, before %d MB\n", v.Index, after.Sys>>20, before.Sys>>20)
	// The state, 64 MB and two rows; quick, a machine whose garbage collector comes late may have as much again, and still
	// not hold the backlog.
	if most := before.Sys + size[uint64](120, 4+64+2*4)<<20; after.Sys > most {
		return fmt.Errorf("the process needed %d bytes, allowed are %d", after.Sys, most)
	}
	return nil
}
