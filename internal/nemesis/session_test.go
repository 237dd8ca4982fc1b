//go:build unix

package nemesis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/internal/history"
	"github.com/headwaterdb/headwater/meta"
)

// session is one client: it makes one call after the other, and all are recorded.
type session struct {
	*round
	number int
	rng    *rand.Rand
	client *client.Client
	// Some commands carry a request of the session's own, with which it asks again where the outcome is unknown.
	own   meta.Request
	known bool // to the cluster, by the client of own
}

// patience draws how long a session waits for the end of one call: sometimes so short that it often gives up.
func (s *session) patience() time.Duration {
	if s.rng.IntN(8) == 0 {
		return time.Duration(5+s.rng.IntN(100)) * time.Millisecond
	}
	return 4 * time.Second
}

// newSession makes a session that calls through c.
func (r *round) newSession(number int, c *client.Client) *session {
	s := &session{round: r, number: number, rng: rand.New(rand.NewPCG(r.seed, uint64(number)+1)), client: c}
	for i := range s.own.Client {
		s.own.Client[i] = byte(s.rng.Uint32())
	}
	return s
}

// connect opens a client that begins with the daemon of this number and goes on with the others. It is closed when the
// test ends.
func (r *round) connect(t testing.TB, number int) *client.Client {
	t.Helper()
	var endpoints []string
	for i := range r.daemons {
		endpoints = append(endpoints, r.daemons[(i+number)%len(r.daemons)].front.Addr())
	}
	return r.open(t, endpoints...)
}

// open opens a client once one of the endpoints answers.
func (r *round) open(t testing.TB, endpoints ...string) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		c, err := client.Open(ctx, client.Options{Endpoints: endpoints, AttemptTimeout: time.Second})
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		if ctx.Err() != nil {
			r.report(t)
			t.Fatalf("no daemon can be reached: %v", err)
		}
		<-pause.C
	}
}

// propose proposes a command and records it.
func (s *session) propose(c meta.Command) meta.Answer {
	s.keepPace()
	ctx, cancel := context.WithTimeout(context.Background(), s.patience())
	defer cancel()
	id := s.recorder.Call(s.number, c, nil)
	p := meta.Proposal{Stamp: int64(id), Command: c}
	_, renew := c.(meta.RenewNode)
	if !renew && s.rng.IntN(4) == 0 {
		s.own.Sequence++
		if s.own.Oldest = s.own.Sequence; !s.known {
			s.own.Oldest = 1
		}
		request := s.own
		p.Request = &request
	}
	a := s.client.Propose(ctx, p)[0]
	for range 2 {
		if p.Request == nil || !errors.Is(a.Err, meta.ErrOutcomeUnknown) {
			break
		}
		again, cancel := context.WithTimeout(context.Background(), s.patience())
		a = s.client.Propose(again, p)[0]
		if errors.Is(a.Err, meta.ErrNotApplied) { // this time: the first may be
			a.Err = fmt.Errorf("%w: %w", meta.ErrOutcomeUnknown, a.Err)
		}
		cancel()
	}
	s.recorder.Return(id, a)
	s.known = s.known || p.Request != nil && a.Status != 0
	s.count(a)
	return a
}

// count keeps the round's account of calls.
func (r *round) count(a meta.Answer) {
	r.calls.Add(1)
	if a.Status != 0 {
		r.answers.Add(1)
		raise(&r.highest, a.Index)
	}
}

// raise makes at least n of a.
func raise(a *atomic.Uint64, n uint64) {
	for {
		was := a.Load()
		if was >= n || a.CompareAndSwap(was, n) {
			return
		}
	}
}

// freshness draws one.
func (s *session) freshness() history.Freshness {
	return []history.Freshness{history.Linearizable, history.Linearizable, history.AtLeast, history.Local}[s.rng.IntN(4)]
}

// read asks, with whatever view the freshness allows, and records it.
func (s *session) read(fresh history.Freshness, q history.Read) ([]meta.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience())
	defer cancel()
	q.Freshness = fresh
	var read client.Read
	switch fresh {
	case history.Local:
		read.Local = true
	case history.Linearizable:
		read.Linearizable = true
	case history.AtLeast:
		if q.AtLeast = s.client.Seen().Index; s.rng.IntN(2) == 0 { // what another session was told
			q.AtLeast = max(q.AtLeast, s.highest.Load())
			read.AtLeast = q.AtLeast
		}
	}
	id := s.recorder.Call(s.number, nil, &q)
	got, at, err := ask(ctx, s.client.Reading(read), q)
	s.recorder.ReturnRead(id, at.Index, at.Incarnation, got, err)
	s.calls.Add(1)
	if err == nil {
		s.answers.Add(1)
	}
	return got, err
}

func ask(ctx context.Context, r client.Reader, q history.Read) ([]meta.Record, client.At, error) {
	switch {
	case q.Keys != "":
		page, err := r.Keys(ctx, q.Keys, "", meta.MaxPage)
		return records(page.Items), page.At, err
	case q.Streams != "":
		page, err := r.StreamsByName(ctx, q.Streams, "", meta.MaxPage)
		return records(page.Items), page.At, err
	case q.Slices != 0:
		found, at, err := r.FindObjects(ctx, q.Slices, 0, 0, meta.MaxPage)
		return history.Found(found), at, err
	}
	page, err := r.Nodes(ctx, "", meta.MaxPage)
	return records(page.Items), page.At, err
}

func records[R meta.Record](items []R) (out []meta.Record) {
	for _, i := range items {
		out = append(out, i)
	}
	return out
}

// work does one thing after the other until ctx ends.
func (s *session) work(ctx context.Context, step func()) {
	for ctx.Err() == nil {
		step()
	}
}

// keepPace waits for the witness where it falls behind: rows could be truncated before it has seen them.
func (s *session) keepPace() {
	half := uint64(s.keep) / 2
	if seen := s.client.Seen().Index; seen > half {
		ctx, cancel := context.WithTimeout(context.Background(), stuck)
		defer cancel()
		_ = s.witness.await(ctx, seen-half)
	}
}

// keyWriter writes and reads keys, two of which make a group.
type keyWriter struct {
	*session
	versions map[string]uint64 // as last heard of
	wrote    int
}

// keyGroups are how many groups of keys all sessions share.
const keyGroups = 5

func (w *keyWriter) step() {
	group := fmt.Sprintf("g%d-%d/", w.rng.IntN(keyGroups), w.generation())
	key := group + []string{"a", "b"}[w.rng.IntN(2)]
	switch n := w.rng.IntN(20); {
	case n < 6:
		w.hear(w.read(w.freshness(), history.Read{Keys: group}))
	case n < 10:
		w.put(meta.PutKey{Key: key, Value: w.value()})
	case n < 12:
		w.put(meta.PutKey{Key: key, Value: w.value(), IfAbsent: true})
	case n < 16 && w.versions[key] != 0:
		w.put(meta.PutKey{Key: key, Value: w.value(), IfVersion: w.versions[key]})
	case n < 17 && w.versions[key] != 0:
		w.propose(meta.DeleteKey{Key: key, IfVersion: w.versions[key]})
	case n < 18:
		w.propose(meta.DeleteKey{Key: key})
	default:
		w.swap(group)
	}
}

// generation changes now and then, so that no group grows too long for its check.
func (w *keyWriter) generation() int { return int(w.highest.Load() / 600) }

func (w *keyWriter) value() []byte {
	w.wrote++
	return fmt.Appendf(nil, "%d.%d", w.number, w.wrote)
}

func (w *keyWriter) put(c meta.PutKey) {
	a := w.propose(c)
	if r, ok := a.Result.(meta.PutKeyResult); ok {
		w.versions[c.Key] = r.Version
	}
	if e := (*meta.Error)(nil); errors.As(a.Err, &e) && e.Current != nil {
		w.versions[c.Key] = e.Current.Version
	}
}

// swap writes both keys of a group if one is as last heard of.
func (w *keyWriter) swap(group string) {
	a, b := group+"a", group+"b"
	check := meta.CheckKey{Key: a, IfVersion: w.versions[a], IfAbsent: w.versions[a] == 0}
	w.propose(meta.Atomic{Commands: []meta.Command{check, meta.PutKey{Key: b, Value: w.value()}, meta.PutKey{Key: a, Value: w.value()}}})
}

func (w *keyWriter) hear(got []meta.Record, err error) {
	for _, r := range got {
		if k, ok := r.(meta.Key); ok && err == nil {
			w.versions[k.Key] = k.Version
		}
	}
}
