package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/oplog/oplogtest"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// ways are the ways in which a row gets into the log.
var ways = map[string]func(ctx context.Context, l oplog.Log, at oplog.Index, payload string) error{
	"free": func(ctx context.Context, l oplog.Log, at oplog.Index, payload string) error {
		return l.Append(ctx, at, nil, []byte(payload))
	},
	"in turn": func(ctx context.Context, l oplog.Log, at oplog.Index, payload string) error {
		if _, _, err := l.(oplog.Turnstile).Turn(ctx, at, 1<<20); err != nil {
			return err
		}
		return l.Append(ctx, at, nil, []byte(payload))
	},
}

// lined returns o with the turnstile.
func lined(o postgres.Options) postgres.Options {
	o.Turnstile = true
	return o
}

// turn gets a turn.
func turn(t testing.TB, l oplog.Log, after oplog.Index) ([]oplog.Row, oplog.Index) {
	t.Helper()
	rows, newest, err := l.(oplog.Turnstile).Turn(t.Context(), after, 1<<20)
	if err != nil {
		t.Fatalf("turn: %v", err)
	}
	return rows, newest
}

// TestLogWithTurnstile: the suite with the turnstile.
func TestLogWithTurnstile(t *testing.T) {
	oplogtest.TestLog(t, oplogtest.Harness{New: func(t testing.TB) oplogtest.Database {
		o := lined(place(t))
		return database(o, func(t testing.TB) oplog.Log {
			t.Helper()
			postgres.Apart()
			l, err := postgres.Open(t.Context(), o)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return l
		})
	}})
}

// TestTurn: what a turn brings, what it keeps others from, and what ends it.
func TestTurn(t *testing.T) {
	t.Parallel()
	o := lined(place(t))
	l, other := cluster(t, o, 3), open(t, o)
	turn(t, other, 3) // from now on it gives way
	other.(oplog.Turnstile).PassTurn(t.Context())
	rows, newest := turn(t, l, 1)
	if newest != 3 || len(rows) != 2 || rows[0].Index != 2 || string(rows[1].Payload) != "row" {
		t.Errorf("with the turn came %v, newest %d", rows, newest)
	}
	if err := other.Append(t.Context(), 4, nil, nil); !errors.Is(err, oplog.ErrConflict) {
		t.Errorf("append beside a turn: %v, want that it gives way", err)
	}
	mustAppend(t, l, 4, "in turn")
	mustAppend(t, other, 5, "after it")

	turn(t, l, 5)
	if err := l.Append(t.Context(), 9, nil, nil); !errors.Is(err, oplog.ErrConflict) {
		t.Errorf("append at the wrong slot in a turn: %v", err)
	}
	mustAppend(t, other, 6, "after a lost append in a turn")

	turn(t, l, 6)
	l.(oplog.Turnstile).PassTurn(t.Context())
	l.(oplog.Turnstile).PassTurn(t.Context()) // there is none any more
	mustAppend(t, other, 7, "after a turn that was passed")

	turn(t, l, 7)
	if rows, newest = turn(t, l, 6); newest != 7 || len(rows) != 1 { // the one before has ended
		t.Errorf("with the second turn came %v, newest %d", rows, newest)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	turn(t, other, 7)
}

// TestTurnsInOrder: who came first has the first turn, and each sees the row of the one before.
func TestTurnsInOrder(t *testing.T) {
	t.Parallel()
	o := lined(place(t))
	admin, watcher := session(t, o.DSN), session(t, o.DSN)
	first := cluster(t, o, 0)
	lines := make([]oplog.Log, 4)
	for i := range lines {
		lines[i] = open(t, o)
		turn(t, lines[i], 0) // so that it is connected
		lines[i].(oplog.Turnstile).PassTurn(t.Context())
	}
	mustExec(t, admin, "BEGIN")
	mustExec(t, admin, postgres.LineText(o)) // nobody ends an administrator's session
	var waiting sync.WaitGroup
	for i, l := range lines {
		before := oplog.Index(i + 1)
		waiting.Go(func() {
			rows, newest, err := l.(oplog.Turnstile).Turn(t.Context(), before-1, 1<<20)
			if err != nil || newest != before || len(rows) != 1 {
				t.Errorf("turn %d: %v, newest %d, %v", i, rows, newest, err)
			}
			if err := l.Append(t.Context(), before+1, nil, nil); err != nil {
				t.Errorf("append in turn %d: %v", i, err)
			}
		})
		awaitTrue(t, watcher, "SELECT count(*) = $1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND query = $2", i+1, postgres.LineText(o))
	}
	mustExec(t, admin, "INSERT INTO "+o.Prefix+"_log VALUES (1, '')")
	mustExec(t, admin, "COMMIT")
	waiting.Wait()
	if newest, err := first.Newest(t.Context()); err != nil || newest != 5 {
		t.Errorf("newest is %d, %v", newest, err)
	}
}

// TestTurnLeft: a turn that its node does not end is ended for it, without a row; what it tries later is refused or
// unknown, and the log goes on.
func TestTurnLeft(t *testing.T) {
	t.Parallel()
	x, p, o := proxied(t)
	l := cluster(t, lined(o), 0)
	o.DSN = p.DSN("postgres", "postgres")
	other := open(t, lined(o))

	turn(t, l, 0)
	x.Cut() // as when the process dies
	if _, newest := turn(t, other, 0); newest != 0 {
		t.Errorf("newest is %d", newest)
	}
	mustAppend(t, other, 1, "")

	for tries := 0; ; tries++ { // over as many connections as were cut
		_, _, err := l.(oplog.Turnstile).Turn(t.Context(), 1, 1<<20)
		if err == nil {
			break // and then is silent, as a process that was stopped
		}
		if !errors.Is(err, oplog.ErrUnavailable) || tries == 10 {
			t.Fatalf("turn over a connection that was cut: %v", err)
		}
	}
	turn(t, other, 1)
	mustAppend(t, other, 2, "")
	if err := l.Append(t.Context(), 3, nil, []byte("late")); err != nil && !errors.Is(err, oplog.ErrUnknown) && !errors.Is(err, oplog.ErrConflict) {
		t.Errorf("append after a turn that was ended: %v", err)
	}
	newest, err := l.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, newest+1, "all is well")
}

// TestTurnNotGot: whoever could not get a turn appends without asking, whoever has it and for however long.
func TestTurnNotGot(t *testing.T) {
	t.Parallel()
	o := lined(place(t))
	l, admin := cluster(t, o, 0), session(t, o.DSN)
	turn(t, l, 0)
	l.(oplog.Turnstile).PassTurn(t.Context())
	mustExec(t, admin, "BEGIN")
	mustExec(t, admin, postgres.LineText(o))
	if err := l.Append(t.Context(), 1, nil, nil); !errors.Is(err, oplog.ErrConflict) {
		t.Errorf("append beside a turn: %v, want that it gives way", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := l.(oplog.Turnstile).Turn(ctx, 0, 1<<20); !errors.Is(err, oplog.ErrUnavailable) {
		t.Errorf("turn: %v, want none", err)
	}
	mustAppend(t, l, 1, "without")
	mustExec(t, admin, "COMMIT")
	if _, newest := turn(t, l, 0); newest != 1 {
		t.Errorf("newest is %d", newest)
	}
}

// TestNoTurns: where there is no line that is said, and changes nothing.
func TestNoTurns(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	pooled := lined(on(p))
	pooled.DSN = dbtest.NewPgBouncer(t, p, "transaction")
	reader := lined(on(p))
	reader.ReadOnly = true
	for name, o := range map[string]postgres.Options{"off": on(p), "pooled": pooled} {
		l := cluster(t, o, 1)
		if _, _, err := l.(oplog.Turnstile).Turn(t.Context(), 0, 1); !errors.Is(err, oplog.ErrNoTurns) {
			t.Errorf("%s: turn: %v", name, err)
		}
		l.(oplog.Turnstile).PassTurn(t.Context())
		mustAppend(t, l, 2, "")
	}
	if _, _, err := open(t, lined(place(t))).(oplog.Turnstile).Turn(t.Context(), 0, 1); err == nil || errors.Is(err, oplog.ErrNoTurns) {
		t.Errorf("turn without tables: %v", err)
	}
	cluster(t, on(p), 0)
	if _, _, err := open(t, reader).(oplog.Turnstile).Turn(t.Context(), 0, 1); !errors.Is(err, oplog.ErrNoTurns) {
		t.Errorf("a reader's turn: %v", err)
	}
}

// TestTurnOnPool: turns on the pool of a program, whose sessions are not changed.
func TestTurnOnPool(t *testing.T) {
	t.Parallel()
	o := lined(place(t))
	l := cluster(t, o, 0)
	pool, err := pgxpool.New(t.Context(), o.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	postgres.Apart()
	onPool, err := postgres.OpenPool(t.Context(), pool, o)
	if err != nil {
		t.Fatal(err)
	}
	defer onPool.Close()
	turn(t, onPool, 0) // and is silent
	if _, newest := turn(t, l, 0); newest != 0 {
		t.Errorf("newest is %d", newest)
	}
	mustAppend(t, l, 1, "")
}

// TestCrowd: three nodes that all propose at once, with the turnstile and without: each command takes effect exactly once,
// and all come to the same state.
func TestCrowd(t *testing.T) {
	t.Parallel()
	for _, mixed := range []struct {
		name string
		with [3]bool
	}{{"none", [3]bool{}}, {"all", [3]bool{true, true, true}}, {"mixed", [3]bool{true, true, false}}} {
		t.Run(mixed.name, func(t *testing.T) {
			t.Parallel()
			o := place(t)
			engine := headwater.Options{}
			engine.Engine.SnapshotInterval = 40
			var stores []*headwater.Store
			for _, with := range mixed.with {
				o.Turnstile = with
				stores = append(stores, nodes(t, 1, o, engine)...)
			}
			clustertest.Run(t, stores, 12, time.Minute, func() { clustertest.Await(t, stores[0], 150) })
		})
	}
}
