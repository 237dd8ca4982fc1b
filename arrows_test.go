package headwater_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/headwaterdb/headwater"

// arrows is the import map of the house: which rooms a room may import. A new arrow is added here in the commit that
// draws it, with the reason in its message. Test files are free.
var arrows = map[string][]string{
	"oplog":                               {},
	"oplog/oplogtest":                     {"oplog"},
	"internal/wire":                       {},
	"internal/pmap":                       {},
	"replica":                             {"oplog", "internal/wire"},
	"meta":                                {"internal/pmap", "internal/wire"},
	"session":                             {"meta"},
	".":                                   {"meta", "replica", "oplog"},
	"sqllog":                              {"oplog"},
	"sqllog/sqlite":                       {"sqllog", "oplog"},
	"sqllog/postgres":                     {"sqllog", "oplog"},
	"sqllog/mysql":                        {"sqllog", "oplog"},
	"internal/dbtest":                     {},
	"internal/dbtest/proxy":               {},
	"internal/dbtest/fakedb":              {},
	"internal/clustertest":                {".", "meta", "oplog"},
	"internal/fieldcase":                  {".", "meta", "oplog", "replica", "internal/wire", "internal/clustertest", "internal/dbtest/proxy"},
	"api/headwater/v1":                    {},
	"api/headwater/v1/headwaterv1connect": {"api/headwater/v1"},
	"api":                                 {"meta", "api/headwater/v1"},
	"server":                              {".", "meta", "api", "api/headwater/v1", "api/headwater/v1/headwaterv1connect"},
	"client":                              {"api", "api/headwater/v1", "api/headwater/v1/headwaterv1connect", "meta", "session"},
	"internal/bench":                      {"meta"},
	"internal/faultlog":                   {"oplog"},
	"internal/gen":                        {"meta"},
	"internal/heap":                       {},
	"internal/history":                    {".", "meta", "api", "api/headwater/v1"},
	"internal/history/recheck":            {"internal/history"},
	"internal/liveness":                   {".", "meta"},
	"internal/model":                      {"meta"},
	"internal/mutants":                    {},
	"internal/nemesis":                    {},
	"internal/sim":                        {".", "meta", "replica", "oplog", "internal/model"},
	"cmd/headwater": {".", "server", "client", "api", "api/headwater/v1", "meta", "session", "oplog", "sqllog/sqlite", "sqllog/postgres", "sqllog/mysql", "internal/bench", "internal/heap", "internal/liveness",
		"api/headwater/v1/headwaterv1connect"},
}

// never lists what a room may not import from outside, and why.
var never = map[string]map[string]string{
	"oplog": {"database/sql": "the contract knows no database", "net": "the contract knows no network"},
	"replica": {"database/sql": "the engine knows bytes and indexes only", "net": "the engine does no I/O of its own",
		"log/slog": "what happens is told to Events", "log": "what happens is told to Events"},
	"meta": {"time": "apply must not read a clock", "math/rand": "apply must be pure", "math/rand/v2": "apply must be pure",
		"crypto/rand": "apply must be pure", "database/sql": "meta is pure", "net": "meta is pure", "os": "meta is pure",
		"google.golang.org/protobuf/proto": "the wire shape lives in api"},
	".":      {"google.golang.org/grpc": "the front door serves no network", "database/sql": "the log is given as a value"},
	"client": {"database/sql": "the client never sees SQL"},
}

type listed struct {
	ImportPath, Dir, Doc string
	Imports              []string
	GoFiles              []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Imports,GoFiles", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func room(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// TestArrows holds the code's imports against the map above.
func TestArrows(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		r := room(p.ImportPath)
		seen[r] = true
		allowed, known := arrows[r]
		if !known {
			t.Errorf("room %s is not on the map: add it to arrows, with what it may import", r)
			continue
		}
		for _, imp := range p.Imports {
			if imp == module || strings.HasPrefix(imp, module+"/") {
				if !slices.Contains(allowed, room(imp)) {
					t.Errorf("%s imports %s: draw the arrow in arrows_test.go, or turn it around", r, room(imp))
				}
			} else if why, bad := never[r][imp]; bad {
				t.Errorf("%s imports %s: %s", r, imp, why)
			}
		}
	}
	for r := range arrows {
		if !seen[r] {
			t.Errorf("the map has a room %s that does not exist", r)
		}
	}
}

// TestDrivers keeps the database drivers in their rooms.
func TestDrivers(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			for driver, only := range map[string]string{"modernc.org/sqlite": "sqllog/sqlite", "github.com/jackc/pgx": "sqllog/postgres",
				"github.com/go-sql-driver/mysql": "sqllog/mysql"} {
				// The fake server has pgx's messages, not its driver.
				fake := room(p.ImportPath) == "internal/dbtest/fakedb" && imp == "github.com/jackc/pgx/v5/pgproto3"
				if strings.HasPrefix(imp, driver) && room(p.ImportPath) != only && !fake {
					t.Errorf("%s imports %s: only %s may", room(p.ImportPath), imp, only)
				}
			}
		}
	}
}

// TestServersAreStopped wants dbtest.Main wherever tests start servers: without it their folders stay on the disk.
func TestServersAreStopped(t *testing.T) {
	starts := regexp.MustCompile(`dbtest\.(New|Shared)\w+\(`)
	found := map[string]bool{} // whether a folder's tests end in Main
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		dir := filepath.Dir(path)
		if main := bytes.Contains(text, []byte("dbtest.Main(")); main || starts.Match(text) {
			found[dir] = found[dir] || main
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, stopped := range found {
		if !stopped {
			t.Errorf("%s starts servers and has no TestMain that ends in dbtest.Main", dir)
		}
	}
	if len(found) < 5 {
		t.Errorf("only %d folders start servers: the search is blind", len(found))
	}
}

// TestPackageComments wants a comment on every package.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment: say what the room is and is not", room(p.ImportPath))
		}
	}
}

// TestExportedNames wants a docstring on every exported name, generated code aside.
func TestExportedNames(t *testing.T) {
	for _, p := range packages(t) {
		if strings.HasPrefix(room(p.ImportPath), "api/headwater") {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				for _, n := range undocumented(d) {
					t.Errorf("%s: %s is exported and has no docstring", fset.Position(n.Pos()), n.Name)
				}
			}
		}
	}
}

func undocumented(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d.Recv)) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						names = append(names, n)
					}
				}
			}
		}
	}
	return names
}

func exportedReceiver(recv *ast.FieldList) bool {
	typ := recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return false
		}
	}
}
