package main

import (
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// nextVersion builds this program as its next version may be: it knows format level 2, which brought another encoding of
// checkKey, and writes that one. The sources stay as they are; the changed file is laid over them.
func nextVersion(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	source, err := filepath.Abs("../../meta/version.go")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, change := range [][2]string{
		{"\tMaxFormat = 1\n", "\tMaxFormat = 2\n"},
		{"\treturn all\n}()", "\tall[KindCheckKey] = []byte{2, 1}\n\treturn all\n}()"}, // the first is written, both are read
		{"\treturn level\n}", "\tif _, ok := c.(CheckKey); ok {\n\t\tlevel = 2\n\t}\n\treturn level\n}"},
	} {
		if strings.Count(text, change[0]) != 1 {
			t.Fatalf("meta/version.go has %q %d times", change[0], strings.Count(text, change[0]))
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	changed, overlay := filepath.Join(dir, "version.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{changed: []byte(text), overlay: list} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(dir, "headwater-next")
	if out, err := osexec.Command("go", "build", "-overlay", overlay, "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the next version: %v\n%s", err, out)
	}
	return path
}

// fleet is servers of two versions on one database.
type fleet struct {
	t    *testing.T
	db   string
	next string // the program of the next version
}

func (f *fleet) serve(next bool) *serverProcess {
	f.t.Helper()
	cmd := program(f.t, "serve", "--db", f.db, "--listen", "127.0.0.1:0")
	if next {
		cmd.Path = f.next
	}
	s, err := startServer(cmd)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.ended
	})
	return s
}

// apply sends one command, as JSON, and wants an answer with these words.
func (f *fleet) apply(s *serverProcess, command, want string) {
	f.t.Helper()
	got := run(f.t, []byte(command), "apply", "-", "--server", s.url)
	if !strings.Contains(got.out, want) {
		f.t.Fatalf("%s\nanswered %swant %s\n%s", command, got.out, want, got.err)
	}
}

// register makes a node known as a process of a version.
func (f *fleet) register(s *serverProcess, node, level int) {
	f.t.Helper()
	if got := run(f.t, nil, "node", "register", fmt.Sprint(node), "--format-level", fmt.Sprint(level), "--server", s.url); got.code != exitDone {
		f.t.Fatal(got.err)
	}
}

// fresh wants the server to be ready, and to show a key that was just written elsewhere.
func (f *fleet) fresh(s *serverProcess, key string) {
	f.t.Helper()
	if got := run(f.t, nil, "key", "get", key, "--fresh", "--server", s.url); got.code != exitDone {
		f.t.Fatalf("key %s: exit code %d: %s", key, got.code, got.err)
	}
	if got := run(f.t, nil, "status", "--server", s.url); got.code != exitDone || !strings.Contains(strings.ToLower(got.out), "ready") {
		f.t.Fatalf("status: exit code %d: %s\n%s", got.code, got.err, got.out)
	}
}

// TestMixedVersions is field case 09.1 with processes of two versions on one database: what older ones cannot read is not
// written before the level allows it, the level is not raised while a registered node is below it, and then it works;
// a process that the upgrade has missed halts and says so.
func TestMixedVersions(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, db: "sqlite:" + filepath.Join(t.TempDir(), "mixed.db"), next: nextVersion(t)}
	const check, raise = `{"checkKey":{"key":"absent","ifAbsent":true}}`, `{"setFormat":{"level":2}}`
	first, missed := f.serve(false), f.serve(false)
	f.register(first, 1, 1)
	f.register(missed, 2, 1)
	f.apply(first, check, "REDUNDANT") // in its first encoding

	upgraded := f.serve(true)
	f.register(upgraded, 3, 2)
	f.apply(upgraded, check, "FORMAT_UNSUPPORTED")
	f.apply(upgraded, check, "needs format level 2, the cluster is at 1")
	f.apply(upgraded, `{"putKey":{"key":"a"}}`, "APPLIED") // what is old it does
	f.apply(upgraded, raise, "FORMAT_UNSUPPORTED")         // nodes 1 and 2 are below
	f.apply(first, raise, "FORMAT_UNSUPPORTED")
	for _, s := range []*serverProcess{first, missed, upgraded} {
		f.fresh(s, "a")
	}

	if log, err := first.end(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	second := f.serve(true)
	f.register(second, 1, 2)
	f.apply(second, raise, "FORMAT_UNSUPPORTED") // node 2 still is
	f.register(second, 2, 2)                     // said, but its process was left as it is
	f.apply(second, raise, `"APPLIED"`)
	f.fresh(upgraded, "a")                // it has seen the new level
	f.apply(upgraded, check, "REDUNDANT") // in its second encoding
	f.apply(second, `{"putKey":{"key":"b"}}`, "APPLIED")
	f.fresh(upgraded, "b")
	f.fresh(second, "b")

	if _, err := missed.said(regexp.MustCompile(`must be upgraded|needs format level 2`)); err != nil {
		t.Fatal(err)
	}
	if got := run(t, nil, "key", "get", "a", "--server", missed.url); got.code != exitDone {
		t.Errorf("the process that was missed does not read: %s", got.err)
	}
	if got := run(t, []byte(`{"putKey":{"key":"c"}}`), "apply", "-", "--server", missed.url); got.code != exitUnavailable {
		t.Errorf("the process that was missed writes: %s%s", got.out, got.err)
	}
	out, err := osexec.Command(f.next, "check", "--db", f.db).CombinedOutput()
	if err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
}
