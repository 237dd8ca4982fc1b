package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// childEnv names the function of children that this process is to run instead of the tests; its arguments follow on
// the command line. Real processes are needed where locks, signals and kill -9 are the point.
const childEnv = "HEADWATER_SQLITE_TEST_CHILD"

var children = map[string]func(args []string) error{
	"init":    childInit,
	"propose": childPropose,
	"slot":    childSlot,
	"lock":    childLock,
	"work":    childWork,
	"probe":   childProbe,
}

func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := children[name](os.Args[1:]); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// soak is the size of long tests: quick unless HEADWATER_SOAK is set.
func soak(quick, full int) int {
	if os.Getenv("HEADWATER_SOAK") != "" {
		return full
	}
	return quick
}

// child is a running child process and the two lines of talk with it.
type child struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t testing.TB, name string, args ...string) *child {
	t.Helper()
	return startBinary(t, os.Args[0], nil, name, args...)
}

func startBinary(t testing.TB, binary string, attr *syscall.SysProcAttr, name string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(binary, args...)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+name)
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = attr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("start child %s: %v", name, err)
	}
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	return c
}

// line returns the next line that the child prints, and false at the end.
func (c *child) line() (string, bool) {
	ok := c.out.Scan()
	return c.out.Text(), ok
}

// want waits for a line.
func (c *child) want(line string) {
	c.t.Helper()
	if got, _ := c.line(); got != line {
		c.t.Fatalf("child says %q, want %q", got, line)
	}
}

// say sends the child a line.
func (c *child) say(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Fatalf("talk to the child: %v", err)
	}
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatalf("send %v: %v", s, err)
	}
}

func heard() { bufio.NewScanner(os.Stdin).Scan() }

// childInit PATH: says "ready", waits for a line, creates the cluster, says how that ended.
func childInit(args []string) error {
	l, err := sqlite.Open(context.Background(), sqlite.Options{Path: args[0], BusyTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("ready")
	heard()
	switch err := l.Init(context.Background(), []byte(args[1])); {
	case err == nil:
		fmt.Println("created")
	case errors.Is(err, oplog.ErrExists):
		fmt.Println("exists")
	default:
		return err
	}
	newest, err := l.Newest(context.Background())
	fmt.Println("newest", newest)
	return err
}

// childPropose PATH PROPOSERS ROWS: each proposer appends its rows as a replica does; says "row INDEX PAYLOAD" for each.
func childPropose(args []string) error {
	l, err := sqlite.Open(context.Background(), sqlite.Options{Path: args[0], BusyTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer l.Close()
	proposers, _ := strconv.Atoi(args[1])
	rows, _ := strconv.Atoi(args[2])
	errs := make(chan error, proposers)
	var out sync.Mutex // keeps the lines whole
	for p := range proposers {
		go func() {
			errs <- func() error {
				for n := range rows {
					payload := fmt.Sprintf("%d/%d/%d", os.Getpid(), p, n)
					index, err := appendNext(l, payload)
					if err != nil {
						return err
					}
					out.Lock()
					fmt.Println("row", index, payload)
					out.Unlock()
				}
				return nil
			}()
		}()
	}
	for range proposers {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// appendNext appends payload at the first index that is free when it gets there.
func appendNext(l oplog.Log, payload string) (oplog.Index, error) {
	for {
		newest, err := l.Newest(context.Background())
		if err != nil {
			return 0, err
		}
		err = l.Append(context.Background(), newest+1, nil, []byte(payload))
		if !errors.Is(err, oplog.ErrConflict) {
			return newest + 1, err
		}
	}
}

// childSlot PATH: chooses the slot after the newest row, says "chosen", waits for a line, appends there, says how it ended.
func childSlot(args []string) error {
	l, err := sqlite.Open(context.Background(), sqlite.Options{Path: args[0], BusyTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer l.Close()
	newest, err := l.Newest(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("chosen", newest+1)
	if args[1] == "wait" {
		heard()
	}
	switch err := l.Append(context.Background(), newest+1, nil, []byte("fork")); {
	case errors.Is(err, oplog.ErrConflict):
		fmt.Println("conflict")
	case err == nil:
		fmt.Println("appended")
	default:
		return err
	}
	return nil
}

// childLock PATH: takes the write lock, says "locked", waits for a line, commits a row at the index given.
func childLock(args []string) error {
	db, err := openRaw(args[0])
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if _, err := tx.Exec("INSERT INTO headwater_log (idx, payload) VALUES (?, CAST('slow' AS BLOB))", args[1]); err != nil {
		return err
	}
	fmt.Println("locked")
	heard()
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Println("committed")
	return nil
}

// childWork PATH NAME MICROSECONDS: appends rows and runs snapshot cycles until it kills itself after that time. It says
// "row INDEX PAYLOAD" and "snapshot INDEX" for each that was acknowledged.
func childWork(args []string) error {
	l, err := sqlite.Open(context.Background(), sqlite.Options{Path: args[0], BusyTimeout: time.Minute})
	if err != nil {
		return err
	}
	micros, _ := strconv.Atoi(args[2])
	fmt.Println("ready")
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	time.AfterFunc(time.Duration(micros)*time.Microsecond, func() { self.Kill() })
	for n := 0; ; n++ {
		payload := fmt.Sprintf("%s/%d", args[1], n)
		index, err := appendNext(l, payload)
		if err != nil {
			return err
		}
		fmt.Println("row", index, payload)
		if rand.IntN(4) == 0 {
			if err := cycle(l, index, func(at oplog.Index) { fmt.Println("snapshot", at) }); err != nil {
				return err
			}
		}
	}
}

// cycle stores a snapshot at index, in parts that name it, tells that it stands, and truncates below it.
func cycle(l oplog.Log, at oplog.Index, acknowledged func(oplog.Index)) error {
	ctx := context.Background()
	w, err := l.CreateSnapshot(ctx, at, nil)
	if err != nil {
		return err
	}
	for i := range 3 {
		if err := w.WritePart(ctx, snapshotPart(at, i)); err != nil {
			return err
		}
	}
	switch err := w.Commit(ctx); {
	case errors.Is(err, oplog.ErrConflict):
		return w.Abort(ctx)
	case err != nil:
		return err
	}
	acknowledged(at)
	for {
		n, err := l.Truncate(ctx, at, 2)
		if err != nil || n == 0 {
			return err
		}
	}
}

func snapshotPart(at oplog.Index, i int) []byte {
	return []byte(strings.Repeat(fmt.Sprintf("part %d of %d;", i, at), 500))
}

// childProbe PATH: says by their sentinels how opening, reading, appending and creating end here.
func childProbe(args []string) error {
	l, err := sqlite.Open(context.Background(), sqlite.Options{Path: args[0], BusyTimeout: 100 * time.Millisecond})
	if err != nil {
		fmt.Println("open:", sentinel(err))
		return nil
	}
	defer l.Close()
	_, err = l.Newest(context.Background())
	fmt.Printf("newest: %s, append: %s, init: %s\n", sentinel(err),
		sentinel(l.Append(context.Background(), 1, nil, nil)), sentinel(l.Init(context.Background(), nil)))
	return nil
}

func sentinel(err error) string {
	for _, s := range []error{oplog.ErrDenied, oplog.ErrReadOnly, oplog.ErrNoCluster, oplog.ErrExists, oplog.ErrSchema,
		oplog.ErrCorrupt, oplog.ErrUnknown, oplog.ErrConflict, oplog.ErrFull, oplog.ErrUnavailable} {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	return fmt.Sprint(err)
}
