package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/sqllog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// TestStatementsReadLittle: what a statement reads does not grow with the log or with the snapshot. A server that sorts or
// scans for a DELETE reads the data of everything that fits, to delete four parts.
func TestStatementsReadLittle(t *testing.T) {
	t.Parallel()
	const many, most = 400, 40
	o := place(t)
	cluster(t, o, many)
	c := session(t, o.DSN)
	old, current, next := strings.Repeat("o", 16), strings.Repeat("c", 16), strings.Repeat("n", 16)
	for token, at := range map[string]int{old: 10, current: 100, next: 200} {
		rows := make([]string, many)
		for i := range rows {
			rows[i] = fmt.Sprintf("('%s', %d, %d, REPEAT('x', 20000))", token, i, at)
		}
		mustExec(t, c, "INSERT INTO "+o.Prefix+"_snapshot_part (token, part, idx, data) VALUES "+strings.Join(rows, ","))
	}
	mustExec(t, c, fmt.Sprintf("UPDATE %s_snapshot SET idx = 100, token = '%s', parts = %d, size = 1 WHERE id = 1", o.Prefix, current, many))

	s := mysql.Statements(o.Prefix)
	for _, test := range []struct {
		name string
		s    sqllog.Statement
		args []any
		rows int64
	}{
		{"append", s.Append, []any{many + 1, "row", many, many, "", ""}, 1},
		{"truncate", s.Truncate, []any{50, many, 4}, 4},
		{"write a part", s.InsertPart, []any{next, many, 200, "x"}, 1},
		{"sweep", s.Sweep, []any{4}, 4},
		{"sweep again", s.Sweep, []any{4}, 4},
		{"abort", s.Abort, []any{next, 4}, 4},
		{"abort the current one", s.Abort, []any{current, 4}, 0},
		{"newest", s.Newest, nil, -1},
		{"bounds", s.Bounds, nil, -1},
		{"snapshot", s.Snapshot, nil, -1},
		{"read", s.Read, []any{100, 4}, -1},
		{"read a part", s.ReadPart, []any{current, 7}, -1},
	} {
		mustExec(t, c, "FLUSH STATUS")
		if test.rows < 0 {
			rows, err := c.QueryContext(t.Context(), test.s.Text, test.args...)
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			for rows.Next() {
			}
			if err := rows.Close(); err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
		} else {
			res, err := c.ExecContext(t.Context(), test.s.Text, test.args...)
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			if n, _ := res.RowsAffected(); n != test.rows {
				t.Errorf("%s: %d rows affected, want %d", test.name, n, test.rows)
			}
		}
		read := scan[int](t, c, "SELECT SUM(VARIABLE_VALUE) FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME LIKE 'Handler\\_read%'")
		if read > most {
			t.Errorf("%s: %d rows were read, want at most %d", test.name, read, most)
		}
	}
}
