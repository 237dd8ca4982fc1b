package main

// This file is inside the package because what it tests is a command.

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func faults(t *testing.T) (root string, mutants []mutant) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	mutants, err = load(filepath.Join(root, faultsDir))
	if err != nil {
		t.Fatal(err)
	}
	return root, mutants
}

// TestTable: every hazard has a mutant or a reason why not, every mutant has a check that concerns it and stands in the
// table, caught, as its file says; and nothing else stands there.
func TestTable(t *testing.T) {
	t.Parallel()
	root, mutants := faults(t)
	text, err := os.ReadFile(filepath.Join(root, tableFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, m := range mutants {
		if !slices.ContainsFunc(evidence, func(c check) bool { return c.concerns(m.file) }) {
			t.Errorf("mutant %s: no check concerns %s", m.name, m.file)
		}
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, rowHead(m)) })
		if i < 0 {
			t.Errorf("mutant %s is not in %s as its file has it: go run ./internal/mutants", m.name, tableFile)
			continue
		}
		if !slices.ContainsFunc(evidence, func(c check) bool { return strings.Contains(lines[i], "| "+c.name+" |") }) {
			t.Errorf("mutant %s was caught by no check: %s", m.name, lines[i])
		}
	}
	if !strings.HasSuffix(string(text), hazardRows(mutants)) {
		t.Errorf("%s does not end with the hazards as they are: go run ./internal/mutants", tableFile)
	}
	if n := strings.Count(string(text), "\n| "); n != len(mutants)+len(hazards)+2 {
		t.Errorf("%s has %d lines, wanted are %d mutants and %d hazards", tableFile, n, len(mutants), len(hazards))
	}
	for h := range hazards {
		has := slices.ContainsFunc(mutants, func(m mutant) bool { return slices.Contains(m.hazards, h) })
		if has == (unmutated[h] != "") {
			t.Errorf("%s: a mutant, or a reason why there is none, and not both", h)
		}
	}
}

// TestMutantsCompile: each mutant changes what it says it changes, and compiles; those that do not touch the same text, all at once.
func TestMutantsCompile(t *testing.T) {
	t.Parallel()
	root, mutants := faults(t)
	all, err := layers(root, mutants)
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range all {
		path, err := overlay(root, t.TempDir(), layer...)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"build", "-overlay", path}
		for _, m := range layer {
			if p := "./" + filepath.Dir(m.file); !slices.Contains(args, p) {
				args = append(args, p)
			}
		}
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestMutantsDie runs the evidence against a few mutants that die quickly. The command runs it against all.
func TestMutantsDie(t *testing.T) {
	t.Parallel()
	root, mutants := faults(t)
	few := []string{"stale-node-epoch", "broken-off-read", "nothing-inserted"}
	for _, m := range mutants {
		if !slices.Contains(few, m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			v, err := judge(t.Context(), root, evidence, m)
			if err != nil {
				t.Fatal(err)
			}
			if v.caught == "" {
				t.Fatalf("survives: %s", m.fault)
			}
			t.Logf("caught by %s, %s", v.caught, v.test)
		})
	}
}

// TestMutantsRot: a mutant whose text is gone, or stands twice, or that says nothing, is an error.
func TestMutantsRot(t *testing.T) {
	t.Parallel()
	m := mutant{name: "m", file: "f", old: "a\n", new: "b\n"}
	for text, want := range map[string]string{"a\n": "b\n", "x\na\n": "x\nb\n", "": "", "a\na\n": "", "b\n": ""} {
		if got, err := m.apply(text); got != want || (err != nil) != (want == "") {
			t.Errorf("%q becomes %q, %v; want %q", text, got, err, want)
		}
	}
	head := "file: f\nhazards: hazard 1\nfault: x\n"
	for _, text := range []string{"", head, head + "-- old --\na\n", head + "-- old --\na\n-- new --\na\n", head + "-- old --\n-- new --\nb\n",
		"file: f\nhazards: hazard 99\nfault: x\n-- old --\na\n-- new --\nb\n", "file: f\nfault: x\n-- old --\na\n-- new --\nb\n",
		"hazards: hazard 1\nfault: x\n-- old --\na\n-- new --\nb\n", "other: f\n" + head + "-- old --\na\n-- new --\nb\n"} {
		if m, err := parse("m", text); err == nil {
			t.Errorf("%q is a mutant: %+v", text, m)
		}
	}
	if m, err := parse("m", head+"-- old --\na\n-- new --\n"); err != nil || m.old != "a\n" || m.new != "" {
		t.Errorf("a mutant that takes a line away is %+v, %v", m, err)
	}
}
