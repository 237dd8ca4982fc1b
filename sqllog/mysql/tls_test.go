package mysql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// TestTLS: with verification a server is spoken to only where an authority that is trusted vouches for it under the name by
// which it was called. Everything else is a setting to be mended, says which, and is no server that is away.
func TestTLS(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t, "--skip-ssl")
	trusted, other := dbtest.NewAuthority(t), dbtest.NewAuthority(t)
	root := session(t, m.DSN("root"))
	mustExec(t, root, "CREATE USER secretive IDENTIFIED BY 'hunter2'")
	mustExec(t, root, "GRANT ALL ON test.* TO secretive")
	with := func(query string) mysql.Options {
		return mysql.Options{DSN: "mysql://secretive:hunter2@" + m.Addr() + "/test?" + query, Prefix: dbtest.Prefix()}
	}
	refused := func(name string, o mysql.Options, want error, says string) {
		t.Helper()
		_, err := mysql.Open(t.Context(), o)
		switch {
		case !errors.Is(err, want) || errors.Is(err, oplog.ErrUnavailable):
			t.Errorf("%s: %v, want %v", name, err, want)
		case !strings.Contains(err.Error(), says):
			t.Errorf("%s: %v does not say %q", name, err, says)
		case strings.Contains(fmt.Sprintf("%v %+v", err, err), "hunter2"):
			t.Errorf("%s: the password is in %v", name, err)
		}
	}
	restart := func(cert, key string) {
		t.Helper()
		m.Stop(t)
		m.Start(t, "--ssl=ON", "--ssl-cert="+cert, "--ssl-key="+key, "--require-secure-transport=ON")
	}
	for _, query := range []string{"tls=true", "ssl-ca=" + trusted.File} {
		refused("a server without TLS", with(query), oplog.ErrSettings, "TLS")
	}
	restart(other.Issue(t, m.Uid(), "127.0.0.1"))
	refused("another authority", with("ssl-ca="+trusted.File), oplog.ErrSettings, "certificate")
	refused("the system's authorities", with("tls=true"), oplog.ErrSettings, "certificate")
	refused("no TLS", with(""), oplog.ErrDenied, "")
	restart(trusted.Issue(t, m.Uid(), "127.0.0.2", "db.example"))
	refused("another name", with("ssl-ca="+trusted.File), oplog.ErrSettings, "127.0.0.1")
	restart(trusted.Issue(t, m.Uid(), "127.0.0.1"))

	l := cluster(t, with("ssl-ca="+trusted.File), 3)
	if text := fmt.Sprintf("%+v", l.Info()); strings.Contains(text, "hunter2") {
		t.Errorf("the password is in %s", text)
	}
	admin := session(t, m.DSN("root")+"?tls=skip-verify")
	if cipher := scan[string](t, admin, "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'Ssl_cipher'"); cipher == "" {
		t.Error("the session is not encrypted")
	}
}
