package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// child is a writer process and the share of the files that it stores.
type child struct {
	cmd    *exec.Cmd
	part   int
	node   uint64
	killed bool
}

// event is what happened to a child: a report, or its end.
type event struct {
	*child
	report *progress
	err    error // of its end, where report is nil
}

// fleet starts writer processes and kills them.
type fleet struct {
	o        demoOptions
	events   chan event
	running  []*child
	nextNode uint64
}

// loadAll runs a writer process for each share, kills one now and then, and starts another in its place: every other
// time under the same node id, which makes the old process's epoch void, and otherwise as a new node, which has to fence
// the old one and take its streams over.
func loadAll(ctx context.Context, o demoOptions, d *display, files int, s *summary) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // kills who is left
	f := &fleet{o: o, events: make(chan event, 64), nextNode: 1}
	for part := range o.writers {
		if err := f.start(ctx, part, f.newNode()); err != nil {
			return err
		}
	}
	bar := d.bar("load", int64(files))
	r := rand.New(rand.NewPCG(o.seed, 0))
	kill := make(chan struct{})
	stored, planned := 0, 0
	for len(f.running) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-kill:
			victim := f.running[r.IntN(len(f.running))]
			victim.killed = true
			if err := victim.cmd.Process.Kill(); err == nil {
				s.kills++
			}
		case e := <-f.events:
			if e.report != nil {
				bar.add(int64(e.report.Files))
				stored += e.report.Files
				// The kills are spread over the work, not over time: each a moment after so many files are stored.
				for planned < o.kills && stored*(o.kills+1) > planned*files {
					planned++
					time.AfterFunc(time.Duration(r.Int64N(int64(20*time.Millisecond))), func() { f.tell(ctx, kill) })
				}
				continue
			}
			f.remove(e.child)
			if err := f.ended(ctx, e, s); err != nil {
				return err
			}
		}
	}
	bar.done()
	return nil
}

// ended replaces a child that was killed.
func (f *fleet) ended(ctx context.Context, e event, s *summary) error {
	switch {
	case e.killed && e.err != nil:
		if (s.restarts+s.takeovers)%2 == 1 {
			s.restarts++
			return f.start(ctx, e.part, e.node)
		}
		s.takeovers++
		return f.start(ctx, e.part, f.newNode())
	case e.err != nil:
		return fmt.Errorf("writer of share %d: %w", e.part, e.err)
	}
	return nil
}

func (f *fleet) newNode() uint64 { f.nextNode++; return f.nextNode - 1 }

func (f *fleet) remove(c *child) {
	for i := range f.running {
		if f.running[i] == c {
			f.running = append(f.running[:i], f.running[i+1:]...)
			return
		}
	}
}

func (f *fleet) start(ctx context.Context, part int, node uint64) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := f.o.place(node)
	c := &child{part: part, node: node}
	c.cmd = exec.CommandContext(ctx, self, "load", "--db", p.db, "--bucket", p.bucket, "--node", strconv.FormatUint(node, 10),
		"--ttl", p.ttl.String(), "--src", f.o.src, "--part", strconv.Itoa(part), "--parts", strconv.Itoa(f.o.writers),
		"--object-size", strconv.Itoa(f.o.target))
	c.cmd.Env = append(os.Environ(), selfEnv+"=1")
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	f.running = append(f.running, c)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var p progress
			if json.Unmarshal(lines.Bytes(), &p) == nil {
				f.send(ctx, event{child: c, report: &p})
			}
		}
		err := c.cmd.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			err = fmt.Errorf("wait: %w", err)
		}
		f.send(ctx, event{child: c, err: err})
	}()
	return nil
}

func (f *fleet) tell(ctx context.Context, c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	case <-ctx.Done():
	}
}

func (f *fleet) send(ctx context.Context, e event) {
	select {
	case f.events <- e:
	case <-ctx.Done():
	}
}

// selfEnv tells a test binary that it is to be streamstore.
const selfEnv = "STREAMSTORE_CHILD"
