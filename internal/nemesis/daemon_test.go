//go:build unix

package nemesis_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
)

// daemon is one headwater serve, which is started again until it runs whenever it should. Clients reach it at the same
// address for ever, through front; it reaches its database through back.
type daemon struct {
	name  string
	args  []string
	log   string
	space *netns       // where it runs; nil: here
	front *proxy.Proxy // between clients and daemon
	back  *proxy.Proxy // between daemon and database; nil: a file

	starting sync.WaitGroup
	mu       sync.Mutex      // guards the rest
	program  *dbtest.Program // nil: it does not run
	wanted   bool            // it is to run
	starts   int             // processes that were started
	crashes  []string        // ends that nobody asked for
}

// newDaemon makes a daemon that does not run yet. It ends with the test.
func newDaemon(t testing.TB, name string, space *netns, back *proxy.Proxy, args ...string) *daemon {
	d := &daemon{name: name, space: space, back: back, log: filepath.Join(t.TempDir(), name+".log")}
	host := "127.0.0.1"
	if space != nil {
		host = space.there
	}
	d.args = append([]string{"serve", "--listen", host + ":0", "--log-format", "json"}, args...)
	d.front = proxy.New(t, proxy.Raw, "127.0.0.1:1") // until it listens
	t.Cleanup(func() {
		d.kill()
		d.starting.Wait()
	})
	return d
}

// start has the daemon run, and comes back at once. While it cannot start, as when the database is away, it is tried
// again, as by systemd.
func (d *daemon) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted {
		return
	}
	d.wanted = true
	d.starting.Go(d.run)
}

// run starts processes until one serves or none is wanted any more.
func (d *daemon) run() {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	var p *dbtest.Program
	for {
		var from int
		var err error
		p, from, err = d.spawn(p)
		if p == nil {
			if err != nil {
				d.crashed("cannot be started: " + err.Error())
			}
			return
		}
		var address string
		err = p.Await(2*time.Minute, func() bool { address = d.serving(from); return address != "" })
		d.mu.Lock()
		current := d.program == p
		d.mu.Unlock()
		switch {
		case !current: // killed meanwhile
			return
		case err == nil:
			d.front.SetUpstream(address)
			d.starting.Go(func() { d.watch(p) })
			return
		case p.ExitCode() != exitUnavailable:
			d.crashed(fmt.Sprintf("ended with exit code %d before it served", p.ExitCode()))
			return
		}
		<-pause.C
	}
}

// exitUnavailable is the exit code of a daemon whose database is away.
const exitUnavailable = 3

// spawn starts a process after the last one (nil at first), unless that was killed meanwhile; its part of the log begins
// at from.
func (d *daemon) spawn(last *dbtest.Program) (p *dbtest.Program, from int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted || d.program != last {
		return nil, 0, nil
	}
	from = len(d.said())
	path, err := binary()
	if err != nil {
		return nil, 0, err
	}
	args := append([]string{path}, d.args...)
	if d.space != nil {
		args = append(strings.Fields(d.space.enter("")), args...)
		if args[0], err = exec.LookPath(args[0]); err != nil {
			return nil, 0, err
		}
	}
	p, err = dbtest.StartProgram(d.log, args[0], args[1:]...)
	if err != nil {
		return nil, 0, err
	}
	d.program = p
	d.starts++
	return p, from, nil
}

// watch notes an end that nobody asked for.
func (d *daemon) watch(p *dbtest.Program) {
	<-p.Exited()
	d.mu.Lock()
	current := d.program == p
	d.mu.Unlock()
	if current {
		d.crashed(fmt.Sprintf("ended by itself with exit code %d", p.ExitCode()))
	}
}

func (d *daemon) crashed(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashes = append(d.crashes, what)
}

// kill kills the daemon with -9.
func (d *daemon) kill() { d.end(syscall.SIGKILL) }

// end sends a signal that ends the daemon, and waits until it has.
func (d *daemon) end(s syscall.Signal) {
	d.mu.Lock()
	p := d.program
	d.program, d.wanted = nil, false
	d.mu.Unlock()
	if p != nil {
		p.Signal(s)
		p.Signal(syscall.SIGCONT) // one that another fault has stopped hears nothing before
		<-p.Exited()
	}
	d.front.Cut() // connections to one that is gone lead nowhere
}

// signal sends a signal to a daemon that runs.
func (d *daemon) signal(s syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.program != nil {
		d.program.Signal(s)
	}
}

func (d *daemon) said() []byte {
	text, _ := os.ReadFile(d.log) // none yet: nothing
	return text
}

// serving looks for the address that the daemon says it listens on, in the log from a place on.
func (d *daemon) serving(from int) (address string) {
	for line := range bytes.Lines(d.said()[from:]) {
		var l struct{ Msg, Address string }
		if json.Unmarshal(line, &l) == nil && l.Msg == "serving" {
			address = l.Address
		}
	}
	return address
}

// complaints are what no daemon may say.
func (d *daemon) complaints() (all []string) {
	d.mu.Lock()
	all = append(all, d.crashes...)
	d.mu.Unlock()
	for line := range bytes.Lines(d.said()) {
		for _, bad := range []string{"panic:", "DATA RACE", "fatal error:", "digests differ", `"is":"halted"`, `"is":"diverged"`, `"is":"rewound"`} {
			if bytes.Contains(line, []byte(bad)) {
				all = append(all, "said "+string(bytes.TrimSpace(line)))
			}
		}
	}
	return all
}
