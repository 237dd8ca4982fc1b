package meta_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headwaterdb/headwater/meta"
)

// The vectors in testdata/v1 are bytes that stand in the logs of others: NAME.bin must decode to what NAME.txt says and
// encode to the same bytes again, for ever. A new one is added to vectors below and written by -update, which never
// touches a file that is there.
var update = flag.Bool("update", false, "write the vectors that are missing; existing files are never changed")

const vectorDir = "testdata/v1"

func TestFrozenVectors(t *testing.T) {
	t.Parallel()
	covered := map[meta.Kind]int{}
	for name, p := range vectors() {
		covered[meta.KindOf(p.Command)]++
		if err := meta.Validate(p); err != nil {
			t.Errorf("%s is not within the limits: %v", name, err)
		}
		b := encode(t, p)
		frozen(t, name+".bin", b)
		frozen(t, name+".txt", []byte(describe(p)))
	}
	for _, k := range meta.Kinds() {
		if covered[k] < 2 {
			t.Errorf("%s has %d vectors, want at least 2", k, covered[k])
		}
	}
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.bin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b := read(t, file)
		p, err := meta.DecodeProposal(b)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if again := encode(t, p); !bytes.Equal(b, again) {
			t.Errorf("%s encodes to other bytes:\n%x\n%x", file, b, again)
		}
		twin := strings.TrimSuffix(file, ".bin") + ".txt"
		if d := cmp.Diff(string(read(t, twin)), describe(p)); d != "" {
			t.Errorf("%s is not what %s says (-file +decoded):\n%s", file, twin, d)
		}
	}
	if len(files) < len(vectors()) {
		t.Errorf("%d vectors in %s, want at least %d", len(files), vectorDir, len(vectors()))
	}
}

// frozen compares a file of the vectors with what it should hold, and writes it under -update where it is missing.
func frozen(t *testing.T, name string, want []byte) {
	t.Helper()
	file := filepath.Join(vectorDir, name)
	got, err := os.ReadFile(file)
	switch {
	case os.IsNotExist(err) && *update:
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	case os.IsNotExist(err):
		t.Errorf("%s is missing; go test ./meta -run Vectors -update writes it", file)
	case err != nil:
		t.Fatal(err)
	case !bytes.Equal(got, want):
		t.Errorf("%s is frozen and the encoding has changed: give the command a new version, add a new vector", file)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// vectors returns the proposals that testdata/v1 holds, by file name.
func vectors() map[string]meta.Proposal {
	me := meta.Identity{NodeID: 1, NodeEpoch: 2}
	top := meta.Identity{NodeID: math.MaxUint64, NodeEpoch: math.MaxInt64}
	labels := []meta.Label{{Name: "rack", Value: "r 7"}, {Name: "zone", Value: "a"}}
	slice := meta.Slice{StreamID: 1, StreamEpoch: 2, StartOffset: 100, EndOffset: 228, Position: 4096, Length: 65536,
		MaxTimestamp: 1_700_000_000_000}
	edge := meta.Slice{StreamID: math.MaxUint64, StreamEpoch: math.MaxInt64, StartOffset: math.MaxInt64 - 1,
		EndOffset: math.MaxInt64, Position: math.MaxInt64, Length: math.MaxInt64, MaxTimestamp: math.MinInt64}
	bare := map[string]meta.Command{
		"registerNode":           meta.RegisterNode{NodeID: 1, Epoch: 2, Instance: id16(1), Address: "10.0.0.1:9092", Labels: labels, FormatLevel: 1},
		"registerNode-least":     meta.RegisterNode{NodeID: 1, Instance: id16(2)},
		"registerNode-limits":    meta.RegisterNode{NodeID: math.MaxUint64, Epoch: math.MaxInt64, Instance: id16(255), Address: strings.Repeat("a", meta.MaxAddressBytes), Labels: manyLabels(), FormatLevel: math.MaxUint64},
		"renewNode":              meta.RenewNode{Identity: me},
		"renewNode-limits":       meta.RenewNode{Identity: top},
		"unregisterNode":         meta.UnregisterNode{NodeID: 1, Epoch: 2},
		"unregisterNode-limits":  meta.UnregisterNode{NodeID: math.MaxUint64, Epoch: math.MaxInt64},
		"fenceNode":              meta.FenceNode{NodeID: 2, Epoch: 3, Renewals: 40, Rescuer: me},
		"fenceNode-operator":     meta.FenceNode{NodeID: 2, Epoch: 3},
		"createStream":           meta.CreateStream{Identity: me, Name: "orders-0", Labels: labels},
		"createStream-unicode":   meta.CreateStream{Identity: me, Name: "za\u017c\u00f3\u0142\u0107 \U0001f30a"},
		"createStream-limits":    meta.CreateStream{Identity: top, Name: strings.Repeat("n", meta.MaxNameBytes), Labels: manyLabels()},
		"openStream":             meta.OpenStream{Identity: me, StreamID: 1, Epoch: 3},
		"openStream-next":        meta.OpenStream{Identity: me, StreamID: 1},
		"closeStream":            meta.CloseStream{Identity: me, StreamID: 1, Epoch: 3},
		"closeStream-rescue":     meta.CloseStream{Identity: me, OnBehalfOf: 9, StreamID: 1, Epoch: 3},
		"trimStream":             meta.TrimStream{Identity: me, StreamID: 1, Epoch: 3, StartOffset: 50},
		"trimStream-limits":      meta.TrimStream{Identity: top, StreamID: math.MaxUint64, Epoch: math.MaxInt64, StartOffset: math.MaxInt64},
		"labelStream":            meta.LabelStream{StreamID: 1, Labels: labels},
		"labelStream-none":       meta.LabelStream{StreamID: 1},
		"deleteStream":           meta.DeleteStream{Identity: me, StreamID: 1, Epoch: 3},
		"deleteStream-operator":  meta.DeleteStream{StreamID: 1, Epoch: 3},
		"recordTransfer":         meta.RecordTransfer{Identity: me, StreamID: 1, Epoch: 3, ToNode: 2, Boundary: 225},
		"recordTransfer-any":     meta.RecordTransfer{Identity: me, StreamID: 1, Epoch: 3, Boundary: 225},
		"forceCloseStream":       meta.ForceCloseStream{StreamID: 1, Epoch: 3, WriteOff: true, Reason: "disk of node 2 burnt"},
		"forceCloseStream-keep":  meta.ForceCloseStream{StreamID: 1, Epoch: 3},
		"commitObjects":          meta.CommitObjects{Identity: me, Objects: []meta.Object{{ObjectID: 7, Size: 1 << 20, Attributes: []byte("crc32c=0a0b0c0d"), Slices: []meta.Slice{slice, edge}}}},
		"commitObjects-rescue":   meta.CommitObjects{Identity: me, OnBehalfOf: 9, Objects: []meta.Object{{ObjectID: 7}, {ObjectID: 8, Size: 1, Slices: []meta.Slice{slice}}}},
		"commitObjects-many":     meta.CommitObjects{Identity: me, Objects: manyObjects()},
		"compactObjects":         meta.CompactObjects{Identity: me, Sources: []uint64{3, 1, 2}, Objects: []meta.Object{{ObjectID: 9, Size: 10, Slices: []meta.Slice{slice}}}},
		"compactObjects-nothing": meta.CompactObjects{Identity: me, Sources: []uint64{1}},
		"reclaimObjects":         meta.ReclaimObjects{Time: 1_700_000_000_000, Limit: 1000},
		"reclaimObjects-early":   meta.ReclaimObjects{Time: -1, Limit: 1},
		"forgetObjects":          meta.ForgetObjects{ObjectIDs: []uint64{1, 2, 300}},
		"forgetObjects-limits":   meta.ForgetObjects{ObjectIDs: manyIDs()},
		"putKey":                 meta.PutKey{Key: "topics/orders", Value: []byte("v1"), IfAbsent: true},
		"putKey-version":         meta.PutKey{Identity: me, Key: "k", Value: []byte{0, 255, 10}, IfVersion: 1 << 60},
		"putKey-limits":          meta.PutKey{Key: strings.Repeat("k", meta.MaxKeyBytes), Value: bytes.Repeat([]byte{0xa5}, 4096)},
		"putKey-empty":           meta.PutKey{Key: "k"},
		"deleteKey":              meta.DeleteKey{Key: "topics/orders"},
		"deleteKey-version":      meta.DeleteKey{Identity: me, Key: "topics/orders", IfVersion: 513},
		"checkKey-absent":        meta.CheckKey{Key: "k", IfAbsent: true},
		"checkKey-version":       meta.CheckKey{Key: "k", IfVersion: 513},
		"setFormat":              meta.SetFormat{Level: 2},
		"setFormat-limits":       meta.SetFormat{Level: math.MaxUint64},
	}
	all := map[string]meta.Proposal{}
	for name, c := range bare {
		all[name] = meta.Proposal{Command: c}
	}
	request := func(sequence, oldest uint64, stamp int64, c meta.Command) meta.Proposal {
		return meta.Proposal{Request: &meta.Request{Client: id16(0xa0), Sequence: sequence, Oldest: oldest}, Stamp: stamp,
			Command: c}
	}
	all["prepareObjects"] = request(1, 1, 0, meta.PrepareObjects{Identity: me, Count: 3, Deadline: 4_102_444_800_000})
	all["prepareObjects-limits"] = request(math.MaxUint64, math.MaxUint64-255, math.MaxInt64,
		meta.PrepareObjects{Identity: top, Count: 1000, Deadline: math.MinInt64})
	all["atomic"] = request(300, 45, 1_700_000_000_123, meta.Atomic{Commands: []meta.Command{
		meta.CheckKey{Key: "topics/orders", IfAbsent: true},
		meta.CreateStream{Identity: me, Name: "orders-0"},
		meta.PutKey{Key: "topics/orders", Value: []byte("1")},
	}})
	all["atomic-every-kind"] = request(2, 0, -1, meta.Atomic{Commands: everyInner(bare)})
	all["putKey-request"] = request(7, 3, 1_700_000_000_123, meta.PutKey{Key: "k", Value: []byte("v")})
	return all
}

// everyInner returns the commands that may stand in an Atomic, without the largest, in the order of their names.
func everyInner(bare map[string]meta.Command) []meta.Command {
	var out []meta.Command
	for _, name := range slices.Sorted(maps.Keys(bare)) {
		switch bare[name].(type) {
		case meta.RenewNode, meta.SetFormat:
			continue
		}
		if !strings.HasSuffix(name, "-limits") && !strings.HasSuffix(name, "-many") {
			out = append(out, bare[name])
		}
	}
	return append(out, meta.PrepareObjects{Identity: meta.Identity{NodeID: 1, NodeEpoch: 2}, Count: 1, Deadline: 5})
}

func id16(b byte) (id [16]byte) {
	for i := range id {
		id[i] = b
	}
	return id
}

func manyLabels() []meta.Label {
	out := make([]meta.Label, meta.MaxLabels)
	for i := range out {
		out[i] = meta.Label{Name: fmt.Sprintf("%02d%s", i, strings.Repeat("n", meta.MaxLabelBytes-2)),
			Value: strings.Repeat("v", meta.MaxLabelBytes)}
	}
	return out
}

func manyIDs() []uint64 {
	out := make([]uint64, meta.MaxPerCommand)
	for i := range out {
		out[i] = uint64(i+1) * 1_000_003
	}
	return out
}

func manyObjects() []meta.Object {
	out := make([]meta.Object, 20)
	for i := range out {
		out[i] = meta.Object{ObjectID: uint64(i + 1), Size: 1 << 22, Attributes: bytes.Repeat([]byte{byte(i)}, 256)}
		for j := range 5 {
			out[i].Slices = append(out[i].Slices, meta.Slice{StreamID: uint64(j + 1), StreamEpoch: 1,
				StartOffset: uint64(i) * 100, EndOffset: uint64(i+1) * 100, Position: uint64(j) * 1000, Length: 1000,
				MaxTimestamp: int64(i) - 10})
		}
	}
	return out
}

// describe writes a proposal for people, one field a line, zero fields too.
func describe(p meta.Proposal) string {
	var b strings.Builder
	if p.Request != nil {
		describeValue(&b, "request", reflect.ValueOf(*p.Request))
	}
	fmt.Fprintf(&b, "stamp = %d\n", p.Stamp)
	describeCommand(&b, "", p.Command)
	return b.String()
}

func describeCommand(b *strings.Builder, prefix string, c meta.Command) {
	describeValue(b, prefix+meta.KindOf(c).String(), reflect.ValueOf(c))
}

func describeValue(b *strings.Builder, path string, v reflect.Value) {
	switch x := v.Interface().(type) {
	case meta.Command:
		if v.Kind() == reflect.Interface {
			describeCommand(b, path+".", x)
			return
		}
	case []byte:
		fmt.Fprintf(b, "%s = %x\n", path, x)
		return
	case [16]byte:
		fmt.Fprintf(b, "%s = %x\n", path, x)
		return
	case string:
		fmt.Fprintf(b, "%s = %q\n", path, x)
		return
	case meta.Label:
		fmt.Fprintf(b, "%s = %q: %q\n", path, x.Name, x.Value)
		return
	case []uint64:
		fmt.Fprintf(b, "%s = %v\n", path, x)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			describeValue(b, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		if v.Len() == 0 {
			fmt.Fprintf(b, "%s = []\n", path)
		}
		for i := range v.Len() {
			describeValue(b, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	default:
		fmt.Fprintf(b, "%s = %v\n", path, v.Interface())
	}
}

// TestLogFormatPage compares the example of docs/log-format.md with the vector that it shows, and the table of kinds with
// the numbers.
func TestLogFormatPage(t *testing.T) {
	t.Parallel()
	page := string(read(t, "../docs/log-format.md"))
	_, example, _ := strings.Cut(page, "```\n")
	example, _, _ = strings.Cut(example, "```")
	var shown []byte
	for _, line := range strings.Split(strings.TrimSpace(example), "\n") {
		bytesOf, _, _ := strings.Cut(line, "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(bytesOf, " ", ""))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		shown = append(shown, b...)
	}
	if want := read(t, filepath.Join(vectorDir, "atomic.bin")); !bytes.Equal(shown, want) {
		t.Errorf("the example is\n%x, the vector\n%x", shown, want)
	}
	for _, k := range meta.Kinds() {
		if row := fmt.Sprintf("| %d | %s |", k, k); !strings.Contains(page, row) {
			t.Errorf("the table of kinds lacks %s", row)
		}
	}
}
