package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/headwaterdb/headwater/replica"
)

// Config is what one simulated cluster is like. Draw makes one of a seed.
type Config struct {
	Dialect    Dialect
	Nodes      int           // 1 to 7
	Clients    int           // workers that propose
	Time       time.Duration // how long things go wrong
	Latency    time.Duration // of a statement there, and back, and in its midst: at most, as a rule
	Poll       time.Duration // of waiting for rows
	MaxPayload int           // the largest row that the database takes; 0: no limit of its own
	Engine     replica.Options
	Preempt    int            // of 1000 critical sections: after how many another thread gets its turn
	Skew       bool           // clocks go at other speeds
	Raise      bool           // at the end a program of the next version raises the format level
	Model      bool           // the independent model judges along
	Rates      map[string]int // of 10,000 calls, by kind of fault
	Storms     []string       // what strikes the whole from time to time
	Every      time.Duration  // about how often
}

// Storm kinds, each of which strikes nodes or the database from time to time.
const (
	stormCrash    = "crash"              // a process dies, and starts again
	stormStop     = "stop"               // a process is closed in order, and starts again
	stormPause    = "pause"              // a process stands still, and knows nothing of it
	stormDeaf     = "deaf"               // a process is not told of new rows
	stormKill     = "server killed"      // the database dies, and starts again
	stormDrop     = "connections killed" // every connection is dropped
	stormFull     = "disk full"
	stormReadOnly = "read-only"
	stormSlow     = "slow"           // everything takes long
	stormFailover = "failover"       // to a standby that has everything
	stormLoss     = "lossy failover" // to a standby that lacks the last commits
	stormFlipRow  = "row flipped"
	stormFlipPart = "part flipped"
	stormSnapshot = "snapshot asked for"
)

// storms in the order that they are drawn in, with how often of 100 seeds they are part of.
var storms = []struct {
	kind   string
	chance int
}{
	{stormCrash, 70}, {stormStop, 30}, {stormPause, 60}, {stormDeaf, 25}, {stormKill, 40}, {stormDrop, 40}, {stormFull, 20},
	{stormReadOnly, 20}, {stormSlow, 30}, {stormFailover, 25}, {stormLoss, 12}, {stormFlipRow, 8}, {stormFlipPart, 8}, {stormSnapshot, 40},
}

// Kinds of faults that strike single calls.
const (
	faultRefuse  = "refused"     // the database cannot be reached
	faultLose    = "answer lost" // done, or not, and nobody says so
	faultDrop    = "dropped"     // the connection goes, the statement goes on
	faultLate    = "late"        // the same, and the statement arrives much later
	faultSlow    = "slow answer"
	faultLag     = "lagging read"
	faultPartial = "partial read"
	faultHollow  = "not durable" // committed without the synchronous standby
	faultRot     = "part rots"   // a part is stored with a bit flipped
)

// rates of 10,000 calls, and how often of 100 seeds they are part of.
var rates = []struct {
	kind         string
	chance, most int
}{
	{faultRefuse, 60, 400}, {faultLose, 70, 800}, {faultDrop, 60, 800}, {faultLate, 60, 600}, {faultSlow, 60, 500},
	{faultLag, 100, 3000}, {faultPartial, 60, 3000}, {faultHollow, 25, 1500}, {faultRot, 10, 1000},
}

// Draw makes the configuration of a seed.
func Draw(dice *rand.Rand) Config {
	pick := func(of ...int) int { return of[dice.IntN(len(of))] }
	c := Config{
		Dialect:    Dialects[dice.IntN(len(Dialects))],
		Nodes:      pick(1, 2, 3, 3, 3, 4, 5, 7),
		Clients:    1 + dice.IntN(10),
		Time:       time.Duration(pick(5, 10, 20, 30)) * time.Second,
		Latency:    time.Duration(pick(200, 1000, 5000, 20000)) * time.Microsecond,
		Poll:       time.Duration(pick(5, 20, 100)) * time.Millisecond,
		MaxPayload: pick(0, 0, 0, 2000, 600),
		Preempt:    pick(0, 5, 50, 300),
		Skew:       dice.IntN(2) == 0,
		Model:      dice.IntN(3) == 0,
		Rates:      map[string]int{},
		Every:      time.Duration(pick(300, 1000, 3000)) * time.Millisecond,
	}
	c.Engine = replica.Options{
		SnapshotInterval: pick(2, 4, 8, 12, 20, 40), KeepRows: pick(-1, 1, 3, 8, 0), RowCommands: pick(1, 2, 4, 16, 256),
		RowBytes: pick(0, 0, 300, 2000), ReadBytes: pick(0, 0, 500, 3000), QueueCommands: pick(0, 0, 6, 40),
		RetryMin: time.Duration(pick(1, 20)) * time.Millisecond, RetryMax: time.Duration(pick(50, 1000)) * time.Millisecond,
	}
	for _, r := range rates {
		if dice.IntN(100) < r.chance {
			c.Rates[r.kind] = 1 + dice.IntN(r.most)
		}
	}
	if !c.Dialect.Lag {
		delete(c.Rates, faultLag)
	}
	for _, s := range storms {
		if dice.IntN(100) < s.chance {
			c.Storms = append(c.Storms, s.kind)
		}
	}
	c.Raise = dice.IntN(12) == 0
	return c
}

// String tells the configuration in a few lines.
func (c *Config) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes on %s, %d clients, %v, latency %v, poll %v, preempt %d of 1000\n", c.Nodes, c.Dialect.Name, c.Clients, c.Time,
		c.Latency, c.Poll, c.Preempt)
	e := &c.Engine
	fmt.Fprintf(&b, "snapshot every %d rows, keep %d, rows of %d commands and %d bytes, reads of %d bytes, queue of %d, retry %v to %v\n",
		e.SnapshotInterval, e.KeepRows, e.RowCommands, e.RowBytes, e.ReadBytes, e.QueueCommands, e.RetryMin, e.RetryMax)
	for _, r := range rates {
		if n := c.Rates[r.kind]; n > 0 {
			fmt.Fprintf(&b, "%s %d, ", r.kind, n)
		}
	}
	fmt.Fprintf(&b, "of 10,000 calls; about every %v one of: %s", c.Every, strings.Join(c.Storms, ", "))
	if c.Raise {
		b.WriteString("; at the end a newer program raises the format level")
	}
	return b.String()
}
