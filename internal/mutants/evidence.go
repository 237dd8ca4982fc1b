package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// check is one piece of the quick evidence: tests of one package that were written for no mutant.
type check struct {
	name string   // what it is called in the table
	pkg  string   // the package that is tested
	run  string   // which of its tests
	sees []string // rooms whose faults it can see: the first element of a file's path, or two of them
	env  []string
}

// evidence is the quick evidence, in the order in which it is tried: what is quick and general comes first.
var evidence = []check{
	{name: "model", pkg: "./internal/model", run: "TestEveryOutcome|TestSameAsMeta|TestBound", sees: []string{"meta"}},
	{name: "state machine suite", pkg: "./meta", run: "", sees: []string{"meta", "internal/pmap"}},
	{name: "simulation", pkg: "./internal/sim", run: "TestCorpus|TestSeeds", sees: []string{"replica", "meta", "headwater.go", "format.go"},
		env: []string{"HEADWATER_ROUNDS=16"}},
	{name: "engine suite", pkg: "./replica", run: "", sees: []string{"replica"}},
	{name: "conformance, memory", pkg: "./oplog", run: "", sees: []string{"oplog"}},
	{name: "sqllog suite", pkg: "./sqllog", run: "", sees: []string{"sqllog"}},
	{name: "conformance, sqlite", pkg: "./sqllog/sqlite", run: "", sees: []string{"sqllog", "sqllog/sqlite"}},
	{name: "conformance, postgres", pkg: "./sqllog/postgres", run: "TestLog|Truncat|Genesis|Stale|Ambiguous", sees: []string{"sqllog/postgres"}},
	{name: "conformance, mysql", pkg: "./sqllog/mysql", run: "TestLog|Truncat|Genesis|Stale|Ambiguous", sees: []string{"sqllog/mysql"}},
	{name: "front door", pkg: ".", run: "TestNewer|TestCheck|TestTour|TestHalt", sees: []string{"replica", "meta", "headwater.go", "format.go", "check.go", "status.go"}},
	{name: "histories", pkg: "./internal/history", run: "", sees: []string{"meta"}},
}

// concerns reports whether the check can see a fault in file.
func (c *check) concerns(file string) bool {
	room, rest, _ := strings.Cut(file, "/")
	if sub, _, deeper := strings.Cut(rest, "/"); deeper {
		room += "/" + sub
	}
	for _, s := range c.sees {
		if s == room {
			return true
		}
	}
	return false
}

// patience bounds a check. One that goes on for so long hangs.
var patience = 10 * time.Minute

// verdict is what became of a mutant.
type verdict struct {
	caught  string        // the check; empty: it survived all that concern it
	test    string        // the test that failed
	took    time.Duration // until then
	message string        // the end of its output
}

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	hungTest   = regexp.MustCompile(`(?m)^\s*running tests:\n\s*(\S+)`)
)

// judge runs the evidence that concerns the files of the mutants, which are put into the code together, until something
// fails. Without mutants it runs all of it.
func judge(ctx context.Context, root string, only []check, mutants ...mutant) (verdict, error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return verdict{}, err
	}
	defer os.RemoveAll(dir)
	path, err := overlay(root, dir, mutants...)
	if err != nil {
		return verdict{}, err
	}
	begin := time.Now()
	for _, c := range only {
		concerned := len(mutants) == 0
		for _, m := range mutants {
			concerned = concerned || c.concerns(m.file)
		}
		if !concerned {
			continue
		}
		out, err := c.try(ctx, root, path, filepath.Join(dir, "check.test"))
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return verdict{}, ctx.Err()
		case errors.Is(err, errCompile):
			return verdict{}, fmt.Errorf("%s: %w:\n%s", c.name, err, out)
		case errors.As(err, &exit):
			v := verdict{caught: c.name, test: "a crash", took: time.Since(begin), message: last(out, 2000)}
			if found := failedTest.FindAllStringSubmatch(out, -1); found != nil {
				v.test = found[0][1]
				for _, f := range found { // the first test, named as precisely as its subtests say
					if strings.HasPrefix(f[1], v.test+"/") {
						v.test = f[1]
					}
				}
			} else if hung := hungTest.FindStringSubmatch(out); hung != nil {
				v.test = hung[1] + " hung"
			}
			return v, nil
		case err != nil:
			return verdict{}, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return verdict{took: time.Since(begin)}, nil
}

var errCompile = errors.New("does not compile")

// try compiles the check's tests with an overlay and runs them. An error that is an *exec.ExitError says that one failed.
func (c *check) try(ctx context.Context, root, overlay, binary string) (string, error) {
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", binary, c.pkg)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return string(out), errCompile
	}
	cmd := exec.CommandContext(ctx, binary, "-test.failfast", "-test.timeout", patience.String(), "-test.run", c.run)
	cmd.Dir = filepath.Join(root, c.pkg)
	cmd.Env = append(os.Environ(), c.env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func last(s string, n int) string { return s[max(len(s)-n, 0):] }
