package proxy_test

import (
	"net/url"
	"testing"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/fakedb"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// openPostgres opens a log on the server at an address, with the rest of a DSN.
func openPostgres(dsn string) func(t testing.TB, address string) oplog.Log {
	return func(t testing.TB, address string) oplog.Log {
		t.Helper()
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = address
		l, err := postgres.Open(t.Context(), postgres.Options{DSN: u.String(), Prefix: "p"})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
}

func TestPostgresNetwork(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		s := fakedb.NewPostgres(t, fakedb.Options{})
		testNetwork(t, proxy.Postgres, s.Addr(), openPostgres("postgres://u@h/d?sslmode=disable"))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		p := dbtest.NewPostgres(t)
		testNetwork(t, proxy.Postgres, p.Addr(), openPostgres(p.DSN("postgres", "postgres")))
	})
}
