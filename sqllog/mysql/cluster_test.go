package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/internal/fieldcase"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// nodes opens n nodes on one database.
func nodes(t *testing.T, n int, o mysql.Options, engine headwater.Options) []*headwater.Store {
	t.Helper()
	logs := make([]oplog.Log, n)
	for i := range logs {
		logs[i] = openNode(t, o)
	}
	return clustertest.Nodes(t, engine, logs...)
}

// proxied returns a server of the test's own behind a proxy, and options that lead through it.
func proxied(t testing.TB) (*proxy.Proxy, *dbtest.MariaDB, mysql.Options) {
	t.Helper()
	m := dbtest.NewMariaDB(t)
	x := proxy.New(t, proxy.MySQL, m.Addr())
	o := on(m)
	o.DSN = strings.Replace(o.DSN, m.Addr(), x.Addr(), 1)
	return x, m, o
}

// TestAmbiguousAppend: what a writer is told when the answer to its append is lost or late, and what becomes of the row.
// Hazards 2 and 3, field cases 01.1 and 01.3.
func TestAmbiguousAppend(t *testing.T) {
	t.Parallel()
	x, m, o := proxied(t)
	direct := session(t, m.DSN("root"))
	o.StatementTimeout = 700 * time.Millisecond
	l := cluster(t, o, 0)
	payloadOf := func(index oplog.Index) string {
		t.Helper()
		return scan[string](t, direct, "SELECT COALESCE((SELECT payload FROM "+o.Prefix+"_log WHERE idx = ?), 'no row')", int64(index))
	}
	unknown := func(err error) {
		t.Helper()
		if !errors.Is(err, oplog.ErrUnknown) || oplog.NotApplied(err) {
			t.Errorf("append: %v, want unknown", err)
		}
	}

	insert := "INSERT INTO " + o.Prefix + "_log"

	// The server has committed, then the connection breaks before the answer is through.
	trap := x.Add(proxy.LoseAnswer(insert))
	unknown(l.Append(t.Context(), 1, nil, []byte("answer lost")))
	<-trap.Answered()
	if got := payloadOf(1); got != "answer lost" {
		t.Errorf("row 1 is %q", got)
	}
	if err := l.Append(t.Context(), 1, nil, []byte("again")); !errors.Is(err, oplog.ErrConflict) {
		t.Errorf("append again: %v, want conflict", err)
	}
	mustAppend(t, l, 2, "next")

	// The server gets the statement long after the writer gave it up, and after somebody else took the slot: it loses.
	held := proxy.NewGate()
	x.Add(proxy.HoldStatement(insert, held))
	unknown(l.Append(t.Context(), 3, nil, []byte("held"))) // by the statement timeout
	mustAppend(t, l, 3, "somebody else's")
	mustAppend(t, l, 4, "next")
	links := x.Open()
	held.Open()
	poll(t, "the connection to close", func() bool { return x.Open() < links })
	if got := payloadOf(3); got != "somebody else's" {
		t.Errorf("row 3 became %q", got)
	}

	// The caller gives up sooner than the answer comes. The statement goes on, and so does the connection.
	held = proxy.NewGate()
	trap = x.Add(proxy.HoldAnswer(insert, held))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-trap.Sprung(); cancel() }()
	err := l.Append(ctx, 5, nil, []byte("impatient"))
	unknown(err)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v, want it to say that the context ended", err)
	}
	held.Open()
	mustAppend(t, l, 6, "next") // waits for it
	if got := payloadOf(5); got != "impatient" {
		t.Errorf("row 5 is %q", got)
	}

	// A statement arrives after its connection was gone, and nobody took the slot: the row comes when nobody expects it, and is seen.
	held = proxy.NewGate()
	x.Add(proxy.AbandonStatement(insert, held))
	unknown(l.Append(t.Context(), 7, nil, []byte("late")))
	waited := make(chan error, 1)
	go func() { waited <- l.Wait(t.Context(), 6) }()
	held.Open()
	if err := <-waited; err != nil {
		t.Errorf("wait for the late row: %v", err)
	}
	if err := l.Append(t.Context(), 7, nil, []byte("again")); !errors.Is(err, oplog.ErrConflict) {
		t.Errorf("append beside the late row: %v, want conflict", err)
	}
	if got := payloadOf(7); got != "late" {
		t.Errorf("row 7 is %q", got)
	}
}

// TestClosedConnectionIsDefinite: connections that the server or the network closed while they were idle are noticed
// before anything is sent: the append goes through on a new one, and nobody is left in doubt. Field case 14.6.
func TestClosedConnectionIsDefinite(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	l := cluster(t, on(m), 1)
	root := session(t, m.DSN("root"))
	for at := range oplog.Index(3) {
		endSessions(t, root)
		poll(t, "the sessions to end", func() bool {
			return scan[int](t, root, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'root'") == 1
		})
		mustAppend(t, l, 2+at, "row")
	}
}

// TestBlackHole: the network swallows everything and says nothing. Calls end by the statement timeout, and everything
// works again over new connections. Field case 14.4.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	x, _, o := proxied(t)
	o.StatementTimeout = 500 * time.Millisecond
	fieldcase.BlackHole(t, cluster(t, o, 3), x)
}

// TestKilledServer kills the server with -9 under load and starts it again. It runs 3 rounds, or as many as
// HEADWATER_ROUNDS says. Hazard 8, field case 14.6.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	engine := headwater.Options{}
	engine.Engine.SnapshotInterval = 50
	fieldcase.KilledServer(t, nodes(t, 3, on(m), engine), m.Kill, m.Stop, func(t testing.TB) { m.Start(t) })
}

// TestBadNetwork runs three nodes through a network that loses answers, holds requests back and breaks connections, at
// moments drawn from a seed. It runs 30 faults, or as many as HEADWATER_ROUNDS says. Hazards 2 and 3.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	x, _, o := proxied(t)
	o.StatementTimeout = 300 * time.Millisecond
	engine := headwater.Options{}
	engine.Engine.SnapshotInterval = 40
	fieldcase.BadNetwork(t, nodes(t, 3, o, engine), x, "INSERT INTO "+o.Prefix+"_log")
}

// TestSmallPackets runs a node on servers that take little: batches of commands are cut so that they fit, and so are the
// parts of its snapshot; a command that fits nowhere is refused before anything is sent, says how large it is and how large it
// may be, and keeps nobody else waiting. Field case 12.1.
func TestSmallPackets(t *testing.T) {
	t.Parallel()
	x, m, o := proxied(t)
	root := session(t, m.DSN("root"))
	packet := func(bytes int) {
		t.Helper()
		mustExec(t, root, "SET GLOBAL max_allowed_packet = "+strconv.Itoa(bytes))
	}
	var over atomic.Int64 // messages of clients with more than 128 KiB
	x.Add(proxy.Rule{From: proxy.Client, Times: -1, Match: func(m proxy.Message) bool {
		if len(m.Bytes) > 128<<10 {
			over.Add(1)
		}
		return false
	}})
	packet(1 << 20)
	s := nodes(t, 1, o, headwater.Options{})[0]
	var batch []meta.Proposal
	for i := range 256 {
		batch = append(batch, meta.Proposal{Command: meta.PutKey{Key: fmt.Sprint(i), Value: make([]byte, 8<<10)}})
	}
	for i, a := range s.Propose(t.Context(), batch...) {
		if a.Err != nil {
			t.Fatalf("command %d: %v", i, a.Err)
		}
	}
	if rows := s.View().Index; rows < 3 {
		t.Errorf("2 MiB of commands came in %d rows", rows)
	}
	if _, err := s.Snapshot(t.Context()); err != nil {
		t.Errorf("snapshot: %v", err)
	}

	packet(128 << 10)
	tight := o
	tight.Prefix = dbtest.Prefix()
	s = nodes(t, 1, tight, headwater.Options{})[0]
	before := over.Load()
	large := s.Propose(t.Context(), meta.Proposal{Command: meta.PutKey{Key: "large", Value: make([]byte, 200<<10)}},
		meta.Proposal{Command: meta.PutKey{Key: "small", Value: make([]byte, 8<<10)}})
	var refused *meta.Error
	switch {
	case !errors.As(large[0].Err, &refused) || refused.Code != meta.CodeTooLarge || large[0].Status != meta.Rejected:
		t.Errorf("a command above the limit: %v, %v, want too large", large[0].Status, large[0].Err)
	case !regexp.MustCompile(`2048\d\d bytes, allowed are 12\d{4}$`).MatchString(refused.Message):
		t.Errorf("%q names no size and limit", refused.Message)
	case large[1].Err != nil:
		t.Errorf("the command behind it: %v", large[1].Err)
	case before == 0 || over.Load() != before:
		t.Errorf("%d messages of more than 128 KiB were sent to a server that took 1 MiB, %d more since it takes less", before, over.Load()-before)
	}
}

// TestOutage: while the server is away reads answer from the view, proposals end with their contexts, and everything
// goes on when it is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	fieldcase.Outage(t, nodes(t, 1, on(m), headwater.Options{})[0], m.Stop, func(t testing.TB) { m.Start(t) })
}
