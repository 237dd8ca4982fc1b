package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one small fault.
type mutant struct {
	name    string   // of its file, without the extension
	file    string   // the file that it changes, from the root of the module
	hazards []string // what it stands for: keys of hazards
	fault   string   // what is wrong then, in words
	old     string   // a text that stands in the file exactly once
	new     string   // what stands there instead
}

// load reads the mutants of a directory, in the order of their names.
func load(dir string) ([]mutant, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(filepath.Base(name), ".txt"), string(text))
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// parse reads one mutant: three lines of head, the old text and the new one.
//
//	file: replica/view.go
//	hazards: invariant 4, hazard 9
//	fault: waiters are answered before the view is published
//	-- old --
//	…
//	-- new --
//	…
func parse(name, text string) (mutant, error) {
	m := mutant{name: name}
	head, rest, ok := strings.Cut(text, "-- old --\n")
	old, replacement, both := strings.Cut(rest, "-- new --\n")
	if !ok || !both {
		return m, fmt.Errorf("a head, %q and %q are wanted, each on a line", "-- old --", "-- new --")
	}
	m.old, m.new = old, replacement
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "file":
			m.file = value
		case "hazards":
			m.hazards = strings.Split(value, ", ")
		case "fault":
			m.fault = value
		default:
			return m, fmt.Errorf("line %q: file, hazards or fault is wanted", line)
		}
	}
	switch {
	case m.file == "" || m.fault == "" || m.old == "" || m.old == m.new:
		return m, fmt.Errorf("file, fault and two different texts are wanted")
	case len(m.hazards) == 0:
		return m, fmt.Errorf("at least one hazard is wanted")
	}
	for _, h := range m.hazards {
		if _, known := hazards[h]; !known {
			return m, fmt.Errorf("%q is no hazard: see hazards.go", h)
		}
	}
	return m, nil
}

// apply puts the fault into the text of its file.
func (m *mutant) apply(text string) (string, error) {
	if n := strings.Count(text, m.old); n != 1 {
		return "", fmt.Errorf("mutant %s: its old text stands in %s %d times, wanted is once", m.name, m.file, n)
	}
	return strings.Replace(text, m.old, m.new, 1), nil
}

// overlay writes what `go build -overlay` takes, with the files that these mutants change together, into dir. Mutants of
// one file must change different places.
func overlay(root, dir string, mutants ...mutant) (string, error) {
	texts := map[string]string{}
	for _, m := range mutants {
		if _, ok := texts[m.file]; !ok {
			b, err := os.ReadFile(filepath.Join(root, m.file))
			if err != nil {
				return "", fmt.Errorf("mutant %s: %w", m.name, err)
			}
			texts[m.file] = string(b)
		}
		changed, err := m.apply(texts[m.file])
		if err != nil {
			return "", err
		}
		texts[m.file] = changed
	}
	replace := map[string]string{}
	for file, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, b, 0o600)
}

// layers sorts mutants so that those of one layer do not touch the same text, and can be compiled together.
func layers(root string, mutants []mutant) ([][]mutant, error) {
	type span struct{ from, to int }
	var out [][]mutant
	taken := []map[string][]span{}
	for _, m := range mutants {
		b, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			return nil, fmt.Errorf("mutant %s: %w", m.name, err)
		}
		if _, err := m.apply(string(b)); err != nil {
			return nil, err
		}
		at := strings.Index(string(b), m.old)
		mine := span{at, at + len(m.old)}
		i := 0
		for i < len(out) && slices.ContainsFunc(taken[i][m.file], func(s span) bool { return s.from < mine.to && mine.from < s.to }) {
			i++
		}
		if i == len(out) {
			out, taken = append(out, nil), append(taken, map[string][]span{})
		}
		out[i] = append(out[i], m)
		taken[i][m.file] = append(taken[i][m.file], mine)
	}
	return out, nil
}
