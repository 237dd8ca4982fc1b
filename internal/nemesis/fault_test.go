//go:build unix

package nemesis_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
)

// fault is one kind of thing that happens. begin does it and returns what ends it; whatever happens, end leaves things
// as they should be.
type fault struct {
	name  string
	begin func(t testing.TB, r *round, rng *rand.Rand) (end func())
}

// some draws daemons that a fault hits: mostly one, now and then several, or all.
func (r *round) some(rng *rand.Rand) []*daemon {
	n := 1
	if rng.IntN(3) == 0 {
		n = 1 + rng.IntN(len(r.daemons))
	}
	var out []*daemon
	for _, i := range rng.Perm(len(r.daemons))[:n] {
		out = append(out, r.daemons[i])
	}
	return out
}

// each makes a fault of what happens to single daemons.
func each(name string, begin func(t testing.TB, d *daemon) (end func())) fault {
	return fault{name, func(t testing.TB, r *round, rng *rand.Rand) func() {
		var ends []func()
		for _, d := range r.some(rng) {
			ends = append(ends, begin(t, d))
		}
		return func() {
			for _, end := range ends {
				end()
			}
		}
	}}
}

// daemonFaults are for every database.
var daemonFaults = []fault{
	each("kill daemon", func(_ testing.TB, d *daemon) func() { d.kill(); return d.start }),
	each("kill daemon, again at once", func(_ testing.TB, d *daemon) func() {
		d.kill()
		d.start()
		return func() { d.kill(); d.start() }
	}),
	each("end daemon in order", func(_ testing.TB, d *daemon) func() { d.end(syscall.SIGTERM); return d.start }),
	each("stop daemon", func(_ testing.TB, d *daemon) func() {
		d.signal(syscall.SIGSTOP)
		return func() { d.signal(syscall.SIGCONT) }
	}),
	each("cut clients", func(_ testing.TB, d *daemon) func() {
		d.front.Refuse(true)
		d.front.Cut()
		return func() { d.front.Refuse(false) }
	}),
	each("black hole to clients", func(_ testing.TB, d *daemon) func() { d.front.BlackHole(); return d.front.Cut }),
	each("delay to clients", func(_ testing.TB, d *daemon) func() { return hold(d.front, proxy.Rule{From: proxy.Server, Times: -1}) }),
	each("delay from clients", func(_ testing.TB, d *daemon) func() { return hold(d.front, proxy.Rule{From: proxy.Client, Times: -1}) }),
	each("answers to clients lost", func(_ testing.TB, d *daemon) func() {
		d.front.Add(proxy.Rule{From: proxy.Server, Mute: true, Times: 2})
		return func() { d.front.Clear(); d.front.Cut() }
	}),
}

// hold holds all messages that a rule matches, until the fault ends.
func hold(p *proxy.Proxy, r proxy.Rule) (end func()) {
	r.Hold = proxy.NewGate()
	p.Add(r)
	return func() { p.Clear(); r.Hold.Open() }
}

// lose lays rules that are dropped when the fault ends.
func lose(p *proxy.Proxy, r proxy.Rule, times int) (end func()) {
	r.Times = times
	p.Add(r)
	return p.Clear
}

// outages are of the server itself: there is one at a time.
var outages = []string{"kill server", "restart server", "stop server"}

// serverFaults are for databases with a server.
var serverFaults = []fault{
	{"kill server", func(t testing.TB, r *round, _ *rand.Rand) func() {
		r.db.server.Kill(t)
		return func() { r.db.start(t) }
	}},
	{"restart server", func(t testing.TB, r *round, _ *rand.Rand) func() {
		r.db.server.Stop(t)
		return func() { r.db.start(t) }
	}},
	{"stop server", func(t testing.TB, r *round, _ *rand.Rand) func() {
		r.db.server.Pause(t)
		return func() { r.db.server.Resume(t) }
	}},
	each("cut database", func(_ testing.TB, d *daemon) func() {
		d.back.Refuse(true)
		d.back.Cut()
		return func() { d.back.Refuse(false) }
	}),
	each("black hole to database", func(_ testing.TB, d *daemon) func() { d.back.BlackHole(); return func() {} }),
	each("delay to database", func(_ testing.TB, d *daemon) func() { return hold(d.back, proxy.Rule{From: proxy.Client, Times: -1}) }),
	each("delay from database", func(_ testing.TB, d *daemon) func() { return hold(d.back, proxy.Rule{From: proxy.Server, Times: -1}) }),
	appends("answers of appends lost", func(d *daemon, text string) func() { return lose(d.back, proxy.LoseAnswer(text), 5) }),
	appends("appends lost", func(d *daemon, text string) func() { return lose(d.back, proxy.LoseStatement(text), 5) }),
	appends("appends that arrive late", func(d *daemon, text string) func() {
		gate := proxy.NewGate()
		end := lose(d.back, proxy.AbandonStatement(text, gate), 2)
		return func() { end(); gate.Open() }
	}),
}

// appends makes a fault of what happens to the statements of appends.
func appends(name string, begin func(d *daemon, text string) (end func())) fault {
	return fault{name, func(t testing.TB, r *round, rng *rand.Rand) func() {
		return each(name, func(_ testing.TB, d *daemon) func() { return begin(d, r.db.append) }).begin(t, r, rng)
	}}
}

// packetFaults are for daemons in network namespaces.
var packetFaults = []fault{
	packets("packets to database lost one way", "output tcp dport %[1]s drop"),
	packets("packets from database lost one way", "input tcp sport %[1]s drop"),
	packets("packets of database lost both ways", "output tcp dport %[1]s drop", "input tcp sport %[1]s drop"),
	packets("a third of the packets lost", "output tcp dport %[1]s numgen random mod 100 < 33 drop", "input tcp sport %[1]s numgen random mod 100 < 33 drop"),
}

// packets makes a fault of rules for packets, in which stands the database's port.
func packets(name string, rules ...string) fault {
	return each(name, func(t testing.TB, d *daemon) func() {
		filter := func(rules ...string) {
			if err := d.space.filter(rules...); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		var these []string
		for _, r := range rules {
			these = append(these, fmt.Sprintf(r, port(d.back.Addr())))
		}
		filter(these...)
		return func() { filter() }
	})
}

// faults are those that a round can have.
func (r *round) faults() []fault {
	all := append([]fault(nil), daemonFaults...)
	if r.db.server != nil {
		all = append(all, serverFaults...)
	}
	if r.daemons[0].space != nil {
		all = append(all, packetFaults...)
	}
	return all
}
