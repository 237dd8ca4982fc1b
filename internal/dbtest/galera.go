package dbtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	for _, p := range galeraProviders {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", errors.New("no Galera library is installed (Debian package galera-4)")
}

// NewGalera starts a cluster of n members of the test's own, with more options of mariadbd for each. It ends with the
// test.
//
// The members notice within about two seconds that one is gone. A new member would copy another one's data with tools
// that need not be there; instead, all begin as copies of the same files, which is what the cluster takes a member for
// that has missed nothing, and one that was away gets what it missed from the others' memory.
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
	for range n {
		m, err := newMariaDB(bins)
		if err != nil {
			t.Fatalf("start a Galera cluster: %v", err)
		}
		t.Cleanup(m.destroy)
		port, err := freePort()
		if err != nil {
			t.Fatalf("start a Galera cluster: %v", err)
		}
		g.Members = append(g.Members, m)
		g.group = append(g.group, fmt.Sprintf("127.0.0.1:%d", port))
	}
	for i := range g.Members {
		if err := g.join(i, options); err != nil {
			t.Fatalf("start member %d of a Galera cluster: %v", i, err)
		}
	}
	return g
}

// first is the state that all members begin with: a history of nothing, at 0.
const first = `# GALERA saved state
version: 2.1
uuid:    11111111-2222-3333-4444-555555555555
seqno:   0
safe_to_bootstrap: %d
`

func (g *Galera) join(i int, options []string) error {
	m := g.Members[i]
	bootstrap := 0
	if i == 0 {
		bootstrap = 1
	}
	state := filepath.Join(m.data(), "grastate.dat")
	if err := os.WriteFile(state, fmt.Appendf(nil, first, bootstrap), 0o600); err != nil {
		return err
	}
	if m.account.other {
		if err := os.Chown(state, m.account.uid, m.account.gid); err != nil {
			return err
		}
	}
	ist, err := freePort()
	if err != nil {
		return err
	}
	provider := []string{"base_host=127.0.0.1", "gmcast.listen_addr=tcp://" + g.group[i],
		fmt.Sprintf("ist.recv_addr=127.0.0.1:%d", ist), "gcache.size=64M", "pc.recovery=false",
		"evs.keepalive_period=PT0.3S", "evs.suspect_timeout=PT1S", "evs.inactive_timeout=PT2S", "evs.inactive_check_period=PT0.2S",
		"evs.install_timeout=PT2S", "pc.announce_timeout=PT1S", "socket.checksum=1"}
	m.args = append([]string{"--wsrep-on=ON", "--wsrep-provider=" + g.provider, "--wsrep-cluster-name=test",
		"--wsrep-cluster-address=gcomm://" + strings.Join(g.group, ","), "--wsrep-node-address=" + g.group[i],
		fmt.Sprintf("--wsrep-node-name=member%d", i), "--wsrep-provider-options=" + strings.Join(provider, ";"),
		"--wsrep-sst-method=rsync", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2"}, options...)
	var more []string
	if i == 0 {
		more = []string{"--wsrep-new-cluster"}
	}
	return m.run(more)
}
