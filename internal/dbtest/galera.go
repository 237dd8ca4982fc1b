package dbtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Galera is a throwaway cluster of MariaDB servers that all take writes. It is not for several goroutines at once.
type Galera struct {
	Members []*MariaDB

	provider string
	group    []string // where the members talk to each other: host and port
}

// galeraProviders are where the library may be.
var galeraProviders = []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib/libgalera_smm.so"}

func findGalera() (string, error) {
	if _, err := exec.LookPath("rsync"); err != nil {
		return "", errors.New("rsync is not installed, which members of a Galera cluster need to join")
	}
	for _, p := range galeraProviders {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", errors.New("no Galera library is installed (Debian package galera-4)")
}

// galeraTemplate is a folder with the data of a member that was alone and has left in good order. Those who begin with
// copies of it have missed nothing but what the first of them does before they come, which they get from its memory.
// The tool that would otherwise copy all data (rsync) has to stand by all the same.
var galeraTemplate = sync.OnceValues(func() (string, error) {
	bins, err := findMariaDB()
	if err != nil {
		return "", err
	}
	m, err := newMariaDB(bins)
	if err != nil {
		return "", err
	}
	stopLater(m.destroy)
	g := &Galera{Members: []*MariaDB{m}}
	if g.provider, err = findGalera(); err != nil {
		return "", err
	}
	if err := g.place(); err != nil {
		return "", err
	}
	if err := g.join(0, nil); err != nil {
		return "", err
	}
	if err := m.process.signal(syscall.SIGTERM); err != nil {
		return "", err
	}
	return m.data(), m.ended()
})

// NewGalera starts a cluster of n members of the test's own, with more options of mariadbd for each. It ends with the
// test. The members notice within some four seconds that one is gone.
// They would sooner be told to, but a member that a busy machine keeps waiting must not be taken for one.
func NewGalera(t testing.TB, n int, options ...string) *Galera {
	t.Helper()
	bins, err := findMariaDB()
	if err != nil {
		missing(t, "%v", err)
	}
	g := &Galera{}
	if g.provider, err = findGalera(); err != nil {
		missing(t, "%v", err)
	}
	template, err := galeraTemplate()
	if err != nil {
		t.Fatalf("start a Galera cluster: %v", err)
	}
	for range n {
		m, err := copyMariaDB(bins, template)
		if err != nil {
			t.Fatalf("start a Galera cluster: %v", err)
		}
		t.Cleanup(m.destroy)
		g.Members = append(g.Members, m)
	}
	if err := g.place(); err != nil {
		t.Fatalf("start a Galera cluster: %v", err)
	}
	t.Cleanup(func() { // before the members go
		if t.Failed() {
			g.report(t)
		}
	})
	for i := range g.Members {
		err := g.join(i, options)
		if err != nil && i > 0 { // another program may have been given one of its ports meanwhile: a new member tries others
			m, failed := copyMariaDB(bins, template)
			if failed != nil {
				t.Fatalf("start a Galera cluster: %v", failed)
			}
			t.Cleanup(m.destroy)
			g.Members[i] = m
			err = g.join(i, options)
		}
		if err != nil {
			t.Fatalf("start member %d of a Galera cluster: %v", i, err)
		}
	}
	return g
}

// place finds ports on which the members talk to each other.
func (g *Galera) place() error {
	for range g.Members {
		port, err := freePort()
		if err != nil {
			return err
		}
		g.group = append(g.group, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return nil
}

// report shows what the members complained of.
func (g *Galera) report(t testing.TB) {
	for i, m := range g.Members {
		for line := range strings.Lines(m.Log()) {
			if strings.Contains(line, "[ERROR]") || strings.Contains(line, "signal") {
				t.Logf("member %d: %s", i, strings.TrimSpace(line))
			}
		}
	}
}

// join starts member i; the first begins the cluster.
func (g *Galera) join(i int, options []string) error {
	m := g.Members[i]
	ist, err1 := freePort()
	sst, err2 := freePort()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	provider := []string{"base_host=127.0.0.1", "gmcast.listen_addr=tcp://" + g.group[i],
		fmt.Sprintf("ist.recv_addr=127.0.0.1:%d", ist), "gcache.size=64M", "pc.recovery=false",
		"evs.keepalive_period=PT0.3S", "evs.suspect_timeout=PT3S", "evs.inactive_timeout=PT6S", "evs.inactive_check_period=PT0.3S",
		"evs.install_timeout=PT6S", "pc.announce_timeout=PT1S"}
	m.args = append([]string{"--wsrep-on=ON", "--wsrep-provider=" + g.provider, "--wsrep-cluster-name=test",
		"--wsrep-cluster-address=gcomm://" + strings.Join(g.group, ","), "--wsrep-node-address=" + g.group[i],
		fmt.Sprintf("--wsrep-node-name=member%d", i), "--wsrep-provider-options=" + strings.Join(provider, ";"),
		"--wsrep-sst-method=rsync", fmt.Sprintf("--wsrep-sst-receive-address=127.0.0.1:%d", sst), "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2"}, options...)
	var more []string
	if i == 0 {
		more = []string{"--wsrep-new-cluster"}
	}
	if err := m.run(more); err != nil {
		return err
	}
	// It takes connections before it has what it missed.
	if err := m.process.await(patience, func() bool { return strings.Contains(m.Log(), "Synchronized with group") }); err != nil {
		return fmt.Errorf("%w: %s", err, m.Log())
	}
	return nil
}
