package headwater_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/faultlog"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// childEnv holds what a process started by these tests is to do.
const childEnv = "HEADWATER_TEST_CHILD"

// proposers is how many goroutines of a child propose at once, each a client of its own.
const proposers = 4

// childPlan is what a process does that proposes until it is killed, by the test or by itself.
type childPlan struct {
	file     string
	keepRows int
	interval int
	// The process kills itself when it comes to the dieAt-th call of dieIn, before or after the call.
	dieIn    faultlog.Op
	dieAt    int
	dieAfter bool
	stop     bool // it stops itself (SIGSTOP) instead, and when it is let go on, goes on with the call
}

func (p childPlan) String() string {
	return fmt.Sprintf("%s|%d|%d|%d|%d|%t|%t", p.file, p.keepRows, p.interval, p.dieIn, p.dieAt, p.dieAfter, p.stop)
}

func parsePlan(s string) (p childPlan, err error) {
	f := strings.Split(s, "|")
	if len(f) != 7 {
		return p, fmt.Errorf("plan %q", s)
	}
	var op int
	p.file = f[0]
	p.dieAfter, p.stop = f[5] == "true", f[6] == "true"
	for i, at := range []*int{&p.keepRows, &p.interval, &op, &p.dieAt} {
		if *at, err = strconv.Atoi(f[i+1]); err != nil {
			return p, err
		}
	}
	p.dieIn = faultlog.Op(op)
	return p, nil
}

// runChild proposes one PrepareObjects after another from each client, whose ids and next sequences come on standard
// input, and says on standard output which were answered. It never ends by itself.
func runChild(plan string) error {
	p, err := parsePlan(plan)
	if err != nil {
		return err
	}
	ctx := context.Background()
	db, err := sqlite.Open(ctx, sqlite.Options{Path: p.file})
	if err != nil {
		return err
	}
	log := faultlog.Wrap(db, p.deathRule())
	o := headwater.Options{}
	o.Engine.SnapshotInterval, o.Engine.KeepRows = p.interval, p.keepRows
	s, err := headwater.Open(ctx, log, o)
	if err != nil {
		return err
	}
	if _, err := s.Linearize(ctx); err != nil {
		return err
	}
	var out sync.Mutex
	var working sync.WaitGroup
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var client string
		var sequence uint64
		if _, err := fmt.Sscan(lines.Text(), &client, &sequence); err != nil {
			return err
		}
		id, err := hex.DecodeString(client)
		if err != nil {
			return err
		}
		working.Go(func() {
			for ; ; sequence++ {
				r := meta.Request{Client: [16]byte(id), Sequence: sequence, Oldest: sequence}
				a := s.Propose(ctx, meta.Proposal{Request: &r, Command: meta.PrepareObjects{
					Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}, Count: 1, Deadline: 1}})[0]
				out.Lock()
				if a.Err != nil {
					fmt.Printf("failed %v\n", a.Err)
				} else {
					fmt.Printf("ack %s %d %d\n", client, sequence, a.Result.(meta.PrepareObjectsResult).FirstObjectID)
				}
				out.Unlock()
			}
		})
	}
	working.Wait()
	return errors.New("standard input named no client")
}

// deathRule kills the process at its moment.
func (p childPlan) deathRule() faultlog.Rule {
	gate := faultlog.NewGate()
	go func() {
		<-gate.Reached()
		if p.stop {
			suspendSelf()
			gate.Open()
		} else {
			self, _ := os.FindProcess(os.Getpid()) // never fails for oneself
			self.Kill()
		}
	}()
	r := faultlog.Rule{Op: p.dieIn, Skip: p.dieAt - 1, Hold: gate}
	if p.dieAfter {
		r.Hold, r.Linger = nil, gate
	}
	return r
}

// testClient is one client of the cluster, as the test knows it.
type testClient struct {
	id   string
	next uint64            // the lowest sequence without an answer
	ids  map[uint64]uint64 // sequence → object id, of the answers
}

// TestKilledProposers kills a process that proposes with -9, again and again, at moments drawn over the append and the
// whole snapshot cycle: between any two calls of the log, and at any time within them. Every client then goes on with the
// sequence that it had no answer to. PrepareObjects hands out one object id each time it takes effect, so the ids in the
// answers are 1, 2, 3, … without a gap or a double exactly if no acknowledged command was lost and none applied twice.
//
// It runs 24 rounds, or as many as HEADWATER_ROUNDS says; 200 take about a minute.
func TestKilledProposers(t *testing.T) {
	rounds := 24
	if s := os.Getenv("HEADWATER_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	for _, c := range []struct {
		name     string
		keepRows int
	}{
		{"all rows kept", 1 << 30}, // so that everything can be replayed at the end
		{"truncated to the newest row", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			file := filepath.Join(t.TempDir(), "headwater.db")
			clients := firstNode(t, file)
			for round := range rounds {
				p := drawPlan(r, file, c.keepRows)
				if err := killRound(t, p, r, clients); err != nil {
					t.Fatalf("round %d, plan %s: %v", round, p, err)
				}
			}
			finish(t, file, clients, c.keepRows)
		})
	}
}

func firstNode(t *testing.T, file string) map[string]*testClient {
	t.Helper()
	s, done := node(t, func() oplog.Log { return openSQLite(t, file) }, headwater.Options{})
	defer done()
	if _, err := meta.Propose(t.Context(), s, meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}}); err != nil {
		t.Fatal(err)
	}
	clients := map[string]*testClient{}
	for i := range proposers {
		id := hex.EncodeToString([]byte{15: byte(i + 1)})
		clients[id] = &testClient{id: id, next: 1, ids: map[uint64]uint64{}}
	}
	return clients
}

func openSQLite(t *testing.T, file string) oplog.Log {
	t.Helper()
	l, err := sqlite.Open(t.Context(), sqlite.Options{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// drawPlan draws the moment of death. Half of the rounds die within or between calls at random times instead, by the
// test's hand.
func drawPlan(r *rand.Rand, file string, keepRows int) childPlan {
	p := childPlan{file: file, keepRows: keepRows, interval: 2 + r.IntN(20)}
	ops := []faultlog.Op{faultlog.Append, faultlog.Append, faultlog.CreateSnapshot, faultlog.WritePart, faultlog.CommitSnapshot,
		faultlog.OpenSnapshot, faultlog.ReadPart, faultlog.Truncate}
	if r.IntN(2) == 0 {
		p.dieIn = ops[r.IntN(len(ops))]
		p.dieAt, p.dieAfter = 1+r.IntN(4), r.IntN(2) == 0
		if p.dieIn == faultlog.Append {
			p.dieAt = 1 + r.IntN(60)
		}
	}
	return p
}

// startChild starts a process that does p for the clients.
func startChild(ctx context.Context, p childPlan, clients map[string]*testClient) (*exec.Cmd, io.Reader, error) {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+p.String())
	var stdin strings.Builder
	for _, c := range clients {
		fmt.Fprintln(&stdin, c.id, c.next)
	}
	cmd.Stdin = strings.NewReader(stdin.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, out, cmd.Start()
}

func killRound(t *testing.T, p childPlan, r *rand.Rand, clients map[string]*testClient) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd, out, err := startChild(ctx, p, clients)
	if err != nil {
		return err
	}
	// Whatever the plan, the process does not live long: most die a moment after their first answer at the latest, some
	// already while they start.
	kill := func() { cmd.Process.Kill() }
	if r.IntN(4) == 0 {
		defer time.AfterFunc(time.Duration(r.IntN(200))*time.Millisecond, kill).Stop()
	}
	life := time.Duration(r.IntN(100)) * time.Millisecond
	readErr := readAcks(out, clients, func() { time.AfterFunc(life, kill) })
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return fmt.Errorf("the process ended by itself: %v", err)
	}
	return readErr
}

// readAcks takes the answers down until the process is gone, and calls first at the first one.
func readAcks(out io.Reader, clients map[string]*testClient, first func()) error {
	begin := sync.OnceFunc(first)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		begin()
		var id string
		var sequence, object uint64
		if _, err := fmt.Sscanf(lines.Text(), "ack %s %d %d", &id, &sequence, &object); err != nil {
			return fmt.Errorf("the process said %q", lines.Text())
		}
		c := clients[id]
		if sequence != c.next {
			return fmt.Errorf("client %s was answered sequence %d, not %d", id, sequence, c.next)
		}
		c.ids[sequence], c.next = object, sequence+1
	}
	return nil
}

// finish answers what is still open, and proves that each command had one effect and that replay, snapshot and live
// state agree.
func finish(t *testing.T, file string, clients map[string]*testClient, keepRows int) {
	t.Helper()
	open := func() oplog.Log { return openSQLite(t, file) }
	o := headwater.Options{}
	o.Engine.KeepRows = keepRows
	s, done := node(t, open, o)
	defer done()
	if _, err := s.Linearize(t.Context()); err != nil {
		t.Fatal(err)
	}
	byObject := map[uint64]string{}
	total, redundant := uint64(0), 0
	for _, c := range clients {
		id, err := hex.DecodeString(c.id)
		if err != nil {
			t.Fatal(err)
		}
		r := meta.Request{Client: [16]byte(id), Sequence: c.next, Oldest: c.next}
		a := s.Propose(t.Context(), meta.Proposal{Request: &r, Command: meta.PrepareObjects{
			Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}, Count: 1, Deadline: 1}})[0]
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		if a.Status == meta.Redundant {
			redundant++
		}
		c.ids[c.next] = a.Result.(meta.PrepareObjectsResult).FirstObjectID
		for sequence, object := range c.ids {
			name := fmt.Sprintf("%s/%d", c.id, sequence)
			if other, double := byObject[object]; double {
				t.Errorf("object %d was handed out to %s and to %s", object, other, name)
			}
			byObject[object] = name
			total++
		}
	}
	for id := uint64(1); id <= total; id++ {
		if byObject[id] == "" {
			t.Errorf("of %d commands none was given object %d", total, id)
		}
	}
	if got := s.View().State.Counts().PreparedObjects; got != total {
		t.Errorf("%d objects are prepared by %d commands", got, total)
	}
	if total < 50 {
		t.Errorf("only %d commands were answered: the test shows little", total)
	}
	live := s.Status()
	if _, err := s.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := open()
	defer log.Close()
	report, err := headwater.Check(t.Context(), log, nil)
	if err != nil || !report.OK() {
		t.Fatalf("check: %v, faults %q", err, report.Faults)
	}
	if report.Digest != live.Digest || report.SnapshotDigest != live.Digest || report.DigestIndex != live.AppliedIndex {
		t.Errorf("digests: live %s at %d, replay %s at %d, snapshot %s", live.Digest, live.AppliedIndex, report.Digest, report.DigestIndex, report.SnapshotDigest)
	}
	if keepRows > 0 && report.Replayed != live.AppliedIndex {
		t.Errorf("%d of %d rows were replayed", report.Replayed, live.AppliedIndex)
	}
	t.Logf("%d commands, %d of them found redundant at the end, %d rows", total, redundant, live.AppliedIndex)
}
