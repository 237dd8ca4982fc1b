package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const tableHead = `# Mutants

Made by ` + "`go run ./internal/mutants`" + `, and held against the faults by a test. Each line is a small fault that is put into the code by an
overlay (` + "`internal/mutants/faults/NAME.txt`" + `), and the first check that fails on it: none of them was written for a mutant. The seconds are those of
compiling and of all checks until then, on a machine of two cores that was busy with much else.

`

// tails are the parts of the lines of a page that a run makes, by the mutant; those of a mutant that has changed are
// left out. control is the sentence on the run without a mutant.
func tails(page string, mutants []mutant) (known map[string]string, control string) {
	known = map[string]string{}
	for line := range strings.Lines(page) {
		for _, m := range mutants {
			if tail, ok := strings.CutPrefix(line, rowHead(m)); ok {
				known[m.name] = strings.TrimSpace(tail)
			}
		}
		if strings.HasPrefix(line, "Without a mutant") {
			control = strings.TrimSpace(line)
		}
	}
	return known, control
}

func tailOf(v verdict) string {
	return fmt.Sprintf("%s | `%s` | %.0f |", v.caught, v.test, v.took.Seconds())
}

func controlOf(v verdict) string {
	return fmt.Sprintf("Without a mutant the same evidence passes, in %.0f seconds.", v.took.Seconds())
}

// table is the page of the documentation.
func table(mutants []mutant, known map[string]string, control string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n\n", tableHead, control)
	b.WriteString("| mutant | what is wrong then | stands for | caught by | test | seconds |\n|---|---|---|---|---|---|\n")
	for _, m := range mutants {
		if tail, ok := known[m.name]; ok {
			fmt.Fprintf(&b, "%s %s\n", rowHead(m), tail)
		}
	}
	b.WriteString("\n## What they stand for\n\n| | | mutants |\n|---|---|---|\n")
	b.WriteString(hazardRows(mutants))
	return b.String()
}

// rowHead is the part of a mutant's line that does not depend on a run.
func rowHead(m mutant) string {
	return fmt.Sprintf("| %s | %s | %s |", m.name, m.fault, strings.Join(m.hazards, ", "))
}

// hazardRows says for each hazard which mutants stand for it, or why none does.
func hazardRows(mutants []mutant) string {
	var b strings.Builder
	for _, h := range slices.SortedFunc(maps.Keys(hazards), byNumber) {
		var names []string
		for _, m := range mutants {
			if slices.Contains(m.hazards, h) {
				names = append(names, m.name)
			}
		}
		text := strings.Join(names, ", ")
		if text == "" {
			text = "none: " + unmutated[h]
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", h, hazards[h], text)
	}
	return b.String()
}

// byNumber puts invariants before hazards, each in the order of their numbers.
func byNumber(a, b string) int {
	kindA, numberA, _ := strings.Cut(a, " ")
	kindB, numberB, _ := strings.Cut(b, " ")
	if kindA != kindB {
		return -strings.Compare(kindA, kindB)
	}
	x, _ := strconv.Atoi(numberA)
	y, _ := strconv.Atoi(numberB)
	return x - y
}
