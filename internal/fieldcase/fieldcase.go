// Package fieldcase holds scripts of the field cases (docs/field-cases.md) that say what must hold on any database, over
// whole nodes on a real server behind a proxy. The tests of the dialects call them, each with a server of its own kind, so
// that a case is written down once and a new dialect has it for a line.
//
// Each script takes seconds at its quick size and has the size of the case, minutes, with HEADWATER_TEST_FULL=1. The quick
// size measures nothing: what must be fast is held to its bound at full size only. A script ends by proving what holds in
// every case: that the log is dense and whole, that a replay of it offline gives the nodes' state (Whole), and, where it
// counts statements, that a node which fails does so slowly (Meter).
//
// The package is for tests only. Start reading at Database.
package fieldcase

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
)

// Database is a server, tables on it that are the test's own, and the ways to harm them. It is not for two scripts at once.
type Database struct {
	// Open opens a log on the tables through Proxy, as in a process of its own. The caller closes it.
	Open func(ctx context.Context) (oplog.Log, error)
	// Direct is Open past the proxy.
	Direct func(ctx context.Context) (oplog.Log, error)
	// Proxy is the network between nodes and server.
	Proxy *proxy.Proxy
	// Admin is a pool past the proxy, for somebody who may do anything. It is closed by its owner.
	Admin *sql.DB
	// Log is the name of the table of rows, as statements have it.
	Log string
	// Analyze is a statement that brings what the server knows of the tables up to date.
	Analyze string
	// Bytes is the form of a literal of bytes, with %s for its hexadecimal digits.
	Bytes string
}

// full reports whether scripts have the sizes of their cases.
func full() bool { return os.Getenv("HEADWATER_TEST_FULL") != "" }

// size returns quick, or most at full size.
func size[T any](quick, most T) T {
	if full() {
		return most
	}
	return quick
}

// insert begins the append's statement.
func (d *Database) insert() string { return "INSERT INTO " + d.Log }

// Nodes opens n nodes, the first of which makes the database a cluster. They are closed when the test ends.
func (d *Database) Nodes(t testing.TB, n int, o headwater.Options) []*headwater.Store {
	t.Helper()
	logs := make([]oplog.Log, n)
	for i := range logs {
		logs[i] = d.open(t)
	}
	return clustertest.Nodes(t, o, logs...)
}

// open is Open on a database that is well.
func (d *Database) open(t testing.TB) oplog.Log {
	t.Helper()
	l, err := d.Open(t.Context())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

// literal writes bytes into a statement.
func (d *Database) literal(b []byte) string { return fmt.Sprintf(d.Bytes, hex.EncodeToString(b)) }

// exec runs a statement of the administrator, which commits by itself.
func (d *Database) exec(t testing.TB, format string, args ...any) {
	t.Helper()
	if _, err := d.Admin.ExecContext(context.Background(), fmt.Sprintf(format, args...)); err != nil {
		t.Fatalf("administrator: %v", err)
	}
}

// number asks the administrator's question that a number answers.
func (d *Database) number(t testing.TB, format string, args ...any) (n int64) {
	t.Helper()
	if err := d.Admin.QueryRowContext(context.Background(), fmt.Sprintf(format, args...)).Scan(&n); err != nil {
		t.Fatalf("administrator: %v", err)
	}
	return n
}

// Whole proves that the log is dense and whole, and that a replay of it gives what the nodes have (G2 and G3).
func (d *Database) Whole(t testing.TB, stores []*headwater.Store) {
	t.Helper()
	clustertest.Agree(t, stores)
	l, err := d.Direct(t.Context())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer l.Close()
	report := check(t, l)
	for _, f := range report.Faults {
		t.Errorf("the log: %s", f)
	}
	v, err := stores[0].Wait(t.Context(), report.DigestIndex)
	if err != nil {
		t.Fatal(err)
	}
	if got := v.State.Digest(); uint64(v.Index) == report.DigestIndex && hex.EncodeToString(got[:]) != report.Digest {
		t.Errorf("at %d the replay has digest %s, the nodes have %x", v.Index, report.Digest, got)
	}
}

// check checks the log, again where a truncation went on beside it.
func check(t testing.TB, l oplog.Log) headwater.CheckReport {
	t.Helper()
	for {
		report, err := headwater.Check(t.Context(), l, nil)
		if err != nil {
			t.Fatalf("check the log: %v", err)
		}
		now, err := l.Bounds(t.Context())
		if err != nil {
			t.Fatalf("look at the log: %v", err)
		}
		if report.OK() || uint64(now.Oldest) == report.OldestIndex {
			return report
		}
	}
}

// Meter counts the statements that reach a server through a proxy, but for the polls for new rows.
type Meter struct{ n atomic.Int64 }

// NewMeter begins to count what passes through the proxy; log is the name of the table of rows.
func NewMeter(x *proxy.Proxy, log string) *Meter {
	m := &Meter{}
	poll := "SELECT max(idx) FROM " + log
	x.Add(proxy.Rule{From: proxy.Client, Times: -1, Match: func(msg proxy.Message) bool {
		if executes(msg) && !strings.EqualFold(msg.Text, poll) {
			m.n.Add(1)
		}
		return false
	}})
	return m
}

// meter is NewMeter of the database's proxy.
func (d *Database) meter() *Meter { return NewMeter(d.Proxy, d.Log) }

// Count returns how many statements there were so far.
func (m *Meter) Count() int64 { return m.n.Load() }

// Slow fails the test where nodes that could not get on for so long ran more statements, from the count of from on, than
// they may: 20 a second for each (G5), and as many as two seconds allow to begin with.
func (m *Meter) Slow(t testing.TB, nodes int, from int64, took time.Duration) {
	t.Helper()
	n, most := m.n.Load()-from, int64(20*nodes)*int64(took/time.Second+2)
	if n > most {
		t.Errorf("%d statements in %v from %d nodes, allowed are %d", n, took, nodes, most)
	}
}

// executes tells the one message of each statement that has it run.
func executes(m proxy.Message) bool {
	const query, execute = 0x03, 0x17 // of MySQL
	return m.Runs && m.From == proxy.Client && (m.Type == 'Q' || m.Type == 'E' || m.Type == query || m.Type == execute)
}

// put puts a key, which says who did it and in what order.
func put(ctx context.Context, s *headwater.Store, key, value string) meta.Answer {
	return s.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: key, Value: []byte(value)}})[0]
}

// mustPut is put that has to succeed within a minute.
func mustPut(t testing.TB, s *headwater.Store, key, value string) meta.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a := put(ctx, s, key, value)
	if a.Err != nil {
		t.Fatalf("put %s: %v (%+v)", key, a.Err, s.Status())
	}
	return a
}

// await asks every few milliseconds until done says yes.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(size(time.Minute, 10*time.Minute)); !done(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// pass lets time go by; it is for the lengths that a case gives.
func pass(d time.Duration) { <-time.After(d) }

// filler returns rows 1 to n of a log that was made in memory, without any snapshot, by a node that had one proposal after
// another in flight, and its genesis as row 0. It is the quick way to a long log: see load.
func filler(t testing.TB, n int, value func(i int) []byte) *oplog.Memory {
	t.Helper()
	db := oplog.NewMemory()
	l := db.Open()
	defer l.Close()
	if _, err := headwater.Init(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	o := headwater.Options{}
	o.Engine.SnapshotInterval, o.Engine.RowBytes = -1, 8<<20
	s, err := headwater.Open(t.Context(), l, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range n {
		var batch []meta.Proposal
		rest := value(i)
		for place := 0; ; place++ {
			part := rest[:min(len(rest), 256<<10)]
			batch = append(batch, meta.Proposal{Command: meta.PutKey{Key: fmt.Sprintf("%d/%d", i%100, place), Value: part}})
			if rest = rest[len(part):]; len(rest) == 0 {
				break
			}
		}
		for _, a := range s.Propose(t.Context(), batch...) {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
	}
	if at := s.View().Index; int(at) != n {
		t.Fatalf("%d rows were made, want %d", at, n)
	}
	return db
}

// load makes the database a cluster with all rows of a log that was made in memory.
func (d *Database) load(t testing.TB, from *oplog.Memory) {
	t.Helper()
	const most = 4 << 20 // bytes of a statement
	source, target := from.Open(), d.open(t)
	defer source.Close()
	defer target.Close()
	first, err := source.Read(t.Context(), oplog.Beginning, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Init(t.Context(), first[0].Payload); err != nil {
		t.Fatal(err)
	}
	for after := oplog.Index(0); ; {
		rows, err := source.Read(t.Context(), after, most/4)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			return
		}
		var text []byte
		for i, r := range rows {
			if i > 0 {
				text = append(text, ',')
			}
			text = fmt.Appendf(text, "(%d,%s)", r.Index, d.literal(r.Payload))
		}
		d.exec(t, "INSERT INTO %s (idx, payload) VALUES %s", d.Log, text)
		after = rows[len(rows)-1].Index
	}
}
