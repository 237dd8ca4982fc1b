package replica

// Inside the package because the step types are not visible from outside: what they decide in cases that a whole
// replica meets only by luck.

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/headwaterdb/headwater/oplog"
)

// chain is a state that remembers which numbers it was given, in order, by a hash.
type chain struct {
	sum   uint64
	count uint64
}

// chainMachine's commands are 8 bytes. Its result is the hash after the command.
func chainMachine() Machine[chain, uint64] {
	return Machine[chain, uint64]{
		Apply: func(s chain, index oplog.Index, commands [][]byte) (chain, []uint64, error) {
			out := make([]uint64, len(commands))
			for i, c := range commands {
				b := binary.LittleEndian.AppendUint64(nil, s.sum)
				b = binary.LittleEndian.AppendUint64(b, uint64(index)<<8|uint64(i))
				s = chain{xxh3.Hash(append(b, c...)), s.count + 1}
				out[i] = s.sum
			}
			return s, out, nil
		},
		Digest: func(s chain) (d Digest) {
			binary.LittleEndian.PutUint64(d[:], s.sum)
			binary.LittleEndian.PutUint64(d[8:], s.count)
			return d
		},
		Encode: func(s chain, w io.Writer) error {
			return binary.Write(w, binary.LittleEndian, [2]uint64{s.sum, s.count})
		},
		Decode: func(r io.Reader) (chain, error) {
			var v [2]uint64
			err := binary.Read(r, binary.LittleEndian, &v)
			return chain{v[0], v[1]}, err
		},
	}
}

// TestSnapMeter: who takes a snapshot, and when. Rows are fed one by one; the first index at which a snapshot is due is
// compared.
func TestSnapMeter(t *testing.T) {
	t.Parallel()
	ownAt := func(indexes ...oplog.Index) func(oplog.Index) bool {
		return func(i oplog.Index) bool {
			for _, k := range indexes {
				if i == k {
					return true
				}
			}
			return false
		}
	}
	for _, c := range []struct {
		name     string
		interval oplog.Index
		stored   oplog.SnapshotInfo
		own      func(oplog.Index) bool
		want     oplog.Index // 0: not within 1000 rows
	}{
		{"wrote the crossing", 80, oplog.SnapshotInfo{}, ownAt(80), 80},
		{"wrote just before and after it", 80, oplog.SnapshotInfo{}, ownAt(79, 81, 89), 100},
		{"wrote an eighth after it", 80, oplog.SnapshotInfo{}, ownAt(93), 93},
		{"wrote nothing", 80, oplog.SnapshotInfo{}, ownAt(), 100},
		{"counts from the stored one", 80, oplog.SnapshotInfo{Index: 50, Parts: 1, Size: 1}, ownAt(), 150},
		{"until the bytes are there", 80, oplog.SnapshotInfo{Index: 50, Parts: 1, Size: 1500}, ownAt(), 220},
		{"every row", 1, oplog.SnapshotInfo{}, ownAt(1), 1},
		{"never", 0, oplog.SnapshotInfo{}, func(oplog.Index) bool { return true }, 0},
	} {
		m := snapMeter{interval: c.interval}
		m.jump(c.stored.Index)
		m.stored(c.stored)
		got := oplog.Index(0)
		for i := c.stored.Index + 1; i < c.stored.Index+1000 && got == 0; i++ {
			if m.row(i, 10, c.own(i)) {
				got = i
			}
		}
		if got != c.want {
			t.Errorf("%s: due at %d, want %d", c.name, got, c.want)
		}
		if got > 0 && m.stored(oplog.SnapshotInfo{Index: got, Parts: 1, Size: 1}) {
			t.Errorf("%s: still due when it is stored", c.name)
		}
	}
}

// TestRetired: what may go below a stored snapshot.
func TestRetired(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		index oplog.Index
		keep  int
		want  oplog.Index
	}{{100, 0, 101}, {100, 10, 91}, {100, 100, 1}, {100, 101, 0}, {100, 1 << 40, 0}, {0, 0, 1}} {
		if got := retired(c.index, c.keep); got != c.want {
			t.Errorf("snapshot at %d, %d kept: rows below %d may go, want %d", c.index, c.keep, got, c.want)
		}
	}
}

// newFlush returns a flusher's step as a replica has it.
func newFlush() *flushStep {
	return &flushStep{rowCommands: 256, rowBytes: 1 << 20, chance: rand.New(rand.NewPCG(1, 1)),
		retry: pauses{20 * time.Millisecond, time.Second}}
}

// TestFlushRunsAhead: it appends after its own acknowledged rows without waiting for the tailer, and not without bound.
func TestFlushRunsAhead(t *testing.T) {
	t.Parallel()
	s, now := newFlush(), time.Unix(0, 0)
	for i := range maxAhead {
		do := s.next(flushFacts{now: now, applied: 5, newest: 5 + oplog.Index(i), queued: true})
		if do.kind != flushTake || do.at != oplog.Index(6+i) {
			t.Fatalf("row %d: %+v", i, do)
		}
		s.took(&RowInfo{Index: do.at, Commands: make([][]byte, 1)}, 100)
		if v, _ := s.appended(nil, now); v != verdictLanded {
			t.Fatalf("verdict %v", v)
		}
	}
	if do := s.next(flushFacts{now: now, applied: 5, queued: true}); do.kind != flushWait {
		t.Errorf("with %d rows ahead: %+v", maxAhead, do)
	}
	if do := s.next(flushFacts{now: now, applied: 6, queued: true}); do.kind != flushTake || do.at != 6+maxAhead {
		t.Errorf("with one applied: %+v", do)
	}
}

// TestFlushWaits: what keeps the flusher from appending.
func TestFlushWaits(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]flushFacts{
		"nothing queued": {applied: 5, newest: 5},
		"a gap":          {applied: 5, newest: 5, queued: true, held: true},
		"rows above":     {applied: 5, newest: 6, queued: true},
	} {
		if do := newFlush().next(f); do.kind != flushWait || !do.until.IsZero() {
			t.Errorf("%s: %+v", name, do)
		}
	}
	if do := newFlush().next(flushFacts{stopped: true, queued: true}); do.kind != flushStop {
		t.Errorf("stopped: %+v", do)
	}
}

// TestFlushRests: after a few slots lost in a row the flusher rests for a random while before the next, and a success
// ends that.
func TestFlushRests(t *testing.T) {
	t.Parallel()
	s, now := newFlush(), time.Unix(0, 0)
	applied, rests := oplog.Index(5), 0
	for range 20 {
		f := flushFacts{now: now, applied: applied, newest: applied, queued: true}
		do := s.next(f)
		if do.kind == flushWait {
			if wait := do.until.Sub(now); wait <= 0 || wait > restMax {
				t.Errorf("rests for %v", wait)
			}
			rests++
			now = do.until
			f.now = now
			do = s.next(f)
		}
		if do.kind != flushTake || do.at != applied+1 {
			t.Fatalf("%+v", do)
		}
		s.took(&RowInfo{Index: do.at, Commands: make([][]byte, 1)}, 100)
		if v, _ := s.appended(oplog.ErrConflict, now); v != verdictLost {
			t.Fatalf("verdict %v", v)
		}
		if do := s.next(f); do.kind != flushWait {
			t.Fatalf("before the slot was seen: %+v", do)
		}
		applied++
	}
	if rests < 15 {
		t.Errorf("%d rests in 20 losses", rests)
	}
}

// TestFlushStandsInLine: after a lost race the flusher waits for its turn, in the turn for the rows before it, and goes on
// so until it finds that nobody else appends.
func TestFlushStandsInLine(t *testing.T) {
	t.Parallel()
	s, now := newFlush(), time.Unix(0, 0)
	s.fair = true
	want := func(f flushFacts, kind flushKind, at oplog.Index) {
		t.Helper()
		f.now = now
		if do := s.next(f); do.kind != kind || do.at != at {
			t.Fatalf("%+v, want %d at %d", do, kind, at)
		}
	}
	lose := func(at oplog.Index, err error) {
		t.Helper()
		s.took(&RowInfo{Index: at, Commands: make([][]byte, 1)}, 100)
		if v, _ := s.appended(err, now); err == nil && v != verdictLanded || err != nil && v != verdictLost {
			t.Fatalf("verdict %v", v)
		}
	}
	busy := flushFacts{applied: 5, newest: 5, queued: true}
	want(busy, flushTake, 6)
	lose(6, oplog.ErrConflict)
	want(busy, flushTurn, 0) // without having seen row 6
	s.turned(8, nil, now)
	want(busy, flushWait, 0) // for row 8
	want(flushFacts{applied: 7, newest: 7, queued: true}, flushWait, 0)
	want(flushFacts{applied: 8, newest: 8, queued: true}, flushTake, 9)
	lose(9, nil)
	want(flushFacts{applied: 9, newest: 9, queued: true}, flushTurn, 0) // the others are still there
	s.turned(11, nil, now)
	want(flushFacts{applied: 9, newest: 9, queued: true}, flushWait, 0)
	want(flushFacts{applied: 11, newest: 11}, flushPass, 0) // everybody gave up in between
	s.passed()
	want(flushFacts{applied: 11, newest: 11}, flushWait, 0)
	want(flushFacts{applied: 11, newest: 11, queued: true}, flushTurn, 0)
	s.turned(12, nil, now)
	want(flushFacts{applied: 11, newest: 11, queued: true}, flushWait, 0)
	now = now.Add(turnHold) // row 12 does not come
	want(flushFacts{applied: 11, newest: 11, queued: true}, flushPass, 0)
	s.passed()
	want(flushFacts{applied: 12, newest: 12, queued: true}, flushTurn, 0)
	s.turned(12, nil, now)
	want(flushFacts{applied: 12, newest: 12, queued: true}, flushTake, 13) // and nobody was there before us
	lose(13, nil)
	want(flushFacts{applied: 13, newest: 13, queued: true}, flushTake, 14)
	lose(14, oplog.ErrConflict)
	want(flushFacts{applied: 13, newest: 13, queued: true}, flushTurn, 0)
	s.turned(0, oplog.ErrUnavailable, now)
	want(flushFacts{applied: 13, newest: 13, queued: true}, flushWait, 0)
	want(flushFacts{applied: 14, newest: 14, queued: true}, flushTake, 15) // once without
	lose(15, oplog.ErrConflict)
	want(flushFacts{applied: 14, newest: 14, queued: true}, flushTurn, 0)
	s.turned(0, oplog.ErrNoTurns, now)
	want(flushFacts{applied: 15, newest: 15, queued: true}, flushTake, 16)
	lose(16, oplog.ErrConflict)
	want(flushFacts{applied: 15, newest: 15, queued: true}, flushWait, 0) // for row 16, as where there is no line
}

// TestTailTakesWhatCameWithATurn: it is applied as what was read, drops what was applied already, and lets nothing be
// forgotten that was known to follow.
func TestTailTakesWhatCameWithATurn(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	s := &tailStep[chain, uint64]{m: chainMachine(), handed: map[oplog.Index]ownRow{}, chance: rand.New(rand.NewPCG(1, 1)),
		retry: pauses{20 * time.Millisecond, time.Second}, readBytes: 1 << 20}
	s.set(chain{}, 5, Digest{}, 0)
	s.read(nil, nil, now)
	s.looked(oplog.Bounds{Newest: 5, Mark: mark(0), Authoritative: true}, nil, now)
	last := uint64(0)
	row := func(i oplog.Index) oplog.Row {
		info := RowInfo{Index: i, Previous: last, Commands: [][]byte{[]byte("12345678")}}
		payload := AppendRow(nil, &info)
		if i > 5 {
			last = checksumOf(oplog.Mark(payload))
		}
		return oplog.Row{Index: i, Payload: payload}
	}
	if do := s.next(tailFacts{now: now, woken: true, inLine: true}); do.kind != tailWait || do.until != now.Add(deferRead) {
		t.Errorf("in line: %+v", do)
	}
	s.newest = 8
	if do := s.next(tailFacts{now: now, found: []oplog.Row{row(4), row(5), row(6), row(7)}}); do.kind != tailApply {
		t.Fatalf("%+v", do)
	}
	for want := oplog.Index(6); want <= 7; want++ {
		if _, ok := s.apply(); !ok || s.applied != want {
			t.Fatalf("at %d: %s", s.applied, s.reason)
		}
		s.next(tailFacts{now: now})
	}
	if do := s.next(tailFacts{now: now.Add(deferRead)}); do.kind != tailRead {
		t.Errorf("with row 8 known to be there: %+v", do)
	}
}

// TestTailDefers: while an append of ours is under way at the very next slot, a wake-up is most likely about its row, and
// the read waits for a moment; but only for a moment.
func TestTailDefers(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	fresh := func() *tailStep[chain, uint64] {
		s := &tailStep[chain, uint64]{m: chainMachine(), handed: map[oplog.Index]ownRow{}, chance: rand.New(rand.NewPCG(1, 1)),
			retry: pauses{20 * time.Millisecond, time.Second}, readBytes: 1 << 20}
		s.set(chain{}, 5, Digest{}, 0)
		s.read(nil, nil, now)
		s.looked(oplog.Bounds{Newest: 5, Mark: mark(0), Authoritative: true}, nil, now)
		return s
	}
	s := fresh()
	if do := s.next(tailFacts{now: now, woken: true, asking: 6}); do.kind != tailWait || do.until != now.Add(deferRead) {
		t.Errorf("with our append under way: %+v", do)
	}
	if do := s.next(tailFacts{now: now.Add(deferRead), asking: 6}); do.kind != tailRead {
		t.Errorf("after a moment: %+v", do)
	}
	s = fresh()
	s.next(tailFacts{now: now, woken: true, asking: 6})
	row := RowInfo{Index: 6, Seen: 5, Commands: [][]byte{[]byte("12345678")}}
	if do := s.next(tailFacts{now: now, handed: []ownRow{{row, 100}}}); do.kind != tailApply {
		t.Errorf("handed over: %+v", do)
	}
	if _, ok := s.apply(); !ok {
		t.Errorf("not applied: %s", s.reason)
	}
	if do := s.next(tailFacts{now: now.Add(deferRead)}); do.kind != tailWait {
		t.Errorf("a read after the hand-over: %+v", do)
	}
	if do := fresh().next(tailFacts{now: now, woken: true, asking: 9}); do.kind != tailRead {
		t.Errorf("with no append at the next slot: %+v", do)
	}
}

// TestTailHeadless: the newest row must be kept for the next append; where somebody deleted it that is said.
func TestTailHeadless(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	s := &tailStep[chain, uint64]{m: chainMachine(), handed: map[oplog.Index]ownRow{}, chance: rand.New(rand.NewPCG(1, 1)),
		retry: pauses{20 * time.Millisecond, time.Second}, readBytes: 1 << 20}
	s.set(chain{}, 5, Digest{}, 0)
	s.read(nil, nil, now)
	empty := oplog.Bounds{Empty: true, Authoritative: true, Snapshot: oplog.SnapshotInfo{Index: 5, Parts: 1}}
	s.looked(empty, nil, now)
	s.next(tailFacts{now: now})
	if s.condition != Gap || s.at != 5 {
		t.Errorf("%v at %d: %s", s.condition, s.at, s.reason)
	}
	s.looked(oplog.Bounds{Oldest: 5, Newest: 5, Mark: mark(0), Authoritative: true, Snapshot: empty.Snapshot}, nil, now)
	s.next(tailFacts{now: now})
	if s.condition != Ready {
		t.Errorf("with the row back: %v: %s", s.condition, s.reason)
	}
}

// TestInstallOfAnotherHistory: a snapshot of another cluster, or of another incarnation of this one, is never installed.
func TestInstallOfAnotherHistory(t *testing.T) {
	t.Parallel()
	mine := Genesis{ClusterID: ID{1}, Incarnation: 1, Format: Format}
	for _, c := range []struct {
		of   Genesis
		want Condition
	}{
		{mine, CatchingUp},
		{Genesis{ClusterID: ID{2}, Incarnation: 1, Format: Format}, Halted},
		{Genesis{ClusterID: ID{1}, Incarnation: 2, Format: Format}, Rewound},
	} {
		s := &tailStep[chain, uint64]{genesis: mine, handed: map[oplog.Index]ownRow{}}
		ok := s.installed(&Snapshot[chain]{Index: 9, Genesis: c.of}, nil, time.Unix(100, 0))
		if ok != (c.want == CatchingUp) || s.condition != c.want || ok != (s.applied == 9) {
			t.Errorf("%+v: installed %v, %v at %d", c.of, ok, s.condition, s.applied)
		}
	}
}

// TestTailInspects: a look finds that the newest row ends with something else than the row that was applied. A read of it tells
// whether it is another row, or was damaged where it lies.
func TestTailInspects(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	info := RowInfo{Index: 6, Seen: 5, Batch: 3, Writer: Token{1}, Commands: [][]byte{[]byte("12345678")}}
	good := AppendRow(nil, &info)
	info.Batch = 4
	other := AppendRow(nil, &info)
	flipped := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	end := len(good) - 1
	for name, c := range map[string]struct {
		looked, read []byte // what the row is at the look, and at the read
		err          error
		condition    Condition
		shown        []byte
	}{
		"another row":                {other, other, nil, Rewound, nil},
		"another row, damaged":       {flipped(other, end), flipped(other, end), nil, Rewound, nil},
		"damaged at its end":         {flipped(good, end), flipped(good, end), nil, Ready, oplog.Mark(flipped(good, end))},
		"its end alone is left":      {good[end:], good[end:], nil, Ready, good[end:]},
		"nothing is left":            {[]byte{}, []byte{}, nil, Ready, []byte{}},
		"right at the read":          {flipped(good, end), good, nil, Ready, nil},
		"another row at the read":    {flipped(good, end), other, nil, Rewound, nil},
		"not there at the read":      {other, nil, nil, Ready, nil},
		"it cannot be read just now": {other, nil, oplog.ErrUnavailable, Ready, nil},
	} {
		s := &tailStep[chain, uint64]{m: chainMachine(), handed: map[oplog.Index]ownRow{}, chance: rand.New(rand.NewPCG(1, 1)),
			retry: pauses{20 * time.Millisecond, time.Second}, readBytes: 1 << 20}
		s.set(chain{}, 5, Digest{}, 0)
		s.behind()
		s.looked(oplog.Bounds{Newest: 5, Mark: mark(0), Authoritative: true}, nil, now)
		s.read([]oplog.Row{{Index: 6, Payload: good}}, nil, now)
		if s.next(tailFacts{now: now}).kind != tailApply {
			t.Fatal("row 6 is not applied")
		}
		if _, ok := s.apply(); !ok {
			t.Fatal(s.reason)
		}
		s.read(nil, nil, now)
		bounds := oplog.Bounds{Newest: 6, Mark: oplog.Mark(c.looked)}
		s.looked(bounds, nil, now)
		if do := s.next(tailFacts{now: now}); do.kind == tailInspect {
			t.Errorf("%s: inspected on the word of a server that may lag behind", name)
		}
		bounds.Authoritative = true
		s.looked(bounds, nil, now)
		if do := s.next(tailFacts{now: now}); do.kind != tailInspect {
			t.Fatalf("%s: %+v, want a read of the row", name, do)
		}
		var rows []oplog.Row
		if c.read != nil {
			rows = []oplog.Row{{Index: 6, Payload: c.read}}
		}
		if err := s.inspected(rows, c.err, now); (err != nil) != (c.err != nil || c.shown != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if c.read != nil && !s.final() { // then the next look finds what the read found
			s.looked(oplog.Bounds{Newest: 6, Mark: oplog.Mark(c.read), Authoritative: true}, nil, now)
		}
		s.next(tailFacts{now: now})
		if c.shown != nil { // and when somebody has repaired the row, that is found too
			defer func() {
				s.looked(oplog.Bounds{Newest: 6, Mark: oplog.Mark(good), Authoritative: true}, nil, now)
				if do := s.next(tailFacts{now: now}); do.kind != tailInspect {
					t.Errorf("%s, repaired: %+v", name, do)
				}
				if err := s.inspected([]oplog.Row{{Index: 6, Payload: good}}, nil, now); err != nil || s.shown != nil || s.final() {
					t.Errorf("%s, repaired: %v, %v, shown %x", name, err, s.condition, s.shown)
				}
			}()
		}
		if s.condition != c.condition || !bytes.Equal(s.shown, c.shown) || (s.shown == nil) != (c.shown == nil) {
			t.Errorf("%s: %v, shown %x, want %v and %x: %s", name, s.condition, s.shown, c.condition, c.shown, s.reason)
		}
	}
}
