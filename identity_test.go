package headwater_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// nodeEnv holds the database of a process that is node 1.
const nodeEnv = "HEADWATER_TEST_NODE"

// runNode is node 1 of a stream store: it registers with an instance of its own, takes stream 1 over and commits to it until
// it is told that its epoch is stale; then it stops itself. It says what it does, a line each: "epoch E" when registered, "commit
// INDEX START" for each record, "stale MESSAGE" at its end. For a line on standard input it registers once more, as after a
// lost connection.
func runNode(file string) error {
	ctx := context.Background()
	log, err := sqlite.Open(ctx, sqlite.Options{Path: file})
	if err != nil {
		return err
	}
	defer log.Close()
	s, err := headwater.Open(ctx, log, headwater.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	me := meta.RegisterNode{NodeID: 1, Address: "a"}
	_, _ = rand.Read(me.Instance[:])
	register := func() (meta.Identity, error) {
		r, err := meta.Propose(ctx, s, me)
		fmt.Println("epoch", r.Epoch)
		return meta.Identity{NodeID: 1, NodeEpoch: r.Epoch}, err
	}
	id, err := register()
	if err != nil {
		return err
	}
	again := make(chan struct{})
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			again <- struct{}{}
		}
	}()
	st, err := meta.Propose(ctx, s, meta.OpenStream{Identity: id, StreamID: 1})
	for at := st.EndOffset; err == nil; at++ {
		select {
		case <-again:
			me.Address += "a"
			_, err = register()
		default:
		}
		if err == nil {
			err = appendRecord(ctx, s, id, st.Epoch, at)
		}
	}
	if meta.CodeOf(err) == meta.CodeNodeEpochStale {
		fmt.Println("stale", err)
		return nil
	}
	return err
}

// appendRecord commits an object with one record.
func appendRecord(ctx context.Context, s *headwater.Store, id meta.Identity, epoch, at uint64) error {
	r := &meta.Request{Sequence: 1, Oldest: 1}
	_, _ = rand.Read(r.Client[:])
	a := s.Propose(ctx, meta.Proposal{Request: r, Command: meta.PrepareObjects{Identity: id, Count: 1, Deadline: 1 << 60}})[0]
	if a.Err != nil {
		return a.Err
	}
	object := meta.Object{ObjectID: a.Result.(meta.PrepareObjectsResult).FirstObjectID, Size: 1,
		Slices: []meta.Slice{{StreamID: 1, StreamEpoch: epoch, StartOffset: at, EndOffset: at + 1, Length: 1}}}
	a = s.Propose(ctx, meta.Proposal{Command: meta.CommitObjects{Identity: id, Objects: []meta.Object{object}}})[0]
	if a.Err == nil {
		fmt.Println("commit", a.Index, at)
	}
	return a.Err
}

// nodeProcess is a running node 1.
type nodeProcess struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startNode(t *testing.T, file string) *nodeProcess {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), nodeEnv+"="+file), os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	return &nodeProcess{cmd: cmd, in: in, out: bufio.NewScanner(out)}
}

// said reads lines until n of a kind have come, and returns all that came. It ends early where the process does.
func (p *nodeProcess) said(kind string, n int) (lines []string) {
	for n > 0 && p.out.Scan() {
		lines = append(lines, p.out.Text())
		if strings.HasPrefix(p.out.Text(), kind+" ") {
			n--
		}
	}
	return lines
}

// TestSameNodeTwice is field case 10.1 with processes: a process is started under a node id that another one has and works
// with. The old one has no effect any more once the new one is registered, is told the present epoch, and stops; the new one
// keeps its epoch when it registers again.
func TestSameNodeTwice(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "twice.db")
	s, done := node(t, func() oplog.Log { return openSQLite(t, file) }, headwater.Options{})
	defer done()
	setUp := meta.RegisterNode{NodeID: 2, Instance: [16]byte{2}}
	for _, c := range []meta.Command{setUp, meta.CreateStream{Identity: meta.Identity{NodeID: 2, NodeEpoch: 1}, Name: "s"}} {
		if a := s.Propose(t.Context(), meta.Proposal{Command: c})[0]; a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	old := startNode(t, file)
	before := old.said("commit", 5)
	if len(before) == 0 || before[0] != "epoch 1" {
		t.Fatalf("the first process said %q", before)
	}
	fresh := startNode(t, file)
	after := fresh.said("commit", 5)
	if len(after) == 0 || after[0] != "epoch 2" {
		t.Fatalf("the second process said %q", after)
	}
	before = append(before, old.said("never", 1)...)
	if err := old.cmd.Wait(); err != nil {
		t.Errorf("the old process ended with %v", err)
	}
	last := before[len(before)-1]
	if !strings.HasPrefix(last, "stale NODE_EPOCH_STALE") || !strings.Contains(last, "registered at epoch 2") {
		t.Errorf("the old process stopped with %q, which does not name the present epoch", last)
	}
	for range 3 {
		if _, err := io.WriteString(fresh.in, "again\n"); err != nil {
			t.Fatal(err)
		}
		lines := fresh.said("epoch", 1)
		if lines = append(lines, fresh.said("commit", 3)...); lines[len(lines)-4] != "epoch 2" {
			t.Errorf("registered again it said %q", lines)
		}
		after = append(after, lines...)
	}
	_ = fresh.cmd.Process.Kill()
	after = append(after, fresh.said("never", 1)...)
	checkTakenOver(t, s, before, after)
}

// checkTakenOver proves that all commits of the old process stand below the registration of the new one, and that the
// stream holds what both were told, and at most one more record of each.
func checkTakenOver(t *testing.T, s *headwater.Store, before, after []string) {
	t.Helper()
	v, err := s.Linearize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, _ := v.State.Node(1)
	if n.Epoch != 2 {
		t.Errorf("the node is at epoch %d; a registration without a new process raised it", n.Epoch)
	}
	told, next := 0, uint64(0)
	for i, line := range append(before, after...) {
		var index, at uint64
		if _, err := fmt.Sscanf(line, "commit %d %d", &index, &at); err != nil {
			continue
		}
		if told++; i < len(before) && index > n.RegisteredIndex {
			t.Errorf("the old process committed in row %d; the new one was registered in row %d", index, n.RegisteredIndex)
		}
		if at < next {
			t.Errorf("offset %d was committed twice", at)
		}
		next = at + 1
	}
	st, _ := v.State.Stream(1)
	if st.EndOffset < next || st.EndOffset > uint64(told)+2 || told < 19 {
		t.Errorf("%d records were told of, the last at %d; the stream ends at %d", told, next-1, st.EndOffset)
	}
}
