package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand calls f for each command of the program, the generated ones aside.
func everyCommand(t *testing.T, f func(t *testing.T, c *cobra.Command)) {
	t.Helper()
	a := &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		t.Run(c.CommandPath(), func(t *testing.T) { f(t, c) })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(a.root())
}

func TestEveryCommandIsExplained(t *testing.T) {
	everyCommand(t, func(t *testing.T, c *cobra.Command) {
		if c.Short == "" || c.Example == "" || c.Args == nil || c.RunE == nil {
			t.Errorf("short text %q, example %q, arguments checked: %v, runs: %v", c.Short, c.Example, c.Args != nil, c.RunE != nil)
		}
		for line := range strings.Lines(c.Example) {
			if !strings.HasPrefix(line, "  ") || !strings.Contains(line, "headwater") {
				t.Errorf("example %q", line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("flag --%s has no text", f.Name)
			}
		})
	})
}

// TestExamplesParse: the commands in the examples exist and take the flags that are shown.
func TestExamplesParse(t *testing.T) {
	everyCommand(t, func(t *testing.T, c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			_, words, _ := strings.Cut(strings.TrimSpace(line), "headwater ")
			words, _, _ = strings.Cut(words, " > ")
			words, _, _ = strings.Cut(words, " | ")
			args := shellWords(words)
			a := &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard}
			found, rest, err := a.root().Find(args)
			if err != nil {
				t.Errorf("%q: %v", line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	})
}

// shellWords splits a line as a shell does, quotes included.
func shellWords(s string) (words []string) {
	var word strings.Builder
	quote := rune(0)
	for _, r := range s + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote = r
		case r == ' ' || r == '\n':
			if word.Len() > 0 {
				words = append(words, word.String())
				word.Reset()
			}
		default:
			word.WriteRune(r)
		}
	}
	return words
}

// TestEnvironment: a flag can stand in the environment, the command line wins, and what does not fit is told without
// its value, which may be a secret.
func TestEnvironment(t *testing.T) {
	t.Setenv("HEADWATER_OUTPUT", "json")
	if got := run(t, nil, "version"); !strings.HasPrefix(got.out, "{") {
		t.Errorf("with HEADWATER_OUTPUT=json: %q", got.out)
	}
	if got := run(t, nil, "version", "-o", "table"); strings.HasPrefix(got.out, "{") {
		t.Errorf("with -o table on the command line: %q", got.out)
	}
	t.Setenv("HEADWATER_OUTPUT", "hunter2")
	if got := run(t, nil, "version"); got.code != exitUsage || !strings.Contains(got.err, "HEADWATER_OUTPUT") || strings.Contains(got.err, "hunter2") {
		t.Errorf("exit code %d, said %q", got.code, got.err)
	}
	t.Setenv("HEADWATER_OUTPUT", "")
	t.Setenv("HEADWATER_DB", "oracle://user:hunter2@host/db")
	if got := run(t, nil, "status"); got.code != exitUsage || strings.Contains(got.err, "hunter2") {
		t.Errorf("exit code %d, said %q", got.code, got.err)
	}
	t.Setenv("HEADWATER_DB", "postgres://user:hunter2@127.0.0.1:1/db")
	if got := run(t, nil, "status"); got.code != exitUnavailable || strings.Contains(got.err, "hunter2") {
		t.Errorf("exit code %d, said %q", got.code, got.err)
	}
	// A server in the environment comes before a database there.
	t.Setenv("HEADWATER_SERVER", "http://127.0.0.1:1")
	if got := run(t, nil, "status"); got.code != exitUnavailable || !strings.Contains(got.err, "is a server running there?") {
		t.Errorf("exit code %d, said %q", got.code, got.err)
	}
}
