package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// entries are the names in a directory.
func entries(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestOpenCreatesNothing: field case 15.4. Neither opening nor any call but Init leaves a file behind.
func TestOpenCreatesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "none.db")
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, MustExist: true})
	if !errors.Is(err, oplog.ErrNoCluster) || !strings.Contains(err.Error(), path) {
		t.Errorf("open what must exist: %v, want no cluster found and the path", err)
	}
	l := open(t, sqlite.Options{Path: path})
	defer l.Close()
	if err := l.Append(t.Context(), 1, nil, nil); !errors.Is(err, oplog.ErrNoCluster) {
		t.Errorf("append: %v", err)
	}
	if _, err := l.Bounds(t.Context()); !errors.Is(err, oplog.ErrNoCluster) {
		t.Errorf("bounds: %v", err)
	}
	if names := entries(t, dir); len(names) != 0 {
		t.Errorf("files were left behind: %v", names)
	}

	// An empty file is what a kill between creating the file and row 0 leaves: no cluster, and Init makes one of it.
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, MustExist: true}); !errors.Is(err, oplog.ErrNoCluster) {
		t.Errorf("open an empty file that must exist: %v", err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != 0 {
		t.Errorf("the empty file was changed: %d bytes, %v", st.Size(), err)
	}
	if err := l.Init(t.Context(), []byte("g")); err != nil {
		t.Errorf("init: %v", err)
	}
	open(t, sqlite.Options{Path: path, MustExist: true}).Close()
}

// TestOpenUnfitFiles: what is not ours is refused and left as it is.
func TestOpenUnfitFiles(t *testing.T) {
	l, good := cluster(t, 200)
	for i := oplog.Index(201); i < 240; i++ {
		if err := l.Append(t.Context(), i, nil, bytes.Repeat([]byte("x"), 5000)); err != nil {
			t.Fatal(err)
		}
	}
	l.Close() // writes everything into the one file
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	sqlFile := func(text string) []byte {
		path := filepath.Join(t.TempDir(), "made.db")
		mustExec(t, rawDB(t, path), text)
		made, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	edited := func(text string) []byte {
		path := filepath.Join(t.TempDir(), "edited.db")
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		db := rawDB(t, path)
		mustExec(t, db, text)
		db.Close()
		made, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	for _, c := range []struct {
		name    string
		content []byte
		want    error
		says    string
	}{
		{"one byte", []byte("x"), oplog.ErrSchema, "not a database"},
		{"text", bytes.Repeat([]byte("not a database\n"), 1000), oplog.ErrSchema, "not a database"},
		{"cut off", whole[:len(whole)/2], oplog.ErrCorrupt, "malformed"},
		{"another program's", sqlFile("CREATE TABLE notes (text)"), oplog.ErrSchema, "another program"},
		{"another program's, marked", sqlFile("PRAGMA application_id = 77; CREATE TABLE notes (text)"), oplog.ErrSchema, "77"},
		{"newer", edited("UPDATE headwater_snapshot SET version = 7"), oplog.ErrSchema, "schema version 7, this program knows 1"},
		{"a table short", edited("DROP TABLE headwater_log"), oplog.ErrSchema, "2 of the 3 tables"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "unfit.db")
			if err := os.WriteFile(path, c.content, 0o644); err != nil {
				t.Fatal(err)
			}
			l, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("open: %v, want %q, naming the path and %q", err, c.want, c.says)
			}
			if err == nil {
				l.Close()
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, c.content) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

// TestInitRefusesForeignFile: a file that became another program's after it was opened is not taken over.
func TestInitRefusesForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "late.db")
	l := open(t, sqlite.Options{Path: path})
	defer l.Close()
	mustExec(t, rawDB(t, path), "CREATE TABLE notes (text)")
	if err := l.Init(t.Context(), nil); !errors.Is(err, oplog.ErrSchema) {
		t.Errorf("init: %v, want schema invalid", err)
	}
}

func TestOpenOptions(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	for name, c := range map[string]struct {
		o    sqlite.Options
		want error
	}{
		"no path":          {sqlite.Options{}, oplog.ErrSettings},
		"in memory":        {sqlite.Options{Path: ":memory:"}, oplog.ErrSettings},
		"a directory":      {sqlite.Options{Path: dir}, oplog.ErrSettings},
		"quoted prefix":    {sqlite.Options{Path: path, Prefix: `x"; DROP TABLE y; --`}, oplog.ErrSettings},
		"upper-case":       {sqlite.Options{Path: path, Prefix: "Headwater"}, oplog.ErrSettings},
		"long prefix":      {sqlite.Options{Path: path, Prefix: strings.Repeat("x", 41)}, oplog.ErrSettings},
		"negative poll":    {sqlite.Options{Path: path, PollInterval: -1}, oplog.ErrSettings},
		"idle below poll":  {sqlite.Options{Path: path, PollInterval: time.Second, IdlePollInterval: 1}, oplog.ErrSettings},
		"negative timeout": {sqlite.Options{Path: path, BusyTimeout: -1}, oplog.ErrSettings},
		"no directory":     {sqlite.Options{Path: filepath.Join(dir, "none", "x.db")}, oplog.ErrUnavailable},
	} {
		if l, err := sqlite.Open(t.Context(), c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
			if err == nil {
				l.Close()
			}
		}
	}
	if names := entries(t, dir); len(names) != 0 {
		t.Errorf("files were left behind: %v", names)
	}
}

// TestSettingsOnEveryConnection: field cases 13.2 and 07.2. Twenty connections, recycled, each with every setting.
func TestSettingsOnEveryConnection(t *testing.T) {
	_, path := cluster(t, 1)
	db := sqlite.Pool(t, path, 20)
	for round := range 2 {
		var conns []*sql.Conn
		for range 20 {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatalf("connect: %v", err)
			}
			conns = append(conns, c)
		}
		for i, c := range conns {
			got := map[string]string{}
			for _, name := range []string{"busy_timeout", "journal_mode", "synchronous", "fullfsync", "trusted_schema"} {
				var v string
				if err := c.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&v); err != nil {
					t.Fatalf("read %s: %v", name, err)
				}
				got[name] = v
			}
			want := map[string]string{"busy_timeout": "100", "journal_mode": "wal", "synchronous": "2", "fullfsync": "1", "trusted_schema": "0"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("round %d, connection %d (-want +got):\n%s", round, i, diff)
			}
		}
		for _, c := range conns {
			sqlite.Discard(c) // the next round gets new ones
			c.Close()
		}
	}
}

// TestSettingThatDoesNotTake: a start-up error, not a weaker log. A file in another journal mode that is in use cannot be
// changed.
func TestSettingThatDoesNotTake(t *testing.T) {
	l, path := cluster(t, 1)
	l.Close()
	db := rawDB(t, path)
	mustExec(t, db, "PRAGMA journal_mode = DELETE")
	reading, err := db.Begin() // IMMEDIATE: nobody else gets the lock that changes the mode
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, BusyTimeout: 50 * time.Millisecond}); err == nil {
		t.Error("a file that is in the wrong mode and in use was opened for writing")
	}
	if err := reading.Rollback(); err != nil {
		t.Fatal(err)
	}
	open(t, sqlite.Options{Path: path}).Close() // may change it
	var mode string
	if err := rawDB(t, path).QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode is %s (%v) after opening, want wal", mode, err)
	}
}

// TestLibraryVersion: field case 13.4, asked from the library in this binary.
func TestLibraryVersion(t *testing.T) {
	l, _ := cluster(t, 0)
	backend := l.Info().Backend
	version, ok := strings.CutPrefix(backend, "sqlite ")
	if !ok || sqlite.CheckVersion(version) != nil {
		t.Errorf("backend is %q: %v", backend, sqlite.CheckVersion(version))
	}
	for version, fit := range map[string]bool{"3.51.2": false, "3.51.3": true, "3.51.10": true, "3.52.0": true, "4.0.0": true,
		"3.7.0": false, "3.50.9": false, "2.99.99": false, "": false, "new": false} {
		if err := sqlite.CheckVersion(version); (err == nil) != fit || err != nil && !errors.Is(err, oplog.ErrSettings) {
			t.Errorf("version %q: %v, fit is %v", version, err, fit)
		}
	}
}

// TestNetworkFileSystem: field case 13.8. Refused by its type; with the option a rollback journal, no WAL.
func TestNetworkFileSystem(t *testing.T) {
	sqlite.PretendFS(t, 0x6969)
	path := filepath.Join(t.TempDir(), "x.db")
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if !errors.Is(err, oplog.ErrSettings) || !strings.Contains(err.Error(), "network file system (nfs)") {
		t.Fatalf("open: %v, want a refusal that names nfs", err)
	}
	o := sqlite.Options{Path: path, AllowNetworkFS: true, BusyTimeout: time.Minute}
	l, other := open(t, o), open(t, o)
	defer l.Close()
	defer other.Close()
	if w := l.Info().Warnings; len(w) != 1 || !strings.Contains(w[0], "nfs") {
		t.Errorf("warnings are %q", w)
	}
	if err := l.Init(t.Context(), []byte("genesis")); err != nil {
		t.Fatalf("init: %v", err)
	}
	appendRows(t, l, 1, 3)
	appendRows(t, other, 4, 5)
	if rows := dense(t, l); len(rows) != 6 {
		t.Errorf("%d rows, want 6", len(rows))
	}
	if diff := cmp.Diff([]string{"x.db"}, entries(t, filepath.Dir(path))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, magic := range []uint32{0x517b, 0xff534d42, 0x01021997, 0x65735546} {
		sqlite.PretendFS(t, magic)
		if _, err := sqlite.Open(t.Context(), sqlite.Options{Path: path}); !errors.Is(err, oplog.ErrSettings) {
			t.Errorf("file system %#x: %v, want a refusal", magic, err)
		}
	}
	sqlite.PretendFS(t, 0xef53)
	open(t, sqlite.Options{Path: filepath.Join(t.TempDir(), "y.db")}).Close()
}

func TestReadOnly(t *testing.T) {
	l, path := cluster(t, 3)
	ro := open(t, sqlite.Options{Path: path, ReadOnly: true})
	defer ro.Close()
	if rows := dense(t, ro); len(rows) != 4 {
		t.Errorf("%d rows, want 4", len(rows))
	}
	w, err := ro.CreateSnapshot(t.Context(), 2, nil)
	if err != nil {
		t.Fatalf("create a snapshot: %v", err)
	}
	_, errTruncate := ro.Truncate(t.Context(), 2, 1)
	for name, err := range map[string]error{"append": ro.Append(t.Context(), 4, nil, nil),
		"write a part": w.WritePart(t.Context(), []byte("x")), "truncate": errTruncate} {
		if !errors.Is(err, oplog.ErrReadOnly) || !oplog.NotApplied(err) {
			t.Errorf("%s: %v, want read-only", name, err)
		}
	}
	if err := ro.Init(t.Context(), nil); !errors.Is(err, oplog.ErrExists) {
		t.Errorf("init of a cluster that is there: %v, want to be told so", err)
	}
	appendRows(t, l, 4, 4)
	if err := ro.Wait(t.Context(), 3); err != nil {
		t.Errorf("wait: %v", err)
	}
	other := open(t, sqlite.Options{Path: path, Prefix: "other", ReadOnly: true})
	defer other.Close()
	if err := other.Init(t.Context(), nil); !errors.Is(err, oplog.ErrReadOnly) {
		t.Errorf("init where there is no cluster yet: %v, want read-only", err)
	}
}

// TestReadOnlyInAnyJournalMode: a backup that VACUUM INTO has made, whose journal is not a WAL, can be read, is left as it
// is, and becomes a WAL when it is opened for writing.
func TestReadOnlyInAnyJournalMode(t *testing.T) {
	_, path := cluster(t, 3)
	backup := filepath.Join(t.TempDir(), "backup.db")
	mustExec(t, rawDB(t, path), fmt.Sprintf("VACUUM INTO '%s'", backup))
	before, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	ro := open(t, sqlite.Options{Path: backup, ReadOnly: true, MustExist: true})
	if rows := dense(t, ro); len(rows) != 4 {
		t.Errorf("%d rows, want 4", len(rows))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waited := make(chan error)
	go func() { waited <- ro.Wait(ctx, 3) }()
	if after, err := os.ReadFile(backup); err != nil || !bytes.Equal(before, after) || len(entries(t, filepath.Dir(backup))) != 1 {
		t.Errorf("reading has changed the file, or left others behind: %v, %v", err, entries(t, filepath.Dir(backup)))
	}
	sqlite.Apart()
	rw := open(t, sqlite.Options{Path: backup, BusyTimeout: time.Minute})
	defer rw.Close()
	appendRows(t, rw, 4, 4)
	if err := <-waited; err != nil {
		t.Errorf("wait for a row of a writer that has changed the mode: %v", err)
	}
	ro.Close()
	var mode string
	if err := rawDB(t, backup).QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode is %s (%v) after opening for writing, want wal", mode, err)
	}
}

// TestFileReplaced: hazard 14 on SQLite. Where a backup is moved over the file, the log turns to the new file instead of
// appending to the one that nobody sees any more.
func TestFileReplaced(t *testing.T) {
	l, path := cluster(t, 5)
	backup := filepath.Join(filepath.Dir(path), "backup.db")
	mustExec(t, rawDB(t, path), fmt.Sprintf("VACUUM INTO '%s'", backup))
	appendRows(t, l, 6, 9)
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(backup, path); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), 10, nil, nil); err == nil || !oplog.NotApplied(err) {
		t.Errorf("append to a replaced file: %v, want a definite refusal", err)
	}
	if err := l.Append(t.Context(), 10, nil, nil); !errors.Is(err, oplog.ErrConflict) {
		t.Errorf("append to the new file: %v, want a conflict", err)
	}
	if b, err := l.Bounds(t.Context()); err != nil || b.Newest != 5 {
		t.Errorf("bounds: %+v, %v; want newest row 5", b, err)
	}
	appendRows(t, l, 6, 6)
	if err := l.Wait(t.Context(), 5); err != nil {
		t.Errorf("wait: %v", err)
	}
}
