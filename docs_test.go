package headwater_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPagesNameTests proves that each test which docs/field-cases.md and docs/verification.md name exists, in the folder
// that they name.
func TestPagesNameTests(t *testing.T) {
	for _, file := range []string{"docs/field-cases.md", "docs/verification.md"} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`([a-zA-Z0-9_/.-]*): (Test|Fuzz)([A-Za-z0-9_]+)`").FindAllStringSubmatch(string(page), -1)
		if len(named) < 14 {
			t.Fatalf("%s names %d tests; the pattern that finds them must have gone wrong", file, len(named))
		}
		for _, n := range named {
			dir, name := n[1], n[2]+n[3]
			if !declared(t, dir, name) {
				t.Errorf("%s names %s in %s, and there is no such test", file, name, dir)
			}
		}
	}
}

// declared reports whether a test file directly in dir declares the function.
func declared(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	if dir == "oplog/oplogtest" { // the suite is not a test file: it is what tests call
		files, _ = filepath.Glob(filepath.Join(dir, "*.go"))
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(") {
			return true
		}
	}
	return false
}

// TestLinks proves that the links between the pages of the project lead somewhere.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	checked := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, l := range link.FindAllStringSubmatch(string(text), -1) {
			checked++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), l[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", path, l[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked == 0 {
		t.Fatal("no link was checked")
	}
}
