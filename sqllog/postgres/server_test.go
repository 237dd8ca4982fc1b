package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestReadOnlyServer: a server that became read-only refuses for certain, and works again over new connections when it
// is writable. Field case 08.1.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	o := on(p)
	l := cluster(t, o, 1)
	admin := session(t, p.DSN("postgres", "postgres"))
	mustExec(t, admin, "ALTER DATABASE postgres SET default_transaction_read_only = on")
	endAll(t, admin)
	for range 3 { // the first over a connection that was ended, which is noticed before anything is sent
		if err := l.Append(t.Context(), 2, nil, []byte("x")); !errors.Is(err, oplog.ErrReadOnly) || !oplog.NotApplied(err) {
			t.Errorf("append: %v, want read-only", err)
		}
	}
	if b, err := l.Bounds(t.Context()); err != nil || b.Newest != 1 || b.Authoritative {
		t.Errorf("bounds: %+v, %v; want that they prove nothing", b, err)
	}
	for _, o.ReadOnly = range []bool{true, false} { // who only reads asks for others
		if w := open(t, o).Info().Warnings; len(w) != 1 || !strings.Contains(w[0], "default_transaction_read_only") {
			t.Errorf("warnings of a log opened now, read-only %t: %q", o.ReadOnly, w)
		}
	}
	mustExec(t, admin, "SET default_transaction_read_only = off")
	mustExec(t, admin, "ALTER DATABASE postgres RESET default_transaction_read_only")
	// Each connection that was read-only was dropped when it said so: nothing more needs to be done.
	mustAppend(t, l, 2, "x")
}

// endAll ends all sessions but the administrator's, and waits until they are gone.
func endAll(t testing.TB, admin *pgx.Conn) {
	t.Helper()
	sessions := scan[[]int32](t, admin, `WITH s AS MATERIALIZED (SELECT pid FROM pg_stat_activity
		WHERE pid <> pg_backend_pid() AND backend_type = 'client backend') SELECT array_agg(pid) FROM s WHERE pg_terminate_backend(pid)`)
	awaitTrue(t, admin, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ANY ($1)", sessions)
}

// TestSettings: what lies about durability is set, refused or told. Hazard 15, field case 07.2.
func TestSettings(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	admin := session(t, p.DSN("postgres", "postgres"))
	o := on(p)
	for _, set := range []string{"synchronous_commit = off", "default_transaction_isolation = 'serializable'", "client_min_messages = error", "statement_timeout = '1h'"} {
		mustExec(t, admin, "ALTER DATABASE postgres SET "+set)
	}
	l := cluster(t, o, 0)
	mustExec(t, admin, "CREATE TABLE seen AS SELECT ''::text AS settings")
	mustExec(t, admin, `CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO seen SELECT concat_ws(' ', current_setting('synchronous_commit'), current_setting('transaction_isolation'), current_setting('client_min_messages'), current_setting('statement_timeout'));
		RETURN NEW; END $$`)
	mustExec(t, admin, "CREATE TRIGGER look BEFORE INSERT ON "+o.Prefix+"_log FOR EACH ROW EXECUTE FUNCTION look()")
	mustAppend(t, l, 1, "x")
	if got, want := scan[string](t, admin, "SELECT settings FROM seen WHERE settings <> ''"), "on read committed warning 48s"; got != want {
		t.Errorf("settings of an append: %s, want %s", got, want)
	}
	if w := l.Info().Warnings; len(w) != 0 {
		t.Errorf("warnings: %q", w)
	}

	p.Configure(t, "fsync = off", "full_page_writes = off")
	awaitTrue(t, admin, "SELECT current_setting('fsync') = 'off'")
	if _, err := postgres.Open(t.Context(), o); !errors.Is(err, oplog.ErrSettings) || !strings.Contains(err.Error(), "fsync") {
		t.Errorf("open with fsync = off: %v, want refused", err)
	}
	o.AllowFsyncOff = true
	if w := open(t, o).Info().Warnings; len(w) != 2 || !strings.Contains(w[0], "fsync = off") || !strings.Contains(w[1], "full_page_writes = off") {
		t.Errorf("warnings: %q", w)
	}
}

// TestPrivileges: the permissions of PrintSQL are enough for each role, and nothing less goes unsaid. Nobody's role may
// create a table here.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	admin := session(t, p.DSN("postgres", "postgres"))
	for _, text := range []string{"CREATE ROLE node LOGIN", `CREATE ROLE "read er" LOGIN`, "CREATE ROLE stranger LOGIN", "CREATE ROLE maker LOGIN",
		"CREATE DATABASE meta", "CREATE DATABASE other"} {
		mustExec(t, admin, text)
	}
	meta := session(t, p.DSN("postgres", "meta"))
	mustExec(t, meta, "CREATE SCHEMA hw")
	o := postgres.Options{DSN: p.DSN("node", "meta"), Prefix: "one", Schema: "hw"}

	l := open(t, postgres.Options{DSN: p.DSN("node", "meta"), Prefix: "one"})
	if err := l.Init(t.Context(), nil); !errors.Is(err, oplog.ErrDenied) {
		t.Errorf("init by a role that may not create tables: %v, want denied", err)
	}
	text, err := postgres.PrintSQL(o, "node", "read er")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := meta.PgConn().Exec(t.Context(), text).ReadAll(); err != nil {
		t.Fatalf("run the administrator's script: %v", err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Options{DSN: o.DSN, Prefix: "one", Schema: "hw", MustExist: true}); !errors.Is(err, oplog.ErrNoCluster) {
		t.Errorf("open of tables without a cluster: %v, want that there is none", err)
	}
	l = cluster(t, o, 10)
	w, err := l.CreateSnapshot(t.Context(), 8, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.WritePart(t.Context(), []byte("s")), w.Commit(t.Context())); err != nil {
		t.Errorf("snapshot by the node's role: %v", err)
	}
	if n, err := l.Truncate(t.Context(), 5, 100); err != nil || n != 5 {
		t.Errorf("truncate by the node's role: %d, %v", n, err)
	}

	readerDSN := strings.Replace(p.DSN("reader", "meta"), "reader", "read%20er", 1)
	reader := open(t, postgres.Options{DSN: readerDSN, Prefix: "one", Schema: "hw", ReadOnly: true, MustExist: true})
	if rows, err := reader.Read(t.Context(), 5, 1000); err != nil || len(rows) != 5 {
		t.Errorf("read by the reader: %d rows, %v", len(rows), err)
	}
	if b, err := reader.Bounds(t.Context()); err != nil || !b.Authoritative {
		t.Errorf("bounds by the reader: %+v, %v", b, err)
	}
	for name, l := range map[string]oplog.Log{"read-only": reader, "": open(t, postgres.Options{DSN: readerDSN, Prefix: "one", Schema: "hw"})} {
		want := oplog.ErrReadOnly
		if name == "" {
			want = oplog.ErrDenied
		}
		if err := l.Append(t.Context(), 11, nil, nil); !errors.Is(err, want) {
			t.Errorf("append by the reader, opened %s: %v, want %v", name, err, want)
		}
		if _, err := l.Truncate(t.Context(), 8, 1); !errors.Is(err, want) {
			t.Errorf("truncate by the reader, opened %s: %v, want %v", name, err, want)
		}
	}
	if _, err := postgres.Open(t.Context(), postgres.Options{DSN: p.DSN("stranger", "meta"), Prefix: "one", Schema: "hw"}); !errors.Is(err, oplog.ErrDenied) {
		t.Errorf("open by a stranger: %v, want denied", err)
	}
	// Field case 15.4: nothing that cannot be looked at counts as absent, and nothing is created.
	if _, err := postgres.Open(t.Context(), postgres.Options{DSN: p.DSN("node", "nowhere")}); !errors.Is(err, oplog.ErrNoCluster) {
		t.Errorf("open of no database: %v", err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Options{DSN: p.DSN("node", "other"), MustExist: true}); !errors.Is(err, oplog.ErrNoCluster) {
		t.Errorf("open of the wrong database: %v", err)
	}
	if n := scan[int](t, session(t, p.DSN("postgres", "other")), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); n != 0 {
		t.Errorf("%d tables were created in the wrong database", n)
	}
	mustExec(t, meta, "UPDATE hw.one_snapshot SET version = 99")
	if _, err := postgres.Open(t.Context(), o); !errors.Is(err, oplog.ErrSchema) || !strings.Contains(err.Error(), "99") {
		t.Errorf("open of a later schema: %v", err)
	}
	mustExec(t, meta, "DROP TABLE hw.one_snapshot_part")
	if _, err := postgres.Open(t.Context(), o); !errors.Is(err, oplog.ErrSchema) {
		t.Errorf("open of two of three tables: %v", err)
	}
}

// TestRacedStart: eight processes make an empty database a cluster at once.
func TestRacedStart(t *testing.T) {
	t.Parallel()
	clustertest.RacedStart(t, func() string { o := place(t); return o.DSN + " " + o.Prefix })
}

// TestColumns: the types in the catalogue hold every index and every byte. Field case 12.6.
func TestColumns(t *testing.T) {
	t.Parallel()
	o := place(t)
	cluster(t, o, 0)
	c := session(t, o.DSN)
	for column, want := range map[string]string{"log.idx": "bigint", "log.payload": "bytea", "snapshot.idx": "bigint",
		"snapshot.size": "bigint", "snapshot_part.idx": "bigint", "snapshot_part.data": "bytea", "snapshot_part.token": "bytea"} {
		table, name, _ := strings.Cut(column, ".")
		got := scan[string](t, c, "SELECT data_type FROM information_schema.columns WHERE table_name = $1 AND column_name = $2", o.Prefix+"_"+table, name)
		if got != want {
			t.Errorf("%s is of type %s, want %s", column, got, want)
		}
	}
}

// TestSecrets: a password reaches neither an error nor Info, whatever is wrong.
func TestSecrets(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	admin := session(t, p.DSN("postgres", "postgres"))
	mustExec(t, admin, "CREATE ROLE secretive LOGIN SUPERUSER PASSWORD 'right-hunter2'")
	dsn := func(password, addr, more string) string {
		return fmt.Sprintf("postgres://secretive:%s@%s/postgres?sslmode=disable%s", password, addr, more)
	}
	o := postgres.Options{DSN: dsn("right-hunter2", p.Addr(), ""), Prefix: dbtest.Prefix()}
	l := cluster(t, o, 1)
	if text := fmt.Sprintf("%+v", l.Info()); strings.Contains(text, "hunter2") || !strings.Contains(text, p.Addr()) {
		t.Errorf("info: %s", text)
	}
	for name, c := range map[string]struct {
		dsn  string
		want error
	}{
		"wrong password":   {dsn("wrong-hunter2", p.Addr(), ""), oplog.ErrDenied},
		"nobody there":     {dsn("wrong-hunter2", "127.0.0.1:1", ""), oplog.ErrUnavailable},
		"odd port":         {dsn("wrong-hunter2", "127.0.0.1:port", ""), oplog.ErrSettings},
		"odd parameter":    {dsn("wrong-hunter2", p.Addr(), "&sslmode=hunter2"), oplog.ErrSettings},
		"odd escape":       {"postgres://secretive:hunter2%zz@" + p.Addr(), oplog.ErrSettings},
		"odd pairs":        {"host=127.0.0.1 password=hunter2 sslmode", oplog.ErrSettings},
		"space":            {"postgres://secretive:hunter2 hunter2@" + p.Addr() + "/x y?=", nil},
		"TLS not offered":  {strings.Replace(dsn("wrong-hunter2", p.Addr(), ""), "disable", "verify-full", 1), oplog.ErrSettings},
		"setting unknown":  {dsn("right-hunter2", p.Addr(), "&hunter=hunter3"), nil},
		"no database name": {"hunter2", nil},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := postgres.Open(ctx, postgres.Options{DSN: c.dsn})
		cancel()
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, "hunter2") {
			t.Errorf("%s: the password is in %s", name, text)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(fmt.Sprintf("%+v", e), "hunter2") {
				t.Errorf("%s: the password is in %+v", name, e)
			}
		}
	}
}

// smallDisk has the tables of a server of the test's own on a small disk.
func smallDisk(t *testing.T) (*dbtest.Disk, postgres.Options) {
	t.Helper()
	p := dbtest.NewPostgres(t)
	small := filepath.Join(p.Dir(), "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	disk := dbtest.NewDisk(t, small, p.Uid(), "8m")
	admin := session(t, p.DSN("postgres", "postgres"))
	mustExec(t, admin, "CREATE TABLESPACE small LOCATION '"+small+"'")
	mustExec(t, admin, "ALTER DATABASE postgres SET default_tablespace = small")
	return disk, on(p)
}

// TestFull: a full disk refuses for certain, reading goes on, and everything works when there is room again. Field case 16.1.
func TestFull(t *testing.T) {
	t.Parallel()
	disk, o := smallDisk(t)
	l := cluster(t, o, 0)
	row := make([]byte, 100<<10)
	at := oplog.Index(1)
	var err error
	for ; err == nil && at < 1000; at++ {
		err = l.Append(t.Context(), at, nil, row)
	}
	at--
	for range 3 {
		if !errors.Is(err, oplog.ErrFull) || !oplog.NotApplied(err) {
			t.Fatalf("append row %d: %v, want full", at, err)
		}
		err = l.Append(t.Context(), at, nil, row)
	}
	if newest, err := l.Newest(t.Context()); err != nil || newest != at-1 {
		t.Errorf("newest: %d, %v; want %d", newest, err, at-1)
	}
	disk.Resize(t, "32m")
	for range 10 {
		if err := l.Append(t.Context(), at, nil, row); err != nil {
			t.Fatalf("append with room again: %v", err)
		}
		at++
	}
}

// TestFullUnderNode: a node whose server's disk is full, and has room again.
func TestFullUnderNode(t *testing.T) {
	t.Parallel()
	disk, o := smallDisk(t)
	clustertest.Disk{Open: func() oplog.Log { return openNode(t, o) }, MakeRoom: func() { disk.Resize(t, "32m") },
		Full: func(s *headwater.Store) bool { return strings.Contains(s.Status().DatabaseError, "53100") }}.Run(t)
}

// TestListenerTerminated: the connection that listens is ended again and again while rows come. The log polls once an
// hour here and nobody tells it of a row, so only the look after listening anew can wake the reader. Field case 11.1.
func TestListenerTerminated(t *testing.T) {
	t.Parallel()
	o := place(t)
	silent := o
	silent.NoNotify = true
	l := cluster(t, silent, 0)
	hourly := o
	hourly.PollInterval = time.Hour
	reader := open(t, hourly)
	admin := session(t, o.DSN)
	for at := oplog.Index(1); at <= oplog.Index(clustertest.Rounds(t, 5)); at++ {
		seen := waiting(t, admin, o, reader, at)
		mustExec(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = $1", "LISTEN "+o.Prefix+"_log")
		mustAppend(t, l, at, "row")
		<-seen
	}
}

// waiting has a log wait for a row that is not there yet, and returns when it has looked and found nothing. What it
// returns is closed when the row was read.
func waiting(t testing.TB, admin *pgx.Conn, o postgres.Options, reader oplog.Log, want oplog.Index) <-chan struct{} {
	t.Helper()
	before := scan[time.Time](t, admin, "SELECT clock_timestamp()")
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		waitFor(t, reader, want)
	}()
	awaitSession(t, admin, "state = 'idle' AND query = 'SELECT max(idx) FROM "+o.Prefix+"_log' AND query_start > $1", before)
	return seen
}

// TestNotified: a log that polls once an hour learns of every row by notifications, few or many at once.
func TestNotified(t *testing.T) {
	t.Parallel()
	o := place(t)
	l := cluster(t, o, 0)
	hourly := o
	hourly.PollInterval = time.Hour
	reader := open(t, hourly)
	admin := session(t, o.DSN)
	for at := oplog.Index(1); at <= 100; at++ {
		var seen <-chan struct{}
		if at%10 == 0 {
			seen = waiting(t, admin, o, reader, at)
		}
		mustAppend(t, l, at, "row")
		if seen != nil {
			<-seen
		}
	}
}

// TestNoNotify: without notifications rows are found by polling, and no connection listens.
func TestNoNotify(t *testing.T) {
	t.Parallel()
	o := place(t)
	o.NoNotify = true
	l, reader := cluster(t, o, 0), open(t, o)
	for at := oplog.Index(1); at <= 20; at++ {
		mustAppend(t, l, at, "row")
		waitFor(t, reader, at)
	}
	if n := scan[int](t, session(t, o.DSN), "SELECT count(*) FROM pg_stat_activity WHERE query = $1", "LISTEN "+o.Prefix+"_log"); n != 0 {
		t.Errorf("%d connections listen", n)
	}
}

// waitFor waits for a row as the engine does.
func waitFor(t testing.TB, l oplog.Log, want oplog.Index) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if err := l.Wait(ctx, want-1); err != nil {
			t.Errorf("wait for row %d: %v", want, err)
			return
		}
		rows, err := l.Read(ctx, want-1, 1)
		if err != nil {
			t.Errorf("read row %d: %v", want, err)
			return
		}
		if len(rows) > 0 && rows[0].Index == want {
			return
		}
	}
}

// TestConnections: a log under many callers at once keeps to its bound.
func TestConnections(t *testing.T) {
	t.Parallel()
	o := place(t)
	u := o.DSN + "&application_name=" + o.Prefix
	o.DSN, o.MaxConnections = u, 4
	l := cluster(t, o, 3)
	admin := session(t, o.DSN)
	mustExec(t, admin, "SET application_name = 'watcher'")
	done := make(chan error)
	for range 50 {
		go func() {
			_, err := l.Newest(t.Context())
			done <- err
		}()
	}
	for range 50 {
		if n := scan[int](t, admin, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", o.Prefix); n > 4 {
			t.Errorf("%d connections, want at most 4", n)
		}
		if err := <-done; err != nil {
			t.Errorf("newest: %v", err)
		}
	}
}
