package client

// Inside the package: from outside an endpoint cannot be tried without dialling it.

import (
	"net"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzEndpoint: an endpoint is refused with a sentence, or is a host and a port for which a connection can be made. It
// is not dialled.
func FuzzEndpoint(f *testing.F) {
	for _, e := range []string{"", "h:1", "http://h:1", "http://h:1/", "https://h:1", "[::1]:4640", "::1", "h", "h:", ":1", "h:1/path",
		"http://u:p@h:1", "h:port", "h:70000", "%2e:1", "http://http://h:1", "h h:1", "passthrough:///h:1", "dns:///h:1", "\x00:1", "é:1"} {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		address, err := addressOf(endpoint)
		if err != nil {
			if s := err.Error(); s == "" || len(s) > 200 || !utf8.ValidString(s) {
				t.Fatalf("%q: %q", endpoint, s)
			}
			return
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "" || strings.ContainsAny(host, "/ @") || !strings.HasSuffix(strings.TrimSuffix(endpoint, "/"), address) {
			t.Fatalf("%q is read as %q", endpoint, address)
		}
		c := newClient(Options{})
		if err := c.add(address); err != nil && !strings.Contains(address, "%") { // which may begin an escape
			t.Fatalf("%q is read as %q, to which no connection can be made: %v", endpoint, address, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
