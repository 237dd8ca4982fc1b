// Package spec_test has Spin check the model of the log's protocol, and check that it finds the faults that the protocol
// is built against. README.md tells what the model says.
package spec_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience bounds one search. The longest of the quick ones takes seconds.
const patience = 10 * time.Minute

// found is what a search reports.
type found struct {
	property string // the one that was violated; empty: none
	states   int
	whole    bool // everything that can be reached was looked at
	report   string
}

var (
	violated = regexp.MustCompile(`assertion violated (\w+)|pan:1: (non-progress cycle|invalid end state)`)
	stored   = regexp.MustCompile(`(\d+) states, stored`)
)

// search makes the verifier of the model with these defines and runs it.
func search(t *testing.T, defines, build, run string) found {
	t.Helper()
	const model = "log.pml"
	dir := t.TempDir()
	if text, err := os.ReadFile(model); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(filepath.Join(dir, model), text, 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(name string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || ctx.Err() != nil || exit != nil && name != "./pan" {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
		}
		return out.String()
	}
	command("spin", append(strings.Fields(defines), "-a", model)...)
	command("gcc", append([]string{"-w", "-DNOFAIR", "-DMEMLIM=8000", "-o", "pan", "pan.c"}, strings.Fields(build)...)...)
	f := found{report: command("./pan", append([]string{"-m100000", "-w22"}, strings.Fields(run)...)...)}
	if m := violated.FindStringSubmatch(f.report); m != nil {
		f.property = m[1] + m[2]
	}
	if m := stored.FindStringSubmatch(f.report); m != nil {
		f.states, _ = strconv.Atoi(m[1])
	}
	f.whole = strings.Contains(f.report, "errors: 0") && !strings.Contains(f.report, "Search not completed") &&
		!strings.Contains(f.report, "max search depth too small")
	if f.property != "" {
		f.report += story(command("spin", append(strings.Fields(defines), "-t", "-T", model)...))
	}
	return f
}

// story is what the model tells of the run that leads to a violation.
func story(replay string) string {
	var b strings.Builder
	for line := range strings.Lines(replay) {
		if strings.HasPrefix(line, "spin: trail ends") {
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

// needTools skips the test where the tools are missing, but fails where they have to be there.
func needTools(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is not installed", tool)
			}
			t.Skipf("%s is not installed (Debian package %[1]s): the model of the log is not checked", tool)
		}
	}
}

// TestLogModel searches everything that can happen, and finds no property violated. The last entries are large.
func TestLogModel(t *testing.T) {
	t.Parallel()
	needTools(t)
	for _, c := range []struct {
		name, defines string
		full          bool
	}{
		{"three writers, a lost answer", "-DCRASHES=0 -DKEEPERS=1", false},
		{"three writers, a crash", "-DCUTS=0 -DKEEPERS=1", false},
		{"two writers, a lost answer, a crash, two snapshotters", "-DWRITERS=2", false},
		{"three writers, each lock a step", "-DFINE -DCRASHES=0 -DCUTS=0 -DKEEPERS=1", false},
		{"two writers of two commands, a lost answer, a crash", "-DWRITERS=2 -DEACH=2 -DKEEPERS=1", true},
		{"two writers, two crashes, two lost answers", "-DWRITERS=2 -DCUTS=2 -DCRASHES=2 -DKEEPERS=1", true},
		{"two writers, a lost answer, a crash, each lock a step", "-DWRITERS=2 -DFINE -DKEEPERS=1", true},
		{"three writers, two snapshotters", "-DCRASHES=0 -DCUTS=0", true},
		{"three writers, a lost answer, a crash", "-DKEEPERS=1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.full && os.Getenv("HEADWATER_TEST_FULL") == "" {
				t.Skip("large: HEADWATER_TEST_FULL=1 runs it")
			}
			f := search(t, c.defines, "-O2 -DSAFETY", "")
			if f.property != "" || !f.whole {
				t.Fatalf("%s is violated, or the search was not complete:\n%s", f.property, f.report)
			}
			if f.states < 10_000 {
				t.Errorf("%d states only: the model does not move", f.states)
			}
			t.Logf("%d states, all of them good", f.states)
		})
	}
}

// TestLogModelEnds: no run goes on for ever, so every run comes to the rest in which all_reach_the_head is asserted. That
// is the liveness: whatever is tried again is tried again because something has changed.
func TestLogModelEnds(t *testing.T) {
	t.Parallel()
	needTools(t)
	f := search(t, "-DWRITERS=2 -DKEEPERS=1", "-O1 -DNP", "-l")
	if f.property != "" || !f.whole {
		t.Fatalf("%s, or the search was not complete:\n%s", f.property, f.report)
	}
	t.Logf("%d states, none of them on a cycle", f.states)
}

// TestLogModelFindsFaults: the same model with one fault in the protocol is refuted, each by the property that names what
// is lost. A property that no fault refutes would say nothing.
func TestLogModelFindsFaults(t *testing.T) {
	t.Parallel()
	needTools(t)
	for _, c := range []struct{ fault, defines, property string }{
		{"the predecessor is not locked", "-DNO_LOCK -DCRASHES=0 -DCUTS=0 -DKEEPERS=1", "one_row_for_ever"},
		{"the predecessor is not locked, each lock a step", "-DNO_LOCK -DFINE -DCRASHES=0 -DCUTS=0 -DKEEPERS=1", "one_row_for_ever"},
		{"the predecessor is not locked, seen by readers only", "-DNO_LOCK -DBLIND_HISTORY -DCRASHES=0 -DCUTS=0 -DKEEPERS=1", "equal_prefix"},
		{"a plain insert", "-DPLAIN_INSERT -DCRASHES=0 -DCUTS=0 -DKEEPERS=1", "one_row_for_ever"},
		{"the newest row is truncated", "-DDROP_NEWEST -DWRITERS=2 -DCRASHES=0 -DCUTS=0 -DKEEPERS=1", "all_reach_the_head"},
		{"truncation before the durable snapshot", "-DDROP_EARLY -DWRITERS=2 -DCRASHES=0 -DCUTS=0 -DKEEPERS=1", "recoverable"},
		{"a retry elsewhere after an unknown outcome", "-DBLIND_RETRY -DWRITERS=2 -DCRASHES=0 -DKEEPERS=1", "stands_once"},
		{"an older snapshot over a newer one", "-DANY_SNAPSHOT -DCRASHES=0 -DCUTS=0", "recoverable"},
		{"a guess at what an install jumped over", "-DGUESS -DCRASHES=0 -DKEEPERS=1", "acknowledged_is_kept"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			f := search(t, c.defines, "-O1 -DSAFETY", "")
			if f.property != c.property {
				t.Fatalf("refuted by %q, want %q:\n%s", f.property, c.property, f.report)
			}
			t.Logf("%s is violated; found among %d states", f.property, f.states)
		})
	}
}
