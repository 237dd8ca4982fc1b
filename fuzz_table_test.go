package headwater_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update", false, "write the tables of docs that tests make")

// The table of fuzz targets stands between these in docs/verification.md.
const (
	fuzzPage  = "docs/verification.md"
	fuzzBegin = "<!-- made by go test . -run TestFuzzTable -update -->\n"
	fuzzEnd   = "<!-- end -->\n"
)

// TestFuzzTable holds the table of fuzz targets against the targets that there are, and wants kept inputs of each.
func TestFuzzTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| room | target | what it shows | kept inputs |\n|---|---|---|---|\n")
	for _, file := range testFiles(t) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Fuzz") {
				continue
			}
			dir := filepath.ToSlash(filepath.Dir(file))
			kept, err := filepath.Glob(filepath.Join(dir, "testdata/fuzz", fn.Name.Name, "*"))
			if err != nil || len(kept) == 0 {
				t.Errorf("%s in %s has no kept inputs: let it run, and keep some of what it found interesting (%v)", fn.Name.Name, dir, err)
			}
			if saying(fn) == "" {
				t.Errorf("%s in %s does not say what it shows", fn.Name.Name, dir)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %d |\n", dir, fn.Name.Name, saying(fn), len(kept))
		}
	}
	page, err := os.ReadFile(fuzzPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(page), fuzzBegin)
	_, tail, closed := strings.Cut(rest, fuzzEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for the table of fuzz targets", fuzzPage)
	}
	want := head + fuzzBegin + b.String() + fuzzEnd + tail
	if *updateDocs {
		if err := os.WriteFile(fuzzPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("the table of fuzz targets in %s is old: go test . -run TestFuzzTable -update", fuzzPage)
	}
}

// saying is the first sentence of what a target says of itself, without its name.
func saying(fn *ast.FuncDecl) string {
	s := new(doc.Package).Synopsis(fn.Doc.Text())
	s = strings.TrimSuffix(strings.TrimPrefix(s, fn.Name.Name), ".")
	return strings.TrimLeft(s, ": ")
}

// testFiles are the test files of the module that are under version control, sorted.
func testFiles(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", `{{$d := .Dir}}{{range .TestGoFiles}}{{$d}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$d}}/{{.}}
{{end}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range strings.Fields(string(out)) {
		rel, err := filepath.Rel(here, f)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, rel)
	}
	return files
}
