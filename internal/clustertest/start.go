package clustertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/oplog"
)

// starter names the environment variable that makes a test binary one of the processes of RacedStart.
const starter = "HEADWATER_TEST_STARTER"

// Starter ends the process if it is one of RacedStart's, after it has done what it was told; a TestMain begins with it. Open
// opens a log in the database that place names, as the package's RacedStart says it.
func Starter(open func(ctx context.Context, place string) (oplog.Log, error)) {
	if os.Getenv(starter) == "" {
		return
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		said, err := begin(open, in.Text())
		if err != nil {
			said = fmt.Sprintf("error %v", err)
		}
		fmt.Println(strings.ReplaceAll(said, "\n", " "))
	}
	os.Exit(0)
}

// begin makes the database at place a cluster if nobody else does, and opens a node on it.
func begin(open func(ctx context.Context, place string) (oplog.Log, error), place string) (said string, err error) {
	ctx := context.Background()
	l, err := open(ctx, place)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	how := "created"
	if _, err := headwater.Init(ctx, l); errors.Is(err, oplog.ErrExists) {
		how = "found"
	} else if err != nil {
		return "", err
	}
	s, err := headwater.Open(ctx, l, headwater.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Linearize(ctx); err != nil {
		return "", err
	}
	return how + " " + s.Status().ClusterID + " " + s.Status().Incarnation, nil
}

// process is one of the processes of RacedStart.
type process struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func startProcess(t testing.TB) process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), starter+"=1")
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatalf("start a process: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends
		if err := cmd.Wait(); err != nil {
			t.Errorf("a process: %v", err)
		}
	})
	return process{in, bufio.NewScanner(out)}
}

// RacedStart has eight processes make the same empty database a cluster at the same moment, 3 times, or 50 at full size. place
// returns a new place each time. All come up, one of them has created the cluster, and all say that it is the same. Field
// case 15.1.
func RacedStart(t *testing.T, place func() string) {
	t.Helper()
	rounds := 3
	if Full {
		rounds = 50
	}
	var all []process
	for range 8 {
		all = append(all, startProcess(t))
	}
	for round := range rounds {
		line := place() + "\n"
		for _, p := range all { // each waits for it
			if _, err := io.WriteString(p.in, line); err != nil {
				t.Fatalf("tell a process: %v", err)
			}
		}
		created, clusters := 0, map[string]bool{}
		for i, p := range all {
			if !p.out.Scan() {
				t.Fatalf("round %d: process %d ended: %v", round, i, p.out.Err())
			}
			how, cluster, _ := strings.Cut(p.out.Text(), " ")
			switch how {
			case "created":
				created++
			case "found":
			default:
				t.Errorf("round %d: process %d: %s", round, i, p.out.Text())
			}
			clusters[cluster] = true
		}
		if created != 1 || len(clusters) != 1 {
			t.Errorf("round %d: %d processes created the cluster, and there are %d", round, created, len(clusters))
		}
	}
}
