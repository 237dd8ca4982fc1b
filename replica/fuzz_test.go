package replica_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/headwaterdb/headwater/replica"
)

// FuzzDecodeGenesis: no bytes make the decoder of row 0 panic, and what it accepts it encodes to the same bytes.
func FuzzDecodeGenesis(f *testing.F) {
	row := sampleRow("a")
	f.Add(replica.AppendGenesis(nil, sampleGenesis))
	f.Add(replica.AppendRow(nil, &row))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 8 {
			return
		}
		b = resealed(b)
		g, err := replica.DecodeGenesis(b)
		if err != nil {
			if !errors.Is(err, replica.ErrUndecodable) && !errors.Is(err, replica.ErrFormat) {
				t.Fatalf("%x: %v", b, err)
			}
			return
		}
		if again := replica.AppendGenesis(nil, g); !bytes.Equal(again, b) {
			t.Fatalf("accepted %x, encodes to %x", b, again)
		}
	})
}

// snapHeader is how many bytes of the snapshot that FuzzSnapshotFile makes come before the state.
const snapHeader = 2 + 1 + 8 + 16 + 1 + 8 + 16 + 8

// FuzzSnapshotFile: whatever stands in the stored snapshot, reading it neither panics nor yields a state that is not
// the one of the digest; and a good one that is cut, or has one byte changed, is always refused. The state inside is
// given as it is before it is compressed, so that the fuzzer gets behind the checksums and the compression.
func FuzzSnapshotFile(f *testing.F) {
	const index = 20
	good := goodSnapshot(f, index)
	body := decompressed(f, good)
	f.Add(good[:snapHeader], body, uint32(0), byte(0), uint32(0))
	f.Add(good[:snapHeader], body, uint32(70), byte(0x40), uint32(0))
	f.Add(good[:snapHeader], body, uint32(0), byte(0), uint32(60))
	f.Add([]byte{}, []byte{}, uint32(0), byte(0), uint32(0))
	f.Fuzz(func(t *testing.T, header, body []byte, at uint32, flip byte, cut uint32) {
		if len(header) < 8 || len(body) > 64<<10 {
			return
		}
		file := snapshotFile(t, header, body)
		whole := bytes.Clone(file)
		if flip != 0 {
			file[at%uint32(len(file))] ^= flip
		}
		file = file[:len(file)-int(cut%uint32(len(file)))]
		snap, err := replica.LoadSnapshot(t.Context(), plant(t, index, file).Open(), machine(nil))
		if err != nil && strings.Contains(err.Error(), "panic") {
			t.Fatalf("header %x, body %x: %v", header, body, err)
		}
		if err == nil && !bytes.Equal(file, whole) {
			t.Fatalf("accepted, although changed at %d by %x and cut by %d: header %x, body %x", at, flip, cut, header, body)
		}
		if err == nil && (snap.Index != index || machine(nil).Digest(snap.State) != snap.Digest) {
			t.Fatalf("index %d with digest %s where the state has %s", snap.Index, snap.Digest, machine(nil).Digest(snap.State))
		}
		if err != nil && !errors.Is(err, replica.ErrUndecodable) && !errors.Is(err, replica.ErrFormat) {
			t.Fatalf("neither undecodable nor of a newer format: %v", err)
		}
	})
}

// goodSnapshot returns a snapshot as it is stored.
func goodSnapshot(f *testing.F, index int) []byte {
	f.Helper()
	db := cluster(f)
	r := open(f, db.Open(), never)
	for i := range index {
		propose(f, r, fmt.Sprint("word ", i))
	}
	if _, err := r.Snapshot(f.Context()); err != nil {
		f.Fatal(err)
	}
	return parts(f, db)
}

// decompressed returns the state in a stored snapshot.
func decompressed(f *testing.F, file []byte) []byte {
	f.Helper()
	z, err := zstd.NewReader(nil)
	if err != nil {
		f.Fatal(err)
	}
	defer z.Close()
	body, err := z.DecodeAll(file[snapHeader:len(file)-8], nil)
	if err != nil {
		f.Fatal(err)
	}
	return body
}

// snapshotFile puts a snapshot together whose checksums are right, whatever its header and its state.
func snapshotFile(t *testing.T, header, body []byte) []byte {
	t.Helper()
	var file bytes.Buffer
	file.Write(resealed(bytes.Clone(header)))
	z, err := zstd.NewWriter(&file, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return binary.BigEndian.AppendUint64(file.Bytes(), xxh3.Hash(file.Bytes()))
}
