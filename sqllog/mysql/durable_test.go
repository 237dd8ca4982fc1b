package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/dbtest"
)

// TestReadIsDurable: InnoDB shows a row to others before it is on the disk, and a kill takes it away again. A reader is not
// given it until the log is flushed up to it. Here the flush is switched off while a row is appended, so that the moment
// which otherwise is as short as a write lasts.
func TestReadIsDurable(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	o := on(m)
	root := session(t, o.DSN)
	writer, reader := cluster(t, o, 1), open(t, o) // both found a server that flushes
	mustExec(t, root, "SET GLOBAL innodb_flush_log_at_trx_commit = 0, innodb_flush_log_at_timeout = 2700")
	mustAppend(t, writer, 2, "not on the disk")
	end := lsn(t, root, "Innodb_lsn_current")
	if n := scan[int](t, root, "SELECT COUNT(*) FROM "+o.Prefix+"_log WHERE idx = 2"); n != 1 {
		t.Fatal("the row is not visible: nothing is tried")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	rows, err := reader.Read(ctx, 1, 1<<20)
	switch flushed := lsn(t, root, "Innodb_lsn_flushed"); {
	case err == nil && flushed < end:
		t.Fatalf("a row was read, and the log is on the disk up to %d of %d only", flushed, end)
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		t.Errorf("read of a row that is not on the disk: %d rows, %v", len(rows), err)
	}
	mustExec(t, root, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, innodb_flush_log_at_timeout = 1")
	for read := 0; read == 0; read = len(rows) { // the server flushes once a second now
		if rows, err = reader.Read(t.Context(), 1, 1<<20); err != nil {
			t.Fatalf("read of a row that is on the disk: %v", err)
		}
	}
}

func lsn(t testing.TB, root *sql.Conn, name string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(scan[string](t, root, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = ?", name), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
