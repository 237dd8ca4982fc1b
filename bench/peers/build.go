package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// binaries are the programs that are measured, built from source.
type binaries struct{ self, headwater, echo, etcd, kine string }

// kineTags are the build tags of kine's releases, its embedded message broker aside.
const kineTags = "sqlite_unlock_notify,sqlite_vtable,sqlite_stat4,sqlite_preupdate_hook,sqlite_math_functions,sqlite_dbstat,sqlite_column_metadata"

// kineC are the options of SQLite in kine's releases, which are for its C compiler.
const kineC = "-DSQLITE_DEFAULT_MEMSTATUS=0 -DSQLITE_DISABLE_INTRINSIC -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_DBPAGE_VTAB " +
	"-DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_ENABLE_MEMORY_MANAGEMENT -DSQLITE_ENABLE_OFFSET_SQL_FUNC " +
	"-DSQLITE_ENABLE_PREUPDATE_HOOK -DSQLITE_ENABLE_RBU -DSQLITE_ENABLE_RTREE -DSQLITE_ENABLE_SESSION -DSQLITE_ENABLE_SNAPSHOT " +
	"-DSQLITE_ENABLE_STAT4 -DSQLITE_ENABLE_UNLOCK_NOTIFY -DSQLITE_LIKE_DOESNT_MATCH_BLOBS -DSQLITE_THREADSAFE=1 -DSQLITE_WITHOUT_ZONEMALLOC"

// build builds the programs into dir: Headwater from this checkout, the peers from the Go module proxy in the versions
// that their go.mod files beside this one name. root is the folder of this module.
func build(ctx context.Context, root, dir string, peers bool) (b binaries, versions map[string]string, err error) {
	if b.self, err = os.Executable(); err != nil {
		return b, nil, err
	}
	b.headwater, b.echo = filepath.Join(dir, "headwater"), filepath.Join(dir, "echo")
	type program struct {
		dir, out string
		args     []string
		env      []string
	}
	programs := []program{
		{dir: filepath.Join(root, "../.."), out: b.headwater, args: []string{"./cmd/headwater"}},
		{dir: filepath.Join(root, "../rpc"), out: b.echo, args: []string{"."}},
	}
	versions = map[string]string{}
	if peers {
		b.etcd, b.kine = filepath.Join(dir, "etcd"), filepath.Join(dir, "kine")
		programs = append(programs,
			program{dir: filepath.Join(root, "etcd"), out: b.etcd, args: []string{"go.etcd.io/etcd/server/v3"}},
			program{dir: filepath.Join(root, "kine"), out: b.kine, args: []string{"-tags", kineTags, "github.com/k3s-io/kine"},
				env: []string{"CGO_CFLAGS=-O2 -g " + kineC}})
	}
	for _, p := range programs {
		say("building %s", filepath.Base(p.out))
		cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-buildvcs=false", "-o", p.out}, p.args...)...)
		cmd.Dir = p.dir
		cmd.Env = append(os.Environ(), p.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return b, nil, fmt.Errorf("build %s: %w\n%s", filepath.Base(p.out), err, out)
		}
	}
	versions["headwater"] = commit(ctx, root)
	if peers {
		for name, module := range map[string]string{"etcd": "go.etcd.io/etcd/server/v3", "kine": "github.com/k3s-io/kine"} {
			cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module)
			cmd.Dir = filepath.Join(root, name)
			out, err := cmd.Output()
			if err != nil {
				return b, nil, fmt.Errorf("version of %s: %w", name, err)
			}
			versions[name] = strings.TrimSpace(string(out))
		}
	}
	return b, versions, nil
}

// commit names the commit of the checkout.
func commit(ctx context.Context, root string) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty=+changes", "--abbrev=12")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
