package fakedb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/dbtest/fakedb"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestPostgresKinds: a server that says that it is CockroachDB or YugabyteDB is sent nothing that its documentation says it
// does not know, tables are created for it as it needs them, also where another process was quicker in the middle, and
// everything works with the options that suit PostgreSQL.
func TestPostgresKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, backend string
		refuse           []string
	}{
		{"CockroachDB CCL v25.1.0 (x86_64-pc-linux-gnu, built 2025/02/18, go1.22.8)", "cockroachdb v25.1.0", []string{
			"deferrable", "autovacuum", "SET STORAGE", "advisory", "LISTEN", "pg_notify", "SET TRANSACTION"}},
		{"15.2-YB-2025.2.0.0-b0", "yugabytedb 15.2-YB-2025.2.0.0-b0", []string{
			"autovacuum", "SET STORAGE", "advisory", "LISTEN", "idx BIGINT PRIMARY KEY", "PRIMARY KEY (token, part)", "); CREATE"}},
		{"15.18", "postgresql 15.18", []string{"idx ASC", "token ASC"}},
	} {
		t.Run(c.backend, func(t *testing.T) {
			t.Parallel()
			s := fakedb.NewPostgres(t, fakedb.Options{Version: c.version, Refuse: c.refuse})
			open := func() oplog.Log {
				l, err := postgres.Open(t.Context(), postgres.Options{DSN: "postgres://u:p@" + s.Addr() + "/d?sslmode=disable", Prefix: "p",
					NoNotify: strings.HasPrefix(c.backend, "postgresql"), Turnstile: strings.HasPrefix(c.backend, "cockroach"), StatementTimeout: time.Minute})
				if err != nil {
					t.Fatalf("open: %v", err)
				}
				t.Cleanup(func() { _ = l.Close() })
				return l
			}
			l := open()
			if got := l.Info().Backend; got != c.backend {
				t.Errorf("backend is %q, want %q", got, c.backend)
			}
			raced := s.Inject(fakedb.Fault{Text: "CREATE TABLE", Code: "42P07"})
			if strings.HasPrefix(c.backend, "postgresql") {
				raced = s.Inject(fakedb.Fault{Text: "SET TRANSACTION", Code: "42P07"})
			}
			if err := l.Init(t.Context(), []byte("genesis")); err != nil || raced.Hits() != 1 {
				t.Fatalf("init: %v, raced %d times", err, raced.Hits())
			}
			for at := oplog.Index(1); at <= 5; at++ {
				if err := l.Append(t.Context(), at, nil, []byte("row")); err != nil {
					t.Fatalf("append row %d: %v", at, err)
				}
			}
			w, err := l.CreateSnapshot(t.Context(), 4, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.WritePart(t.Context(), []byte("part")); err != nil {
				t.Errorf("write a part: %v", err)
			}
			if err := w.Commit(t.Context()); err != nil {
				t.Errorf("commit: %v", err)
			}
			if n, err := l.Truncate(t.Context(), 4, 100); err != nil || n != 4 {
				t.Errorf("truncate: %d, %v", n, err)
			}
			rows, err := open().Read(t.Context(), oplog.Beginning, 1<<20)
			if err != nil || len(rows) != 2 || rows[0].Index != 4 {
				t.Errorf("read: %v, %v", rows, err)
			}
		})
	}
}
