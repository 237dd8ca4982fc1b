package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// awaitLocked waits until a session that runs a statement with this text waits for another session.
func awaitLocked(t testing.TB, c *pgx.Conn, text string) {
	t.Helper()
	awaitSession(t, c, "wait_event_type = 'Lock' AND strpos(query, $1) > 0", text)
}

// awaitSession waits until a session for which the condition holds is there.
func awaitSession(t testing.TB, c *pgx.Conn, condition string, args ...any) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); ; {
		if scan[int](t, c, "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "+condition, args...) > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("no session came to: %s", condition)
		}
	}
}

// move takes the log on from newest, and truncates it, in a transaction that is left open: rows 1 to 3 above newest come,
// everything below the last one goes. To a statement of now row newest is still the newest one.
func move(t testing.TB, admin *pgx.Conn, o postgres.Options, newest int) {
	t.Helper()
	mustExec(t, admin, "BEGIN ISOLATION LEVEL READ COMMITTED")
	mustExec(t, admin, "INSERT INTO "+o.Prefix+"_log (idx, payload) SELECT i, 'other' FROM generate_series($1::bigint, $2::bigint) i", newest+1, newest+3)
	mustExec(t, admin, "DELETE FROM "+o.Prefix+"_log WHERE idx < $1", newest+3)
}

// TestAppendWaitsForTruncation: an append whose predecessor is being truncated waits for the end of that transaction,
// and is then refused if it commits, or goes through if it does not. Hazard 1.
func TestAppendWaitsForTruncation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		end, way  string
		turnstile bool
		want      error
	}{
		{"COMMIT", "free", false, oplog.ErrConflict}, {"ROLLBACK", "free", false, nil},
		{"COMMIT", "free", true, oplog.ErrConflict}, {"ROLLBACK", "free", true, nil},
		{"COMMIT", "in turn", true, oplog.ErrConflict}, {"ROLLBACK", "in turn", true, nil},
	} {
		end, want := c.end, c.want
		t.Run(fmt.Sprintf("%s/%s/turnstile=%t", end, c.way, c.turnstile), func(t *testing.T) {
			t.Parallel()
			o := place(t)
			o.Turnstile = c.turnstile
			l := cluster(t, o, 5)
			admin, watcher := session(t, o.DSN), session(t, o.DSN)
			move(t, admin, o, 5)
			done := make(chan error, 1)
			go func() { done <- ways[c.way](t.Context(), l, 6, "late") }()
			awaitLocked(t, watcher, o.Prefix)
			select {
			case err := <-done:
				t.Fatalf("the append did not wait: %v", err)
			default:
			}
			mustExec(t, admin, end)
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("append: %v, want %v", err, want)
			} else if err != nil && !oplog.NotApplied(err) {
				t.Errorf("append: %v does not vouch that nothing was applied", err)
			}
			if n := scan[int](t, watcher, "SELECT count(*) FROM "+o.Prefix+"_log WHERE payload = 'late'"); (n == 1) != (want == nil) {
				t.Errorf("the late row is there %d times", n)
			}
		})
	}
}

// TestTruncationWaitsForAppend: the other way round, a truncation waits for an append that has locked what it would delete.
func TestTruncationWaitsForAppend(t *testing.T) {
	t.Parallel()
	o := place(t)
	l := cluster(t, o, 8)
	s, err := l.CreateSnapshot(t.Context(), 8, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.WritePart(t.Context(), []byte("s")), s.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	appender, watcher := session(t, o.DSN), session(t, o.DSN)
	mustExec(t, appender, "BEGIN")
	mustExec(t, appender, "SELECT 1 FROM "+o.Prefix+"_log WHERE idx = 3 FOR KEY SHARE") // an append at 4 that was here long ago
	done := make(chan error, 1)
	go func() {
		n, err := l.Truncate(t.Context(), 8, 100)
		if err == nil && n != 8 {
			t.Errorf("%d rows were truncated, want 8", n)
		}
		done <- err
	}()
	awaitLocked(t, watcher, o.Prefix)
	mustExec(t, appender, "COMMIT")
	if err := <-done; err != nil {
		t.Errorf("truncate: %v", err)
	}
}

// TestTruncatedSlotAtEachLevel runs the product's append in a session of each isolation level against the open
// transaction. What is answered 40001 is sent again, as the log does.
func TestTruncatedSlotAtEachLevel(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			o := place(t)
			cluster(t, o, 5)
			for _, text := range []func(postgres.Options) string{postgres.AppendText, postgres.PoliteText} {
				n, states := lateInsert(t, o, text(o), level)
				if n != 0 {
					t.Errorf("%d rows were inserted into a truncated slot", n)
				}
				want := map[string]string{"READ COMMITTED": "", "REPEATABLE READ": "40001", "SERIALIZABLE": "40001"}[level]
				if got := strings.Join(states, " "); got != want {
					t.Errorf("the server refused it with %q, want %q", got, want)
				}
				o = place(t)
				cluster(t, o, 5)
			}
		})
	}
}

// TestTruncatedSlotWithoutLock shows what the lock is for: the same statement without it, and with another check, puts a
// second row into a slot that was truncated. Should this fail on a server, the lock is not needed there.
func TestTruncatedSlotWithoutLock(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func(o postgres.Options) string{
		"newest": func(o postgres.Options) string {
			return strings.Replace(postgres.AppendText(o), "FOR KEY SHARE OF p", "", 1)
		},
		"exists": func(o postgres.Options) string {
			return "INSERT INTO " + o.Prefix + "_log (idx, payload) SELECT $1::bigint, $2::bytea WHERE EXISTS (SELECT 1 FROM " + o.Prefix + "_log WHERE idx = $3::bigint) AND $4::bytea IS NOT NULL"
		},
		"plain": func(o postgres.Options) string {
			return "INSERT INTO " + o.Prefix + "_log (idx, payload) SELECT $1::bigint, $2::bytea WHERE $3::bigint > 0 AND $4::bytea IS NOT NULL"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := place(t)
			cluster(t, o, 5)
			if n, _ := lateInsert(t, o, text(o), "READ COMMITTED"); n != 1 {
				t.Errorf("%d rows were inserted: the interleaving does not show the fault any more", n)
			}
		})
	}
}

// lateInsert runs text for row 6 of 5 beside the transaction of move, which then commits. It returns how many rows went
// in, and with what the server refused it before.
func lateInsert(t *testing.T, o postgres.Options, text, level string) (inserted int64, states []string) {
	t.Helper()
	admin, watcher, late := session(t, o.DSN), session(t, o.DSN), session(t, o.DSN)
	move(t, admin, o, 5)
	mustExec(t, late, "SET default_transaction_isolation = '"+strings.ToLower(level)+"'")
	type answer struct {
		n   int64
		err error
	}
	done := make(chan answer, 1)
	insert := func() {
		tag, err := late.Exec(context.Background(), text, pgx.QueryExecModeExec, int64(6), []byte("late"), int64(5), []byte{})
		done <- answer{tag.RowsAffected(), err}
	}
	go insert()
	awaitLocked(t, watcher, o.Prefix)
	mustExec(t, admin, "COMMIT")
	for range 5 {
		a := <-done
		var e *pgconn.PgError
		if !errors.As(a.err, &e) {
			if a.err != nil {
				t.Fatalf("insert: %v", a.err)
			}
			return a.n, states
		}
		states = append(states, e.Code)
		go insert()
	}
	t.Fatalf("refused again and again: %v", states)
	return 0, nil
}

// TestStaleSnapshot: a session whose picture of the log is from before others appended and truncated, and from before
// that was committed, gets nothing in.
func TestStaleSnapshot(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		o := place(t)
		cluster(t, o, 5)
		stale, admin := session(t, o.DSN), session(t, o.DSN)
		mustExec(t, stale, "BEGIN ISOLATION LEVEL "+level)
		if n := scan[int64](t, stale, "SELECT max(idx) FROM "+o.Prefix+"_log"); n != 5 {
			t.Fatalf("newest is %d", n)
		}
		move(t, admin, o, 5)
		mustExec(t, admin, "COMMIT")
		_, err := stale.Exec(t.Context(), postgres.AppendText(o), int64(6), []byte("late"), int64(5), []byte{})
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "40001" {
			t.Errorf("%s: %v, want 40001", level, err)
		}
	}
}

// TestUncommittedSlot: a slot that a transaction holds without an end is waited for, not jumped over. Field case 04.1.
func TestUncommittedSlot(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]error{"COMMIT": oplog.ErrConflict, "ROLLBACK": nil} {
		o := place(t)
		l, other := cluster(t, o, 3), open(t, o)
		admin, watcher := session(t, o.DSN), session(t, o.DSN)
		mustExec(t, admin, "BEGIN")
		mustExec(t, admin, "INSERT INTO "+o.Prefix+"_log VALUES (4, 'admin')")
		done := make(chan error, 1)
		go func() { done <- l.Append(t.Context(), 4, nil, []byte("mine")) }()
		awaitLocked(t, watcher, o.Prefix)
		if err := other.Append(t.Context(), 5, nil, nil); !errors.Is(err, oplog.ErrConflict) {
			t.Errorf("append beyond a slot that is not taken yet: %v", err)
		}
		mustExec(t, admin, end)
		if err := <-done; !errors.Is(err, want) {
			t.Errorf("%s: append: %v, want %v", end, err, want)
		}
	}
}

// TestGenesisBesideSnapshot: a slow init cannot put row 0 below a log that was truncated meanwhile.
func TestGenesisBesideSnapshot(t *testing.T) {
	t.Parallel()
	o := place(t)
	l, late := cluster(t, o, 0), open(t, o)
	admin, watcher := session(t, o.DSN), session(t, o.DSN)
	mustExec(t, admin, "DELETE FROM "+o.Prefix+"_log") // as it was when the slow one looked
	mustExec(t, admin, "BEGIN")
	mustExec(t, admin, "INSERT INTO "+o.Prefix+"_log VALUES (7, 'newest')")
	mustExec(t, admin, "UPDATE "+o.Prefix+"_snapshot SET idx = 7, parts = 1")
	done := make(chan error, 1)
	go func() { done <- late.Init(t.Context(), []byte("late")) }()
	awaitLocked(t, watcher, o.Prefix)
	mustExec(t, admin, "COMMIT")
	if err := <-done; !errors.Is(err, oplog.ErrExists) {
		t.Errorf("init: %v, want that a cluster exists", err)
	}
	if n := scan[int](t, watcher, "SELECT count(*) FROM "+o.Prefix+"_log WHERE idx = 0"); n != 0 {
		t.Error("row 0 was written below a truncated log")
	}
	if err := l.Append(t.Context(), 8, nil, nil); err != nil {
		t.Errorf("append: %v", err)
	}
}
