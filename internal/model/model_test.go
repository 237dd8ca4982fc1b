package model_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headwaterdb/headwater/meta"
)

// soak is the environment variable that lets the random runs go on for a duration, with new seeds.
const soak = "HEADWATER_SOAK"

// histories is how many the quick form of TestSameAsMeta has.
const histories = 40

// TestSameAsMeta drives meta and the model with the same random rows. The quick form is the same in every run, so that
// what it reaches does not depend on luck; the long one draws new seeds until its time is over. A failure prints the
// flags that repeat it.
func TestSameAsMeta(t *testing.T) {
	cov := coverage{}
	steps := setDefault(t, "rapid.steps", "90")
	if s := os.Getenv(soak); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("%s: %v", soak, err)
		}
		for end := time.Now().Add(d); time.Now().Before(end); {
			rapid.Check(t, func(rt *rapid.T) { run(rt, cov) })
		}
	} else {
		fixed := steps && setDefault(t, "rapid.checks", strconv.Itoa(histories)) && setDefault(t, "rapid.seed", "1")
		runs := 0
		rapid.Check(t, func(rt *rapid.T) { runs++; run(rt, cov) })
		if fixed && runs == histories { // rapid stops early where the time of all tests is nearly over
			page(t, cov)
		}
	}
	cov.log(t)
}

var update = flag.Bool("update", false, "write "+outcomesPage)

const outcomesPage = "../../docs/verification/outcomes.md"

// page holds docs/verification/outcomes.md against what the written sequences and the fixed random run have reached.
func page(t *testing.T, random coverage) {
	t.Helper()
	written := coverage{}
	for kind, told := range allStories() {
		for _, s := range told {
			written[outcome{kind, s.how}]++
		}
	}
	var b strings.Builder
	b.WriteString(outcomesHead)
	for _, kind := range append(meta.Kinds(), find) {
		var cells []string
		for _, how := range strings.Fields(outcomes[kind]) {
			o := outcome{kind, how}
			first := strconv.Itoa(written[o])
			if kind == find {
				first = "1"
			}
			cells = append(cells, fmt.Sprintf("%s %s / %d", how, first, random[o]))
		}
		fmt.Fprintf(&b, "| %s | %s |\n", kindName(kind), strings.Join(cells, ", "))
	}
	if *update {
		if err := os.WriteFile(outcomesPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(outcomesPage)
	if err != nil || string(have) != b.String() {
		t.Errorf("%s is not what was reached (%v): go test ./internal/model -run TestSameAsMeta -update writes it", outcomesPage, err)
	}
}

const outcomesHead = `# Every command and how it can end

Made by a test, and checked by it: how often package meta and the second implementation of the rules, internal/model, were compared
on a command that ended so. The first number is of sequences written for that ending (TestEveryOutcome, which fails where one is missing), the
second of the fixed random run (TestSameAsMeta). Names in small letters are effects besides. REPEATED is an answer from the memory of requests. After each
command answers, changes and all records are compared, and the lists and FindObjects; in between the state goes through a snapshot.

| command | endings: written / random |
|---|---|
`

// setDefault sets a flag that was not given on the command line, for the time of the test, and reports whether it did.
func setDefault(t *testing.T, name, value string) bool {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return false
	}
	old := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, old) })
	return true
}
