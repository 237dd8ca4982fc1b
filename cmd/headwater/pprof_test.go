package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestPprof: profiles are served, and only to who asks this machine by its own name.
func TestPprof(t *testing.T) {
	t.Parallel()
	l, err := listenPprof("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := servePprof(l)
	defer p.close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, tt := range []struct {
		path, host string
		code       int
		says       string
	}{
		{"/debug/pprof/", "", 200, "goroutine"}, {"/debug/pprof/heap?debug=1", "localhost", 200, "heap profile"},
		{"/debug/pprof/cmdline", "[::1]:80", 404, ""}, {"/debug/pprof/", "evil.example", 403, "this machine"},
		{"/debug/pprof/", "10.0.0.1:80", 403, "this machine"}, {"/", "", 404, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.host != "" {
			req.Host = tt.host
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != tt.code || !strings.Contains(string(body), tt.says) {
			t.Errorf("%s as %q: %d, %.80q, %v; want %d and %q", tt.path, tt.host, res.StatusCode, body, err, tt.code, tt.says)
		}
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"0.0.0.0:0", ":0", "10.0.0.1:0", "example.com:0", "127.0.0.1", ""} {
		if l, err := listenPprof(bad); err == nil {
			_ = l.Close()
			t.Errorf("%q was taken", bad)
		}
	}
}
