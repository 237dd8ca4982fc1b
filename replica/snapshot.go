package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/headwaterdb/headwater/oplog"
)

// The snapshotter. It alone writes snapshots and truncates, and it reads published views only, so that neither
// applying nor reading waits for it.
//
//	due, or asked for → look at what is stored → encode the view into parts, decode them on the side and compare the
//	digest → commit, only over an older one → read the stored parts back and compare → truncate in small batches
//
// A crash, an error or a lost race at any point leaves a log that recovers: until the commit the old snapshot stands
// and no row it does not cover was touched, after it the new one does, and rows go only after the new one has been
// read back. Whoever comes after finishes a truncation that was left unfinished, since it follows from what is stored.
//
// The digest is compared before the commit as well as after it. A snapshot that does not decode would otherwise
// replace one that does, and nothing could be rebuilt from it if it did.
//
// Roads not taken. Encoding in the tailer stalls everybody for as long as it takes. One transaction for all parts
// stalls appends where writers exclude each other. Truncating in the transaction of the commit saves a statement, and
// loses rows where a database commits half of it.

const (
	truncateRows = 256             // rows deleted in one transaction
	snapPart     = 128 << 10       // bytes of a part: an append that waits behind one waits little longer than for another append
	longestPace  = 2 * time.Second // longest pause between two parts, or two deletions, however slow they are
	abortTime    = time.Second     // for dropping the parts of a snapshot that came to nothing
)

// snapCall is one call of Replica.Snapshot.
type snapCall struct {
	index oplog.Index
	err   error
	done  chan struct{}
}

// Snapshot stores a snapshot of the current view now, whatever the interval, verifies it, truncates, and returns its
// index. If one as new is stored already that one's index is returned. When ctx ends the snapshot is made all the same.
func (r *Replica[S, R]) Snapshot(ctx context.Context) (oplog.Index, error) {
	c, err := r.table.force()
	if err == nil {
		signal(r.wakeSnapshotter)
		switch {
		case !r.o.World.Wait(ctx, time.Time{}, c.done, r.stopped):
			err = ctx.Err()
		case over(c.done):
			err = c.err
		default:
			err = r.table.endedBy()
		}
	}
	if err != nil {
		return 0, fmt.Errorf("take a snapshot: %w", err)
	}
	return c.index, nil
}

// snapshots is the snapshotter's goroutine.
func (r *Replica[S, R]) snapshots(ctx context.Context, retry *retrier) {
	s := snapshotter[S, R]{r: r}
	var again time.Time // the next try of what failed; zero: nothing did
	failures := 0
	for {
		r.o.World.Wait(ctx, again, r.wakeSnapshotter, r.stopped)
		if ctx.Err() != nil || over(r.stopped) {
			return
		}
		calls := r.table.takeForced()
		if len(calls) == 0 && r.o.World.Now().Before(again) {
			continue // every row finds a snapshot due, and none of them is to begin one that failed anew
		}
		index, err := s.cycle(ctx, len(calls) > 0)
		if ctx.Err() == nil {
			r.table.database("snapshot", err) // first, so that whoever is told of it finds it in the status
		}
		for _, c := range calls {
			c.index, c.err = index, err
			close(c.done)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures, again = 0, time.Time{}
			continue
		}
		pause := retry.pauses.after(failures, retry.chance)
		retry.events.retry("snapshot", err, pause)
		failures++
		again = r.o.World.Now().Add(pause)
	}
}

// snapshotter is what the snapshotter remembers from one cycle to the next.
type snapshotter[S, R any] struct {
	r        *Replica[S, R]
	verified oplog.Index // index of the newest stored snapshot that was read back and found whole
}

// cycle takes a snapshot where one is due or forced, and truncates what the stored one allows. It returns the index
// of the stored snapshot.
func (s *snapshotter[S, R]) cycle(ctx context.Context, force bool) (oplog.Index, error) {
	r := s.r
	bounds, err := r.log.Bounds(ctx)
	if err != nil {
		return 0, fmt.Errorf("look at the log: %w", err)
	}
	due := r.table.stored(bounds.Snapshot)
	view := r.View()
	stored := bounds.Snapshot.Index
	if (due || force) && view.Index > stored {
		start := r.o.World.Now()
		size, failed := s.store(ctx, view)
		if failed == nil || !isConflict(failed) {
			r.o.Events.snapshot(view.Index, size, r.o.World.Now().Sub(start), failed)
		}
		if failed == nil || isConflict(failed) {
			if bounds, err = r.log.Bounds(ctx); err != nil {
				return 0, fmt.Errorf("look at the log: %w", err)
			}
			r.table.stored(bounds.Snapshot)
			stored = bounds.Snapshot.Index
		}
		if failed != nil && stored < view.Index { // else somebody was faster, and the stored one is as good
			return 0, fmt.Errorf("store the snapshot at index %d: %w", view.Index, failed)
		}
	}
	return stored, s.truncate(ctx, bounds)
}

// store encodes the view, commits it as the snapshot and reads it back.
func (s *snapshotter[S, R]) store(ctx context.Context, view *View[S]) (size int64, err error) {
	r := s.r
	w, err := r.log.CreateSnapshot(ctx, view.Index, mark(view.row))
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			cleanup, cancel := r.o.World.Timeout(context.WithoutCancel(ctx), abortTime)
			defer cancel()
			w.Abort(cleanup) // what it leaves behind is swept by the next commit
		}
	}()
	pipe, check := io.Pipe()
	checked := make(chan error, 1)
	go func() {
		snap, err := decodeSnapshot(pipe, &r.m)
		if err == nil && snap.Index != view.Index {
			err = fmt.Errorf("%w: decoded index %d", ErrUndecodable, snap.Index)
		}
		pipe.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		checked <- err
	}()
	guest := s.guest(ctx)
	parts := &partWriter{guest: guest, w: w, most: partBytes(r.log.Info()), sum: xxh3.New()}
	err = encodeSnapshot(io.MultiWriter(parts, check), &r.m, r.genesis, view)
	check.CloseWithError(err) // nil: the end of the stream
	if bad := <-checked; err == nil || errors.Is(err, io.ErrClosedPipe) {
		err = bad
	}
	if err == nil {
		err = parts.flush()
	}
	if err != nil {
		return 0, err
	}
	if err := commit(ctx, w); err != nil {
		return 0, err
	}
	return parts.size, s.readBack(ctx, view.Index, parts, guest)
}

// commit commits, once more where the first attempt did not say whether it did.
func commit(ctx context.Context, w oplog.SnapshotWriter) error {
	err := w.Commit(ctx)
	if errors.Is(err, oplog.ErrUnknown) {
		err = w.Commit(ctx)
	}
	return err
}

// readBack compares what is stored with what was written, by its checksum: the same bytes decode to the same state,
// and these were decoded before they were committed.
func (s *snapshotter[S, R]) readBack(ctx context.Context, at oplog.Index, wrote *partWriter, guest *guest) error {
	stored, err := s.r.log.OpenSnapshot(ctx)
	if err != nil {
		return fmt.Errorf("open it to read it back: %w", err)
	}
	defer stored.Close()
	if stored.Info().Index > at {
		return nil // replaced already by a newer one, which is its writer's to check
	}
	sum := xxh3.New()
	size, err := io.Copy(sum, &partReader{ctx: ctx, r: stored, guest: guest})
	switch {
	case errors.Is(err, oplog.ErrReplaced):
		return nil
	case err != nil:
		return fmt.Errorf("read it back: %w", err)
	case size != wrote.size || sum.Sum64() != wrote.sum.Sum64():
		return fmt.Errorf("%w: %d bytes were written and other %d bytes are stored", ErrUndecodable, wrote.size, size)
	}
	s.verified = at
	return nil
}

// truncate deletes the rows that the stored snapshot and KeepRows allow to delete, in small batches. Where this node
// has not read the stored snapshot back itself, it does so first: rows must never go on the word of others.
func (s *snapshotter[S, R]) truncate(ctx context.Context, b oplog.Bounds) error {
	r := s.r
	below := min(retired(b.Snapshot.Index, r.o.KeepRows), b.Newest)
	if b.Snapshot.Parts == 0 || b.Empty || b.Oldest >= below {
		return nil
	}
	if s.verified < b.Snapshot.Index {
		snap, err := LoadSnapshot(ctx, r.log, r.m)
		if err != nil {
			return fmt.Errorf("read the snapshot back before truncating: %w", err)
		}
		if s.verified = max(s.verified, snap.Index); s.verified < b.Snapshot.Index {
			return fmt.Errorf("read the snapshot back before truncating: the one at index %d is stored and a read shows the one at %d: "+
				"it lags behind", b.Snapshot.Index, snap.Index)
		}
	}
	total := 0
	for {
		start := r.o.World.Now()
		n, err := r.log.Truncate(ctx, below, truncateRows)
		if err != nil {
			return fmt.Errorf("truncate below index %d: %w", below, err)
		}
		if total += n; n == 0 {
			break
		}
		if !r.o.World.sleep(ctx, pace(r.o.World.Now().Sub(start))) {
			return ctx.Err()
		}
	}
	if total > 0 {
		r.o.Events.truncated(below, total)
	}
	return nil
}

// pace returns the pause after something that took that long: four times as long, so that appends get at least four fifths
// of what the database does for this node.
func pace(took time.Duration) time.Duration { return min(4*took, longestPace) }

// guest is long work beside the rows. It comes in pieces and makes way after each.
//
// A snapshot of 10⁷ slices is half a minute of processor time, and of memory read from end to end. Without rests it takes
// half of two cores from the proposals for as long. With them it takes longer by the rests, and the rows that a start has
// to apply on top of it are as many more.
type guest struct {
	ctx   context.Context // lives as long as the one snapshot
	world *World
	index func() oplog.Index // of the newest row that was applied
	seen  oplog.Index        // what that was after the last rest
	since time.Time          // when the last rest ended
}

func (s *snapshotter[S, R]) guest(ctx context.Context) *guest {
	index := func() oplog.Index {
		if v := s.r.View(); v != nil {
			return v.Index
		}
		return 0 // Restore has no view: no rows come
	}
	return &guest{ctx: ctx, world: &s.r.o.World, index: index, seen: index(), since: s.r.o.World.Now()}
}

// rest makes way after a piece of work, of which so much time went to writes of the database: as pace has it for these; and
// where rows came meanwhile, for twice the time of the whole piece. It reports whether to go on.
func (g *guest) rest(writes time.Duration) bool {
	pause := pace(writes)
	if g.index() != g.seen {
		pause = max(pause, min(2*g.world.Now().Sub(g.since), longestPace))
	}
	goOn := g.world.sleep(g.ctx, pause)
	g.seen, g.since = g.index(), g.world.Now()
	return goOn
}

// partWriter cuts a stream into the parts of a snapshot.
type partWriter struct {
	guest *guest // its context is that of the calls that Write makes
	w     oplog.SnapshotWriter
	part  []byte
	most  int // bytes of a part
	sum   *xxh3.Hasher
	size  int64
}

// partBytes is how large the parts of a snapshot are: a database that takes smaller rows takes smaller parts.
func partBytes(info oplog.Info) int {
	if info.MaxPayload > 0 {
		return min(snapPart, info.MaxPayload)
	}
	return snapPart
}

func (p *partWriter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), p.most-len(p.part))
		p.part = append(p.part, rest[:n]...)
		rest = rest[n:]
		if len(p.part) == p.most {
			if err := p.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(b), nil
}

// flush writes the part at hand, and makes way for others.
func (p *partWriter) flush() error {
	if len(p.part) == 0 {
		return nil
	}
	start := p.guest.world.Now()
	if err := p.w.WritePart(p.guest.ctx, p.part); err != nil {
		return err
	}
	wrote := p.guest.world.Now().Sub(start)
	p.sum.Write(p.part)
	p.size += int64(len(p.part))
	full := len(p.part) == p.most
	p.part = p.part[:0]
	if full && !p.guest.rest(wrote) {
		return p.guest.ctx.Err()
	}
	return nil
}

// force notes a call of Snapshot for the snapshotter's next cycle.
func (t *table[R]) force() (*snapCall, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return nil, t.ended
	}
	c := &snapCall{done: make(chan struct{})}
	t.forced = append(t.forced, c)
	return c, nil
}

// takeForced takes those calls. The view that answers them is loaded after it.
func (t *table[R]) takeForced() []*snapCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := t.forced
	t.forced = nil
	return calls
}
