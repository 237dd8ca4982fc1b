package api_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/internal/gen"
	"github.com/headwaterdb/headwater/meta"
)

// wire is what both ends of the native transport use.
var wire = api.Codec(encoding.GetCodecV2(grpcproto.Name))

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := wire.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b.Materialize()
}

func unmarshal(b []byte, v any) error {
	return wire.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, v)
}

// same compares what was read in two ways.
func same(a, b any) string {
	return cmp.Diff(a, b, protocmp.Transform(), cmp.Comparer(func(a, b error) bool {
		return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
	}))
}

// TestEncodedCommands: a command is encoded as the generated code does it, whatever it is, shares nothing with the proposal,
// and takes another request without a change of anything else.
func TestEncodedCommands(t *testing.T) {
	t.Parallel()
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	for _, k := range meta.Kinds() {
		for range 200 {
			p := gen.Proposal(r, k)
			want := &pb.ProposeRequest{Commands: []*pb.Command{proto.CloneOf(api.FromProposal(p))}}
			c, err := api.EncodeCommand(p)
			if err != nil {
				t.Fatal(err)
			}
			scribble(reflect.ValueOf(&p))
			check := func(what string) {
				t.Helper()
				b := marshal(t, &api.ProposeRequest{Commands: []api.EncodedCommand{c}})
				if len(b) != c.Len() || len(b) != proto.Size(want) {
					t.Errorf("seed %d: %s, %s: %d bytes, want %d, and %d were told", seed, k, what, len(b), proto.Size(want), c.Len())
				}
				var got pb.ProposeRequest
				if err := proto.Unmarshal(b, &got); err != nil {
					t.Fatal(err)
				}
				if diff := same(want, &got); diff != "" {
					t.Fatalf("seed %d: %s, %s: %s", seed, k, what, diff)
				}
			}
			check("encoded")
			other := meta.Request{Client: [16]byte{7}, Sequence: r.Uint64(), Oldest: r.Uint64N(3)}
			c.Renumber(other)
			want.Commands[0].Request = &pb.Request{Client: other.Client[:], Sequence: other.Sequence, Oldest: other.Oldest}
			check("with another request")
		}
	}
}

// TestTextsAreUTF8: what protobuf does not carry is refused by the sender and by the receiver.
func TestTextsAreUTF8(t *testing.T) {
	t.Parallel()
	for _, c := range []meta.Command{meta.PutKey{Key: "a\xff"}, meta.DeleteKey{Key: "a\xff"}} {
		if _, err := api.EncodeCommand(meta.Proposal{Command: c}); err == nil {
			t.Errorf("%T was encoded", c)
		}
	}
	ok, err := api.EncodeCommand(meta.Proposal{Command: meta.PutKey{Key: "a?"}})
	if err != nil {
		t.Fatal(err)
	}
	b := marshal(t, &api.ProposeRequest{Commands: []api.EncodedCommand{ok}})
	b[len(b)-1] = 0xff
	if err := unmarshal(b, new(api.ReceivedRequest)); err == nil {
		t.Error("it was read")
	}
}

// TestRequestsAreReadAlike: a request, and what chance makes of its bytes, is read as the generated code reads it.
func TestRequestsAreReadAlike(t *testing.T) {
	t.Parallel()
	const seed = 4
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var cs []api.EncodedCommand
		for range r.IntN(4) {
			k := []meta.Kind{meta.KindPutKey, meta.KindCommitObjects, meta.Kinds()[r.IntN(len(meta.Kinds()))]}[r.IntN(3)]
			c, err := api.EncodeCommand(gen.Proposal(r, k))
			if err != nil {
				t.Fatal(err)
			}
			cs = append(cs, c)
		}
		b := marshal(t, &api.ProposeRequest{Commands: cs})
		readAlike(t, b)
		for range 30 {
			readAlike(t, broken(r, b))
		}
	}
}

// broken changes a few bytes of b, repeats or drops some, or ends it early.
func broken(r *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			return b
		}
		at := r.IntN(len(b))
		switch end := min(len(b), at+r.IntN(30)); r.IntN(5) {
		case 0:
			b = append(b, b[at:end]...)
		case 1:
			b = append(b[:at], b[end:]...)
		case 2:
			b = b[:at]
		default:
			b[at] ^= byte(1 << r.IntN(8))
		}
	}
	return b
}

// readAlike holds how a request is read against the generated code.
func readAlike(t *testing.T, b []byte) {
	t.Helper()
	before := append([]byte(nil), b...)
	var m pb.ProposeRequest
	wrong := proto.Unmarshal(before, &m)
	var got api.ReceivedRequest
	if err := unmarshal(b, &got); (err != nil) != (wrong != nil) {
		t.Fatalf("%x: %v, generated: %v", before, err, wrong)
	}
	clear(b) // which may be used again
	if wrong != nil {
		return
	}
	if diff := same(*api.Received(m.Commands), got); diff != "" {
		t.Fatalf("%x: %s", before, diff)
	}
}

// TestTooManyCommands are counted and not read.
func TestTooManyCommands(t *testing.T) {
	t.Parallel()
	for _, extra := range []string{"", "\x12\x00"} { // a field that nobody knows
		for _, n := range []int{api.MaxCommands, api.MaxCommands + 1} {
			var b []byte
			for range n {
				b = append(b, 0x0a, 0)
			}
			var got api.ReceivedRequest
			if err := unmarshal(append(b, extra...), &got); err != nil {
				t.Fatal(err)
			}
			if got.Count != n || (len(got.Commands) == n) != (n <= api.MaxCommands) {
				t.Errorf("of %d commands %d were counted and %d read", n, got.Count, len(got.Commands))
			}
		}
	}
}

// TestResponsesAreReadAlike: answers are written as the generated code does it, and read so, also what chance makes of them.
func TestResponsesAreReadAlike(t *testing.T) {
	t.Parallel()
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		res := response(r)
		want := &pb.ProposeResponse{Answers: api.Each(res.Answers, api.FromAnswer), At: res.At}
		b := marshal(t, res)
		var m pb.ProposeResponse
		if err := proto.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if diff := same(want, &m); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		answersAlike(t, b)
		for range 30 {
			answersAlike(t, broken(r, b))
		}
	}
}

func answersAlike(t *testing.T, b []byte) {
	t.Helper()
	before := append([]byte(nil), b...)
	var m pb.ProposeResponse
	wrong := proto.Unmarshal(before, &m)
	var got api.ProposeResponse
	if err := unmarshal(b, &got); (err != nil) != (wrong != nil) {
		t.Fatalf("%x: %v, generated: %v", before, err, wrong)
	}
	clear(b)
	if wrong != nil {
		return
	}
	if diff := same(api.ProposeResponse{Answers: api.Each(m.Answers, api.ToAnswer), At: m.At}, got); diff != "" {
		t.Fatalf("%x: %s", before, diff)
	}
}

// response returns answers of all kinds, mostly the common ones.
func response(r *rand.Rand) *api.ProposeResponse {
	res := &api.ProposeResponse{}
	if r.IntN(10) > 0 {
		res.At = &pb.At{Index: r.Uint64(), Incarnation: "0123456789abcdef", AgeMs: r.Uint64N(2)}
	}
	for range r.IntN(5) {
		a := meta.Answer{Status: meta.Status(1 + r.IntN(2)), Index: r.Uint64(), Position: r.IntN(256), FirstIndex: r.Uint64N(2),
			FirstPosition: r.IntN(256)}
		switch r.IntN(6) {
		case 0:
			a.Result = meta.PutKeyResult{Version: r.Uint64N(3)}
		case 1:
			a.Result = meta.CommitObjectsResult{DroppedSlices: r.Uint64()}
		case 2:
			others := gen.Results(r)
			a.Result = others[r.IntN(len(others))]
		case 3:
			a.Status, a.Err = meta.Rejected, &meta.Error{Code: meta.CodeKeyExists, Message: "no", Inner: -1}
		case 4:
			a = meta.Answer{Err: errors.Join(meta.ErrOutcomeUnknown)}
		}
		res.Answers = append(res.Answers, a)
	}
	return res
}

// TestCommonMessagesTakeFewAllocations, which also shows that they do not go by way of the generated code.
func TestCommonMessagesTakeFewAllocations(t *testing.T) { // not parallel: it counts allocations
	request := &meta.Request{Client: [16]byte{1}, Sequence: 1000, Oldest: 900}
	for name, c := range map[string]struct {
		command      meta.Command
		encode, read float64
	}{
		// Written: the bytes. Read: the list, the request, the command, and of it key and value, or objects and slices.
		"PutKey":        {meta.PutKey{Key: "key", Value: make([]byte, 100)}, 1, 5},
		"CommitObjects": {meta.CommitObjects{Identity: meta.Identity{NodeID: 1, NodeEpoch: 1}, Objects: []meta.Object{{ObjectID: 1, Size: 1, Slices: make([]meta.Slice, 10)}}}, 1, 5},
	} {
		p := meta.Proposal{Request: request, Command: c.command}
		if n := testing.AllocsPerRun(100, func() { _, _ = api.EncodeCommand(p) }); n > c.encode {
			t.Errorf("%s: %v allocations to encode it, want %v", name, n, c.encode)
		}
		e, err := api.EncodeCommand(p)
		if err != nil {
			t.Fatal(err)
		}
		data := mem.BufferSlice{mem.SliceBuffer(marshal(t, &api.ProposeRequest{Commands: []api.EncodedCommand{e}}))}
		if n := testing.AllocsPerRun(100, func() {
			var r api.ReceivedRequest
			if err := wire.Unmarshal(data, &r); err != nil {
				t.Fatal(err)
			}
		}); n > c.read+1 { // the request itself
			t.Errorf("%s: %v allocations to read it, want %v", name, n, c.read+1)
		}
	}
}

// TestCommonAnswersTakeFewAllocations: one for all answers, and one for the result of each; and the At and its text.
func TestCommonAnswersTakeFewAllocations(t *testing.T) { // not parallel: it counts allocations
	res := &api.ProposeResponse{At: &pb.At{Index: 1000, Incarnation: "0123456789abcdef"}}
	for i := range 10 {
		res.Answers = append(res.Answers, meta.Answer{Status: meta.Applied, Index: 1000, Position: i, FirstIndex: 1000,
			Result: meta.PutKeyResult{Version: 256_000}})
	}
	data := mem.BufferSlice{mem.SliceBuffer(marshal(t, res))}
	if n := testing.AllocsPerRun(100, func() {
		var r api.ProposeResponse
		if err := wire.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
	}); n > 14 { // and the response itself
		t.Errorf("%v allocations to read ten answers, want 14", n)
	}
}

// FuzzRequestsAreReadAlike: whatever comes is read as the generated code reads it.
func FuzzRequestsAreReadAlike(f *testing.F) {
	r := rand.New(rand.NewPCG(11, 0))
	for _, k := range meta.Kinds() {
		c, err := api.EncodeCommand(gen.Proposal(r, k))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(marshal(f, &api.ProposeRequest{Commands: []api.EncodedCommand{c, c}}))
	}
	f.Fuzz(func(t *testing.T, b []byte) { readAlike(t, append([]byte(nil), b...)) })
}

// FuzzResponsesAreReadAlike: whatever a server answers is read as the generated code reads it.
func FuzzResponsesAreReadAlike(f *testing.F) {
	r := rand.New(rand.NewPCG(12, 0))
	for range 20 {
		f.Add(marshal(f, response(r)))
	}
	f.Fuzz(func(t *testing.T, b []byte) { answersAlike(t, append([]byte(nil), b...)) })
}
