package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // the sql command of the scripts

	"github.com/headwaterdb/headwater/internal/dbtest"
)

// TestMain makes the test binary the program itself where a script, or a test that kills it, runs headwater: a process
// of its own, with its own exit code and signals.
func TestMain(m *testing.M) {
	// Under the race detector each process would sleep for a second at its end, and there are hundreds.
	if err := os.Setenv("GORACE", gorace); err != nil {
		panic(err)
	}
	testscript.Main(tests{m}, map[string]func(){"headwater": main})
}

// tests runs the tests and stops the database servers that they share.
type tests struct{ *testing.M }

func (t tests) Run() int { return dbtest.Main(t.M) }

const gorace = "atexit_sleep_ms=0"

// TestScripts runs the stories under testdata/script: one for each command and each kind of bad input.
//
// Commands of our own: server and end (a server in the background, on a free port, at $SERVER), sql (changes a SQLite
// file by hand), exits (like exec, with the exit code that is expected), subset (compares JSON lines) and field (takes
// a field of the JSON on standard output into a variable).
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"tour.jsonl", "tour.expected.jsonl"} {
				b, err := os.ReadFile(filepath.Join("../../testdata/tour", name))
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(env.WorkDir, name), b, 0o644); err != nil {
					return err
				}
			}
			env.Setenv("GORACE", gorace)
			env.Values[serversKey{}] = map[string]*serverProcess{}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"server": scriptServer, "end": scriptEnd, "sql": scriptSQL, "exits": scriptExits, "subset": scriptSubset,
			"field": scriptField,
		},
	})
}

type serversKey struct{}

func servers(ts *testscript.TestScript) map[string]*serverProcess {
	return ts.Value(serversKey{}).(map[string]*serverProcess)
}

// serverProcess is a headwater serve in the background.
type serverProcess struct {
	cmd   *osexec.Cmd
	url   string
	ended chan struct{} // closed when the process has ended; result may be read then

	mu     sync.Mutex // guards log and seen
	log    bytes.Buffer
	seen   chan struct{} // closed and replaced with each line
	result error
}

// listening is how a server says where: in the greeting, or where the log is JSON, in its first line.
var listening = regexp.MustCompile(`listening on http://(\S+)\. |"address":"([^"]+)"`)

// startServer starts the program and waits until it says where it listens.
func startServer(cmd *osexec.Cmd) (*serverProcess, error) {
	s := &serverProcess{cmd: cmd, ended: make(chan struct{}), seen: make(chan struct{})}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		for in := bufio.NewScanner(stderr); in.Scan(); {
			s.mu.Lock()
			fmt.Fprintln(&s.log, in.Text())
			close(s.seen)
			s.seen = make(chan struct{})
			s.mu.Unlock()
		}
		s.result = cmd.Wait()
	}()
	m, err := s.said(listening)
	if err != nil {
		return nil, err
	}
	s.url = "http://" + m[1] + m[2] // one of them is empty
	return s, nil
}

// said waits until the server has said something, and returns the match.
func (s *serverProcess) said(what *regexp.Regexp) ([]string, error) {
	for over := false; ; {
		s.mu.Lock()
		m, seen, log := what.FindStringSubmatch(s.log.String()), s.seen, s.log.String()
		s.mu.Unlock()
		if m != nil {
			return m, nil
		}
		if over {
			return nil, fmt.Errorf("server ended without saying %v: %w\n%s", what, s.result, log)
		}
		select {
		case <-seen:
		case <-s.ended:
			over = true
		}
	}
}

// end sends a signal, waits and returns what the server said.
func (s *serverProcess) end(signal os.Signal) (string, error) {
	if err := s.cmd.Process.Signal(signal); err != nil {
		return "", err
	}
	<-s.ended
	return s.log.String(), s.result
}

// server NAME ARGS...: starts headwater serve on a free port; $SERVER is its address, $NAME too.
func scriptServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: server NAME [flags of serve]")
	}
	cmd := osexec.Command("headwater", append([]string{"serve", "--listen", "127.0.0.1:0"}, args[1:]...)...)
	var err error
	if cmd.Path, err = lookPath(ts, "headwater"); err != nil {
		ts.Fatalf("%v", err)
	}
	cmd.Dir, cmd.Env = ts.Getenv("WORK"), environment(ts)
	s, err := startServer(cmd)
	if err != nil {
		ts.Fatalf("%v", err)
	}
	servers(ts)[args[0]] = s
	ts.Setenv("SERVER", s.url)
	ts.Setenv(args[0], s.url)
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		<-s.ended
	})
}

// end NAME [INT|TERM|KILL]: ends a server; its log is in the file NAME.log. Fails unless it ends with exit code 0,
// KILL aside.
func scriptEnd(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}
	how := "TERM"
	if len(args) > 1 {
		how = args[1]
	}
	s := servers(ts)[args[0]]
	if s == nil || signals[how] == nil {
		ts.Fatalf("usage: end NAME [INT|TERM|KILL]")
	}
	log, err := s.end(signals[how])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".log"), []byte(log), 0o644))
	if how != "KILL" && err != nil {
		ts.Fatalf("server %s: %v\n%s", args[0], err, log)
	}
}

// sql FILE STATEMENT: changes a SQLite file by hand.
func scriptSQL(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sql FILE STATEMENT")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(args[1])
	ts.Check(err)
}

// exits CODE PROGRAM ARGS...: runs a program and wants this exit code. stdout and stderr look at what it wrote.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGS]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = "?"
		if exit, ok := err.(*osexec.ExitError); ok {
			code = fmt.Sprint(exit.ExitCode())
		}
	}
	if code != args[0] {
		ts.Fatalf("%s: exit code %s (%v), want %s\nstdout: %s\nstderr: %s", strings.Join(args[1:], " "), code, err, args[0],
			ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// subset WANT GOT: each JSON line of GOT must contain what that of WANT does.
func scriptSubset(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: subset WANT GOT")
	}
	if err := subset([]byte(ts.ReadFile(args[0])), []byte(ts.ReadFile(args[1]))); err != nil {
		ts.Fatalf("%v", err)
	}
}

// field NAME FIELD: puts a field of the JSON object on standard output into $NAME.
func scriptField(ts *testscript.TestScript, neg bool, args []string) {
	var object map[string]any
	if len(args) != 2 {
		ts.Fatalf("usage: field NAME FIELD")
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &object))
	ts.Setenv(args[0], fmt.Sprint(object[args[1]]))
}

func lookPath(ts *testscript.TestScript, name string) (string, error) {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, name); executable(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in the script's PATH", name)
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode()&0o111 != 0
}

func environment(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "WORK", "GORACE", "HEADWATER_DB", "HEADWATER_LISTEN"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// subset compares JSON lines: every line of got contains that of want, and there are as many.
func subset(want, got []byte) error {
	wants, gots := lines(want), lines(got)
	if len(wants) != len(gots) {
		return fmt.Errorf("%d lines, want %d", len(gots), len(wants))
	}
	for i := range wants {
		var w, g any
		if err := json.Unmarshal(wants[i], &w); err != nil {
			return fmt.Errorf("line %d of what is wanted: %w", i+1, err)
		}
		if err := json.Unmarshal(gots[i], &g); err != nil {
			return fmt.Errorf("line %d: %w: %s", i+1, err, gots[i])
		}
		if where := missing(w, g, ""); where != "" {
			return fmt.Errorf("line %d differs at %s\nwant %s\ngot  %s", i+1, where, wants[i], gots[i])
		}
	}
	return nil
}

func lines(b []byte) (out [][]byte) {
	for line := range bytes.Lines(b) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

// missing returns the path of the first thing in want that got does not have, and nothing where it has all.
func missing(want, got any, path string) string {
	w, isObject := want.(map[string]any)
	if !isObject {
		if fmt.Sprint(want) != fmt.Sprint(got) {
			return path + "."
		}
		return ""
	}
	g, _ := got.(map[string]any)
	for name, v := range w {
		if where := missing(v, g[name], path+"."+name); where != "" {
			return where
		}
	}
	return ""
}
