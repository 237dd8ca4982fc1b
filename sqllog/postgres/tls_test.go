package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestTLS: with sslmode=verify-full a server is spoken to only where an authority that is trusted vouches for it under the
// name by which it was called. Everything else is a setting to be mended, says which, and is no server that is away.
func TestTLS(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	admin := session(t, p.DSN("postgres", "postgres"))
	mustExec(t, admin, "CREATE ROLE secretive LOGIN SUPERUSER PASSWORD 'hunter2'")
	trusted, other := dbtest.NewAuthority(t), dbtest.NewAuthority(t)
	dsn := func(mode, root string) string {
		return fmt.Sprintf("postgres://secretive:hunter2@%s/postgres?sslmode=%s&sslrootcert=%s", p.Addr(), mode, root)
	}
	refused := func(name, dsn, says string) {
		t.Helper()
		_, err := postgres.Open(t.Context(), postgres.Options{DSN: dsn})
		switch {
		case !errors.Is(err, oplog.ErrSettings) || errors.Is(err, oplog.ErrUnavailable):
			t.Errorf("%s: %v, want setting refused", name, err)
		case !strings.Contains(err.Error(), says):
			t.Errorf("%s: %v does not say %q", name, err, says)
		case strings.Contains(fmt.Sprintf("%v %+v", err, err), "hunter2"):
			t.Errorf("%s: the password is in %v", name, err)
		}
	}
	for _, mode := range []string{"require", "verify-ca", "verify-full"} {
		refused("a server without TLS, "+mode, dsn(mode, trusted.File), "offers no TLS")
	}

	use := func(cert, key string) {
		t.Helper()
		p.Configure(t, "ssl = on", "ssl_cert_file = '"+cert+"'", "ssl_key_file = '"+key+"'")
		awaitTrue(t, admin, "SELECT current_setting('ssl') = 'on' AND current_setting('ssl_cert_file') = $1", cert)
	}
	use(other.Issue(t, p.Uid(), "127.0.0.1"))
	awaitTLS(t, dsn("require", ""))
	refused("another authority", dsn("verify-full", trusted.File), "certificate")
	use(trusted.Issue(t, p.Uid(), "127.0.0.2", "db.example"))
	// A session takes the certificate of the moment at which it began: the refusals above end with the new one.
	awaitTLS(t, dsn("verify-ca", trusted.File))
	refused("another name", dsn("verify-full", trusted.File), "127.0.0.1")
	use(trusted.Issue(t, p.Uid(), "127.0.0.1"))
	awaitTLS(t, dsn("verify-full", trusted.File))

	o := patient(dsn("verify-full", trusted.File) + "&application_name=encrypted")
	o.Prefix = dbtest.Prefix()
	l := cluster(t, o, 3) // by appends on their own connection, notifications and all
	if _, err := l.Read(t.Context(), 0, 1<<20); err != nil {
		t.Errorf("read: %v", err)
	}
	if !scan[bool](t, admin, "SELECT count(*) > 1 AND bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'encrypted'") {
		t.Error("a session is not encrypted")
	}
	if text := fmt.Sprintf("%+v", l.Info()); strings.Contains(text, "hunter2") {
		t.Errorf("the password is in %s", text)
	}
}

// awaitTLS waits until the server answers with the certificate that it was given last: it reads it some time after it was told to.
func awaitTLS(t testing.TB, dsn string) {
	t.Helper()
	dbtest.Await(t, "a session by "+dsn, func() bool {
		c, err := pgx.Connect(t.Context(), dsn)
		if err == nil {
			_ = c.Close(t.Context())
		}
		return err == nil
	})
}
