package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// serving starts a server on a new database.
func serving(t *testing.T, flags ...string) *serverProcess {
	t.Helper()
	db := "sqlite:" + filepath.Join(t.TempDir(), "serve.db")
	s, err := startServer(program(t, append([]string{"serve", "--db", db, "--listen", "127.0.0.1:0"}, flags...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
	return s
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	db := filepath.Join(t.TempDir(), "never.db")
	got := run(t, nil, "serve", "--db", "sqlite:"+db, "--listen", l.Addr().String())
	if got.code != exitUnavailable || !strings.Contains(got.err, "listen on "+l.Addr().String()+": address already in use") ||
		!strings.Contains(got.err, "hint: another program listens there") {
		t.Errorf("exit code %d, said %q", got.code, got.err)
	}
	if executable(db) || len(run(t, nil, "status", "--db", "sqlite:"+db).out) != 0 {
		t.Error("a database was made although the port was taken")
	}
}

// TestPrintedCurlLinesWork runs what the server prints, as it stands.
func TestPrintedCurlLinesWork(t *testing.T) {
	t.Parallel()
	s := serving(t)
	if _, err := s.said(regexp.MustCompile(`headwater status --server`)); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	curls := regexp.MustCompile(`(?m)^  curl -s -H '([^']*)' -d '([^']*)' (\S+)$`).FindAllStringSubmatch(s.log.String(), -1)
	s.mu.Unlock()
	if len(curls) != 3 {
		t.Fatalf("%d curl lines in\n%s", len(curls), s.log.String())
	}
	for i, want := range []string{`"condition":"READY"`, `"status":"APPLIED"`, `"value":"aGVsbG8="`} {
		if got := curl(t, curls[i]); !strings.Contains(got, want) {
			t.Errorf("%s\nanswers %s\nwant %s in it", curls[i][0], got, want)
		}
	}
}

// curl runs a line with curl where there is one, and sends what the line says itself elsewhere.
func curl(t *testing.T, line []string) string {
	t.Helper()
	if _, err := osexec.LookPath("curl"); err == nil {
		out, err := osexec.Command("sh", "-c", line[0]).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v", line[0], err)
		}
		return string(out)
	}
	req, err := http.NewRequest(http.MethodPost, line[3], strings.NewReader(line[2]))
	if err != nil {
		t.Fatal(err)
	}
	name, value, _ := strings.Cut(line[1], ": ")
	req.Header.Set(name, value)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestObserverFencesASilentNode waits for the server to tell of it.
func TestObserverFencesASilentNode(t *testing.T) {
	t.Parallel()
	s := serving(t, "--node-ttl", "1s")
	if got := run(t, nil, "node", "register", "7", "--server", s.url); got.code != exitDone {
		t.Fatal(got.err)
	}
	if _, err := s.said(regexp.MustCompile(`msg="fenced node: no sign of life" node=7 epoch=1 renewals=1`)); err != nil {
		t.Fatal(err)
	}
	if got := run(t, nil, "node", "show", "7", "--server", s.url); !strings.Contains(got.out, "fenced") {
		t.Errorf("node 7 is shown as\n%s", got.out)
	}
}

// hang begins a call whose body never comes, and returns when the server waits for it. A read that waits for an index
// would not do: the server ends it when it begins to end itself.
func hang(t *testing.T, address string) (ended <-chan struct{}) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "POST /headwater.v1.Headwater/Counts HTTP/1.1\r\nHost: headwater\r\n"+
		"Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 100") { // sent when the handler reads the body
		t.Fatalf("the call is answered by %q, %v", line, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, in)
	}()
	return done
}

var ending = regexp.MustCompile(`msg=ending`)

// TestSecondSignalKills: the first signal waits for the call under way, the second does not.
func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	s := serving(t, "--drain", "1h")
	ended := hang(t, strings.TrimPrefix(s.url, "http://"))
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := s.said(ending); err != nil {
		t.Fatal(err)
	}
	_, err := s.end(syscall.SIGTERM)
	var exit *osexec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want to be killed by the signal", err)
	}
	<-ended
}

// TestDrainIsBounded: a call that never ends does not keep the server.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	s := serving(t, "--drain", "50ms")
	ended := hang(t, strings.TrimPrefix(s.url, "http://"))
	if log, err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v\n%s", err, log)
	}
	<-ended
}
