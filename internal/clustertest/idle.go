package clustertest

import (
	"os"
	"testing"
	"time"
)

// mostIdle is the most statements that a node that has nothing to do may send its server in a second.
const mostIdle = 5

// Idle is nodes that have nothing to do, and a server that counts.
type Idle struct {
	Nodes int
	// Counts is what the server has counted so far: statements, without those that ask for it, and sessions begun.
	Counts func() (statements, sessions int64)
}

// Run checks that each node sends the server something, and at most 5 statements in a second, for 3 s, or 20 at full
// size. What sets a session up is no part of that: a node opens another one, and keeps it, when two of its statements
// happen to be under way at once. So it takes a time in which none began; there is one, as a node has only so many.
func (i Idle) Run(t testing.TB) {
	t.Helper()
	during := 3 * time.Second
	if os.Getenv("HEADWATER_TEST_FULL") != "" {
		during = 20 * time.Second
	}
	<-time.After(2 * time.Second) // the pauses of the pollers have grown
	for range 10 {
		before, sessions := i.Counts()
		start := time.Now()
		<-time.After(during) // slow machines only make the figure smaller
		after, now := i.Counts()
		took := time.Since(start)
		if now != sessions {
			t.Logf("%d sessions began: once more", now-sessions)
			continue
		}
		got := float64(after-before) / took.Seconds() / float64(i.Nodes)
		t.Logf("%.2f statements a second and idle node", got)
		if got > mostIdle || got <= 0 {
			t.Errorf("%.2f statements a second and idle node, want more than 0 and at most %d", got, mostIdle)
		}
		return
	}
	t.Error("idle nodes open sessions for ever")
}
