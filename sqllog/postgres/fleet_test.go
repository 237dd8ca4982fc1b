package postgres_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// fleetEnv holds, as JSON, the fleetPlan of a process that is a fleet instead of running the tests.
const fleetEnv = "HEADWATER_POSTGRES_TEST_FLEET"

// fleetPlan is a number of nodes that one process runs on a cluster which is there.
type fleetPlan struct {
	DSN, Prefix string
	Nodes       int
}

func (p fleetPlan) options() postgres.Options {
	o := patient(p.DSN)
	o.Prefix, o.AllowFsyncOff = p.Prefix, true
	return o
}

// nodeReport is how one node of a fleet stands.
type nodeReport struct {
	Applied   uint64
	Digest    string
	Condition headwater.Condition
}

// runFleet is the process: for each index that comes in, it waits until all of its nodes have reached it, and says how
// they stand. It begins by saying how far they are, and ends with its input.
func runFleet(plan string) error {
	var p fleetPlan
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		return err
	}
	ctx := context.Background()
	var stores []*headwater.Store
	for range p.Nodes {
		postgres.Apart() // each hears of rows from the server alone, as if it had the process for itself
		l, err := postgres.Open(ctx, p.options())
		if err != nil {
			return err
		}
		defer l.Close()
		s, err := headwater.Open(ctx, l, headwater.Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		stores = append(stores, s)
	}
	out := json.NewEncoder(os.Stdout)
	for in, index := json.NewDecoder(os.Stdin), uint64(0); ; {
		reports := make([]nodeReport, len(stores))
		waiting, cancel := context.WithTimeout(ctx, fleetPatience)
		defer cancel()
		for i, s := range stores {
			if _, err := s.Wait(waiting, index); err != nil {
				return fmt.Errorf("node %d waits for index %d: %w (%+v)", i, index, err, s.Status())
			}
			st := s.Status()
			for st.AppliedIndex < index { // the view is published a moment before the status tells
				runtime.Gosched()
				st = s.Status()
			}
			reports[i] = nodeReport{st.AppliedIndex, st.Digest, st.Condition}
		}
		if err := out.Encode(reports); err != nil {
			return err
		}
		if err := in.Decode(&index); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// fleetPatience is how long a node of a fleet may take to reach an index.
const fleetPatience = time.Minute

// fleet is the test's end of such a process.
type fleet struct {
	t   testing.TB
	in  *json.Encoder
	out *json.Decoder
}

// startFleet starts a process and returns when its nodes are there. It ends with the test.
func startFleet(t testing.TB, p fleetPlan) *fleet {
	t.Helper()
	plan, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fleetEnv+"="+string(plan))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a process of nodes: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("a process of nodes ended with %v", err)
		}
	})
	f := &fleet{t: t, in: json.NewEncoder(in), out: json.NewDecoder(bufio.NewReader(out))}
	f.reports()
	return f
}

// ask has the process wait until all nodes have reached index; reports takes the answer.
func (f *fleet) ask(index uint64) {
	f.t.Helper()
	if err := f.in.Encode(index); err != nil {
		f.t.Fatalf("ask a process of nodes: %v", err)
	}
}

func (f *fleet) reports() (all []nodeReport) {
	f.t.Helper()
	if err := f.out.Decode(&all); err != nil {
		f.t.Fatalf("hear from a process of nodes: %v", err)
	}
	return all
}
