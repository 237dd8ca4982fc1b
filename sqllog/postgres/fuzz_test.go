package postgres_test

import (
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// Two words that stand in a password, and so may stand in nothing that is shown.
const secretHead, secretTail = "Qx7headSecret", "tailSecretZ9w"

// FuzzAddress: a connection string is refused, or leads to places whose names hold nothing of the password; the refusal
// does not either. The fuzzer chooses what the password has in its middle, and what follows it.
func FuzzAddress(f *testing.F) {
	for _, within := range []string{"", "@", "/", "?", ":", "%2F", "%", "@h/", "12/34", "'", "\\'", "\x00", "é"} {
		f.Add("postgres://u:", within, "@h:5433,[::1]/d?sslmode=disable")
		f.Add("host=h user=u password='", within, "' dbname=d")
	}
	f.Add("postgresql://u:", "", "@h/d?sslrootcert=/nowhere")
	f.Add("password=", " host=", " dbname=d")
	f.Fuzz(func(t *testing.T, before, within, after string) {
		switch before {
		case "postgres://u:", "postgresql://u:":
			if !strings.HasPrefix(after, "@") || strings.Contains(within, "?") && strings.ContainsAny(within+after, "=#") {
				return // the password may end before, and a parameter begin
			}
		case "host=h user=u password='", "password=":
			if strings.ContainsAny(within+after, "'= ") {
				return // the password ends there, and what follows is whatever its name says
			}
		default:
			return
		}
		dsn := before + secretHead + within + secretTail + after
		location, err := postgres.Address(dsn)
		said := location
		if err != nil {
			said = err.Error()
		}
		if strings.Contains(said, secretHead) || strings.Contains(said, secretTail) {
			t.Fatalf("%q: the password is in %q", dsn, said)
		}
	})
}
