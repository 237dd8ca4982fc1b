package replica_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

var rewrite = flag.Bool("rewrite", false, "write the vectors that are missing in testdata; those that are there are frozen")

// sampleRow is a row with every field set to something that can be told from the others.
func sampleRow(commands ...string) replica.RowInfo {
	r := replica.RowInfo{
		Index: 1234, Incarnation: 0x1122334455667788, Batch: 300, Seen: 1230,
		Writer:     replica.Token{0: 1, 15: 2},
		Previous:   0xa1b2c3d4e5f60718,
		SeenDigest: replica.Digest{0: 3, 15: 4},
	}
	for _, c := range commands {
		r.Commands = append(r.Commands, []byte(c))
	}
	return r
}

var sampleGenesis = replica.Genesis{ClusterID: replica.ID{0: 5, 15: 6}, Incarnation: 0x99aabbccddeeff00, Format: 1}

// TestRowRoundTrip: what is encoded decodes to the same row, and encodes to the same bytes again.
func TestRowRoundTrip(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		want := sampleRow()
		want.Index = oplog.Index(1 + rng.Uint64N(uint64(oplog.MaxIndex)))
		want.Seen = oplog.Index(rng.Uint64N(uint64(want.Index)))
		want.Batch = rng.Uint64()
		for range 1 + rng.IntN(replica.MaxRowCommands) {
			want.Commands = append(want.Commands, bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(20)))
		}
		payload := replica.AppendRow([]byte("before"), &want)[6:]
		got, err := replica.DecodeRow(want.Index, payload)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		want.Checksum = got.Checksum
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("row (-want +got):\n%s", diff)
		}
		if again := replica.AppendRow(nil, &got); !bytes.Equal(again, payload) {
			t.Fatalf("encoded again: %x, before %x", again, payload)
		}
	}
}

// TestRowDamage: every flipped bit, every cut and every added byte is noticed.
func TestRowDamage(t *testing.T) {
	t.Parallel()
	row := sampleRow("first", "", "third")
	payload := replica.AppendRow(nil, &row)
	for bit := range len(payload) * 8 {
		bad := bytes.Clone(payload)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := replica.DecodeRow(row.Index, bad); !errors.Is(err, replica.ErrUndecodable) {
			t.Errorf("bit %d flipped: %v", bit, err)
		}
	}
	for n := range payload {
		if _, err := replica.DecodeRow(row.Index, payload[:n]); !errors.Is(err, replica.ErrUndecodable) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	if _, err := replica.DecodeRow(row.Index, append(bytes.Clone(payload), 0)); !errors.Is(err, replica.ErrUndecodable) {
		t.Errorf("one byte more: %v", err)
	}
}

// resealed replaces the checksum by one that fits, so that what is behind it gets tested.
func resealed(b []byte) []byte {
	b = b[:len(b)-8]
	return binary.BigEndian.AppendUint64(b, xxh3.Hash(b))
}

// TestRowRefused: bytes with a good checksum that are still no row, and what is said of them.
func TestRowRefused(t *testing.T) {
	t.Parallel()
	with := func(change func(*replica.RowInfo)) []byte {
		r := sampleRow("a")
		change(&r)
		return replica.AppendRow(nil, &r)
	}
	edit := func(change func([]byte) []byte) []byte {
		r := sampleRow("a")
		return resealed(change(replica.AppendRow(nil, &r)))
	}
	many := make([]string, replica.MaxRowCommands+1)
	tooMany := sampleRow(many...)
	for _, c := range []struct {
		name    string
		at      oplog.Index
		payload []byte
		want    string
	}{
		{"another index", 1235, with(func(*replica.RowInfo) {}), "it says that it is row 1234"},
		{"no commands", 1234, with(func(r *replica.RowInfo) { r.Commands = nil }), "0 commands, allowed are 1 to 256"},
		{"too many commands", 1234, replica.AppendRow(nil, &tooMany), "257 commands, allowed are 1 to 256"},
		{"seen the future", 1234, with(func(r *replica.RowInfo) { r.Seen = 1234 }), "seen row 1234 before it wrote row 1234"},
		{"index too high", 1 << 60, with(func(r *replica.RowInfo) { r.Index = 1 << 60 }), "is above"},
		{"newer version", 1234, edit(func(b []byte) []byte { b[0] = 2; return b }), "envelope version 2, known is 1"},
		{"genesis", 1234, replica.AppendGenesis(nil, sampleGenesis), `kind 'G' where 'R' belongs`},
		{"bytes after the commands", 1234, edit(func(b []byte) []byte { return append(b, 0) }), "bytes are left over: 1"},
		{"too large", 1234, make([]byte, replica.MaxRowBytes+1), "8388609 bytes, allowed are 8388608"},
		{"empty", 1234, nil, "0 bytes are too few"},
		{"long varint", 1234, edit(func(b []byte) []byte {
			return append(append(bytes.Clone(b[:2]), 0xd2, 0x89, 0x00), b[4:]...)
		}), "a number longer than it has to be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := replica.DecodeRow(c.at, c.payload)
			if !errors.Is(err, replica.ErrUndecodable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

// TestGenesis: row 0 decodes to what was encoded; damage is noticed, and a newer format is told from damage.
func TestGenesis(t *testing.T) {
	t.Parallel()
	payload := replica.AppendGenesis(nil, sampleGenesis)
	got, err := replica.DecodeGenesis(payload)
	if err != nil || got != sampleGenesis {
		t.Errorf("got %+v, %v", got, err)
	}
	for bit := range len(payload) * 8 {
		bad := bytes.Clone(payload)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := replica.DecodeGenesis(bad); err == nil {
			t.Errorf("bit %d flipped: no error", bit)
		}
	}
	newer := sampleGenesis
	newer.Format = 2
	_, err = replica.DecodeGenesis(replica.AppendGenesis(nil, newer))
	if !errors.Is(err, replica.ErrFormat) || !strings.Contains(err.Error(), "format 2 and this program supports up to 1") {
		t.Errorf("newer format: %v", err)
	}
	payload[0] = 9
	if _, err := replica.DecodeGenesis(resealed(payload)); !errors.Is(err, replica.ErrFormat) {
		t.Errorf("newer envelope: %v", err)
	}
}

// TestVectors: the stored forms are frozen. Each vector decodes to the fields in its text twin, and a row or genesis
// encodes to the same bytes. New vectors may be added; those that are there must never change.
func TestVectors(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]replica.RowInfo{
		"row-one":   sampleRow("a command"),
		"row-empty": sampleRow(""),
		"row-many":  sampleRow(strings.Split(strings.Repeat("word ", 255), " ")...),
	} {
		payload := vector(t, name, func() []byte { return replica.AppendRow(nil, &row) })
		if again := replica.AppendRow(nil, &row); !bytes.Equal(again, payload) {
			t.Errorf("%s: encodes to %x, frozen is %x", name, again, payload)
		}
		got, err := replica.DecodeRow(row.Index, payload)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		row.Checksum = got.Checksum
		if diff := cmp.Diff(row, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	payload := vector(t, "genesis", func() []byte { return replica.AppendGenesis(nil, sampleGenesis) })
	if again := replica.AppendGenesis(nil, sampleGenesis); !bytes.Equal(again, payload) {
		t.Errorf("genesis: encodes to %x, frozen is %x", again, payload)
	}
}

// vector returns the frozen bytes of that name.
func vector(t *testing.T, name string, fresh func() []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "v1", name+".hex")
	text, err := os.ReadFile(path)
	if *rewrite && errors.Is(err, os.ErrNotExist) {
		text = []byte(wrap(hex.EncodeToString(fresh())))
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wrap(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		n := min(len(s), 96)
		fmt.Fprintln(&b, s[:n])
		s = s[n:]
	}
	return b.String()
}

// FuzzDecodeRow: no bytes make the decoder panic, and what it accepts it encodes to the same bytes.
func FuzzDecodeRow(f *testing.F) {
	row := sampleRow("a", "b")
	f.Add(replica.AppendRow(nil, &row))
	f.Add(replica.AppendGenesis(nil, sampleGenesis))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 8 {
			return
		}
		b = resealed(b)
		r, err := replica.DecodeRow(1234, b)
		if err != nil {
			return
		}
		if again := replica.AppendRow(nil, &r); !bytes.Equal(again, b) {
			t.Errorf("accepted %x, encodes to %x", b, again)
		}
	})
}

func BenchmarkRow(b *testing.B) {
	for _, c := range []struct{ commands, size int }{{1, 100}, {256, 100}, {256, 4000}} {
		row := sampleRow()
		for range c.commands {
			row.Commands = append(row.Commands, make([]byte, c.size))
		}
		payload := replica.AppendRow(nil, &row)
		b.Run(fmt.Sprintf("encode/%dx%d", c.commands, c.size), func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			buf := make([]byte, 0, len(payload))
			for b.Loop() {
				buf = replica.AppendRow(buf[:0], &row)
			}
		})
		b.Run(fmt.Sprintf("decode/%dx%d", c.commands, c.size), func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := replica.DecodeRow(row.Index, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
