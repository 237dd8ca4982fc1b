package meta_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headwaterdb/headwater/internal/gen"
	"github.com/headwaterdb/headwater/internal/wire"
	"github.com/headwaterdb/headwater/meta"
)

// encode returns the encoding of p, which has one.
func encode(t testing.TB, p meta.Proposal) []byte {
	t.Helper()
	b, err := meta.AppendProposal(nil, p)
	if err != nil {
		t.Fatalf("encode %#v: %v", p, err)
	}
	return b
}

func TestEveryProposalComesBack(t *testing.T) {
	t.Parallel()
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	for _, k := range meta.Kinds() {
		for range 300 {
			p := gen.Proposal(r, k)
			b := encode(t, p)
			got, err := meta.DecodeProposal(b)
			if err != nil {
				t.Fatalf("seed %d: decode %s: %v\n%#v", seed, k, err, p)
			}
			if d := cmp.Diff(p, got); d != "" {
				t.Fatalf("seed %d: %s decodes otherwise (-sent +got):\n%s", seed, k, d)
			}
			if again := encode(t, got); !bytes.Equal(b, again) {
				t.Fatalf("seed %d: %s encodes otherwise the second time:\n%x\n%x", seed, k, b, again)
			}
			if c := meta.AppendCommand(nil, p.Command); !bytes.HasSuffix(b, c) {
				t.Fatalf("seed %d: the encoding of %s does not end with that of its command", seed, k)
			}
		}
	}
}

func TestEveryResultComesBack(t *testing.T) {
	t.Parallel()
	const seed = 2
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		for _, res := range append(gen.Results(r), nil) {
			b := meta.AppendResult([]byte("x"), res)[1:]
			got, err := meta.DecodeResult(b)
			if err != nil {
				t.Fatalf("seed %d: decode %#v: %v", seed, res, err)
			}
			if d := cmp.Diff(res, got); d != "" {
				t.Fatalf("seed %d: result decodes otherwise (-sent +got):\n%s", seed, d)
			}
		}
	}
	if got, err := meta.DecodeResult(meta.AppendResult(nil, meta.NoResult{})); got != nil || err != nil {
		t.Errorf("no result decodes as %v, %v, want nil", got, err)
	}
}

func TestDecodeResultRefuses(t *testing.T) {
	t.Parallel()
	atomic := byte(meta.KindAtomic)
	for name, b := range map[string][]byte{
		"nothing":                    nil,
		"a number without result":    {byte(meta.KindFenceNode), 1},
		"an unknown number":          {99, 1},
		"an end in the middle":       {byte(meta.KindTrimStream), 1},
		"bytes left over":            {byte(meta.KindPutKey), 1, 0},
		"bytes after no result":      {0, 0},
		"atomic in atomic":           {atomic, 1, byte(meta.Applied), atomic, 0},
		"a rejection inside atomic":  {atomic, 1, byte(meta.Rejected), 0},
		"more answers than bytes":    {atomic, 2, byte(meta.Applied), 0},
		"an absurd number of answer": {atomic, 255, 255, 255, 255, 15},
	} {
		if res, err := meta.DecodeResult(b); err == nil {
			t.Errorf("%s: decodes as %#v", name, res)
		}
	}
}

func TestDecodedSharesNothingWithInput(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 0))
	for _, k := range meta.Kinds() {
		p := gen.Proposal(r, k)
		b := encode(t, p)
		got, err := meta.DecodeProposal(b)
		if err != nil {
			t.Fatal(err)
		}
		clear(b)
		if d := cmp.Diff(p, got); d != "" {
			t.Errorf("%s changed with the bytes it was decoded from:\n%s", k, d)
		}
	}
}

func TestObjectsDoNotReachIntoEachOther(t *testing.T) {
	t.Parallel()
	c := meta.CommitObjects{Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}, Objects: []meta.Object{
		{ObjectID: 1, Attributes: []byte("a"), Slices: []meta.Slice{{StreamID: 1, EndOffset: 1}}},
		{ObjectID: 2, Attributes: []byte("b"), Slices: []meta.Slice{{StreamID: 2, EndOffset: 2}}},
	}}
	p, err := meta.DecodeProposal(encode(t, meta.Proposal{Command: c}))
	if err != nil {
		t.Fatal(err)
	}
	got := p.Command.(meta.CommitObjects).Objects
	got[0].Attributes = append(got[0].Attributes, 'x')
	got[0].Slices = append(got[0].Slices, meta.Slice{StreamID: 9})
	if d := cmp.Diff(c.Objects[1], got[1]); d != "" {
		t.Errorf("growing one object changed the next:\n%s", d)
	}
}

func TestUnsortedLabelsAreWrittenSorted(t *testing.T) {
	t.Parallel()
	labels := []meta.Label{{Name: "z", Value: "1"}, {Name: "a", Value: "2"}}
	p, err := meta.DecodeProposal(encode(t, meta.Proposal{Command: meta.LabelStream{StreamID: 1, Labels: labels}}))
	if err != nil {
		t.Fatal(err)
	}
	want := []meta.Label{{Name: "a", Value: "2"}, {Name: "z", Value: "1"}}
	if d := cmp.Diff(want, p.Command.(meta.LabelStream).Labels); d != "" {
		t.Error(d)
	}
	if labels[0].Name != "z" {
		t.Error("the caller's labels were sorted in place")
	}
}

// embedded satisfies Command from outside the package.
type embedded struct{ meta.SetFormat }

func TestWhatHasNoEncodingIsRefused(t *testing.T) {
	t.Parallel()
	twice := []meta.Label{{Name: "a", Value: "1"}, {Name: "b"}, {Name: "a", Value: "2"}}
	big := make([]meta.Command, 5)
	for i := range big {
		big[i] = meta.PutKey{Key: "k", Value: make([]byte, meta.MaxValueBytes)}
	}
	tests := map[string]struct {
		command meta.Command
		code    meta.Code
		text    string
	}{
		"nothing":           {nil, meta.CodeInvalidArgument, "missing"},
		"a pointer":         {&meta.SetFormat{Level: 1}, meta.CodeInvalidArgument, "*meta.SetFormat"},
		"a foreign type":    {embedded{}, meta.CodeInvalidArgument, "embedded"},
		"nothing inside":    {meta.Atomic{Commands: []meta.Command{nil}}, meta.CodeInvalidArgument, "missing"},
		"atomic in atomic":  {meta.Atomic{Commands: []meta.Command{meta.Atomic{}}}, meta.CodeInvalidArgument, "inside"},
		"a label twice":     {meta.LabelStream{StreamID: 1, Labels: twice}, meta.CodeInvalidArgument, `"a"`},
		"more than one MiB": {meta.Atomic{Commands: big}, meta.CodeTooLarge, "1048576"},
	}
	for name, tt := range tests {
		b, err := meta.AppendProposal(nil, meta.Proposal{Command: tt.command})
		if meta.CodeOf(err) != tt.code || b != nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %d bytes, %v, want %s with %q", name, len(b), err, tt.code, tt.text)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	set := func(kind, version byte, fields ...byte) []byte { return append([]byte{0, 0, kind, version}, fields...) }
	commit := byte(meta.KindCommitObjects)
	tests := map[string]struct {
		bytes []byte
		is    error
		text  string
	}{
		"nothing":                     {nil, wire.ErrShort, ""},
		"a head of another kind":      {[]byte{2, 0, 22, 1, 1}, nil, "begins with byte 2"},
		"bytes left over":             {set(22, 1, 1, 0), wire.ErrTrailing, ""},
		"an end in the middle":        {set(22, 1, 0x80), wire.ErrShort, ""},
		"a number too long":           {set(22, 1, 0x81, 0), wire.ErrForm, "longer"},
		"a number above 64 bits":      {set(22, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2), wire.ErrForm, "64"},
		"a stamp too long":            {[]byte{0, 0x82, 0, 22, 1, 1}, wire.ErrForm, "longer"},
		"a truth value of 2":          {set(12, 1, 1, 1, 2, 0), wire.ErrForm, "truth"},
		"labels unsorted":             {set(9, 1, 1, 2, 1, 'b', 0, 1, 'a', 0), wire.ErrForm, `"a" after "b"`},
		"a label twice":               {set(9, 1, 1, 2, 1, 'a', 0, 1, 'a', 0), wire.ErrForm, `"a" after "a"`},
		"more labels than bytes":      {set(9, 1, 1, 3, 0, 0, 0, 0), wire.ErrShort, "3 elements"},
		"a text longer than there is": {set(12, 1, 1, 1, 0, 5, 'a'), wire.ErrShort, "5 elements"},
		"an absurd count":             {set(17, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1), wire.ErrShort, ""},
		"fewer slices than counted":   {set(commit, 1, 1, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), wire.ErrForm, "fewer"},
		"more slices than counted":    {set(commit, 1, 1, 1, 0, 1, 0, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0), wire.ErrForm, "more"},
		"fewer attributes":            {set(commit, 1, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 7), wire.ErrForm, "fewer"},
		"more attributes":             {set(commit, 1, 1, 1, 0, 1, 0, 0, 1, 0, 1, 9, 0), wire.ErrForm, "more"},
		"atomic in atomic":            {set(21, 1, 1, 21, 1, 0), nil, "inside"},
		"kind 0":                      {set(0, 1, 1), nil, "number 0"},
		"an unknown kind":             {set(99, 1, 1), nil, "no command has the number 99"},
		"version 0":                   {set(22, 0, 1), nil, "no encoding of format level 0"},
		"a command above 1 MiB":       {set(17, 1, append([]byte{0x80, 0x80, 0x40}, make([]byte, 1<<20)...)...), nil, "1048576"},
		"a proposal above all":        {make([]byte, meta.MaxCommandBytes+1000), nil, "at most"},
	}
	for name, tt := range tests {
		p, err := meta.DecodeProposal(tt.bytes)
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, %v, want %v with %q", name, p, err, tt.is, tt.text)
		}
	}
}

func TestEveryPrefixIsRefused(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 0))
	for _, k := range meta.Kinds() {
		b := encode(t, gen.Proposal(r, k))
		for n := range b {
			if _, err := meta.DecodeProposal(b[:n:n]); err == nil {
				t.Fatalf("%s: %d of %d bytes decode", k, n, len(b))
			}
		}
	}
}

func TestNewerFormatSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for kind, name := range map[byte]string{5: "createStream", 40: "command 40"} {
		_, err := meta.DecodeProposal([]byte{0, 0, kind, meta.MaxFormat + 1, 1, 2, 3})
		var newer *meta.FormatError
		if !errors.As(err, &newer) {
			t.Fatalf("%s: %v, want a FormatError", name, err)
		}
		if want := name + " needs format level 2, this program knows up to 1"; newer.Error() != want {
			t.Errorf("%q, want %q", newer, want)
		}
	}
	if got := meta.MinLevel(meta.Proposal{Command: meta.Atomic{Commands: []meta.Command{meta.PutKey{}}}}); got != 1 {
		t.Errorf("level %d, want 1", got)
	}
}

// TestDecodingAllocatesInProportion feeds damaged encodings and counts the bytes allocated for each.
func TestDecodingAllocatesInProportion(t *testing.T) {
	const seed = 5 // not parallel: it counts what the process allocates
	r := rand.New(rand.NewPCG(seed, 0))
	full := []byte{255, 255, 63}
	inputs := [][]byte{
		append([]byte{0, 0, byte(meta.KindForgetObjects), 1}, append(full, make([]byte, 1<<20-10)...)...),
		append([]byte{0, 0, byte(meta.KindLabelStream), 1, 1, 255, 255, 31}, make([]byte, 1<<20-10)...),
		append([]byte{0, 0, byte(meta.KindCommitObjects), 1, 1, 1, 0, 128, 128, 8, 128, 128, 4, 10}, make([]byte, 1<<20-20)...),
		append([]byte{0, 0, byte(meta.KindAtomic), 1, 128, 128, 16}, bytes.Repeat([]byte{9, 1, 0, 0}, 1<<18)...),
	}
	for _, k := range meta.Kinds() {
		for range 200 {
			b := encode(t, gen.Proposal(r, k))
			for range 1 + r.IntN(3) {
				b[r.IntN(len(b))] = byte(r.Uint32())
			}
			inputs = append(inputs, b)
		}
	}
	for i, b := range inputs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = meta.DecodeProposal(b)
		runtime.ReadMemStats(&after)
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(20*len(b)+8192); got > limit {
			t.Errorf("seed %d: input %d of %d bytes: %d bytes allocated, want at most %d", seed, i, len(b), got, limit)
		}
	}
}

// seeds gives the frozen vectors to a fuzz target.
func seeds(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/v1/*.bin")
	if err != nil || len(files) == 0 {
		f.Fatalf("no vectors in testdata/v1: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// FuzzDecodeProposal: what decodes encodes to the same bytes, takes memory in proportion to them, and can be validated.
func FuzzDecodeProposal(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := meta.DecodeProposal(b)
		if err != nil {
			return
		}
		if again := encode(t, p); !bytes.Equal(b, again) {
			t.Fatalf("encodes otherwise:\n%x\n%x", b, again)
		}
		if got, limit := footprint(reflect.ValueOf(p)), 20*len(b)+512; got > limit {
			t.Fatalf("%d bytes became %d, want at most %d", len(b), got, limit)
		}
		_ = meta.Validate(p)
	})
}

// FuzzDecodeResult: what decodes encodes to the same bytes.
func FuzzDecodeResult(f *testing.F) {
	r := rand.New(rand.NewPCG(6, 0))
	for range 5 {
		for _, res := range gen.Results(r) {
			f.Add(meta.AppendResult(nil, res))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		res, err := meta.DecodeResult(b)
		if err != nil {
			return
		}
		if again := meta.AppendResult(nil, res); !bytes.Equal(b, again) {
			t.Fatalf("encodes otherwise:\n%x\n%x", b, again)
		}
	})
}

// footprint returns about how many bytes of memory v takes with all that hangs on it.
func footprint(v reflect.Value) int {
	n := int(v.Type().Size())
	switch v.Kind() {
	case reflect.String:
		n += v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n += footprint(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += footprint(v.Index(i))
		}
		n += (v.Cap() - v.Len()) * int(v.Type().Elem().Size())
	case reflect.Struct:
		for i := range v.NumField() {
			n += footprint(v.Field(i)) - int(v.Field(i).Type().Size())
		}
	}
	return n
}

// tenSlices is the command that a busy writer sends most: one object with ten slices.
func tenSlices() meta.Proposal {
	slices := make([]meta.Slice, 10)
	for i := range slices {
		slices[i] = meta.Slice{StreamID: uint64(1000 + i), StreamEpoch: 3, StartOffset: 1_000_000, EndOffset: 1_000_512,
			Position: uint64(i) << 16, Length: 1 << 16, MaxTimestamp: 1_700_000_000_000}
	}
	return meta.Proposal{Request: &meta.Request{Client: [16]byte{1}, Sequence: 5000, Oldest: 4990}, Stamp: 1_700_000_000_000,
		Command: meta.CommitObjects{Identity: meta.Identity{NodeID: 7, NodeEpoch: 4}, Objects: []meta.Object{
			{ObjectID: 123_456, Size: 10 << 16, Attributes: []byte("0123456789abcdef"), Slices: slices}}}}
}

func BenchmarkAppendProposal(b *testing.B) {
	p := tenSlices()
	buf := encode(b, p)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = meta.AppendProposal(buf[:0], p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeProposal(b *testing.B) {
	for name, p := range map[string]meta.Proposal{"commit10": tenSlices(),
		"renew": {Command: meta.RenewNode{Identity: meta.Identity{NodeID: 7, NodeEpoch: 4}}}} {
		b.Run(name, func(b *testing.B) {
			buf := encode(b, p)
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := meta.DecodeProposal(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	p := tenSlices()
	b.ReportAllocs()
	for b.Loop() {
		if err := meta.Validate(p); err != nil {
			b.Fatal(err)
		}
	}
}
