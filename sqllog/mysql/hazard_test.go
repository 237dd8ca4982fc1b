package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// levels are the isolation levels of the server.
var levels = []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

// at returns a session of its own at an isolation level.
func at(t testing.TB, o mysql.Options, level string) *sql.Conn {
	t.Helper()
	c := session(t, o.DSN)
	mustExec(t, c, "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
	return c
}

// truncatable makes a log with rows 0 to 12 and a snapshot at 12.
func truncatable(t testing.TB, o mysql.Options) oplog.Log {
	t.Helper()
	l := cluster(t, o, 12)
	snapshot(t, l, 12)
	return l
}

func snapshot(t testing.TB, l oplog.Log, index oplog.Index) {
	t.Helper()
	w, err := l.CreateSnapshot(t.Context(), index, nil)
	if err != nil {
		t.Fatalf("create a snapshot: %v", err)
	}
	if err := w.WritePart(t.Context(), []byte("s")); err != nil {
		t.Fatalf("write a part: %v", err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatalf("commit the snapshot: %v", err)
	}
}

// waitsForLock returns when n statements wait for a row of the log of o. It watches through a session of its own, and
// asks for the monitor's report, since the tables that show the same are not renewed for as long as they are read.
func waitsForLock(t testing.TB, o mysql.Options, watch *sql.Conn, n int) {
	t.Helper()
	waiting := regexp.MustCompile("of table `[^`]*`.`" + o.Prefix + "_log` trx id [0-9]+ lock.* waiting")
	poll(t, "the statements to wait for a lock", func() bool {
		var kind, name, report string
		if err := watch.QueryRowContext(t.Context(), "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &report); err != nil {
			t.Fatalf("look for waiting statements: %v", err)
		}
		return len(waiting.FindAllString(report, -1)) >= n
	})
}

// poll asks every few milliseconds until done says yes.
func poll(t testing.TB, what string, done func() bool) {
	t.Helper()
	dbtest.Await(t, what, done)
}

// number is the server's error number, 0 for none.
func number(err error) uint16 {
	var e *driver.MySQLError
	errors.As(err, &e)
	if e == nil {
		return 0
	}
	return e.Number
}

// everywhere is a place above all rows: an append that looks for newer rows above it finds none.
const everywhere = int64(1) << 60

// appendRaw runs the text of the append by hand, looking for newer rows above above, and returns how many it inserted.
func appendRaw(c *sql.Conn, o mysql.Options, index int64, payload string, above int64) (int64, error) {
	res, err := c.ExecContext(context.Background(), mysql.AppendText(o.Prefix), index, []byte(payload), index-1, above, []byte{}, []byte{})
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// TestAppendWaitsForTruncation: a writer that paused at row 4 appends row 5 while a truncation of rows 0 to 11 is not
// committed yet. The append waits, and inserts nothing however the truncation ends, at every isolation level of both. Its
// look for newer rows, which would end it at once, is blinded: that look may have been made before there were any.
func TestAppendWaitsForTruncation(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		for _, other := range []string{"READ COMMITTED", "SERIALIZABLE"} {
			for _, end := range []string{"COMMIT", "ROLLBACK"} {
				t.Run(level+" while "+other+" "+end, func(t *testing.T) {
					t.Parallel()
					o := place(t)
					l := truncatable(t, o)
					truncator, writer, watch := at(t, o, other), at(t, o, level), session(t, o.DSN)
					mustExec(t, truncator, "BEGIN")
					mustExec(t, truncator, mysql.TruncateText(o.Prefix), 100, 12, 100)
					type result struct {
						n   int64
						err error
					}
					done := make(chan result, 1)
					go func() {
						n, err := appendRaw(writer, o, 5, "fork", everywhere)
						done <- result{n, err}
					}()
					waitsForLock(t, o, watch, 1)
					mustExec(t, truncator, end)
					got := <-done
					if end == "ROLLBACK" && number(got.err) != 1062 || end == "COMMIT" && (got.n != 0 || got.err != nil) {
						t.Errorf("the late append inserted %d rows: %v", got.n, got.err)
					}
					if rows := scan[int](t, watch, "SELECT COUNT(*) FROM "+o.Prefix+"_log WHERE payload = 'fork'"); rows != 0 {
						t.Errorf("row 5 was written twice: the history forked")
					}
					mustAppend(t, l, 13, "next")
				})
			}
		}
	}
}

// TestLateAppendOfLog: the log itself does not even wait, since it sees that row 4 is not the newest.
func TestLateAppendOfLog(t *testing.T) {
	t.Parallel()
	o := place(t)
	truncatable(t, o)
	late := open(t, o)
	truncator := at(t, o, "REPEATABLE READ")
	mustExec(t, truncator, "BEGIN")
	mustExec(t, truncator, mysql.TruncateText(o.Prefix), 100, 12, 100)
	for _, end := range []string{"SELECT 1", "COMMIT"} {
		mustExec(t, truncator, end)
		if err := late.Append(t.Context(), 5, nil, []byte("fork")); !errors.Is(err, oplog.ErrConflict) {
			t.Errorf("late append: %v, want conflict", err)
		}
	}
}

// TestUnprotectedAppendForks shows what the lock on the predecessor is for: the same interleaving with statements that do
// without it writes row 5 a second time. It keeps the tests above honest.
func TestUnprotectedAppendForks(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"plain":        "INSERT INTO %[1]s_log (idx, payload) VALUES (5, 'fork')",
		"without lock": "INSERT INTO %[1]s_log (idx, payload) SELECT 5, 'fork' FROM %[1]s_log p WHERE p.idx = 4",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := place(t)
			truncatable(t, o)
			truncator, writer, watch := at(t, o, "READ COMMITTED"), at(t, o, "READ COMMITTED"), session(t, o.DSN)
			mustExec(t, truncator, "BEGIN")
			mustExec(t, truncator, mysql.TruncateText(o.Prefix), 100, 12, 100)
			done := make(chan error, 1)
			go func() {
				_, err := writer.ExecContext(context.Background(), fmt.Sprintf(text, o.Prefix))
				done <- err
			}()
			waitsForLock(t, o, watch, 1)
			mustExec(t, truncator, "COMMIT")
			if err := <-done; err != nil {
				t.Fatalf("insert: %v", err)
			}
			if rows := scan[int](t, watch, "SELECT COUNT(*) FROM "+o.Prefix+"_log WHERE payload = 'fork'"); rows != 1 {
				t.Errorf("%d forked rows, want 1: then the tests of the append prove nothing", rows)
			}
		})
	}
}

// TestTruncationBesideAppend: an append that is not committed does not hold up a truncation, and is not harmed by it.
func TestTruncationBesideAppend(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			o := place(t)
			l := truncatable(t, o)
			writer := at(t, o, level)
			mustExec(t, writer, "BEGIN")
			if n, err := appendRaw(writer, o, 13, "new", 12); n != 1 || err != nil {
				t.Fatalf("append: %d, %v", n, err)
			}
			if n, err := l.Truncate(t.Context(), 10, 100); n != 10 || err != nil {
				t.Errorf("truncate: %d, %v, want 10 rows", n, err)
			}
			mustExec(t, writer, "COMMIT")
			rows, err := l.Read(t.Context(), 0, 1<<20)
			if err != nil || len(rows) != 4 || rows[0].Index != 10 || rows[3].Index != 13 {
				t.Errorf("rows %v, %v; want 10 to 13", rows, err)
			}
		})
	}
}

// TestThreeOnOneSlot: two appends wait for a third that is rolled back. One gets in, the other is told that it lost;
// neither sees the deadlock that plain inserts run into here.
func TestThreeOnOneSlot(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			o := place(t)
			cluster(t, o, 3)
			first, watch := at(t, o, level), session(t, o.DSN)
			mustExec(t, first, "BEGIN")
			mustExec(t, first, "INSERT INTO "+o.Prefix+"_log (idx, payload) VALUES (4, 'rolled back')")
			done := make(chan error, 2)
			for range 2 {
				l := open(t, o)
				go func() { done <- l.Append(context.Background(), 4, nil, []byte("mine")) }()
			}
			waitsForLock(t, o, watch, 2)
			mustExec(t, first, "ROLLBACK")
			var won, lost int
			for range 2 {
				switch err := <-done; {
				case err == nil:
					won++
				case errors.Is(err, oplog.ErrConflict):
					lost++
				default:
					t.Errorf("append: %v", err)
				}
			}
			if won != 1 || lost != 1 {
				t.Errorf("%d won and %d lost, want one each", won, lost)
			}
		})
	}
}

// TestPlainInsertsDeadlock: what plain inserts of three sessions on one key come to when the first is rolled back.
func TestPlainInsertsDeadlock(t *testing.T) {
	t.Parallel()
	o := place(t)
	cluster(t, o, 3)
	first, watch := session(t, o.DSN), session(t, o.DSN)
	insert := "INSERT INTO " + o.Prefix + "_log (idx, payload) VALUES (4, 'x')"
	mustExec(t, first, "BEGIN")
	mustExec(t, first, insert)
	done := make(chan uint16, 2)
	for range 2 {
		c := session(t, o.DSN)
		go func() {
			_, err := c.ExecContext(context.Background(), insert)
			done <- number(err)
		}()
	}
	waitsForLock(t, o, watch, 2)
	mustExec(t, first, "ROLLBACK")
	for range 2 {
		if n := <-done; n != 0 && mysql.Verdicts[n].Err != oplog.ErrConflict && !mysql.Verdicts[n].Retry {
			t.Errorf("error %d is neither a conflict nor tried again", n)
		}
	}
}

// TestDeadlockIsTriedAgain: an append that the server chose as the victim of a deadlock gets in all the same.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	o := place(t)
	l := cluster(t, o, 3)
	other, watch := at(t, o, "READ COMMITTED"), session(t, o.DSN)
	mustExec(t, other, "BEGIN")
	mustExec(t, other, "INSERT INTO "+o.Prefix+"_log (idx, payload) VALUES (4, 'gone again')")
	before := scan[int](t, watch, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'innodb_deadlocks'")
	done := make(chan error, 1)
	go func() { done <- l.Append(context.Background(), 4, nil, []byte("mine")) }()
	waitsForLock(t, o, watch, 1) // it has row 3 and waits for row 4
	mustExec(t, other, "UPDATE "+o.Prefix+"_log SET payload = payload WHERE idx = 3")
	if now := scan[int](t, watch, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'innodb_deadlocks'"); now == before {
		t.Error("there was no deadlock")
	}
	mustExec(t, other, "ROLLBACK")
	if err := <-done; err != nil {
		t.Errorf("append: %v", err)
	}
	rows, err := l.Read(t.Context(), 3, 1<<20)
	if err != nil || len(rows) != 1 || string(rows[0].Payload) != "mine" {
		t.Errorf("rows above 3: %v, %v", rows, err)
	}
}
