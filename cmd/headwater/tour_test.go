package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// everywhere makes the tests of the tour kill at every line instead of a sample: HEADWATER_TEST_FULL=1.
var everywhere = os.Getenv("HEADWATER_TEST_FULL") != ""

func tour(t *testing.T) (commands, expected [][]byte) {
	t.Helper()
	for _, f := range []struct {
		name string
		to   *[][]byte
	}{{"tour.jsonl", &commands}, {"tour.expected.jsonl", &expected}} {
		b, err := os.ReadFile(filepath.Join("../../testdata/tour", f.name))
		if err != nil {
			t.Fatal(err)
		}
		*f.to = lines(b)
	}
	if len(commands) != len(expected) {
		t.Fatalf("%d commands and %d answers", len(commands), len(expected))
	}
	return commands, expected
}

// program is the program as a process of its own.
func program(t *testing.T, args ...string) *osexec.Cmd {
	t.Helper()
	path, err := osexec.LookPath("headwater")
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(path, args...)
	cmd.Env = append(os.Environ(), "HEADWATER_DB=", "HEADWATER_SERVER=")
	return cmd
}

// cut splits n lines into the pieces after which to kill.
func cut(n, step int) (pieces [][2]int) {
	if everywhere {
		step = 1
	}
	for from := 0; from < n; from += step {
		pieces = append(pieces, [2]int{from, min(from+step, n)})
	}
	return pieces
}

// TestTourKilledBetweenLines kills the process that applies the tour straight on a database between lines, and
// goes on with another one.
func TestTourKilledBetweenLines(t *testing.T) {
	t.Parallel()
	commands, expected := tour(t)
	db := "sqlite:" + filepath.Join(t.TempDir(), "tour.db")
	for _, p := range cut(len(commands), 7) {
		got := applyAndKill(t, commands[p[0]:p[1]], "apply", "--db", db, "-")
		if err := subset(joined(expected[p[0]:p[1]]), got); err != nil {
			t.Fatalf("lines %d to %d: %v", p[0]+1, p[1], err)
		}
	}
}

// applyAndKill gives lines to a process one after another, waits for the answer to each, and kills it with its input
// still open, as if in the middle of its work.
func applyAndKill(t *testing.T, commands [][]byte, args ...string) []byte {
	t.Helper()
	cmd := program(t, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var answers bytes.Buffer
	r := bufio.NewReader(out)
	for _, c := range commands {
		if _, err := in.Write(append(bytes.Clone(c), '\n')); err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		line, err := r.ReadBytes('\n')
		if err != nil {
			_ = cmd.Wait()
			t.Fatalf("no answer to %s: %v\n%s", c, err, stderr.String())
		}
		answers.Write(line)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r)
	_ = cmd.Wait() // killed
	return answers.Bytes()
}

func joined(lines [][]byte) []byte { return bytes.Join(lines, []byte("\n")) }

// TestTourServerKilledBetweenLines is the same through a server that is killed.
func TestTourServerKilledBetweenLines(t *testing.T) {
	t.Parallel()
	commands, expected := tour(t)
	db := "sqlite:" + filepath.Join(t.TempDir(), "tour.db")
	for _, p := range cut(len(commands), 12) {
		s, err := startServer(program(t, "serve", "--db", db, "--listen", "127.0.0.1:0"))
		if err != nil {
			t.Fatal(err)
		}
		got := run(t, joined(commands[p[0]:p[1]]), "apply", "--server", s.url, "-")
		if _, err := s.end(syscall.SIGKILL); err == nil {
			t.Error("the server ended by itself")
		}
		if err := subset(joined(expected[p[0]:p[1]]), []byte(got.out)); err != nil {
			t.Fatalf("lines %d to %d: %v\n%s", p[0]+1, p[1], err, got.err)
		}
	}
}

// TestTourDealtOut deals the lines out over two servers on one database, one after another.
func TestTourDealtOut(t *testing.T) {
	t.Parallel()
	commands, expected := tour(t)
	db := "sqlite:" + filepath.Join(t.TempDir(), "tour.db")
	var urls [2]string
	for i := range urls {
		urls[i] = served(t, db)
	}
	for i, c := range commands {
		got := run(t, c, "apply", "--server", urls[i%2], "-")
		if err := subset(expected[i], []byte(got.out)); err != nil {
			t.Fatalf("line %d: %v\n%s", i+1, err, got.err)
		}
	}
}

// TestKilledRunCanBeRepeated kills a run over a file in its middle and applies the file again: each command has one
// effect, and the answers are as if nothing had happened, but for redundant instead of applied.
func TestKilledRunCanBeRepeated(t *testing.T) {
	t.Parallel()
	const puts = 2000
	dir := t.TempDir()
	db, file := "sqlite:"+filepath.Join(dir, "run.db"), filepath.Join(dir, "run.jsonl")
	var b bytes.Buffer
	for i := range puts { // every second one overwrites: done twice, it would show
		fmt.Fprintf(&b, `{"putKey": {"key": "k%d", "value": "%s"}}`+"\n", i/2, []string{"YQ==", "Yg=="}[i%2])
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, after := range []int{1, 300, 900} {
		cmd := program(t, "apply", "--db", db, file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		for range after {
			if _, err := r.ReadBytes('\n'); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, r)
		_ = cmd.Wait()
	}
	got := run(t, nil, "apply", "--db", db, file)
	if got.code != exitDone {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	if n := strings.Count(got.out, `"status":"REDUNDANT"`); n < 900 {
		t.Errorf("%d redundant answers, want at least the 900 that the last killed run gave", n)
	}
	keys := run(t, nil, "key", "list", "--db", db, "-o", "json")
	if a, b := strings.Count(keys.out, `"value":"YQ=="`), strings.Count(keys.out, `"value":"Yg=="`); a != 0 || b != puts/2 {
		t.Errorf("%d keys hold the overwritten value and %d the last one; want 0 and %d", a, b, puts/2)
	}
	log := run(t, nil, "log", "--db", db, "-o", "json")
	if log.code != exitDone {
		t.Errorf("log: exit code %d: %s", log.code, log.err)
	}
}

// result is what a run of the program within this process gave.
type result struct {
	code     int
	out, err string
}

// run runs the program within this process.
func run(t *testing.T, stdin []byte, args ...string) result {
	t.Helper()
	var out, stderr bytes.Buffer
	code := exec(t.Context(), args, bytes.NewReader(stdin), &out, &stderr)
	return result{code: code, out: out.String(), err: stderr.String()}
}

// tourOverThree makes a cluster of databases that are one, starts a server on each, and deals the lines of the tour out over them.
func tourOverThree(t *testing.T, dbs [3]string) {
	t.Helper()
	commands, expected := tour(t)
	for _, args := range [][]string{{"status"}, {"apply", "-"}, {"serve", "--listen", "127.0.0.1:0"}} {
		if got := run(t, nil, append(args, "--db", dbs[0])...); got.code != exitUnavailable || !strings.Contains(got.err, "headwater init") {
			t.Errorf("%s without a cluster: exit code %d, said %q", args[0], got.code, got.err)
		}
	}
	if got := run(t, nil, "init", "--db", dbs[0]); got.code != exitDone {
		t.Fatalf("init: exit code %d, said %q", got.code, got.err)
	}
	if got := run(t, nil, "init", "--db", dbs[1]); got.code != exitRefused {
		t.Errorf("init again: exit code %d, said %q", got.code, got.err)
	}
	var urls [3]string
	for i := range urls {
		urls[i] = served(t, dbs[i])
	}
	for i, c := range commands {
		got := run(t, c, "apply", "--server", urls[i%len(urls)], "-")
		if err := subset(expected[i], []byte(got.out)); err != nil {
			t.Fatalf("line %d: %v\n%s", i+1, err, got.err)
		}
	}
	for _, db := range dbs {
		if got := run(t, nil, "check", "--db", db); got.code != exitDone {
			t.Errorf("check: exit code %d, said %q %q", got.code, got.out, got.err)
		}
	}
}

// served starts a server on a database, to be ended in order with the test, and returns its address.
func served(t *testing.T, db string) string {
	t.Helper()
	s, err := startServer(program(t, "serve", "--db", db, "--listen", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if log, err := s.end(syscall.SIGTERM); err != nil {
			t.Errorf("server: %v\n%s", err, log)
		}
	})
	return s.url
}
