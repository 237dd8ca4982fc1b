// Inside the package, because the classifier is no part of its face.
package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/headwaterdb/headwater/oplog"
)

// TestClassify has a row for each result code, primary and extended, that SQLite documents; see
// https://www.sqlite.org/rescode.html. Numbers alone decide.
func TestClassify(t *testing.T) {
	type row struct {
		code  int
		want  error
		retry bool
	}
	busy := func(code int) row { return row{code, oplog.ErrUnavailable, true} }
	is := func(code int, want error) row { return row{code, want, false} }
	rows := []row{
		busy(lib.SQLITE_BUSY), busy(lib.SQLITE_BUSY_RECOVERY), busy(lib.SQLITE_BUSY_SNAPSHOT), busy(lib.SQLITE_BUSY_TIMEOUT),
		busy(lib.SQLITE_LOCKED), busy(lib.SQLITE_LOCKED_SHAREDCACHE), busy(lib.SQLITE_LOCKED_VTAB),
		busy(lib.SQLITE_PROTOCOL), busy(lib.SQLITE_SCHEMA),
		is(lib.SQLITE_CONSTRAINT_PRIMARYKEY, oplog.ErrConflict), is(lib.SQLITE_CONSTRAINT_UNIQUE, oplog.ErrConflict),
		is(lib.SQLITE_CONSTRAINT_ROWID, oplog.ErrConflict),
		is(lib.SQLITE_CONSTRAINT, oplog.ErrSchema), is(lib.SQLITE_CONSTRAINT_CHECK, oplog.ErrSchema),
		is(lib.SQLITE_CONSTRAINT_NOTNULL, oplog.ErrSchema), is(lib.SQLITE_CONSTRAINT_DATATYPE, oplog.ErrSchema),
		is(lib.SQLITE_CONSTRAINT_TRIGGER, oplog.ErrSchema), is(lib.SQLITE_CONSTRAINT_FOREIGNKEY, oplog.ErrSchema),
		is(lib.SQLITE_FULL, oplog.ErrFull),
		is(lib.SQLITE_READONLY, oplog.ErrReadOnly), is(lib.SQLITE_READONLY_RECOVERY, oplog.ErrReadOnly),
		is(lib.SQLITE_READONLY_CANTLOCK, oplog.ErrReadOnly), is(lib.SQLITE_READONLY_ROLLBACK, oplog.ErrReadOnly),
		is(lib.SQLITE_READONLY_CANTINIT, oplog.ErrReadOnly), is(lib.SQLITE_READONLY_DIRECTORY, oplog.ErrReadOnly),
		is(lib.SQLITE_READONLY_DBMOVED, oplog.ErrUnavailable),
		is(lib.SQLITE_AUTH, oplog.ErrDenied), is(lib.SQLITE_PERM, oplog.ErrDenied),
		is(lib.SQLITE_TOOBIG, oplog.ErrTooLarge),
		is(lib.SQLITE_CORRUPT, oplog.ErrCorrupt), is(lib.SQLITE_CORRUPT_INDEX, oplog.ErrCorrupt),
		is(lib.SQLITE_CORRUPT_SEQUENCE, oplog.ErrCorrupt), is(lib.SQLITE_CORRUPT_VTAB, oplog.ErrCorrupt),
		is(lib.SQLITE_NOTADB, oplog.ErrSchema),
		is(lib.SQLITE_CANTOPEN, oplog.ErrNoCluster), is(lib.SQLITE_CANTOPEN_FULLPATH, oplog.ErrNoCluster),
	}
	for _, code := range []int{lib.SQLITE_IOERR, lib.SQLITE_IOERR_READ, lib.SQLITE_IOERR_SHORT_READ, lib.SQLITE_IOERR_WRITE,
		lib.SQLITE_IOERR_FSYNC, lib.SQLITE_IOERR_DIR_FSYNC, lib.SQLITE_IOERR_TRUNCATE, lib.SQLITE_IOERR_FSTAT,
		lib.SQLITE_IOERR_UNLOCK, lib.SQLITE_IOERR_RDLOCK, lib.SQLITE_IOERR_DELETE, lib.SQLITE_IOERR_NOMEM,
		lib.SQLITE_IOERR_ACCESS, lib.SQLITE_IOERR_LOCK, lib.SQLITE_IOERR_CLOSE, lib.SQLITE_IOERR_SHMOPEN,
		lib.SQLITE_IOERR_SHMSIZE, lib.SQLITE_IOERR_SHMLOCK, lib.SQLITE_IOERR_SHMMAP, lib.SQLITE_IOERR_SEEK,
		lib.SQLITE_IOERR_MMAP, lib.SQLITE_IOERR_DATA, lib.SQLITE_IOERR_CORRUPTFS, lib.SQLITE_IOERR_COMMIT_ATOMIC,
		lib.SQLITE_INTERRUPT, lib.SQLITE_ABORT, lib.SQLITE_ABORT_ROLLBACK, lib.SQLITE_NOMEM, lib.SQLITE_ERROR,
		lib.SQLITE_ERROR_SNAPSHOT, lib.SQLITE_MISUSE, lib.SQLITE_INTERNAL, lib.SQLITE_NOTFOUND, lib.SQLITE_MISMATCH,
		lib.SQLITE_RANGE, lib.SQLITE_NOLFS, lib.SQLITE_EMPTY, 250} {
		rows = append(rows, is(code, oplog.ErrUnknown))
	}
	check := classify(filepath.Join(t.TempDir(), "missing.db"))
	covered := map[int]bool{}
	for _, r := range rows {
		covered[r.code] = true
		v := check(fmt.Errorf("wrapped: %w", driverError(r.code)))
		if !errors.Is(v.Err, r.want) || v.Retry != r.retry {
			t.Errorf("code %d: %v, retry %v; want %v, retry %v", r.code, v.Err, v.Retry, r.want, r.retry)
		}
		if v.Err == oplog.ErrUnknown && !v.Drop {
			t.Errorf("code %d: of unknown outcome, but the connection would be used again", r.code)
		}
	}
	for code := range verdicts {
		if !covered[code] {
			t.Errorf("code %d stands in the table but not in this test", code)
		}
	}
	if v := check(errors.New("database is locked")); v.Err != oplog.ErrUnknown {
		t.Errorf("an error without a number: %v, want unknown", v.Err)
	}
}

// TestDriverErrors: the numbers that the driver reports in fact, extended ones included.
func TestDriverErrors(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(2)
	if _, err := db.Exec("CREATE TABLE t (i INTEGER PRIMARY KEY, b BLOB NOT NULL CHECK (b <> x'00')) STRICT; INSERT INTO t VALUES (1, x'01')"); err != nil {
		t.Fatal(err)
	}
	holder, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	for _, c := range []struct {
		text string
		code int
	}{
		{"INSERT INTO t VALUES (1, x'02')", lib.SQLITE_CONSTRAINT_PRIMARYKEY},
		{"INSERT INTO t VALUES (2, x'00')", lib.SQLITE_CONSTRAINT_CHECK},
		{"INSERT INTO t VALUES (2, NULL)", lib.SQLITE_CONSTRAINT_NOTNULL},
		{"INSERT INTO t VALUES (2, 'text')", lib.SQLITE_CONSTRAINT_DATATYPE},
		{"INSERT INTO nowhere VALUES (1)", lib.SQLITE_ERROR},
		{"INSERT INTO t VALUES (2, zeroblob(2000000000))", lib.SQLITE_TOOBIG},
		{"PRAGMA query_only = 1; INSERT INTO t VALUES (2, x'02')", lib.SQLITE_READONLY},
	} {
		var e *driver.Error
		if _, err := db.ExecContext(t.Context(), c.text); !errors.As(err, &e) || e.Code() != c.code {
			t.Errorf("%s: %v, want code %d", c.text, err, c.code)
		}
	}
	if _, err := holder.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var e *driver.Error
	if _, err := db.ExecContext(t.Context(), "PRAGMA query_only = 0; INSERT INTO t VALUES (3, x'02')"); !errors.As(err, &e) || e.Code()&0xff != lib.SQLITE_BUSY {
		t.Errorf("insert beside a writer: %v, want busy", err)
	}
}

// driverError is an error with a number, as the driver's are.
type driverError int

func (e driverError) Error() string { return "błąd" } // no text is looked at
func (e driverError) Code() int     { return int(e) }
