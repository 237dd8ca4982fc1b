package mysql_test

import (
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// Two words that stand in a password, and so may stand in nothing that is shown.
const secretHead, secretTail = "Qx7headSecret", "tailSecretZ9w"

// FuzzAddress: a connection string is refused, or leads to places whose names hold nothing of the password; the refusal
// does not either. The fuzzer chooses what the password has in its middle, and what follows it.
func FuzzAddress(f *testing.F) {
	for _, within := range []string{"", "@", "/", "?", ":", "%2F", "%", "@h/", "12/34", "\x00", "é"} {
		f.Add("mysql://u:", within, "@h:3307,[::1]/d?tls=true")
		f.Add("u:", within, "@tcp(h:3306)/d")
	}
	f.Add("mysql://u:", "", "@h/d?ssl-ca=/nowhere&ssl-cert=%zz")
	f.Add("u:", "", "@unix(/run/mysqld.sock)/d?timeout=1s")
	f.Fuzz(func(t *testing.T, before, within, after string) {
		if strings.ContainsAny(before, "/?@") && before != "mysql://u:" || !strings.Contains(before, ":") || !strings.HasPrefix(after, "@") {
			return // then what stands between them is no password, or ends before
		}
		dsn := before + secretHead + within + secretTail + after
		location, password, err := mysql.Address(dsn)
		said := location
		if err != nil {
			said = err.Error()
		}
		if strings.Contains(said, secretHead) || strings.Contains(said, secretTail) {
			t.Fatalf("%q: the password is in %q", dsn, said)
		}
		if err == nil && (!strings.Contains(password, secretHead) || !strings.Contains(password, secretTail)) {
			t.Fatalf("%q is taken, with the password %q", dsn, password)
		}
	})
}
