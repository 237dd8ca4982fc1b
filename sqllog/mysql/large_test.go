package mysql_test

import (
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/headwaterdb/headwater/oplog"
)

// TestLargeSnapshot stores a snapshot that is far above the packet limit on a server with its default of 16 MiB: it goes
// in parts and becomes current in one step. It is 40 MiB, or 200 MiB with HEADWATER_TEST_FULL=1.
func TestLargeSnapshot(t *testing.T) {
	t.Parallel()
	parts := 40
	if os.Getenv("HEADWATER_TEST_FULL") != "" {
		parts = 200
	}
	l := cluster(t, place(t), 3)
	w, err := l.CreateSnapshot(t.Context(), 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	wrote, read := sha256.New(), sha256.New()
	part := make([]byte, oplog.MaxPart)
	random := rand.NewChaCha8([32]byte{1}) // bytes of all values, which nothing can compress
	for range parts {
		random.Read(part)
		wrote.Write(part)
		if err := w.WritePart(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.OpenSnapshot(t.Context()); err == nil {
		t.Error("the snapshot is current before its commit")
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := l.OpenSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := oplog.SnapshotInfo{Index: 2, Parts: parts, Size: int64(parts) * oplog.MaxPart}
	if r.Info() != want {
		t.Errorf("info %+v, want %+v", r.Info(), want)
	}
	for i := range parts {
		part, err := r.ReadPart(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		read.Write(part)
	}
	if string(wrote.Sum(nil)) != string(read.Sum(nil)) {
		t.Error("what was read is not what was written")
	}
}
