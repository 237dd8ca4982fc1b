package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/dbtest"
)

// TestMain lets the test binary be the writer processes that the demo starts.
func TestMain(m *testing.M) {
	if os.Getenv(selfEnv) != "" {
		if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "streamstore:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(dbtest.Main(m))
}

// TestEveryFileReadsBack stores a part of Go's source tree, and some files made for the purpose, through three writer
// processes that are killed with -9, hands streams over, compacts, reclaims, and compares everything byte for byte. The
// demo itself fails where an object leaked or a byte differs; the whole tree is `make demo`. It runs on every kind of
// database that is installed; on Galera each writer uses another member.
func TestEveryFileReadsBack(t *testing.T) {
	src := sources(t)
	t.Run("sqlite", func(t *testing.T) { readsBack(t, src) })
	t.Run("postgres", func(t *testing.T) {
		readsBack(t, src, dbtest.NewPostgres(t).DSN("postgres", "postgres"))
	})
	t.Run("mariadb", func(t *testing.T) {
		readsBack(t, src, dbtest.NewMariaDB(t).DSN("root"))
	})
	t.Run("galera", func(t *testing.T) {
		var members []string
		for _, m := range dbtest.NewGalera(t, 3).Members {
			members = append(members, m.DSN("root"))
		}
		readsBack(t, src, members...)
	})
}

// sources makes a directory to store.
func sources(t *testing.T) string {
	src := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(src, "go"), os.DirFS(filepath.Join(strings.TrimSpace(string(root)), "src", "net"))); err != nil {
		t.Fatal(err)
	}
	made := map[string]int{"empty": 0, "one byte": 1, "above an object": 300_000, "exactly an object": 64 << 10}
	for name, size := range made {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 7)
		}
		if err := os.WriteFile(filepath.Join(src, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return src
}

// readsBack runs the demo on a database, in a SQLite file where none is given.
func readsBack(t *testing.T, src string, dbs ...string) {
	o := demoOptions{dir: t.TempDir(), dbs: dbs, src: src, writers: 3, kills: 4, seed: uint64(time.Now().UnixNano()),
		target: 64 << 10, ttl: 600 * time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := runDemo(ctx, o, newDisplay(io.Discard))
	if err != nil {
		t.Fatalf("seed %d: %v", o.seed, err)
	}
	if s.files < 300 || s.bytes < 1<<20 || s.merged == 0 || s.transfers != handovers {
		t.Errorf("seed %d: the demo did less than it should: %+v", o.seed, s)
	}
	if s.takeovers == 0 || s.restarts == 0 {
		t.Errorf("seed %d: writers were killed %d times, %d were taken over from and %d came back; want some of each", o.seed, s.kills, s.takeovers, s.restarts)
	}
	t.Logf("seed %d: %+v", o.seed, s)
}
