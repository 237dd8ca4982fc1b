package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestNoHeadwaterThere: what answers is something else, or nothing does, or not in time.
func TestNoHeadwaterThere(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	hangsUp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangsUp.Close() })
	go func() {
		for {
			c, err := hangsUp.Accept()
			if err != nil {
				return
			}
			c.(*net.TCPConn).SetLinger(0) // a reset, not an orderly end
			c.Close()
		}
	}()
	release := make(chan struct{})
	mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(mute.Close)
	t.Cleanup(func() { close(release) })
	for name, c := range map[string]struct{ url, says string }{
		"other":    {other.URL, "no Headwater server"},
		"gone":     {"http://127.0.0.1:1", "is a server running there?"},
		"hangs up": {"http://" + hangsUp.Addr().String(), "is a server running there?"},
		"mute":     {mute.URL, "--timeout allows more time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, nil, "status", "--server", c.url, "--timeout", "300ms")
			if got.code != exitUnavailable || !strings.Contains(got.err, c.says) || got.out != "" {
				t.Errorf("status: exit code %d, wrote %q, said %q", got.code, got.out, got.err)
			}
			got = run(t, []byte(put), "apply", "--server", c.url, "--timeout", "300ms", "-")
			if got.code != exitUnavailable || !strings.Contains(got.out, `"line":1,"status":"FAILED"`) {
				t.Errorf("apply: exit code %d, wrote %q, said %q", got.code, got.out, got.err)
			}
			got = run(t, nil, "key", "put", "a", "b", "--server", c.url, "--timeout", "300ms")
			if got.code != exitUnavailable || got.out != "" {
				t.Errorf("key put: exit code %d, wrote %q, said %q", got.code, got.out, got.err)
			}
		})
	}
}

// TestApplyStopsWhereAnswersEnd: after the first batch without an answer nothing more is sent, so that no line takes
// effect ahead of an earlier one.
func TestApplyStopsWhereAnswersEnd(t *testing.T) {
	t.Parallel()
	s := serving(t)
	in, feed := io.Pipe()
	answers, out := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- exec(t.Context(), []string{"apply", "--server", s.url, "--timeout", "1s", "-"}, in, out, &stderr)
		out.Close()
	}()
	read := bufio.NewReader(answers)
	if _, err := io.WriteString(feed, put+"\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := read.ReadString('\n'); err != nil || !strings.Contains(line, `"line":1,"status":"APPLIED"`) {
		t.Fatalf("%q, %v", line, err)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	go func() { _, _ = io.WriteString(feed, strings.Repeat(put+"\n", 3*batchLines)) }()
	rest, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	in.Close() // ends the writer
	if got := <-code; got != exitUnavailable {
		t.Errorf("exit code %d, want %d", got, exitUnavailable)
	}
	if n := strings.Count(string(rest), "\n"); n == 0 || n > batchLines || n != strings.Count(string(rest), `"status":"FAILED"`) {
		t.Errorf("%d more answers:\n%s", n, rest)
	}
	if !strings.Contains(stderr.String(), "stopped: line 2: ") || !strings.Contains(stderr.String(), "apply the same file again") {
		t.Errorf("said %q", stderr.String())
	}
}

func TestServerURL(t *testing.T) {
	for given, want := range map[string]string{
		"host:1":              "http://host:1",
		"http://host:1/":      "http://host:1",
		"https://host/prefix": "https://host/prefix",
		"ftp://host":          "",
		"http://":             "",
		"":                    "",
		"http://ho st":        "",
	} {
		got, err := serverURL(given)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", given, got, err, want)
		}
	}
}

func TestTimes(t *testing.T) {
	now := time.Now().UnixMilli()
	for given, want := range map[string]int64{
		"1700000000000": 1700000000000, "-5": -5, "0": 0, "2024-02-03T04:05:06Z": 1706933106000,
	} {
		if got, err := parseTime(given); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", given, got, err, want)
		}
	}
	if got, err := parseTime("1h"); err != nil || got < now+3600_000 {
		t.Errorf("1h: %d, %v; now is %d", got, err, now)
	}
	for _, given := range []string{"", "tomorrow", "12x", "1700000000000 5"} {
		if got, err := parseTime(given); err == nil {
			t.Errorf("%q was read as %d", given, got)
		}
	}
}

func TestText(t *testing.T) {
	for given, want := range map[string]string{"plain": "plain", "ein Käse": "ein Käse", "a\x1b[31m": `"a\x1b[31m"`,
		"line\nbreak": `"line\nbreak"`, "\xff": `"\xff"`, "": ""} {
		if got := text(given); got != want {
			t.Errorf("%q is shown as %s, want %s", given, got, want)
		}
	}
	for given, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 63: "8.0 EiB"} {
		if got := size(given); got != want {
			t.Errorf("%d bytes are shown as %s, want %s", given, got, want)
		}
	}
}
