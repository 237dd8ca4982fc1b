//go:build unix

package nemesis_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/dbtest"
)

// netns is a network namespace with one cable to this one. A process that waits in it keeps it; when that is gone, so are
// the namespace and the cable, however this process ends.
type netns struct {
	holder *dbtest.Program
	here   string // the address of this end of the cable
	there  string
}

// cables counts those of this process.
var cables atomic.Uint32

// newNetns makes a namespace, which ends with the test.
func newNetns(t testing.TB) (*netns, error) {
	log := filepath.Join(t.TempDir(), "netns.log")
	// The addresses are of 10.64.0.0/10, four for each cable, 32 cables for each process.
	n := cables.Add(1) % 32
	base := netip.MustParseAddr("10.64.0.0").As4()
	at := uint32(os.Getpid())%(1<<17)<<7 | n<<2
	address := func(i uint32) string {
		a := at | i
		return netip.AddrFrom4([4]byte{base[0], base[1] | byte(a>>16), byte(a >> 8), byte(a)}).String()
	}
	ns := &netns{here: address(1), there: address(2)}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		return nil, err
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return nil, err
	}
	if ns.holder, err = dbtest.StartProgram(log, unshare, "--net", sleep, "infinity"); err != nil {
		return nil, err
	}
	t.Cleanup(func() { ns.holder.Signal(syscall.SIGKILL); <-ns.holder.Exited() })
	ours, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	err = ns.holder.Await(time.Minute, func() bool {
		theirs, err := os.Readlink(ns.path())
		return err == nil && theirs != ours
	})
	if err != nil {
		out, _ := os.ReadFile(log)
		return nil, fmt.Errorf("unshare: %w: %s", err, out)
	}
	a, b := fmt.Sprintf("hw%da%d", os.Getpid(), n), fmt.Sprintf("hw%db%d", os.Getpid(), n)
	for _, c := range []string{
		"ip link add " + a + " type veth peer name " + b,
		fmt.Sprintf("ip link set %s netns %d", b, ns.holder.Pid()),
		"ip addr add " + ns.here + "/30 dev " + a,
		"ip link set " + a + " up",
		ns.enter("ip addr add " + ns.there + "/30 dev " + b),
		ns.enter("ip link set " + b + " up"),
		ns.enter("ip link set lo up"),
	} {
		if err := command(c, ""); err != nil {
			return nil, err
		}
	}
	return ns, ns.filter()
}

func (ns *netns) path() string { return fmt.Sprintf("/proc/%d/ns/net", ns.holder.Pid()) }

// enter makes a command run in the namespace.
func (ns *netns) enter(c string) string { return "nsenter --net=" + ns.path() + " -- " + c }

// filter replaces the rules for what leaves and what enters the namespace.
func (ns *netns) filter(rules ...string) error {
	var text strings.Builder
	text.WriteString("flush ruleset\ntable inet nemesis {\n")
	for _, chain := range []string{"output", "input"} {
		fmt.Fprintf(&text, "chain %s { type filter hook %s priority 0; policy accept;\n", chain, chain)
		for _, r := range rules {
			if rule, mine := strings.CutPrefix(r, chain+" "); mine {
				text.WriteString(rule + "\n")
			}
		}
		text.WriteString("}\n")
	}
	text.WriteString("}\n")
	return command(ns.enter("nft -f -"), text.String())
}

// command runs a command whose words have no spaces.
func command(line, stdin string) error {
	words := strings.Fields(line)
	c := exec.Command(words[0], words[1:]...)
	c.Stdin = strings.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return nil
}

var namespaces struct {
	once sync.Once
	err  error
}

// canNetns says why there are no network namespaces here, if so. That is no failure: a sandbox may forbid them to root.
func canNetns(t testing.TB) error {
	namespaces.once.Do(func() {
		ns, err := newNetns(t)
		if err == nil {
			err = ns.filter("output tcp dport 1 numgen random mod 100 < 20 drop")
		}
		namespaces.err = err
	})
	if namespaces.err != nil {
		t.Logf("NO NETWORK NAMESPACES HERE: packets between daemons and database are neither lost nor cut one-way in this run (%v)", namespaces.err)
	}
	return namespaces.err
}
