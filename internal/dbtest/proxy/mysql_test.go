package proxy_test

import (
	"net/url"
	"testing"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/fakedb"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// openMySQL opens a log on the server at an address, with the rest of a DSN.
func openMySQL(dsn string) func(t testing.TB, address string) oplog.Log {
	return func(t testing.TB, address string) oplog.Log {
		t.Helper()
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = address
		l, err := mysql.Open(t.Context(), mysql.Options{DSN: u.String(), Prefix: "p"})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
}

func TestMySQLNetwork(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		s := fakedb.NewMySQL(t, fakedb.Options{})
		testNetwork(t, proxy.MySQL, s.Addr(), openMySQL("mysql://u@h/d"))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		m := dbtest.NewMariaDB(t)
		testNetwork(t, proxy.MySQL, m.Addr(), openMySQL(m.DSN("root")))
	})
}
