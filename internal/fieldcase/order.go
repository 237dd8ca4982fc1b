package fieldcase

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	"github.com/headwaterdb/headwater/replica"
)

// applied keeps the indexes that a node has applied, in their order.
type applied struct {
	mu   sync.Mutex // guards rows
	rows []oplog.Index
}

// options lets a node tell what it applies.
func (a *applied) options() (o headwater.Options) {
	o.Engine.Events.Applied = func(index oplog.Index, _ int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.rows = append(a.rows, index)
	}
	return o
}

// dense fails the test unless the node applied from, from+1, … to, each once.
func (a *applied) dense(t testing.TB, from, to oplog.Index) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	want := make([]oplog.Index, 0, to-from+1)
	for i := from; i <= to; i++ {
		want = append(want, i)
	}
	if !slices.Equal(a.rows, want) {
		t.Errorf("%d rows were applied, want %d to %d, each once and in order: %v", len(a.rows), from, to, a.rows[:min(len(a.rows), 50)])
	}
}

// UncommittedSlot is field case 04.1: somebody inserts a valid row at the next index and does not commit. A node that
// proposes waits for it and never writes the index behind it; nobody skips one, whether the row is committed in the end or
// rolled back. The transaction stays open until the append waits for it, or for 3 s.
func UncommittedSlot(t *testing.T, d *Database) {
	var one, two applied
	a := d.Nodes(t, 1, one.options())[0]
	b := d.Nodes(t, 1, two.options())[0]
	for _, commit := range []bool{true, false} {
		mustPut(t, a, "before", "x")
		if _, err := b.Linearize(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := oplog.Index(a.View().Index) + 1
		tx, err := d.Admin.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO %s (idx, payload) VALUES (%d, %s)", d.Log, next, d.literal(d.row(t, a, next)))); err != nil {
			t.Fatal(err)
		}
		done := make(chan meta.Answer, 1)
		trap := d.Proxy.Add(proxy.Rule{From: proxy.Client, Text: d.insert(), Runs: true, Hold: opened()})
		go func() { done <- put(context.Background(), a, "mine", "x") }()
		<-trap.Sprung()
		if full() {
			pass(3 * time.Second)
		}
		if n := d.number(t, "SELECT COUNT(*) FROM %s WHERE idx > %d", d.Log, next); n != 0 {
			t.Errorf("%d rows stand above one that is not committed", n)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		want := uint64(next)
		if commit {
			want++
		}
		if got := <-done; got.Err != nil || got.Index != want {
			t.Errorf("commit=%t: the proposal ended with %+v, want it applied at %d", commit, got, want)
		}
		d.Proxy.Clear()
	}
	stores := []*headwater.Store{a, b}
	d.Whole(t, stores)
	newest := oplog.Index(a.View().Index)
	one.dense(t, 1, newest)
	two.dense(t, 1, newest)
}

// opened is a gate that holds nothing.
func opened() *proxy.Gate {
	g := proxy.NewGate()
	g.Open()
	return g
}

// row makes a valid row at index, of a writer that had the state that s has.
func (d *Database) row(t testing.TB, s *headwater.Store, index oplog.Index) []byte {
	t.Helper()
	l := d.open(t)
	defer l.Close()
	g, err := replica.ReadGenesis(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	before, err := l.Read(t.Context(), index-2, 0)
	if err != nil || len(before) == 0 || before[0].Index != index-1 {
		t.Fatalf("read row %d: %v, %v", index-1, before, err)
	}
	v := s.View()
	command, err := meta.AppendProposal(nil, meta.Proposal{Stamp: 1, Command: meta.PutKey{Key: "theirs", Value: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	return replica.AppendRow(nil, &replica.RowInfo{Index: index, Incarnation: g.Incarnation, Previous: replica.Checksum(before[0].Payload), Writer: replica.Token{1}, Batch: uint64(index),
		Seen: v.Index, SeenDigest: replica.Digest(v.State.Digest()), Commands: [][]byte{command}})
}

// MissingRow is field case 04.3: one of three nodes is away from row 500 on, the administrator deletes row 600, no snapshot
// covers it. The node comes back, applies up to 599 and says that row 600 is missing; it takes no proposals and disturbs
// nobody; when another node has stored a snapshot it reinstalls by itself. A node that starts anew fares the same. Quick, the
// rows are 50 and 60.
func MissingRow(t *testing.T, d *Database) {
	away, missing := size(oplog.Index(50), 500), size(oplog.Index(60), 600)
	o := headwater.Options{}
	o.Engine.RowCommands = 1
	stores := d.Nodes(t, 3, o)
	healthy := stores[:2]
	fill := func(to oplog.Index) {
		for i := 0; healthy[0].View().Index < to; i++ {
			mustPut(t, healthy[i%2], "fill", "x")
		}
	}
	fill(away)
	clustertest.Agree(t, stores)
	if err := stores[2].Close(); err != nil {
		t.Fatal(err)
	}
	fill(missing + 10)
	clustertest.Agree(t, healthy)
	d.exec(t, "DELETE FROM %s WHERE idx = %d", d.Log, missing)
	meter := d.meter()
	late := d.Nodes(t, 1, o)[0]
	await(t, "the gap to be reported", func() bool { return late.Status().Condition == headwater.Gap })
	from, start := meter.Count(), time.Now()
	pass(size(time.Second, 20*time.Second))
	meter.Slow(t, 3, from, time.Since(start))
	st := late.Status()
	if st.ReasonIndex != uint64(missing) || st.AppliedIndex != uint64(missing)-1 || !strings.Contains(st.Reason, fmt.Sprint(missing)) {
		t.Errorf("the status is %+v, want a gap at %d", st, missing)
	}
	if a := put(t.Context(), late, "no", "x"); !errors.Is(a.Err, meta.ErrUnavailable) || !strings.Contains(a.Err.Error(), fmt.Sprint(missing)) {
		t.Errorf("a proposal in a gap: %v, want unavailable because of row %d", a.Err, missing)
	}
	for i, s := range healthy {
		if st := s.Status(); st.Condition != headwater.Ready {
			t.Errorf("node %d is disturbed: %+v", i, st)
		}
		mustPut(t, s, "healthy", "x")
	}
	if _, err := healthy[0].Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the node to be ready", func() bool { return late.Status().Condition == headwater.Ready })
	mustPut(t, late, "again", "x")
	clustertest.Agree(t, append(healthy, late))
}

// BrokenReads is field case 04.5: while a node that starts reads its backlog, the connections are reset again and again, at
// a place in the answers drawn from a seed. It never says that it is ready before it has applied the newest row, and no
// snapshot that it stores is wrong. 3,000 rows and 10 resets, or 50,000 and 100. Proxy must be of protocol Raw, so that
// answers break off anywhere.
func BrokenReads(t *testing.T, d *Database) {
	rows, resets := size(3000, 50000), size(10, 100)
	d.load(t, filler(t, rows, func(int) []byte { return make([]byte, 200) }))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	per := rows * 350 / resets // bytes of answers from one reset to the next
	var passed, next, broken atomic.Int64
	next.Store(int64(1 + chance.IntN(2*per)))
	d.Proxy.Add(proxy.Rule{From: proxy.Server, Cut: true, Times: resets, Match: func(m proxy.Message) bool {
		if passed.Add(int64(len(m.Bytes))) < next.Load() {
			return false
		}
		passed.Store(0)
		next.Store(int64(1 + broken.Add(1)*7919%int64(2*per)))
		return true
	}})
	var early atomic.Int64
	o := headwater.Options{}
	o.Engine.SnapshotInterval, o.Engine.ReadBytes = rows/20, per
	o.Engine.RetryMax = 20 * time.Millisecond // so that it comes to as many
	o.Engine.Events.StateOf = func(st replica.Status) {
		if st.Condition == replica.Ready && int(st.Applied) < rows {
			early.Store(int64(st.Applied))
		}
	}
	var late *headwater.Store
	await(t, "the node to open", func() bool {
		l, err := d.Open(t.Context())
		if err != nil {
			return false
		}
		s, err := headwater.Open(t.Context(), l, o)
		if err != nil {
			_ = l.Close()
			return false
		}
		t.Cleanup(func() { _ = errors.Join(s.Close(), l.Close()) })
		late = s
		return true
	})
	last := uint64(0)
	await(t, "the node to be ready", func() bool {
		st := late.Status()
		if st.AppliedIndex < last || st.Condition == headwater.Ready && st.AppliedIndex < uint64(rows) {
			t.Errorf("%+v after index %d", st, last)
		}
		last = st.AppliedIndex
		return st.Condition == headwater.Ready
	})
	d.Proxy.Clear()
	if at := early.Load(); at > 0 {
		t.Errorf("ready was told at row %d of %d", at, rows)
	}
	if n := broken.Load(); n < int64(resets)/2 {
		t.Errorf("%d resets, want about %d", n, resets)
	}
	t.Logf("%d resets", broken.Load())
	if _, err := late.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Whole(t, []*headwater.Store{late})
}
