package sqllog_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// TestAppendAnswers: what each answer of the database means, how often the statement is sent (never again by
// database/sql), and whether the connection is used again. Hazard 2, field cases 01.3 and 01.5.
func TestAppendAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int64
		err   error
		want  error
		again bool // the same connection serves the next append
	}{
		{"one row", 1, nil, nil, true},
		{"no row", 0, nil, oplog.ErrConflict, true},
		{"two rows", 2, nil, oplog.ErrUnknown, true},
		{"known and definite", 0, errFull, oplog.ErrFull, true},
		{"a code that nobody knows", 0, errOdd, oplog.ErrUnknown, false},
		{"connection lost", 0, driver.ErrBadConn, oplog.ErrUnknown, false},
		{"a sentinel from below", 0, fmt.Errorf("moved: %w", oplog.ErrUnavailable), oplog.ErrUnavailable, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := func(context.Context, string) (int64, error) { return c.n, c.err }
			f := &fake{exec: func(ctx context.Context, text string) (int64, error) { return answer(ctx, text) }}
			l := newLog(t, f, nil)
			err := l.Append(t.Context(), 7, nil, nil)
			if !errors.Is(err, c.want) || c.want != nil && oplog.NotApplied(err) != oplog.NotApplied(c.want) {
				t.Errorf("append: %v, want %v", err, c.want)
			}
			if n, _ := f.seen("append"); n != 1 {
				t.Errorf("the statement was sent %d times", n)
			}
			answer = func(context.Context, string) (int64, error) { return 1, nil }
			if err := l.Append(t.Context(), 7, nil, nil); err != nil {
				t.Errorf("append afterwards: %v", err)
			}
			if _, conns := f.seen("append"); (conns == 1) != c.again {
				t.Errorf("%d connections were opened, the first is used again: want %v", conns, c.again)
			}
		})
	}
}

// TestAppendRefusedForNow: tried again until it goes, or until the lock timeout, never beyond.
func TestAppendRefusedForNow(t *testing.T) {
	busy := 5
	f := &fake{exec: func(context.Context, string) (int64, error) {
		if busy--; busy >= 0 {
			return 0, errBusy
		}
		return 1, nil
	}}
	if err := newLog(t, f, nil).Append(t.Context(), 1, nil, nil); err != nil {
		t.Errorf("append: %v", err)
	}
	if n, conns := f.seen("append"); n != 6 || conns != 1 {
		t.Errorf("sent %d times on %d connections, want 6 on 1", n, conns)
	}
	busy = 1 << 30
	l := newLog(t, f, func(c *sqllog.Config) { c.LockTimeout = time.Nanosecond })
	if err := l.Append(t.Context(), 1, nil, nil); !errors.Is(err, oplog.ErrUnavailable) || !oplog.NotApplied(err) {
		t.Errorf("append after the lock timeout: %v", err)
	}
}

// TestAppendGivenUpWhileRefused: between two tries nothing is with the database, so the end is definite, and no try
// comes after it.
func TestAppendGivenUpWhileRefused(t *testing.T) {
	tried := make(chan struct{}, 1)
	f := &fake{exec: func(context.Context, string) (int64, error) {
		select {
		case tried <- struct{}{}:
		default:
		}
		return 0, errBusy
	}}
	l := newLog(t, f, func(c *sqllog.Config) { c.Grace = time.Minute })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-tried; cancel() }()
	err := l.Append(ctx, 1, nil, nil)
	if !errors.Is(err, context.Canceled) || !oplog.NotApplied(err) {
		t.Errorf("append: %v, want a definite end", err)
	}
	before, _ := f.seen("append")
	l.Close() // waits for the statement's goroutine
	if after, _ := f.seen("append"); after > before+1 {
		t.Errorf("sent %d times more after it was given up", after-before)
	}
}

// TestAppendAbandoned: a caller that leaves a statement under way gets "unknown" and cancels nothing; the next append
// waits for the answer, and the late one does not disturb it. Hazards 2 and 3, field case 13.7.
func TestAppendAbandoned(t *testing.T) {
	arrived, release := make(chan context.Context, 1), make(chan struct{})
	first := true
	f := &fake{exec: func(ctx context.Context, _ string) (int64, error) {
		if first {
			first = false
			arrived <- ctx
			<-release
		}
		return 1, nil
	}}
	l := newLog(t, f, nil)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- l.Append(ctx, 1, nil, []byte("x")) }()
	statement := <-arrived
	cancel()
	if err := <-result; !errors.Is(err, oplog.ErrUnknown) || !errors.Is(err, context.Canceled) || oplog.NotApplied(err) {
		t.Errorf("append: %v, want unknown and the context's error", err)
	}
	if statement.Err() != nil {
		t.Error("the statement was cancelled with its caller")
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := l.Append(ended, 2, nil, nil); !errors.Is(err, context.DeadlineExceeded) || !oplog.NotApplied(err) {
		t.Errorf("append that waited for the other's answer: %v, want a definite end", err)
	}
	close(release)
	if err := l.Append(t.Context(), 2, nil, nil); err != nil {
		t.Errorf("append afterwards: %v", err)
	}
	if n, conns := f.seen("append"); n != 2 || conns != 1 {
		t.Errorf("sent %d times on %d connections, want 2 on 1", n, conns)
	}
}

// TestAppendAbandonedReplicated: where rows may be seen that no standby has, an append that was given up without an answer
// says that reading its row is not enough. Hazard 2.
func TestAppendAbandonedReplicated(t *testing.T) {
	for _, replicated := range []bool{false, true} {
		arrived, release := make(chan struct{}), make(chan struct{})
		f := &fake{exec: func(context.Context, string) (int64, error) {
			close(arrived)
			<-release
			return 1, nil
		}}
		l := newLog(t, f, func(c *sqllog.Config) { c.Dialect.Replicated = replicated })
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() { result <- l.Append(ctx, 1, nil, nil) }()
		<-arrived
		cancel()
		if err := <-result; !errors.Is(err, oplog.ErrUnknown) || errors.Is(err, oplog.ErrNotDurable) != replicated || !errors.Is(err, context.Canceled) {
			t.Errorf("append, replicated %v: %v", replicated, err)
		}
		close(release)
	}
}

// TestStatementTimeout: a server that never answers costs one connection and an unknown outcome, not the log.
func TestStatementTimeout(t *testing.T) {
	hang := true
	f := &fake{exec: func(ctx context.Context, _ string) (int64, error) {
		if hang {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return 1, nil
	}}
	l := newLog(t, f, func(c *sqllog.Config) { c.StatementTimeout = time.Millisecond })
	if err := l.Append(t.Context(), 1, nil, nil); !errors.Is(err, oplog.ErrUnknown) {
		t.Errorf("append: %v, want unknown", err)
	}
	hang = false
	if err := l.Append(t.Context(), 1, nil, nil); err != nil {
		t.Errorf("append afterwards: %v", err)
	}
	if _, conns := f.seen("append"); conns != 2 {
		t.Errorf("%d connections, want a new one", conns)
	}
}

// TestReadBrokenOff: half a result is no result. Field case 04.5, hazard 18.
func TestReadBrokenOff(t *testing.T) {
	for name, cause := range map[string]error{"odd": errOdd, "lost": driver.ErrBadConn, "eof": errors.New("unexpected EOF")} {
		f := &fake{query: func(context.Context, string) (*fakeRows, error) {
			return &fakeRows{rows: [][]driver.Value{{int64(1), []byte("a")}, {int64(2), []byte("b")}}, err: cause}, nil
		}}
		rows, err := newLog(t, f, nil).Read(t.Context(), 0, 1<<20)
		if !errors.Is(err, oplog.ErrUnavailable) || errors.Is(err, oplog.ErrUnknown) || len(rows) != 0 {
			t.Errorf("%s: %d rows, %v; want none and unavailable", name, len(rows), err)
		}
	}
}

// TestReadPages: where the dialect asks for pages, a read goes on while pages are full and fit, and is nothing where one
// of them broke off.
func TestReadPages(t *testing.T) {
	broken := errors.New("connection reset")
	for name, c := range map[string]struct {
		second     *fakeRows
		maxBytes   int
		rows, asks int
		err        error
	}{
		"a full page and a rest":  {&fakeRows{rows: fakePage(5, 3)}, 1 << 20, 7, 2, nil},
		"a full page that fills":  {&fakeRows{rows: fakePage(5, 16)}, 400, 4, 2, nil}, // the second look finds that nothing more fits
		"less than a page":        {nil, 350, 3, 1, nil},
		"a page that broke off":   {&fakeRows{rows: fakePage(5, 2), err: broken}, 1 << 20, 0, 2, oplog.ErrUnavailable},
		"a full page and nothing": {&fakeRows{rows: fakePage(5, 0)}, 1 << 20, 4, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pages := []*fakeRows{{rows: fakePage(1, 4)}, c.second}
			asks := 0
			f := &fake{query: func(context.Context, string) (*fakeRows, error) {
				asks++
				return pages[asks-1], nil
			}}
			rows, err := newLog(t, f, func(c *sqllog.Config) { c.Dialect.Page = 4 }).Read(t.Context(), 0, c.maxBytes)
			if len(rows) != c.rows || asks != c.asks || !errors.Is(err, c.err) {
				t.Errorf("%d rows by %d statements, %v; want %d by %d, %v", len(rows), asks, err, c.rows, c.asks, c.err)
			}
			for i, r := range rows {
				if r.Index != oplog.Index(i+1) {
					t.Errorf("row %d is at %d", i+1, r.Index)
				}
			}
		})
	}
}

// TestReadAsksForWhatFits: a log of large rows is not sent many times over, since a read asks for as many as the read before
// says will fit. Field case 06.5.
func TestReadAsksForWhatFits(t *testing.T) {
	const rows, size = 40, 100 // fakePage's
	for maxBytes, most := range map[int]int{size / 2: 1, size: 2, 3 * size: 5} {
		sent, from := 0, int64(0)
		f := &fake{}
		f.query = func(context.Context, string) (*fakeRows, error) {
			n := min(int(f.args[len(f.args)-1].Value.(int64)), int(rows-from))
			sent += n
			return &fakeRows{rows: fakePage(int(from)+1, n)}, nil
		}
		l := newLog(t, f, func(c *sqllog.Config) { c.Dialect.Page = 16 })
		for reads := 0; from < rows; reads++ {
			sent = 0
			found, err := l.Read(t.Context(), oplog.Index(from), maxBytes)
			if err != nil || len(found) == 0 {
				t.Fatalf("read after %d: %d rows, %v", from, len(found), err)
			}
			if reads > 0 && sent > most {
				t.Errorf("%d bytes, after %d: %d rows were sent, %d fit", maxBytes, from, sent, len(found))
			}
			from += int64(len(found))
		}
	}
}

// fakePage is n rows of 100 bytes from an index on.
func fakePage(from, n int) [][]driver.Value {
	rows := [][]driver.Value{}
	for i := range n {
		rows = append(rows, []driver.Value{int64(from + i), make([]byte, 100)})
	}
	return rows
}

// TestReadHoldsOneRowMore: the byte budget stops the reading, not only the answer. Field case 06.5.
func TestReadHoldsOneRowMore(t *testing.T) {
	result := &fakeRows{}
	for i := range int64(10) {
		result.rows = append(result.rows, []driver.Value{i + 1, make([]byte, 100)})
	}
	f := &fake{query: func(context.Context, string) (*fakeRows, error) { return result, nil }}
	rows, err := newLog(t, f, nil).Read(t.Context(), 0, 250)
	if err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v; want 2", len(rows), err)
	}
	if left := len(result.rows); left != 7 {
		t.Errorf("%d rows are left unread, want 7: two returned, one looked at", left)
	}
}

// TestReadOwnsItsRows: a driver may use the memory of its values again, unless the dialect says that it does not; then
// nothing is copied.
func TestReadOwnsItsRows(t *testing.T) {
	for _, own := range []bool{false, true} {
		buffer := []byte("payload")
		f := &fake{query: func(context.Context, string) (*fakeRows, error) {
			return &fakeRows{rows: [][]driver.Value{{int64(1), buffer}}}, nil
		}}
		rows, err := newLog(t, f, func(c *sqllog.Config) { c.Dialect.OwnBytes = own }).Read(t.Context(), 0, 1<<20)
		if err != nil || len(rows) != 1 || string(rows[0].Payload) != "payload" {
			t.Fatalf("own=%t: %v, %v", own, rows, err)
		}
		if buffer[0] = 'X'; (rows[0].Payload[0] == 'X') != own {
			t.Errorf("own=%t: the row is %q after the driver used its memory again", own, rows[0].Payload)
		}
	}
}

// TestCloseUnderWay: Close waits for a statement under way, which ends with its own result; a wait ends with ErrClosed.
func TestCloseUnderWay(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	f := &fake{
		exec: func(context.Context, string) (int64, error) {
			close(arrived)
			<-release
			return 1, nil
		},
		query: func(context.Context, string) (*fakeRows, error) {
			return &fakeRows{rows: [][]driver.Value{{int64(1)}}}, nil
		},
	}
	l := newLog(t, f, nil)
	appended, waited, closed := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { appended <- l.Append(t.Context(), 2, nil, nil) }()
	go func() { waited <- l.Wait(t.Context(), 1) }()
	<-arrived
	go func() { closed <- l.Close() }()
	if err := <-waited; !errors.Is(err, oplog.ErrClosed) {
		t.Errorf("wait: %v", err)
	}
	select {
	case err := <-closed:
		t.Fatalf("close did not wait for the append: %v", err)
	default:
	}
	close(release)
	if err := <-appended; err != nil {
		t.Errorf("append: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestCloseWhileRefused: a lock that is never free does not keep Close.
func TestCloseWhileRefused(t *testing.T) {
	tried := make(chan struct{}, 1<<16)
	refuse := func() error { tried <- struct{}{}; return errBusy }
	f := &fake{
		exec:  func(context.Context, string) (int64, error) { return 0, refuse() },
		query: func(context.Context, string) (*fakeRows, error) { return nil, refuse() },
	}
	for name, call := range map[string]func(*sqllog.Log) error{
		"append":   func(l *sqllog.Log) error { return l.Append(t.Context(), 1, nil, nil) },
		"truncate": func(l *sqllog.Log) error { _, err := l.Truncate(t.Context(), 1, 1); return err },
		"read":     func(l *sqllog.Log) error { _, err := l.Read(t.Context(), 1, 1); return err },
	} {
		l := newLog(t, f, nil)
		ended := make(chan error)
		go func() { ended <- call(l) }()
		<-tried
		if err := l.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
		if err := <-ended; !errors.Is(err, oplog.ErrClosed) || !oplog.NotApplied(err) {
			t.Errorf("%s: %v, want closed", name, err)
		}
	}
}

// TestListen: what the dialect hears makes a waiting log look; it polls once an hour here.
func TestListen(t *testing.T) {
	newest := make(chan int64, 2)
	looked := make(chan struct{}, 2)
	f := &fake{query: func(context.Context, string) (*fakeRows, error) {
		looked <- struct{}{}
		return &fakeRows{rows: [][]driver.Value{{<-newest}}}, nil
	}}
	wakes := make(chan func(), 1)
	ended := make(chan struct{})
	l := newLog(t, f, func(c *sqllog.Config) {
		c.Dialect.Listen = func(ctx context.Context, wake func(), _ func(oplog.Index), _ func(bool)) {
			wakes <- wake
			<-ctx.Done()
			close(ended)
		}
	})
	waited := make(chan error, 1)
	go func() { waited <- l.Wait(t.Context(), 5) }()
	newest <- 5
	<-looked
	newest <- 6
	(<-wakes)()
	if err := <-waited; err != nil {
		t.Errorf("wait: %v", err)
	}
	l.Close()
	<-ended
}

func TestConfigRefused(t *testing.T) {
	for name, change := range map[string]func(*sqllog.Config){
		"no database":     func(c *sqllog.Config) { c.DB = nil },
		"no classifier":   func(c *sqllog.Config) { c.Dialect.Classify = nil },
		"no poll":         func(c *sqllog.Config) { c.Poll = 0 },
		"no lock timeout": func(c *sqllog.Config) { c.LockTimeout = 0 },
	} {
		var refused sqllog.Config
		newLog(t, &fake{}, func(c *sqllog.Config) { refused = *c })
		change(&refused)
		if _, err := sqllog.New(refused); !errors.Is(err, oplog.ErrSettings) {
			t.Errorf("%s: %v, want setting refused", name, err)
		}
	}
}

// TestAbortAfterDoubtedCommit: after a commit of a snapshot that may still take effect, its parts are not deleted. Hazard 5.
func TestAbortAfterDoubtedCommit(t *testing.T) {
	for end, aborts := range map[error]int{errOdd: 0, errFull: 1} {
		f := &fake{exec: func(_ context.Context, text string) (int64, error) {
			switch text {
			case "commit":
				return 0, end
			case "part":
				return 1, nil
			}
			return 0, nil
		}}
		l := newLog(t, f, func(c *sqllog.Config) {
			s := &c.Dialect.Statements
			s.InsertPart.Text, s.Commit.Text, s.Abort.Text = "part", "commit", "abort"
		})
		w, err := l.CreateSnapshot(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WritePart(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(t.Context()); err == nil {
			t.Error("commit succeeded")
		}
		if err := w.Abort(t.Context()); err != nil {
			t.Errorf("abort: %v", err)
		}
		if n, _ := f.seen("abort"); n != aborts {
			t.Errorf("after a commit that ended in %v the parts were deleted %d times, want %d", end, n, aborts)
		}
	}
}

// TestWaitBesideOwnRows: a node that waits anew after each row that it wrote, or heard of by its index, does not look at the
// database each time, and misses nothing that it was told of: not where it was told before its own row was acknowledged, either.
func TestWaitBesideOwnRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var newest atomic.Int64
		f := &fake{
			exec: func(context.Context, string) (int64, error) { return 1, nil },
			query: func(context.Context, string) (*fakeRows, error) {
				return &fakeRows{rows: [][]driver.Value{{newest.Load()}}}, nil
			},
		}
		signal := sqllog.NewSignal()
		var told func(oplog.Index)
		l := newLog(t, f, func(c *sqllog.Config) {
			c.Signal, c.Poll, c.IdlePoll = signal, time.Second, time.Second
			c.Dialect.Listen = func(ctx context.Context, _ func(), heard func(oplog.Index), _ func(bool)) {
				told = heard
				<-ctx.Done()
			}
		})
		defer l.Close()
		ended := make(chan error, 1)
		wait := func(after oplog.Index) {
			go func() { ended <- l.Wait(t.Context(), after) }()
			synctest.Wait()
		}
		over := func(want bool) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-ended:
				if !want || err != nil {
					t.Fatalf("the wait ended: %v", err)
				}
			default:
				if want {
					t.Fatal("the wait goes on")
				}
			}
		}
		looks := 0
		looked := func(more int) {
			t.Helper()
			got, _ := f.seen("newest")
			if looks += more; got != looks {
				t.Fatalf("%d looks, want %d", got, looks)
			}
		}
		appendRow := func(at int64) {
			t.Helper()
			newest.Store(at)
			if err := l.Append(t.Context(), oplog.Index(at), nil, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}

		wait(0)
		looked(1)
		for at := int64(1); at < 10; at++ {
			appendRow(at)
			over(true)
			wait(oplog.Index(at))
			looked(0)
		}
		newest.Store(10) // of another process, which tells nobody
		time.Sleep(time.Second)
		over(true)
		looked(1)

		wait(10)
		looked(1)
		signal.Wake() // about row 12, before the answer to our row 11 comes
		over(true)
		appendRow(11)
		newest.Store(12)
		wait(11)
		over(true)
		looked(1)

		wait(12)
		looked(1)
		told(12) // read already
		over(false)
		for at := int64(13); at < 20; at++ {
			newest.Store(at)
			told(oplog.Index(at))
			over(true)
			wait(oplog.Index(at))
			looked(0)
		}
		told(30) // of a history that is no longer there: no row, so this wait ends, and the next ones look
		over(true)
		for range 3 {
			wait(19)
			over(false)
			looked(1)
			signal.Wake()
			over(true)
		}
		newest.Store(20)
		wait(19)
		over(true)
		looked(1)
	})
}
