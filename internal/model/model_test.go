package model_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// soak is the environment variable that lets the random runs go on for a duration, with new seeds.
const soak = "HEADWATER_SOAK"

// TestSameAsMeta drives meta and the model with the same random rows. The quick form is the same in every run, so that
// what it reaches does not depend on luck; the long one draws new seeds until its time is over. A failure prints the
// flags that repeat it.
func TestSameAsMeta(t *testing.T) {
	cov := coverage{}
	setDefault(t, "rapid.steps", "90")
	if s := os.Getenv(soak); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("%s: %v", soak, err)
		}
		for end := time.Now().Add(d); time.Now().Before(end); {
			rapid.Check(t, func(rt *rapid.T) { run(rt, cov) })
		}
	} else {
		setDefault(t, "rapid.checks", "100")
		setDefault(t, "rapid.seed", "1")
		rapid.Check(t, func(rt *rapid.T) { run(rt, cov) })
	}
	cov.report(t)
}

// setDefault sets a flag that was not given on the command line, for the time of the test.
func setDefault(t *testing.T, name, value string) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	old := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, old) })
}
