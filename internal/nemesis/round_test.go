//go:build unix

package nemesis_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/internal/history"
	"github.com/headwaterdb/headwater/meta"
)

// nodeIDs is how many node ids there are, each with two actors.
const nodeIDs = 3

// round is one cluster from its beginning to the verdict on its history.
type round struct {
	seed     uint64
	db       database
	daemons  []*daemon
	keep     int    // rows that are kept below the snapshot
	behind   uint64 // how many rows make one who has not seen them miss a truncated one
	recorder *history.Recorder
	witness  *witness

	calls, answers atomic.Uint64 // of all sessions
	highest        atomic.Uint64 // index that a session was told

	account account
}

// account is what came of a round.
type account struct {
	report      *history.Report
	faults      map[string]int
	unavailable time.Duration // the longest time without an answered command while faults happened
	recovery    time.Duration // from the end of the faults until everybody was ready and agreed
	truncated   uint64        // rows that were truncated
	restarts    int           // processes of daemons beyond the first ones
}

// recoveryBound is the longest that a cluster may need once all faults are over. Only long runs hold it: a short one may
// share its machine with anything.
const recoveryBound = 30 * time.Second

// play plays a round with a number of faults and checks its history.
func play(t testing.TB, db database, seed uint64, faults int) account {
	r := &round{seed: seed, db: db, recorder: history.NewRecorder(), account: account{faults: map[string]int{}}}
	rng := rand.New(rand.NewPCG(seed, 0))
	r.witness = newWitness(db.open)
	r.cluster(t, rng)
	watching, stopWatching := context.WithCancel(context.Background())
	var watchers, workers sync.WaitGroup
	defer watchers.Wait()
	defer stopWatching()
	watchers.Go(func() { r.witness.run(watching) })

	r.settle(t)
	working, stop := context.WithCancel(context.Background())
	defer workers.Wait()
	defer stop()
	r.sessions(t, func(s *session, step func()) { workers.Go(func() { s.work(working, step) }) })
	for i, d := range r.daemons {
		watchers.Go(func() { r.sample(watching, d, 100+i) })
	}
	lively := r.harm(t, rng, faults)
	stop()
	workers.Wait()
	lively = lively && r.recover(t)
	r.judge(t, lively, stopWatching)
	return r.account
}

// cluster makes daemons and starts them, all at once on an empty database.
func (r *round) cluster(t testing.TB, rng *rand.Rand) {
	interval := 20 + rng.IntN(60)
	r.keep = max(80, 2*interval)
	r.behind = uint64(r.keep + interval)
	inSpaces := r.db.server != nil && canNetns(t) == nil
	for i := range 3 {
		var space *netns
		var back *proxy.Proxy
		address := ""
		if inSpaces {
			var err error
			if space, err = newNetns(t); err != nil {
				t.Fatalf("make a network namespace: %v", err)
			}
		}
		if r.db.server != nil {
			host := "127.0.0.1"
			if space != nil {
				host = space.here
			}
			back = proxy.NewOn(t, r.db.protocol, host, r.db.server.Addr())
			address = back.Addr()
		}
		r.daemons = append(r.daemons, newDaemon(t, fmt.Sprintf("daemon-%d", i), space, back, "--db", r.db.dsn(address), "--init",
			"--snapshot-interval", fmt.Sprint(interval), "--keep-rows", fmt.Sprint(r.keep), "--drain", "1s"))
	}
	for _, d := range r.daemons {
		d.start()
	}
}

// settle waits until all daemons serve, and creates what all sessions share.
func (r *round) settle(t testing.TB) {
	if !r.agree(t) {
		t.FailNow()
	}
	s := r.newSession(0, r.connect(t, 0))
	var all []meta.Command
	for id := range byte(nodeIDs) {
		all = append(all, meta.RegisterNode{NodeID: uint64(id) + 1, Instance: [16]byte{id + 1}})
	}
	for i := range sharedStreams {
		all = append(all, meta.CreateStream{Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}, Name: streamName(i + 1)})
	}
	for _, c := range all {
		for { // a session gives up early now and then; what is there already is redundant
			a := s.propose(c)
			if a.Err == nil {
				break
			}
			if a.Status == meta.Rejected {
				t.Fatalf("begin with %+v: %v", c, a.Err)
			}
		}
	}
}

// sessions makes all that work.
func (r *round) sessions(t testing.TB, run func(s *session, step func())) {
	for i := range 2 * nodeIDs {
		a := &actor{session: r.newSession(1+i, r.connect(t, i)), node: uint64(1 + i%nodeIDs), streams: map[uint64]*meta.Stream{}, nodes: map[uint64]meta.Node{}}
		run(a.session, a.step)
	}
	for i := range 5 {
		w := &keyWriter{session: r.newSession(1+2*nodeIDs+i, r.connect(t, i)), versions: map[string]uint64{}}
		run(w.session, w.step)
	}
}

// harm lets faults happen, one or two at a time, and after each waits until there was progress again. It reports false
// where there is none any more.
func (r *round) harm(t testing.TB, rng *rand.Rand, count int) (lively bool) {
	var deck []fault
	draw := func() fault {
		if len(deck) == 0 {
			deck = r.faults()
			rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := deck[0]
		deck = deck[1:]
		r.account.faults[f.name]++
		return f
	}
	lively = r.progress(t, 100)
	for n := 0; n < count && lively; n++ {
		first := draw()
		ends := []func(){first.begin(t, r, rng)}
		if rng.IntN(4) == 0 {
			if second := draw(); !slices.Contains(outages, first.name) || !slices.Contains(outages, second.name) {
				ends = append(ends, second.begin(t, r, rng))
				n++
			} else {
				r.account.faults[second.name]--
			}
		}
		r.endure(time.Duration(50+rng.IntN(600))*time.Millisecond, rng.IntN(3) == 0)
		for _, end := range slices.Backward(ends) {
			end()
		}
		lively = r.progress(t, 30)
	}
	return lively
}

// endure lets a fault last for a while. A long one lasts until the log has gone on so far that whoever was cut off meets
// a truncated log, if there is anybody to write it.
func (r *round) endure(while time.Duration, long bool) {
	goal := r.witness.next() + r.behind
	<-time.After(while)
	if long {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = r.witness.await(ctx, goal)
	}
}

// stuck is how long nothing happens before a round is given up. It is far more than a slow machine needs.
const stuck = 2 * time.Minute

// progress waits until some more calls were answered.
func (r *round) progress(t testing.TB, n uint64) bool {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(stuck)
	for goal := r.answers.Load() + n; r.answers.Load() < goal; {
		select {
		case <-tick.C:
		case <-deadline:
			r.report(t)
			t.Errorf("no call is answered any more (seed %d)", r.seed)
			return false
		}
	}
	return true
}

// report shows the last words of all daemons.
func (r *round) report(t testing.TB) {
	for _, d := range r.daemons {
		lines := strings.Split(string(d.said()), "\n")
		t.Logf("%s: %s", d.name, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
}

// recover has all faults end, and waits until all daemons are ready and have the same state, and take commands. It
// reports false where that does not come.
func (r *round) recover(t testing.TB) bool {
	begin := time.Now()
	for _, d := range r.daemons {
		d.start() // whatever does not run
	}
	if !r.agree(t) {
		return false
	}
	r.account.recovery = time.Since(begin)
	if r.account.recovery > recoveryBound && soaking(t) > 0 {
		t.Errorf("everybody was ready only %v after the faults had ended", r.account.recovery)
	}
	for i, d := range r.daemons {
		s := r.newSession(200+i, r.open(t, d.front.Addr()))
		var a meta.Answer
		for begin := time.Now(); a.Status != meta.Applied && time.Since(begin) < stuck; { // a session may give up early
			a = s.propose(meta.PutKey{Key: "end/" + d.name, Value: fmt.Append(nil, time.Since(begin))})
		}
		if a.Status != meta.Applied {
			t.Errorf("%s does not take commands after the faults: %v", d.name, a.Err)
		}
		raise(&r.highest, s.client.Seen().Index)
		_, _ = s.read(history.Linearizable, history.Read{Keys: "end/"})
	}
	return r.agree(t)
}

// agree waits until all daemons are ready at the same index, and holds their digests against each other.
func (r *round) agree(t testing.TB) bool {
	t.Helper()
	var clients []*client.Client
	for _, d := range r.daemons {
		clients = append(clients, r.open(t, d.front.Addr()))
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(stuck); ; {
		all, err := statuses(clients)
		if err == nil && !slices.ContainsFunc(all, func(s client.Status) bool {
			return s.Condition != string(headwater.Ready) || s.AppliedIndex != all[0].AppliedIndex || s.DatabaseError != ""
		}) {
			for i, s := range all {
				if s.Digest != all[0].Digest {
					t.Errorf("at %d %s has digest %s, %s has %s", s.AppliedIndex, r.daemons[i].name, s.Digest, r.daemons[0].name, all[0].Digest)
				}
			}
			raise(&r.highest, all[0].AppliedIndex)
			return true
		}
		select {
		case <-tick.C:
		case <-deadline:
			r.report(t)
			t.Errorf("the daemons do not agree (seed %d): %v, %+v", r.seed, err, all)
			return false
		}
	}
}

func statuses(clients []*client.Client) (all []client.Status, err error) {
	for _, c := range clients {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		s, bad := c.Status(ctx)
		cancel()
		all, err = append(all, s), errors.Join(err, bad)
	}
	return all, err
}

// sample records again and again which digest a daemon shows at which index.
func (r *round) sample(ctx context.Context, d *daemon, number int) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var c *client.Client
	for {
		select {
		case <-ctx.Done():
			if c != nil {
				_ = c.Close()
			}
			return
		case <-tick.C:
		}
		within, cancel := context.WithTimeout(ctx, time.Second)
		if c == nil {
			if opened, err := client.Open(within, client.Options{Endpoints: []string{d.front.Addr()}}); err == nil {
				c = opened
			}
		}
		if c != nil {
			id := r.recorder.Call(number, nil, &history.Read{Freshness: history.Local, Status: true})
			s, err := c.Status(within)
			seen := meta.ClusterRecord{Index: s.AppliedIndex}
			digest, bad := hex.DecodeString(s.Digest)
			copy(seen.Digest[:], digest)
			r.recorder.ReturnRead(id, s.AppliedIndex, s.Incarnation, []meta.Record{seen}, errors.Join(err, bad))
		}
		cancel()
	}
}

// judge ends the watching and checks the history, once the witness has seen all of it. Of a round that was given up it
// checks what there is.
func (r *round) judge(t testing.TB, lively bool, stopWatching func()) {
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	defer cancel()
	if lively {
		if err := r.witness.await(ctx, r.highest.Load()); err != nil {
			t.Errorf("the log: %v", err)
		}
	}
	stopWatching()
	rows, err := r.witness.compare(ctx)
	if err != nil {
		t.Errorf("the log: %v", err)
	}
	r.inspect(ctx, t)
	for _, d := range r.daemons {
		d.kill()
		for _, c := range d.complaints() {
			t.Errorf("%s %s", d.name, c)
		}
		r.account.restarts += d.starts - 1
	}
	h := &history.History{Seed: r.seed, Ops: r.recorder.Ops(), Rows: rows}
	r.account.report = history.Check(h, 2*time.Minute)
	r.account.unavailable = longestSilence(h.Ops)
	for _, f := range r.account.report.Faults {
		t.Errorf("history: %s", f)
	}
	for _, u := range r.account.report.Undecided {
		t.Errorf("history: there was not time enough to decide %s", u)
	}
	if t.Failed() {
		keepHistory(t, h, r.account.report)
	}
}

// inspect checks what is left of the log offline.
func (r *round) inspect(ctx context.Context, t testing.TB) {
	log, err := r.db.open(ctx)
	if err != nil {
		t.Errorf("open the log at the end: %v", err)
		return
	}
	defer log.Close()
	report, err := headwater.Check(ctx, log, nil)
	if err != nil || !report.OK() {
		t.Errorf("check the log at the end: %v, faults %q", err, report.Faults)
	}
	r.account.truncated = report.OldestIndex
}

// longestSilence is the longest time between two commands that were answered, whoever had proposed them.
func longestSilence(ops []history.Op) (longest time.Duration) {
	var returns []time.Duration
	for i := range ops {
		if ops[i].Command != nil && ops[i].Outcome == history.Answered {
			returns = append(returns, ops[i].Return)
		}
	}
	slices.Sort(returns)
	for i := 1; i < len(returns); i++ {
		longest = max(longest, returns[i]-returns[i-1])
	}
	return longest
}

func port(address string) string {
	_, p, err := net.SplitHostPort(address)
	if err != nil {
		panic(err) // of a listener
	}
	return p
}
