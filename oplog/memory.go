package oplog

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
)

// Memory is a database in memory that holds one log. It keeps the contract to the letter, loses everything when the
// process ends, and never answers ErrUnknown. It is for tests and for programs that need no more. All methods may be
// called at once from many goroutines.
type Memory struct {
	mu       sync.Mutex // guards the rest
	exists   bool
	rows     []Row // ascending by index; the payloads are never changed
	snapshot *memorySnapshot
	grown    chan struct{} // closed and replaced whenever a row was added
}

type memorySnapshot struct {
	info  SnapshotInfo
	parts [][]byte // never changed after Commit
}

// NewMemory returns an empty database: no cluster lives there until Init.
func NewMemory() *Memory { return &Memory{grown: make(chan struct{})} }

// Open returns a log kept in m. Several logs on one Memory are to each other as logs of several processes on one
// database; closing one leaves the others and the rows alone.
func (m *Memory) Open() Log { return &memoryLog{db: m, closed: make(chan struct{})} }

// Put places payload at index, whatever is there, as somebody with access to the tables could. It is for tests of
// damage and of high indexes. The payload is copied.
func (m *Memory) Put(index Index, payload []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exists = true
	row := Row{index, bytes.Clone(payload)}
	if i, found := m.find(index); found {
		m.rows[i] = row
	} else {
		m.rows = slices.Insert(m.rows, i, row)
	}
	m.wake()
}

// Drop removes the row at index, if it is there, as somebody with access to the tables could. It is for tests.
func (m *Memory) Drop(index Index) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i, found := m.find(index); found {
		m.rows = slices.Delete(m.rows, i, i+1)
	}
}

// find returns the position of the first row at or above index, and whether it is at index. It needs the lock.
func (m *Memory) find(index Index) (int, bool) {
	return slices.BinarySearchFunc(m.rows, index, func(r Row, i Index) int {
		switch {
		case r.Index < i:
			return -1
		case r.Index > i:
			return 1
		}
		return 0
	})
}

// newest returns the index of the newest row, and false where there is none. It needs the lock.
func (m *Memory) newest() (Index, bool) {
	if len(m.rows) == 0 {
		return 0, false
	}
	return m.rows[len(m.rows)-1].Index, true
}

// ends reports whether the log ends with a row at index that ends with mark. It needs the lock.
func (m *Memory) ends(index Index, mark []byte) bool {
	newest, ok := m.newest()
	return ok && newest == index && m.has(index, mark)
}

// has reports whether there is a row at index that ends with mark. It needs the lock.
func (m *Memory) has(index Index, mark []byte) bool {
	i, found := m.find(index)
	return found && bytes.HasSuffix(m.rows[i].Payload, mark)
}

// wake tells every waiter that the log has grown. It needs the lock.
func (m *Memory) wake() {
	close(m.grown)
	m.grown = make(chan struct{})
}

// memoryLog is one handle on a Memory. It has nothing of its own but the end of its life.
type memoryLog struct {
	db     *Memory
	close  sync.Once
	closed chan struct{}
}

// begin says why an operation must not start: the handle is closed or ctx has ended.
func (l *memoryLog) begin(ctx context.Context, verb string) error {
	select {
	case <-l.closed:
		return fmt.Errorf("%s: %w", verb, ErrClosed)
	default:
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// beginWrite is begin for what writes: it also vouches that nothing was changed.
func (l *memoryLog) beginWrite(ctx context.Context, verb string) error {
	err := l.begin(ctx, verb)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: not started: %w", err, ErrUnavailable)
	}
	return err
}

func (l *memoryLog) Init(ctx context.Context, genesis []byte) error {
	if err := l.beginWrite(ctx, "init"); err != nil {
		return err
	}
	m := l.db
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(genesis) > MaxPayload {
		return fmt.Errorf("init: genesis of %d bytes, at most %d are allowed: %w", len(genesis), MaxPayload, ErrTooLarge)
	}
	if len(m.rows) > 0 || m.snapshot != nil {
		return fmt.Errorf("init: %w", ErrExists)
	}
	m.exists = true
	m.rows = []Row{{0, bytes.Clone(genesis)}}
	m.wake()
	return nil
}

func (l *memoryLog) Append(ctx context.Context, at Index, mark, payload []byte) error {
	if err := l.beginWrite(ctx, "append"); err != nil {
		return err
	}
	if err := CheckAppend(at, len(payload), 0); err != nil {
		return err
	}
	m := l.db
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.exists {
		return fmt.Errorf("append row %d: %w", at, ErrNoCluster)
	}
	if !m.ends(at-1, mark) {
		return fmt.Errorf("append row %d: %w", at, ErrConflict)
	}
	m.rows = append(m.rows, Row{at, bytes.Clone(payload)})
	m.wake()
	return nil
}

func (l *memoryLog) Leap(ctx context.Context, from, to Index, mark, payload []byte) error {
	if err := l.beginWrite(ctx, "leap"); err != nil {
		return err
	}
	if err := CheckLeap(from, to, len(payload), 0); err != nil {
		return err
	}
	m := l.db
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ends(from, mark) {
		return fmt.Errorf("leap from row %d to %d: %w", from, to, ErrConflict)
	}
	m.rows = append(m.rows, Row{to, bytes.Clone(payload)})
	m.wake()
	return nil
}

func (l *memoryLog) Read(ctx context.Context, after Index, maxBytes int) ([]Row, error) {
	if err := l.begin(ctx, "read"); err != nil {
		return nil, err
	}
	m := l.db
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.exists {
		return nil, fmt.Errorf("read rows after %d: %w", after, ErrNoCluster)
	}
	i, found := m.find(after)
	switch {
	case after == Beginning:
		i = 0
	case found:
		i++
	}
	var rows []Row
	size := 0
	for ; i < len(m.rows) && len(rows) < MaxRead; i++ {
		if size += len(m.rows[i].Payload); size > maxBytes && len(rows) > 0 {
			break
		}
		rows = append(rows, Row{m.rows[i].Index, bytes.Clone(m.rows[i].Payload)})
	}
	return rows, nil
}

func (l *memoryLog) Newest(ctx context.Context) (Index, error) {
	if err := l.begin(ctx, "look for the newest row"); err != nil {
		return 0, err
	}
	m := l.db
	m.mu.Lock()
	defer m.mu.Unlock()
	newest, ok := m.newest()
	if !ok {
		return 0, fmt.Errorf("look for the newest row: %w", ErrNoCluster)
	}
	return newest, nil
}

func (l *memoryLog) Bounds(ctx context.Context) (Bounds, error) {
	if err := l.begin(ctx, "look at the bounds"); err != nil {
		return Bounds{}, err
	}
	m := l.db
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.rows) == 0 && m.snapshot == nil {
		return Bounds{}, fmt.Errorf("look at the bounds: %w", ErrNoCluster)
	}
	b := Bounds{Empty: len(m.rows) == 0, Authoritative: true}
	if !b.Empty {
		b.Oldest = m.rows[0].Index
		newest := m.rows[len(m.rows)-1]
		b.Newest, b.Mark = newest.Index, bytes.Clone(Mark(newest.Payload))
	}
	if m.snapshot != nil {
		b.Snapshot = m.snapshot.info
	}
	return b, nil
}

func (l *memoryLog) Wait(ctx context.Context, after Index) error {
	for {
		if err := l.begin(ctx, "wait"); err != nil {
			return err
		}
		l.db.mu.Lock()
		newest, ok := l.db.newest()
		grown := l.db.grown
		l.db.mu.Unlock()
		if ok && (after == Beginning || newest > after) {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
		case <-l.closed:
		}
	}
}

func (l *memoryLog) Truncate(ctx context.Context, below Index, limit int) (int, error) {
	if err := l.beginWrite(ctx, "truncate"); err != nil {
		return 0, err
	}
	m := l.db
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.exists {
		return 0, fmt.Errorf("truncate: %w", ErrNoCluster)
	}
	if m.snapshot == nil || limit <= 0 {
		return 0, nil
	}
	newest, _ := m.newest()
	n, _ := m.find(min(below, m.snapshot.info.Index+1, newest))
	n = min(n, limit)
	m.rows = slices.Delete(m.rows, 0, n)
	return n, nil
}

func (l *memoryLog) Info() Info { return Info{Backend: "memory", Location: "memory"} }

func (l *memoryLog) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryLog) CreateSnapshot(ctx context.Context, at Index, mark []byte) (SnapshotWriter, error) {
	if err := l.begin(ctx, "create a snapshot"); err != nil {
		return nil, err
	}
	if at > MaxIndex {
		return nil, fmt.Errorf("create a snapshot at %d: %w", at, ErrExhausted)
	}
	return &memoryWriter{log: l, mark: mark, s: memorySnapshot{info: SnapshotInfo{Index: at}}}, nil
}

func (l *memoryLog) OpenSnapshot(ctx context.Context) (SnapshotReader, error) {
	if err := l.begin(ctx, "open the snapshot"); err != nil {
		return nil, err
	}
	l.db.mu.Lock()
	defer l.db.mu.Unlock()
	if !l.db.exists {
		return nil, fmt.Errorf("open the snapshot: %w", ErrNoCluster)
	}
	if l.db.snapshot == nil {
		return nil, fmt.Errorf("open the snapshot: %w", ErrNoSnapshot)
	}
	return &memoryReader{log: l, s: l.db.snapshot}, nil
}

// memoryWriter gathers parts where nobody sees them: a writer that is forgotten leaves nothing behind.
type memoryWriter struct {
	log       *memoryLog
	mark      []byte
	s         memorySnapshot
	committed bool
}

func (w *memoryWriter) WritePart(ctx context.Context, part []byte) error {
	if err := w.log.beginWrite(ctx, "write a snapshot part"); err != nil {
		return err
	}
	if err := CheckPart(len(part)); err != nil {
		return err
	}
	if w.committed {
		return fmt.Errorf("write a snapshot part: the snapshot at %d is committed already: %w", w.s.info.Index, ErrConflict)
	}
	w.s.parts = append(w.s.parts, bytes.Clone(part))
	w.s.info.Parts++
	w.s.info.Size += int64(len(part))
	return nil
}

func (w *memoryWriter) Commit(ctx context.Context) error {
	if err := w.log.beginWrite(ctx, "commit the snapshot"); err != nil {
		return err
	}
	if w.s.info.Parts == 0 {
		return fmt.Errorf("commit the snapshot at %d: no part was written: %w", w.s.info.Index, ErrConflict)
	}
	if w.committed {
		return nil
	}
	m := w.log.db
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.exists {
		return fmt.Errorf("commit the snapshot at %d: %w", w.s.info.Index, ErrNoCluster)
	}
	if m.snapshot != nil && m.snapshot.info.Index >= w.s.info.Index {
		return fmt.Errorf("commit the snapshot at %d over the one at %d: %w", w.s.info.Index, m.snapshot.info.Index, ErrConflict)
	}
	if len(m.rows) > 0 && !m.has(w.s.info.Index, w.mark) {
		return fmt.Errorf("commit the snapshot at %d: the log has no such row: %w", w.s.info.Index, ErrConflict)
	}
	m.snapshot, w.committed = &w.s, true
	return nil
}

func (w *memoryWriter) Abort(ctx context.Context) error {
	if err := w.log.beginWrite(ctx, "abort the snapshot"); err != nil {
		return err
	}
	if !w.committed {
		w.s = memorySnapshot{info: SnapshotInfo{Index: w.s.info.Index}}
	}
	return nil
}

type memoryReader struct {
	log *memoryLog
	s   *memorySnapshot
}

func (r *memoryReader) Info() SnapshotInfo { return r.s.info }

func (r *memoryReader) ReadPart(ctx context.Context, i int) ([]byte, error) {
	if err := r.log.begin(ctx, "read a snapshot part"); err != nil {
		return nil, err
	}
	if i < 0 || i >= len(r.s.parts) {
		return nil, fmt.Errorf("read part %d of a snapshot of %d parts: %w", i, len(r.s.parts), ErrNoSnapshot)
	}
	r.log.db.mu.Lock()
	defer r.log.db.mu.Unlock()
	if r.log.db.snapshot != r.s {
		return nil, fmt.Errorf("read part %d of the snapshot at %d: %w", i, r.s.info.Index, ErrReplaced)
	}
	return bytes.Clone(r.s.parts[i]), nil
}

func (r *memoryReader) Close() error { return nil }
