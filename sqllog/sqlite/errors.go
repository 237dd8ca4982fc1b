package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	lib "modernc.org/sqlite/lib"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

var (
	tryAgain  = sqllog.Verdict{Err: oplog.ErrUnavailable, Retry: true}
	conflict  = sqllog.Verdict{Err: oplog.ErrConflict}
	full      = sqllog.Verdict{Err: oplog.ErrFull}
	readOnly  = sqllog.Verdict{Err: oplog.ErrReadOnly, Drop: true} // a new connection may find it writable again
	denied    = sqllog.Verdict{Err: oplog.ErrDenied, Drop: true}
	tooLarge  = sqllog.Verdict{Err: oplog.ErrTooLarge}
	corrupt   = sqllog.Verdict{Err: oplog.ErrCorrupt, Drop: true}
	notOurs   = sqllog.Verdict{Err: oplog.ErrSchema, Drop: true}
	moved     = sqllog.Verdict{Err: oplog.ErrUnavailable, Drop: true}
	uncertain = sqllog.Verdict{Err: oplog.ErrUnknown, Drop: true}
)

// verdicts says what SQLite's result codes mean, extended codes first, then the primary code (the low byte) of those
// not listed. A statement that SQLite answers with an error has been rolled back, so most codes vouch for "not applied".
// Not those of a failed write or sync: the frames of the commit may be in the write-ahead log already, and a crash
// before they are overwritten would bring the row back. Nor those that tell nothing of where the statement stood. What
// stands here under no code is uncertain.
var verdicts = map[int]sqllog.Verdict{
	lib.SQLITE_BUSY:     tryAgain, // also _RECOVERY, _SNAPSHOT, _TIMEOUT
	lib.SQLITE_LOCKED:   tryAgain, // also _SHAREDCACHE, _VTAB
	lib.SQLITE_PROTOCOL: tryAgain, // lost a race for the locks of the write-ahead log too often
	lib.SQLITE_SCHEMA:   tryAgain, // the schema changed while the statement was compiled, too often

	lib.SQLITE_CONSTRAINT_PRIMARYKEY: conflict,
	lib.SQLITE_CONSTRAINT_ROWID:      conflict,
	lib.SQLITE_CONSTRAINT_UNIQUE:     conflict,
	lib.SQLITE_CONSTRAINT:            notOurs, // a CHECK, NOT NULL or type that our tables do not have

	lib.SQLITE_FULL: full,

	lib.SQLITE_READONLY:         readOnly, // also _CANTINIT, _CANTLOCK, _DIRECTORY, _RECOVERY, _ROLLBACK
	lib.SQLITE_READONLY_DBMOVED: moved,
	lib.SQLITE_AUTH:             denied,
	lib.SQLITE_PERM:             denied,
	lib.SQLITE_TOOBIG:           tooLarge,

	lib.SQLITE_CORRUPT: corrupt, // also _INDEX, _SEQUENCE, _VTAB
	lib.SQLITE_NOTADB:  notOurs,

	lib.SQLITE_CANTOPEN: moved, // refined by what is found at the path

	lib.SQLITE_IOERR:     uncertain, // and all its extended codes
	lib.SQLITE_INTERRUPT: uncertain,
	lib.SQLITE_ABORT:     uncertain, // also _ROLLBACK
	lib.SQLITE_NOMEM:     uncertain,
	lib.SQLITE_ERROR:     uncertain, // among others: no such table; the next connection says so
	lib.SQLITE_MISUSE:    uncertain,
	lib.SQLITE_INTERNAL:  uncertain,
}

// classify is the dialect's error table for the file at path.
func classify(path string) func(error) sqllog.Verdict {
	return func(err error) sqllog.Verdict {
		var e interface { // the driver's error
			error
			Code() int
		}
		if !errors.As(err, &e) {
			return uncertain
		}
		if e.Code()&0xff == lib.SQLITE_CANTOPEN {
			return cannotOpen(path)
		}
		if v, ok := verdicts[e.Code()]; ok {
			return v
		}
		if v, ok := verdicts[e.Code()&0xff]; ok {
			return v
		}
		return uncertain
	}
}

// cannotOpen finds out why SQLite could not open the file, for which it has one code only. It opens nothing.
func cannotOpen(path string) sqllog.Verdict {
	dir := filepath.Dir(path)
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(dir); err != nil {
			return moved // no directory to create it in: perhaps not mounted yet
		}
		if v := access(dir, true); v.Err != nil {
			return v
		}
		return sqllog.Verdict{Err: oplog.ErrNoCluster, Drop: true}
	case errors.Is(err, fs.ErrPermission):
		return denied
	case err != nil:
		return moved
	}
	if v := access(path, false); v.Err != nil {
		return v
	}
	if v := access(dir, true); v.Err != nil { // the -wal and -shm files cannot be made
		return v
	}
	// Nothing stands in the way. Whoever closes the file last deletes the -wal and -shm files, and another one that opens
	// it in that moment is told this.
	return sqllog.Verdict{Err: oplog.ErrUnavailable, Retry: true, Drop: true}
}
