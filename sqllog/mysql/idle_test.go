package mysql_test

import (
	"os"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/clustertest"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/meta"
)

// TestIdleStatements: a node that has nothing to do sends the server at most 5 statements in a second, by the server's
// own count. It looks for 3 s, or 20 at full size.
func TestIdleStatements(t *testing.T) {
	t.Parallel()
	during := 3 * time.Second
	if os.Getenv("HEADWATER_TEST_FULL") != "" {
		during = 20 * time.Second
	}
	m := dbtest.NewMariaDB(t)
	stores := nodes(t, 1, on(m), headwater.Options{})
	if _, err := meta.Propose(t.Context(), stores[0], meta.PutKey{Key: "k", Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	clustertest.Agree(t, stores)
	root := session(t, m.DSN("root"))
	statements := func() int {
		return scan[int](t, root, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'")
	}
	<-time.After(2 * time.Second) // the pauses of the poller have grown
	before, start := statements(), time.Now()
	<-time.After(during) // slow machines only make the figure smaller
	after := statements()
	got := float64(after-before-1) / time.Since(start).Seconds() // without the one that asks
	t.Logf("%.2f statements a second", got)
	if got > 5 || got <= 0 {
		t.Errorf("%.2f statements a second of an idle node, want more than 0 and at most 5", got)
	}
}
