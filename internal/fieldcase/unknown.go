package fieldcase

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
	"github.com/headwaterdb/headwater/meta"
)

// expiring is a context whose deadline is over when done is closed.
type expiring struct {
	context.Context
	done <-chan struct{}
}

// Done is context.Context's.
func (e expiring) Done() <-chan struct{} { return e.done }

// Err is context.Context's.
func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// impatient returns a context that ends when the server has the statement and its answer is held; at full size, 50 ms
// from now.
func impatient(sprung <-chan struct{}) (context.Context, context.CancelFunc) {
	if full() {
		return context.WithTimeout(context.Background(), 50*time.Millisecond)
	}
	over, leave := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-sprung:
			close(over)
		case <-leave:
		}
	}()
	return expiring{context.Background(), over}, sync.OnceFunc(func() { close(leave) })
}

// DeadlineBeforeAnswer is field case 01.1: the server has committed a row, and the deadline of its proposal is over before
// the answer arrives. It makes 8 proposals, or 200 whose answers are 300 ms late. In the second half the log's own patience
// is over too, and the connection must never be used again.
func DeadlineBeforeAnswer(t *testing.T, d *Database) {
	s := d.Nodes(t, 1, headwater.Options{})[0]
	mustPut(t, s, "before", "x")
	for i := range size(8, 200) {
		gate := proxy.NewGate()
		trap := d.Proxy.Add(proxy.HoldAnswer(d.insert(), gate))
		r := meta.Request{Client: [16]byte{1}, Sequence: uint64(i + 1), Oldest: uint64(i + 1)}
		p := meta.Proposal{Request: &r, Command: meta.PutKey{Key: fmt.Sprint("k", i), Value: []byte("v"), IfAbsent: true}}
		before := uint64(s.View().Index)
		ctx, cancel := impatient(trap.Sprung())
		first := s.Propose(ctx, p)[0]
		cancel()
		if full() {
			time.AfterFunc(250*time.Millisecond, gate.Open)
			pass(time.Second)
		}
		// The row is there, whatever the caller was told.
		await(t, "the row", func() bool { return d.number(t, "SELECT COUNT(*) FROM %s WHERE idx = %d", d.Log, before+1) == 1 })
		gate.Open()
		var unknown *meta.UnknownError
		switch {
		case first.Err == nil: // the answer was quick enough
		case !errors.As(first.Err, &unknown) || unknown.Request != r:
			t.Fatalf("proposal %d: %v, want an unknown outcome of %v", i, first.Err, r)
		case !errors.Is(first.Err, meta.ErrOutcomeUnknown) || !errors.Is(first.Err, context.DeadlineExceeded) || errors.Is(first.Err, meta.ErrNotApplied):
			t.Errorf("proposal %d: %v, want unknown because of the deadline", i, first.Err)
		case !strings.Contains(first.Err.Error(), fmt.Sprintf("row %d ", before+1)):
			t.Errorf("proposal %d: %v does not name row %d", i, first.Err, before+1)
		}
		again := s.Propose(t.Context(), p)[0]
		if again.Err != nil || again.Status != meta.Redundant || again.FirstIndex != before+1 {
			t.Fatalf("proposal %d again: %+v, want redundant, first at %d", i, again, before+1)
		}
		d.Proxy.Clear()
	}
	effects(t, s, "k", size(8, 200))
	d.Whole(t, []*headwater.Store{s})
}

// effects proves that n keys with a prefix are there, each put once.
func effects(t testing.TB, s *headwater.Store, prefix string, n int) {
	t.Helper()
	done := map[string]int{}
	err := s.ReadLog(t.Context(), 0, 0, func(r headwater.LogRow) error {
		for _, p := range r.Proposals {
			if k, ok := p.Command.(meta.PutKey); ok && strings.HasPrefix(k.Key, prefix) {
				done[k.Key]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		key := fmt.Sprint(prefix, i)
		if _, ok := s.View().State.Key(key); !ok || done[key] == 0 {
			t.Errorf("%s has no effect: %v, in %d rows", key, ok, done[key])
		}
	}
}

// TimedOutConnection is the other half of field case 01.1: an answer that does not come within the log's own patience. The
// outcome is unknown until the row was read, nothing is written twice, and the connection is never used again.
func TimedOutConnection(t *testing.T, d *Database) {
	var mu sync.Mutex
	late := map[int]bool{}  // connections on which an answer was too late
	again := map[int]bool{} // and which ran something after that
	d.Proxy.Add(proxy.Rule{From: proxy.Client, Times: -1, Match: func(m proxy.Message) bool {
		mu.Lock()
		defer mu.Unlock()
		if late[m.Conn] && m.Runs {
			again[m.Conn] = true
		}
		return false
	}})
	s := d.Nodes(t, 1, headwater.Options{})[0]
	mustPut(t, s, "before", "x")
	rounds := size(3, 20)
	gate := proxy.NewGate()
	for i := range rounds {
		d.Proxy.Add(proxy.Rule{From: proxy.Server, Text: d.insert(), Runs: true, Hold: gate, Match: func(m proxy.Message) bool {
			mu.Lock()
			defer mu.Unlock()
			fresh := !late[m.Conn]
			late[m.Conn] = true
			return fresh
		}})
		before := uint64(s.View().Index)
		if a := mustPut(t, s, fmt.Sprint("k", i), "v"); a.Status != meta.Applied || a.Index != before+1 {
			t.Errorf("proposal %d: %+v, want applied at %d", i, a, before+1)
		}
	}
	gate.Open()
	mustPut(t, s, "after", "x")
	mu.Lock()
	if len(late) != rounds || len(again) > 0 {
		t.Errorf("%d connections had a late answer, want %d; %d of them were used again", len(late), rounds, len(again))
	}
	mu.Unlock()
	effects(t, s, "k", rounds)
	d.Whole(t, []*headwater.Store{s})
}

// LostAnswer is field case 01.3: the INSERT has committed and its answer is lost. The node finds its own row at the index
// that it tried, by the token in it, and the proposal ends as if nothing had happened. 5 proposals, or 100.
func LostAnswer(t *testing.T, d *Database) {
	s := d.Nodes(t, 1, headwater.Options{})[0]
	mustPut(t, s, "before", "x")
	rounds := size(5, 100)
	for i := range rounds {
		trap := d.Proxy.Add(proxy.LoseAnswer(d.insert()))
		before := uint64(s.View().Index)
		a := mustPut(t, s, fmt.Sprint("k", i), "v")
		if a.Status != meta.Applied || a.Index != before+1 || trap.Hits() == 0 {
			t.Errorf("proposal %d: %+v with %d answers lost, want applied at %d", i, a, trap.Hits(), before+1)
		}
	}
	tokens := map[string]uint64{}
	err := s.ReadLog(t.Context(), 1, 0, func(r headwater.LogRow) error {
		token := fmt.Sprint(r.Writer, "/", r.Batch)
		if other, twice := tokens[token]; twice || r.Undecodable != "" {
			t.Errorf("rows %d and %d have the same token %s (%s)", other, r.Index, token, r.Undecodable)
		}
		tokens[token] = r.Index
		return nil
	})
	if err != nil || len(tokens) != rounds+1 {
		t.Errorf("%d rows, want %d; %v", len(tokens), rounds+1, err)
	}
	d.Whole(t, []*headwater.Store{s})
}
