package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"net/url"
	"testing"
)

// CheckVersion is checkVersion, which no library in this binary can fail.
var CheckVersion = checkVersion

// FileURI is the name by which SQLite opens path, whatever characters are in it.
func FileURI(path, query string) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
}

// PretendFS makes every directory be on a file system of that type until the test ends.
func PretendFS(t testing.TB, magic uint32) {
	real := statfs
	statfs = func(string) (uint32, error) { return magic, nil }
	t.Cleanup(func() { statfs = real })
}

// Pool returns connections as a log on path uses them.
func Pool(t testing.TB, path string, size int) *sql.DB {
	s := &session{file: file{path: path}, prefix: defaultPrefix, slice: busySlice}
	db := sql.OpenDB(s.connector(false))
	db.SetMaxOpenConns(size)
	t.Cleanup(func() { db.Close() })
	return db
}

// Discard makes the pool close the connection.
func Discard(c *sql.Conn) { _ = c.Raw(func(any) error { return driver.ErrBadConn }) }

// Apart makes the logs that are opened from now on strangers to those opened before, as if in another process: they do
// not wake each other without the file.
func Apart() { signals.Clear() }
