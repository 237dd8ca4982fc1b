package proxy_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/headwaterdb/headwater/internal/dbtest/fakedb"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
)

// side is one database behind a proxy, with the statements of a log in its language.
type side struct {
	name     string
	proxy    *proxy.Proxy
	server   *fakedb.Server
	protocol proxy.Protocol
	open     func(address string) *sql.DB
	insert   string
}

const genesis, newest = "INSERT INTO p_log (idx, payload) SELECT 0, ", "SELECT max(idx) FROM p_log"

func postgresAt(address string) *sql.DB {
	c, err := pgx.ParseConfig("postgres://u@" + address + "/d?sslmode=disable")
	if err != nil {
		panic(err)
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	return stdlib.OpenDB(*c)
}

func mysqlAt(address string) *sql.DB {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.DBName, c.Logger = "tcp", address, "u", "d", &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		panic(err)
	}
	return sql.OpenDB(connector)
}

// both runs a test on each protocol. The log has row 0.
func both(t *testing.T, test func(t *testing.T, s side, db *sql.DB)) {
	for _, s := range []side{
		{name: "postgres", protocol: proxy.Postgres, server: fakedb.NewPostgres(t, fakedb.Options{}), open: postgresAt,
			insert: "INSERT INTO p_log (idx, payload)\n\tSELECT $1::bigint, $2::bytea FROM p_log WHERE idx = $3::bigint"},
		{name: "mysql", protocol: proxy.MySQL, server: fakedb.NewMySQL(t, fakedb.Options{}), open: mysqlAt,
			insert: "INSERT INTO p_log (idx, payload)\n\tSELECT ?, ? FROM p_log WHERE idx = ?"},
	} {
		t.Run(s.name, func(t *testing.T) {
			s.proxy = proxy.New(t, s.protocol, s.server.Addr())
			db := s.open(s.proxy.Addr())
			t.Cleanup(func() { db.Close() })
			placeholder := "$1"
			if s.protocol == proxy.MySQL {
				placeholder = "?"
			}
			must(t, db, "CREATE TABLE IF NOT EXISTS p_log (idx BIGINT, payload BYTEA)")
			must(t, db, genesis+placeholder, []byte("genesis"))
			test(t, s, db)
		})
	}
}

func must(t *testing.T, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// row returns what the server has at an index.
func (s side) row(index int64) string { return string(s.server.Tables().Rows("p")[index]) }

const insertInto = "insert into p_log (idx, payload) select"

// appendTo runs the insert on a connection of its own, which is not used again, so that nothing tries it twice.
func (s side) appendTo(ctx context.Context, db *sql.DB, at int64, payload string) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.ExecContext(ctx, s.insert, at, []byte(payload), at-1)
	return err
}

func TestLoseAnswer(t *testing.T) {
	both(t, func(t *testing.T, s side, db *sql.DB) {
		trap := s.proxy.Add(proxy.LoseAnswer(insertInto))
		if err := s.appendTo(t.Context(), db, 1, "one"); err == nil {
			t.Error("an answer came through")
		}
		<-trap.Answered()
		if got := s.row(1); got != "one" {
			t.Errorf("row 1 is %q, want it committed", got)
		}
		if err := s.appendTo(t.Context(), db, 2, "two"); err != nil { // used up
			t.Errorf("append after the rule: %v", err)
		}
	})
}

func TestLoseStatement(t *testing.T) {
	both(t, func(t *testing.T, s side, db *sql.DB) {
		trap := s.proxy.Add(proxy.LoseStatement(insertInto))
		if err := s.appendTo(t.Context(), db, 1, "one"); err == nil {
			t.Error("an answer came through")
		}
		<-trap.Sprung()
		if got := s.row(1); got != "" {
			t.Errorf("row 1 is %q, want none", got)
		}
	})
}

func TestHoldAnswer(t *testing.T) {
	both(t, func(t *testing.T, s side, db *sql.DB) {
		gate := proxy.NewGate()
		trap := s.proxy.Add(proxy.HoldAnswer(insertInto, gate))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-trap.Sprung(); cancel() }() // the caller's time is over while the answer is on the way
		if err := s.appendTo(ctx, db, 1, "one"); !errors.Is(err, context.Canceled) {
			t.Errorf("append: %v, want its context's error", err)
		}
		if got := s.row(1); got != "one" {
			t.Errorf("row 1 is %q, want it committed", got)
		}

		patient := s.proxy.Add(proxy.HoldAnswer(insertInto, gate))
		go func() { <-patient.Sprung(); gate.Open() }()
		if err := s.appendTo(t.Context(), db, 2, "two"); err != nil {
			t.Errorf("append whose answer was late: %v", err)
		}
	})
}

// TestLateStatement: an insert is held, its writer gives up or loses the connection, another one goes on, and then the
// insert arrives.
func TestLateStatement(t *testing.T) {
	both(t, func(t *testing.T, s side, db *sql.DB) {
		for i, c := range []struct {
			rule           func(string, *proxy.Gate) proxy.Rule
			meanwhile, end string
		}{
			{proxy.HoldStatement, "", "late"}, {proxy.HoldStatement, "another", "another"},
			{proxy.AbandonStatement, "", "late"}, {proxy.AbandonStatement, "another", "another"},
		} {
			at, gate := int64(i+1), proxy.NewGate()
			trap := s.proxy.Add(c.rule(insertInto, gate))
			ctx, cancel := context.WithCancel(t.Context())
			if held := c.rule("", nil); !held.Cut {
				go func() { <-trap.Sprung(); cancel() }()
			}
			if err := s.appendTo(ctx, db, at, "late"+strings.Repeat(" ", 1<<20)); err == nil || errors.Is(err, context.Canceled) != (ctx.Err() != nil) {
				t.Errorf("append: %v", err)
			}
			cancel()
			if got := s.row(at); got != "" {
				t.Errorf("row %d is %q while it is held", at, got)
			}
			if c.meanwhile != "" {
				if err := s.appendTo(t.Context(), db, at, c.meanwhile); err != nil {
					t.Errorf("append in the meantime: %v", err)
				}
			}
			answered := s.proxy.Add(proxy.Rule{From: proxy.Server, Text: insertInto, Runs: true, Mute: true})
			gate.Open()
			<-answered.Answered()
			if got := strings.TrimSpace(s.row(at)); got != c.end {
				t.Errorf("row %d became %q, want %q", at, got, c.end)
			}
		}
	})
}

// TestBlackHole: what is open goes dead without a word, what is new reaches the other server.
func TestBlackHole(t *testing.T) {
	both(t, func(t *testing.T, s side, db *sql.DB) {
		second := fakedb.NewPostgres(t, fakedb.Options{Tables: s.server.Tables()})
		if s.protocol == proxy.MySQL {
			second = fakedb.NewMySQL(t, fakedb.Options{Tables: s.server.Tables()})
		}
		dead, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer dead.Close()
		s.proxy.BlackHole()
		s.proxy.SetUpstream(second.Addr())
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() {
			_, err := dead.ExecContext(ctx, s.insert, 1, []byte("lost"), 0)
			answered <- err
		}()
		if err := s.appendTo(t.Context(), db, 1, "one"); err != nil {
			t.Errorf("append over a new connection: %v", err)
		}
		select {
		case err := <-answered:
			t.Errorf("the dead connection answered: %v", err)
		default:
		}
		// Before the call is given up: the driver may then send its request to cancel over a connection of its own.
		if second.Accepted() != 1 {
			t.Errorf("%d connections to the second server, want 1", second.Accepted())
		}
		cancel()
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Errorf("append over the dead connection: %v", err)
		}
	})
}

func TestRefuse(t *testing.T) {
	both(t, func(t *testing.T, s side, db *sql.DB) {
		before := s.proxy.Accepted()
		s.proxy.Refuse(true)
		s.proxy.Cut()
		for range 3 {
			c, err := net.Dial("tcp", s.proxy.Addr())
			if err != nil {
				continue // the reset came so soon
			}
			if _, err := io.ReadAll(c); err == nil {
				t.Error("a refused connection ended without an error")
			}
			c.Close()
		}
		if got := s.proxy.Accepted() - before; got != 3 {
			t.Errorf("%d attempts, want 3", got)
		}
		s.proxy.Refuse(false)
		s.proxy.SetUpstream("127.0.0.1:1")
		if err := s.appendTo(t.Context(), db, 1, "x"); err == nil {
			t.Error("append without a server")
		}
		s.proxy.SetUpstream(s.server.Addr())
		if err := s.appendTo(t.Context(), db, 1, "one"); err != nil {
			t.Errorf("append after all that: %v", err)
		}
	})
}

// TestResults: the end of an answer is found whatever it consists of, prepared or not.
func TestResults(t *testing.T) {
	both(t, func(t *testing.T, s side, db *sql.DB) {
		large := make([]byte, 5<<20)
		rand.Read(large)
		if err := s.appendTo(t.Context(), db, 1, string(large)); err != nil {
			t.Fatalf("append: %v", err)
		}
		args := map[proxy.Protocol]string{proxy.Postgres: "SELECT idx, payload FROM p_log WHERE idx > $1 ORDER BY idx LIMIT $2",
			proxy.MySQL: "SELECT idx, payload FROM p_log WHERE idx > ? ORDER BY idx LIMIT ?"}[s.protocol]
		for range 3 { // the third time with what was prepared
			rows, err := db.QueryContext(t.Context(), args, -1, 10)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for ; rows.Next(); n++ {
				var idx int64
				var payload []byte
				if err := rows.Scan(&idx, &payload); err != nil || idx == 1 && !bytes.Equal(payload, large) {
					t.Errorf("row %d: %d bytes, %v", idx, len(payload), err)
				}
			}
			if rows.Err() != nil || n != 2 {
				t.Errorf("%d rows, %v", n, rows.Err())
			}
			rows.Close()
		}
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		trap := s.proxy.Add(proxy.LoseAnswer("select idx, payload from p_log"))
		rows, err := c.QueryContext(t.Context(), args, -1, 10)
		if err == nil {
			for rows.Next() {
			}
			err = rows.Err()
			rows.Close()
		}
		if err == nil {
			t.Error("a lost result came through")
		}
		<-trap.Answered()
		var n int64
		if err := db.QueryRowContext(t.Context(), newest).Scan(&n); err != nil || n != 1 { // without values: not prepared
			t.Errorf("newest: %d, %v", n, err)
		}
	})
}

// TestSingleMessages: rules by type, content, number.
func TestSingleMessages(t *testing.T) {
	server := fakedb.NewPostgres(t, fakedb.Options{Version: "17.1"})
	p := proxy.New(t, proxy.Postgres, server.Addr())
	trap := p.Add(proxy.Rule{From: proxy.Server, Type: 'S', Holding: []byte("server_version"), Drop: true, Skip: 1, Times: 2})
	for i, want := range []string{"17.1", "", "", "17.1"} {
		c, err := pgx.Connect(t.Context(), "postgres://u@"+p.Addr()+"/d?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.PgConn().ParameterStatus("server_version"); got != want {
			t.Errorf("connection %d: version %q, want %q", i+1, got, want)
		}
		c.Close(t.Context())
	}
	if n := len(trap.Sprung()); n != 2 || trap.Hits() != 2 {
		t.Errorf("sprung %d times with %d hits, want 2", n, trap.Hits())
	}
	p.Add(proxy.Rule{From: proxy.Client, Match: func(m proxy.Message) bool { return m.Conn == 6 }, Cut: true})
	for i := 5; i <= 7; i++ {
		c, err := pgx.Connect(t.Context(), "postgres://u@"+p.Addr()+"/d?sslmode=disable")
		if (err != nil) != (i == 6) {
			t.Errorf("connection %d: %v", i, err)
		}
		if err == nil {
			c.Close(t.Context())
		}
	}
	p.Add(proxy.Rule{From: proxy.Client, Cut: true, Times: -1})
	p.Clear()
	if c, err := pgx.Connect(t.Context(), "postgres://u@"+p.Addr()+"/d?sslmode=disable"); err != nil {
		t.Errorf("with no rules left: %v", err)
	} else {
		c.Close(t.Context())
	}
}

// TestSetRate: a slow network carries the same answers, and takes its time for them.
func TestSetRate(t *testing.T) {
	both(t, func(t *testing.T, s side, db *sql.DB) {
		read := func() (n int64) {
			t.Helper()
			if err := db.QueryRow(newest).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		want := read()
		s.proxy.SetRate(1000) // an answer has some 50 bytes at least
		start := time.Now()
		if got := read(); got != want {
			t.Errorf("a slow network carried %d, want %d", got, want)
		}
		if took := time.Since(start); took < 20*time.Millisecond {
			t.Errorf("an answer at 1000 bytes a second took %v", took)
		}
		s.proxy.SetRate(0)
		read()
	})
}
