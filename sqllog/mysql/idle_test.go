package mysql_test

import (
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/meta"
)

// TestIdleStatements: a node that has nothing to do sends the server at most 5 statements in a second, by the server's
// own count.
func TestIdleStatements(t *testing.T) {
	t.Parallel()
	m := dbtest.NewMariaDB(t)
	stores := nodes(t, 1, on(m), headwater.Options{})
	if _, err := meta.Propose(t.Context(), stores[0], meta.PutKey{Key: "k", Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	clustertest.Agree(t, stores)
	root := session(t, m.DSN("root"))
	asked := int64(0)
	clustertest.Idle{Nodes: len(stores), Counts: func() (statements, sessions int64) {
		asked++
		err := root.QueryRowContext(t.Context(), `SELECT
			(SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'),
			(SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'CONNECTIONS')`).Scan(&statements, &sessions)
		if err != nil {
			t.Fatal(err)
		}
		return statements - asked, sessions
	}}.Run(t)
}
