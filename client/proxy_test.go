package client_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/meta"
)

// cutter is a TCP proxy that lets a random number of bytes of answers through and then cuts the connection: what the
// server did meanwhile is done, and nobody is told.
type cutter struct {
	l      net.Listener
	target string
	most   int // bytes of answers of one connection
	cuts   atomic.Int64
	off    atomic.Bool // let everything through
	wg     sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	rng  *rand.Rand
	open map[net.Conn]struct{}
	end  bool
}

func cut(t testing.TB, target string, most int, seed uint64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{l: l, target: target, most: most, rng: rand.New(rand.NewPCG(seed, 2)), open: map[net.Conn]struct{}{}}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.end = true
		for c := range p.open {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *cutter) address() string { return p.l.Addr().String() }

func (p *cutter) serve() {
	for {
		down, err := p.l.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.target)
		if err != nil || !p.add(down, up) {
			_ = down.Close()
			continue
		}
		p.mu.Lock()
		through := int64(200 + p.rng.IntN(p.most))
		p.mu.Unlock()
		both := func() { _ = down.Close(); _ = up.Close() }
		p.wg.Go(func() { defer both(); _, _ = io.Copy(up, down) })
		p.wg.Go(func() {
			defer both()
			if n, _ := io.CopyN(down, up, through); n < through {
				return
			}
			if p.off.Load() {
				_, _ = io.Copy(down, up)
				return
			}
			p.cuts.Add(1)
		})
	}
}

func (p *cutter) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.end {
			_ = c.Close()
		}
		p.open[c] = struct{}{}
	}
	return !p.end
}

// TestAnswersThatAreLost sends 10,000 commands through proxies that cut connections in the middle of the answers, to two
// servers on one log: none is lost, and none takes effect twice.
func TestAnswersThatAreLost(t *testing.T) {
	t.Parallel()
	const callers, each = 50, 200
	seed := uint64(time.Now().UnixNano())
	log := newLog(t)
	stores := []*headwater.Store{openStore(t, log), openStore(t, log)}
	var proxies []*cutter
	var endpoints []string
	for i, s := range stores {
		_, addr := serve(t, s)
		p := cut(t, addr, 20_000, seed+uint64(i))
		proxies, endpoints = append(proxies, p), append(endpoints, p.address())
	}
	c := open(t, client.Options{Endpoints: endpoints, Timeout: time.Minute})
	answers := make([][]meta.Answer, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for k := range each {
				key := fmt.Sprintf("%d/%d", i, k)
				// Alone, a second copy of this would be refused: the key is not absent any more.
				answers[i] = append(answers[i], c.Propose(t.Context(), meta.Proposal{Command: meta.Atomic{Commands: []meta.Command{
					meta.CheckKey{Key: key, IfAbsent: true}, meta.PutKey{Key: key, Value: []byte(key)}}}})...)
			}
		})
	}
	wg.Wait()
	cuts := int64(0)
	for _, p := range proxies {
		cuts += p.cuts.Load()
	}
	v, err := stores[0].Linearize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	repeated := 0
	for i := range callers {
		for k, a := range answers[i] {
			key := fmt.Sprintf("%d/%d", i, k)
			stored, ok := v.State.Key(key)
			if a.Err != nil || !ok || stored.Version != a.FirstIndex*256+uint64(a.FirstPosition) {
				t.Fatalf("seed %d: %s: answer %+v, stored %v at version %d", seed, key, a, ok, stored.Version)
			}
			if a.Status == meta.Redundant {
				repeated++
			}
		}
	}
	if n := v.State.Counts().Keys; n != callers*each {
		t.Errorf("seed %d: %d keys of %d commands", seed, n, callers*each)
	}
	if cuts < 20 || repeated == 0 {
		t.Errorf("seed %d: %d cuts, %d commands that were answered by a repeat: the test tests nothing", seed, cuts, repeated)
	}
	t.Logf("%d cuts, %d of %d commands were answered by a repeat", cuts, repeated, callers*each)
}

// TestLogIsResumed reads a log through a proxy that cuts the stream again and again.
func TestLogIsResumed(t *testing.T) {
	t.Parallel()
	const rows = 300
	store := openStore(t, newLog(t))
	for i := range rows {
		if a := store.Propose(t.Context(), meta.Proposal{Command: meta.PutKey{Key: fmt.Sprint(i), Value: make([]byte, 100)}}); a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
	}
	_, addr := serve(t, store)
	p := cut(t, addr, 20_000, 1)
	c := open(t, client.Options{Endpoints: []string{p.address()}})
	next := uint64(0)
	if err := c.ReadLog(t.Context(), 0, 0, func(r client.LogRow) error {
		if r.Index != next || (r.Index > 0) != (len(r.Proposals) == 1) {
			return fmt.Errorf("row %d with %d commands, want %d", r.Index, len(r.Proposals), next)
		}
		next++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if next != rows+1 || p.cuts.Load() == 0 {
		t.Errorf("%d rows, %d cuts", next, p.cuts.Load())
	}
	enough := errors.New("enough")
	n := 0
	if err := c.ReadLog(t.Context(), 10, 0, func(client.LogRow) error { n++; return enough }); !errors.Is(err, enough) || n != 1 {
		t.Errorf("an error of the function: %v after %d rows", err, n)
	}
	n = 0
	if err := c.ReadLog(t.Context(), 10, 250, func(client.LogRow) error { n++; return nil }); err != nil || n != 250 {
		t.Errorf("250 rows: %d, %v", n, err)
	}
	err := c.Export(t.Context(), func(meta.Record) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("export: %v", err)
	}
	p.off.Store(true)
}
