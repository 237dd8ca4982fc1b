package meta_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

func encodeState(t testing.TB, s *meta.State) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decodeState(t testing.TB, b []byte) *meta.State {
	t.Helper()
	s, err := meta.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSnapshotRoundTrip encodes random states again and again, decodes them, and compares digest, bytes, export and
// derived indexes; and it goes on with the decoded state beside the other, which must stay the same.
func TestSnapshotRoundTrip(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for range 6 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		c := newChurn(t, seed)
		twin := c.s
		for round := range 8 {
			c.run(60)
			for _, row := range c.rows[twin.Index():] {
				var err error
				if twin, _, err = twin.Apply(twin.Index()+1, row); err != nil {
					t.Fatal(err)
				}
			}
			if twin.Digest() != c.s.Digest() {
				t.Fatalf("round %d: the state that went through a snapshot went another way", round)
			}
			b := encodeState(t, c.s)
			twin = decodeState(t, b)
			if twin.Index() != c.s.Index() || twin.Digest() != c.s.Digest() {
				t.Fatalf("round %d: index %d digest %x became %d, %x", round, c.s.Index(), c.s.Digest(), twin.Index(), twin.Digest())
			}
			for name, s := range map[string]*meta.State{"kept": c.s, "decoded": twin} {
				if err := s.Verify(); err != nil {
					t.Fatalf("round %d: %s: %v", round, name, err)
				}
			}
			if !bytes.Equal(b, encodeState(t, twin)) {
				t.Fatalf("round %d: the same state encodes otherwise", round)
			}
			want, got := slices.Collect(c.s.Export()), slices.Collect(twin.Export())
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("round %d: exports differ (-want +got):\n%s", round, cmp.Diff(want, got))
			}
			if c.s.Counts() != twin.Counts() {
				t.Fatalf("round %d: counts %+v became %+v", round, c.s.Counts(), twin.Counts())
			}
			for _, r := range want {
				seen[fmt.Sprintf("%T", r)]++
				if sl, ok := r.(meta.StoredSlice); ok {
					if _, live := c.s.Stream(sl.Slice.StreamID); !live {
						seen["slice of a deleted stream"]++
					}
				}
			}
		}
	}
	if seen["slice of a deleted stream"] == 0 {
		t.Error("no state had slices of deleted streams: the test shows nothing of them")
	}
	for _, r := range []meta.Record{meta.ClusterRecord{}, meta.Node{}, meta.Stream{}, meta.Range{}, meta.Debt{}, meta.Loss{},
		meta.StoredSlice{}, meta.Key{}, meta.ObjectRecord{}, meta.ClientRecord{}, meta.AnswerRecord{}} {
		if seen[fmt.Sprintf("%T", r)] == 0 {
			t.Errorf("no state had a %T: the test shows nothing of it", r)
		}
	}
}

// TestSnapshotOfNothing covers the state before row 1.
func TestSnapshotOfNothing(t *testing.T) {
	t.Parallel()
	s := decodeState(t, encodeState(t, meta.NewState()))
	if s.Digest() != meta.NewState().Digest() || s.FormatLevel() != meta.FirstFormat {
		t.Errorf("digest %x, level %d", s.Digest(), s.FormatLevel())
	}
}

// TestSnapshotOfTheLargestNumbers puts into a state the largest numbers that the limits let pass, those that no limit
// bounds too: what is applied must decode, or no node could start from the snapshot.
func TestSnapshotOfTheLargestNumbers(t *testing.T) {
	t.Parallel()
	const most, offset = math.MaxUint64, math.MaxInt64
	me := meta.Identity{NodeID: most, NodeEpoch: offset}
	request := func(sequence, oldest uint64) *meta.Request {
		return &meta.Request{Client: [16]byte{1}, Sequence: sequence, Oldest: oldest}
	}
	object := meta.Object{ObjectID: 1, Size: offset, Slices: []meta.Slice{{StreamID: 1, StreamEpoch: offset, EndOffset: offset,
		Position: offset, Length: offset, MaxTimestamp: math.MinInt64}}}
	s := meta.NewState()
	for i, p := range []meta.Proposal{
		{Command: meta.RegisterNode{NodeID: most, Epoch: offset, Instance: [16]byte{1}, FormatLevel: most}},
		{Command: meta.CreateStream{Identity: me, Name: "a"}},
		{Command: meta.OpenStream{Identity: me, StreamID: 1, Epoch: offset}},
		{Command: meta.PrepareObjects{Identity: me, Count: 2, Deadline: math.MinInt64}, Request: request(1, 1)},
		{Command: meta.RecordTransfer{Identity: me, StreamID: 1, Epoch: offset, ToNode: most, Boundary: offset}},
		{Command: meta.CommitObjects{Identity: me, Objects: []meta.Object{object}}, Request: request(most, most)},
		{Command: meta.ReclaimObjects{Time: math.MaxInt64, Limit: 1}, Stamp: math.MinInt64},
	} {
		b, err := meta.AppendProposal(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		next, answers, err := s.Apply(s.Index()+1, [][]byte{b})
		if err != nil {
			t.Fatal(err)
		}
		if err := answers[0].Err; err != nil {
			t.Fatalf("command %d: %v", i, err)
		}
		s = next
		if got := decodeState(t, encodeState(t, s)); got.Digest() != s.Digest() || got.Verify() != nil {
			t.Fatalf("after command %d: digest %x became %x, %v", i, s.Digest(), got.Digest(), got.Verify())
		}
	}
}

// TestDamagedSnapshots flips one bit of each byte, cuts at every length and adds bytes: each must be refused.
func TestDamagedSnapshots(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	c := newChurn(t, seed)
	c.run(150)
	b := encodeState(t, c.s)
	for i := range b {
		flipped := bytes.Clone(b)
		flipped[i] ^= 1 << rng.IntN(8)
		if _, err := meta.Decode(bytes.NewReader(flipped)); err == nil {
			t.Fatalf("byte %d: a flipped bit was not noticed", i)
		}
		if _, err := meta.Decode(bytes.NewReader(b[:i])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut to %d of %d bytes: %v", i, len(b), err)
		}
	}
	if _, err := meta.Decode(bytes.NewReader(append(bytes.Clone(b), 0))); err == nil || !strings.Contains(err.Error(), "bytes behind it") {
		t.Errorf("a byte behind the end: %v", err)
	}
}

// TestSnapshotOfAnotherVersion wants both versions named.
func TestSnapshotOfAnotherVersion(t *testing.T) {
	t.Parallel()
	b := encodeState(t, meta.NewState())
	at := len("HWSTATE")
	for _, version := range []byte{0, b[at] + 1, 255} {
		other := bytes.Clone(b)
		other[at] = version
		_, err := meta.Decode(bytes.NewReader(other))
		var v *meta.VersionError
		if !errors.As(err, &v) || v.Version != uint64(version) || v.Known != uint64(b[at]) {
			t.Errorf("version %d: %v", version, err)
			continue
		}
		for _, n := range []uint64{v.Version, v.Known} {
			if !strings.Contains(err.Error(), fmt.Sprint(n)) {
				t.Errorf("version %d: %q does not name %d", version, err, n)
			}
		}
	}
	if _, err := meta.Decode(strings.NewReader("PK\x03\x04 not one of ours")); err == nil || errors.As(err, new(*meta.VersionError)) {
		t.Errorf("other bytes: %v", err)
	}
}

// TestImpossibleEntriesAreRefused feeds counts and lengths that no input can hold, for which nothing may be allocated,
// and entries that are well formed and yet cannot be.
func TestImpossibleEntriesAreRefused(t *testing.T) {
	head := append([]byte("HWSTATE"), encodeState(t, meta.NewState())[len("HWSTATE")])
	cluster := []byte{32, 1, 4, 0, 1, 9, 9} // section, entries, bytes; index, format level, next stream, next object
	block := func(section byte, entries, size uint64, body ...byte) []byte {
		b := append(slices.Concat(head, cluster), section)
		return append(binary.AppendUvarint(binary.AppendUvarint(b, entries), size), body...)
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
	entry := func(section byte, body ...byte) []byte {
		body = slices.Concat([]byte{section}, body, huge)
		return block(section, 1, uint64(len(body)), body...)
	}
	streamEntry := func(id byte) []byte { return []byte{2, id, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} }
	debts := func(bounds ...byte) []byte {
		b := block(2, 1, 15, streamEntry(1)...)
		body := []byte{}
		for i := 0; i < len(bounds); i += 2 {
			body = append(body, 4, 1, 1, 1, bounds[i], bounds[i+1])
		}
		b = binary.AppendUvarint(append(b, 4, byte(len(bounds)/2)), uint64(len(body)))
		return append(b, body...)
	}
	many := func(n int) (bounds []byte) {
		for i := range n {
			bounds = append(bounds, byte(i), byte(i+1))
		}
		return bounds
	}
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string // in the error
	}{
		{"block size", block(1, 1, 1<<62), "cannot be"},
		{"entries", block(1, 1<<40, 100, make([]byte, 100)...), "cannot be"},
		{"no entries", block(1, 0, 0), "cannot be"},
		{"instances", entry(1, 1, 1), "9223372036854775807 elements"},
		{"labels", entry(2, 1, 1, 'a'), "9223372036854775807 elements"},
		{"labels out of order", block(2, 1, 11, 2, 1, 1, 'a', 2, 1, 'b', 0, 1, 'a', 0), `label "a" after label "b"`},
		{"the same label twice", block(2, 1, 11, 2, 1, 1, 'a', 2, 1, 'b', 0, 1, 'b', 0), `label "b" after label "b"`},
		{"a stream that ends before it starts", block(2, 1, 15, 2, 1, 1, 'a', 0, 0, 0, 0, 9, 8, 0, 0, 0, 0, 0), "[9, 8)"},
		{"two streams of one name", slices.Concat(block(2, 2, 30, slices.Concat(streamEntry(1), streamEntry(2))...),
			[]byte{255, 1, 28, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 16)), "index the names"},
		{"other counts", slices.Concat(block(2, 1, 15, streamEntry(1)...), []byte{255, 1, 28, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0},
			make([]byte, 16)), "2 entries of streams were written, 1 are here"},
		{"debts that overlap", debts(0, 5, 4, 9), "debt 1 begins at 4"},
		{"an empty debt", debts(5, 5), "debt [5, 5)"},
		{"more debts than a stream can have", debts(many(65)...), "debt 64 begins at"},
		{"text", entry(6), "9223372036854775807 elements"},
		{"object bytes", entry(16, 1, 2, 1, 0, 1, 0, 0, 1), "9223372036854775807 elements"},
		{"slices in an object", block(16, 1, 21, slices.Concat([]byte{16, 1, 2, 1, 0, 1, 0, 0, 1, 11, 1, 0}, huge)...), "slices"},
		{"debt of a stream that is not there", block(4, 1, 6, 4, 1, 1, 1, 0, 1), "stream 1 is not there"},
		{"an answer without its client", block(8, 1, 41, slices.Concat([]byte{8}, make([]byte, 16),
			[]byte{1, 0, 0}, make([]byte, 16), []byte{1, 0, 0, 1, 0})...), "does not remember"},
		{"other section", block(99, 1, 1, 0), "section 99"},
		{"sections in another order", append(block(6, 1, 5, 6, 1, 'k', 0, 1), 1, 1, 1, 0), "nodes, entry 0: this section does not belong here"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := meta.Decode(bytes.NewReader(c.bytes))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%s: %d bytes allocated for an input of %d", c.name, got, len(c.bytes))
		}
	}
}

// brokenWriter fails after some bytes.
type brokenWriter struct{ left int }

var errBroken = errors.New("disk full")

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errBroken
	}
	return len(b), nil
}

// TestEncodeReportsTheWriter wants the writer's error, whenever it comes.
func TestEncodeReportsTheWriter(t *testing.T) {
	t.Parallel()
	c := newChurn(t, 5)
	c.run(50)
	for left := range len(encodeState(t, c.s)) {
		if err := c.s.Encode(&brokenWriter{left}); !errors.Is(err, errBroken) {
			t.Fatalf("writer that fails after %d bytes: %v", left, err)
		}
	}
}

// TestLargeSnapshotHasManyBlocks covers the borders of blocks, in the middle of streams and of clients.
func TestLargeSnapshotHasManyBlocks(t *testing.T) {
	t.Parallel()
	s := filledState(t, 3000, true)
	b := encodeState(t, s)
	if len(b) < 3*64<<10 {
		t.Fatalf("the snapshot has %d bytes, too few for blocks to matter", len(b))
	}
	twin := decodeState(t, b)
	if twin.Digest() != s.Digest() {
		t.Fatal("digest differs")
	}
	if err := twin.Verify(); err != nil {
		t.Fatal(err)
	}
}
