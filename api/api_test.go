package api_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/internal/gen"
	"github.com/headwaterdb/headwater/meta"
	"google.golang.org/protobuf/proto"
)

// roundTrip sends m over the wire, once as protobuf and once as JSON, and returns what arrives.
func roundTrip[M any, P interface {
	*M
	proto.Message
}](t *testing.T, m P) []P {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	j, err := api.MarshalJSON(m)
	if err != nil {
		t.Fatal(err)
	}
	binary, text := P(new(M)), P(new(M))
	if err := proto.Unmarshal(b, binary); err != nil {
		t.Fatal(err)
	}
	if err := api.UnmarshalJSON(j, text); err != nil {
		t.Fatalf("%v in %s", err, j)
	}
	return []P{binary, text}
}

// random fills a T at random.
func random[T any](r *rand.Rand) (v T) {
	gen.Fill(r, reflect.ValueOf(&v).Elem())
	return v
}

func TestEveryCommandComesBack(t *testing.T) {
	t.Parallel()
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	for _, k := range meta.Kinds() {
		for range 100 {
			p := gen.Proposal(r, k)
			for _, m := range roundTrip(t, api.FromProposal(p)) {
				got, err := api.ToProposal(m)
				if err != nil {
					t.Fatalf("seed %d: %s: %v", seed, k, err)
				}
				if d := cmp.Diff(p, got); d != "" {
					t.Fatalf("seed %d: %s came back otherwise (-sent +got):\n%s", seed, k, d)
				}
			}
			line, err := api.MarshalJSON(api.FromProposal(p))
			if err != nil {
				t.Fatal(err)
			}
			got, err := api.UnmarshalCommand(line)
			if d := cmp.Diff(p, got); err != nil || d != "" {
				t.Fatalf("seed %d: %s as a line: %v\n%s\n%s", seed, k, err, line, d)
			}
		}
	}
}

func TestWhatIsNoCommandIsSentAsNone(t *testing.T) {
	t.Parallel()
	for _, c := range []meta.Command{nil, &meta.SetFormat{Level: 1},
		meta.Atomic{Commands: []meta.Command{meta.Atomic{Commands: []meta.Command{meta.SetFormat{}}}}}} {
		if _, err := api.ToProposal(api.FromProposal(meta.Proposal{Command: c})); meta.CodeOf(err) != meta.CodeInvalidArgument {
			t.Errorf("%#v came back with %v, want INVALID_ARGUMENT", c, err)
		}
	}
}

func TestToProposalRefuses(t *testing.T) {
	t.Parallel()
	level := &pb.Command_SetFormat{SetFormat: &pb.SetFormat{Level: 1}}
	atomic := func(commands ...*pb.Command) *pb.Command {
		return &pb.Command{Command: &pb.Command_Atomic{Atomic: &pb.Atomic{Commands: commands}}}
	}
	strange := &pb.Identity{NodeId: 1, NodeEpoch: 1}
	strange.ProtoReflect().SetUnknown([]byte{0x50, 1}) // field 10
	slice := &pb.Slice{StreamId: 1}
	slice.ProtoReflect().SetUnknown([]byte{0x50, 1})
	commit := func(o ...*pb.Object) *pb.Command {
		return &pb.Command{Command: &pb.Command_CommitObjects{CommitObjects: &pb.CommitObjects{Objects: o}}}
	}
	tests := map[string]struct {
		m     *pb.Command
		inner int
	}{
		"nothing":                   {nil, -1},
		"no command":                {&pb.Command{Stamp: 1}, -1},
		"an empty command":          {&pb.Command{Command: &pb.Command_PutKey{}}, -1},
		"an empty stream command":   {&pb.Command{Command: &pb.Command_OpenStream{}}, -1},
		"an empty node command":     {&pb.Command{Command: &pb.Command_RenewNode{}}, -1},
		"an empty object command":   {&pb.Command{Command: &pb.Command_ForgetObjects{}}, -1},
		"a short client":            {&pb.Command{Request: &pb.Request{Client: []byte{1}}, Command: level}, -1},
		"a long instance":           {&pb.Command{Command: &pb.Command_RegisterNode{RegisterNode: &pb.RegisterNode{Instance: make([]byte, 17)}}}, -1},
		"an unknown identity field": {&pb.Command{Command: &pb.Command_RenewNode{RenewNode: &pb.RenewNode{Identity: strange}}}, -1},
		"an unknown slice field":    {commit(&pb.Object{Slices: []*pb.Slice{slice}}), -1},
		"no object":                 {commit(nil), -1},
		"a request inside atomic":   {atomic(&pb.Command{Command: level}, &pb.Command{Request: &pb.Request{}, Command: level}), 1},
		"a stamp inside atomic":     {atomic(&pb.Command{Stamp: 1, Command: level}), 0},
		"atomic inside atomic":      {atomic(&pb.Command{Command: level}, atomic()), 1},
		"nothing inside atomic":     {atomic(nil), 0},
		"no command inside atomic":  {atomic(&pb.Command{}), 0},
	}
	for name, tt := range tests {
		_, err := api.ToProposal(tt.m)
		var refused *meta.Error
		if !errors.As(err, &refused) || refused.Code != meta.CodeInvalidArgument || refused.Inner != tt.inner ||
			refused.Message == "" {
			t.Errorf("%s: %v, want INVALID_ARGUMENT at %d", name, err, tt.inner)
		}
	}
	if _, err := api.ToProposal(&pb.Command{Command: level}); err != nil {
		t.Errorf("a command that is none of these: %v", err)
	}
}

func TestEveryAnswerComesBack(t *testing.T) {
	t.Parallel()
	const seed = 2
	r := rand.New(rand.NewPCG(seed, 0))
	key := meta.Key{Key: "k", Value: []byte("v"), Version: 513}
	answers := []meta.Answer{{Status: meta.Applied, Index: 7, Position: 255, FirstIndex: 3, FirstPosition: 1}}
	for range 50 {
		for _, res := range gen.Results(r) {
			answers = append(answers, meta.Answer{Status: meta.Redundant, Index: r.Uint64(), Result: res})
		}
	}
	for i, c := range meta.Codes() {
		answers = append(answers,
			meta.Answer{Status: meta.Rejected, Index: 1, Err: &meta.Error{Code: c, Message: "why", Inner: -1}},
			meta.Answer{Status: meta.Rejected, Index: 1, Err: &meta.Error{Code: c, Message: "why", Inner: i, Current: &key}})
	}
	for _, a := range answers {
		for _, m := range roundTrip(t, api.FromAnswer(a)) {
			if d := cmp.Diff(a, api.ToAnswer(m)); d != "" {
				t.Fatalf("seed %d: answer came back otherwise (-sent +got):\n%s", seed, d)
			}
		}
	}
}

// sentinels are the operational conditions with what their status has to be.
var sentinels = map[error]connect.Code{
	meta.ErrOutcomeUnknown: connect.CodeUnknown,
	meta.ErrNotApplied:     connect.CodeUnavailable,
	meta.ErrOverloaded:     connect.CodeResourceExhausted,
	meta.ErrHalted:         connect.CodeUnavailable,
	meta.ErrUnavailable:    connect.CodeUnavailable,
	meta.ErrClosed:         connect.CodeUnavailable,
	meta.ErrIncarnation:    connect.CodeFailedPrecondition,
}

func TestEveryFailureComesBack(t *testing.T) {
	t.Parallel()
	for sentinel := range sentinels {
		for _, err := range []error{sentinel, fmt.Errorf("append row 5: %w", sentinel), errors.Join(context.Canceled, sentinel)} {
			for _, m := range roundTrip(t, api.FromAnswer(meta.Answer{Err: err})) {
				got := api.ToAnswer(m)
				if !errors.Is(got.Err, sentinel) || got.Err.Error() != err.Error() || got.Status != 0 {
					t.Errorf("%v came back as %v, %v", err, got.Status, got.Err)
				}
			}
		}
	}
	strange := map[string]*pb.Answer{
		"an error of no kind":     api.FromAnswer(meta.Answer{Err: errors.New("disk \xff on fire")}),
		"a failure from later":    {Status: pb.Answer_FAILED, Failure: &pb.Failure{Kind: 99}, Message: "new"},
		"a failure without words": {Status: pb.Answer_FAILED},
		"no status":               {},
		"a status from later":     {Status: 99},
		"a result from later":     {Status: pb.Answer_APPLIED, Result: &pb.Result{}},
		"no answer":               nil,
	}
	for name, m := range strange {
		if got := api.ToAnswer(m); !errors.Is(got.Err, meta.ErrOutcomeUnknown) || got.Status != 0 {
			t.Errorf("%s is read as %v, %v, want outcome unknown", name, got.Status, got.Err)
		}
	}
	later := api.ToAnswer(&pb.Answer{Status: pb.Answer_REJECTED, Code: "MOON_PHASE", Message: "full"})
	if later.Status != meta.Rejected || later.Err.Error() != "UNKNOWN: MOON_PHASE: full" {
		t.Errorf("a code from later is read as %v, %v", later.Status, later.Err)
	}
}

func TestEveryCodeSurvivesAStatus(t *testing.T) {
	t.Parallel()
	key := meta.Key{Key: "k", Value: []byte("v"), Version: 513}
	named := map[meta.Code]connect.Code{
		meta.CodeInvalidArgument: connect.CodeInvalidArgument, meta.CodeTooLarge: connect.CodeInvalidArgument,
		meta.CodeNodeNotFound: connect.CodeNotFound, meta.CodeStreamNotFound: connect.CodeNotFound,
		meta.CodeObjectNotFound: connect.CodeNotFound, meta.CodeStreamExists: connect.CodeAlreadyExists,
		meta.CodeObjectExists: connect.CodeAlreadyExists, meta.CodeKeyExists: connect.CodeAlreadyExists,
		meta.CodeKeyVersionMismatch: connect.CodeAborted, meta.CodeKeyNotFound: connect.CodeNotFound,
	}
	for _, c := range meta.Codes() {
		want := &meta.Error{Code: c, Message: "why", Inner: 3, Current: &key}
		sent := api.ToStatus(fmt.Errorf("find objects: %w", want))
		status, ok := named[c]
		if !ok {
			status = connect.CodeFailedPrecondition
		}
		if got := connect.CodeOf(sent); got != status {
			t.Errorf("%s has status %s, want %s", c, got, status)
		}
		var got *meta.Error
		if !errors.As(api.FromStatus(sent), &got) {
			t.Fatalf("%s came back as %v", c, api.FromStatus(sent))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s came back otherwise (-sent +got):\n%s", c, d)
		}
	}
}

func TestEveryFailureSurvivesAStatus(t *testing.T) {
	t.Parallel()
	for sentinel, status := range sentinels {
		err := fmt.Errorf("wait for row 9: %w", sentinel)
		sent := api.ToStatus(err)
		if got := connect.CodeOf(sent); got != status {
			t.Errorf("%v has status %s, want %s", sentinel, got, status)
		}
		if got := api.FromStatus(sent); !errors.Is(got, sentinel) || got.Error() != err.Error() {
			t.Errorf("%v came back as %v", err, got)
		}
	}
	for err, status := range map[error]connect.Code{
		context.Canceled:         connect.CodeCanceled,
		context.DeadlineExceeded: connect.CodeDeadlineExceeded,
		errors.New("a bug \xff"): connect.CodeInternal,
	} {
		sent := api.ToStatus(err)
		if got := connect.CodeOf(sent); got != status {
			t.Errorf("%v has status %s, want %s", err, got, status)
		}
		if got := api.FromStatus(sent); got != sent {
			t.Errorf("%v without a detail came back as %v", sent, got)
		}
	}
	if err := api.ToStatus(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	plain := errors.New("connection refused")
	if got := api.FromStatus(plain); got != plain {
		t.Errorf("%v became %v", plain, got)
	}
	ready := connect.NewError(connect.CodeUnauthenticated, plain)
	if got := api.ToStatus(ready); got != error(ready) {
		t.Errorf("%v became %v", ready, got)
	}
}

func TestEveryRecordComesBack(t *testing.T) {
	t.Parallel()
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		stream := random[meta.Stream](r)
		answer := random[meta.AnswerRecord](r)
		answer.Code, answer.Inner = 0, -1
		refused := answer
		refused.Status, refused.Result, refused.Code, refused.Inner = meta.Rejected, nil, meta.CodeKeyExists, 4
		object := random[meta.ObjectRecord](r)
		object.State = meta.ObjectState(1 + r.IntN(3))
		for _, rec := range []meta.Record{random[meta.Node](r), stream, random[meta.Range](r), random[meta.Debt](r),
			random[meta.Loss](r), object, random[meta.StoredSlice](r), random[meta.Key](r), random[meta.ClientRecord](r),
			answer, refused, random[meta.ClusterRecord](r), meta.Node{ID: 1, Epoch: 2}, meta.ClusterRecord{}, nil} {
			c := meta.Change{Command: r.IntN(256), Kind: "some", Key: "1/2", Old: rec, New: nil}
			if r.IntN(2) == 0 {
				c.Old, c.New = nil, rec
			}
			for _, m := range roundTrip(t, api.FromChange(c)) {
				got, err := api.ToChange(m)
				if d := cmp.Diff(c, got); err != nil || d != "" {
					t.Fatalf("seed %d: record came back otherwise: %v (-sent +got):\n%s", seed, err, d)
				}
			}
		}
	}
	for name, m := range map[string]*pb.Record{
		"of no kind":           {},
		"with a short digest":  {Record: &pb.Record_Cluster{Cluster: &pb.ClusterState{Digest: "00"}}},
		"with a bad hash":      {Record: &pb.Record_Answered{Answered: &pb.Answered{PayloadHash: "xyz"}}},
		"with an unknown code": {Record: &pb.Record_Answered{Answered: &pb.Answered{Code: "MOON_PHASE"}}},
		"with a bad result":    {Record: &pb.Record_Answered{Answered: &pb.Answered{Result: &pb.Result{}}}},
	} {
		if rec, err := api.ToRecord(m); err == nil {
			t.Errorf("a record %s is read as %v", name, rec)
		}
		if c, err := api.ToChange(&pb.Change{New: m}); err == nil {
			t.Errorf("a change to a record %s is read as %v", name, c)
		}
	}
}

func TestEveryQueryAnswerComesBack(t *testing.T) {
	t.Parallel()
	const seed = 4
	r := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		counts := random[meta.Counts](r)
		for _, m := range roundTrip(t, api.FromCounts(counts)) {
			if d := cmp.Diff(counts, api.ToCounts(m)); d != "" {
				t.Fatalf("seed %d: %s", seed, d)
			}
		}
		candidate := random[meta.CompactionCandidate](r)
		for _, m := range roundTrip(t, api.FromCandidate(candidate)) {
			if d := cmp.Diff(candidate, api.ToCandidate(m)); d != "" {
				t.Fatalf("seed %d: %s", seed, d)
			}
		}
		found := random[meta.Found](r)
		found.Stop = meta.Stop(1 + r.IntN(4))
		if found.Stop != meta.StopDebt {
			found.Debt = meta.Debt{}
		}
		if found.Stop != meta.StopLoss {
			found.Loss = meta.Loss{}
		}
		for _, m := range roundTrip(t, api.FromFound(found)) {
			if d := cmp.Diff(found, api.ToFound(m)); d != "" {
				t.Fatalf("seed %d: %s", seed, d)
			}
		}
	}
}

// commit10 is the command that a busy writer sends most: one object with ten slices.
func commit10() meta.Proposal {
	slices := make([]meta.Slice, 10)
	for i := range slices {
		slices[i] = meta.Slice{StreamID: uint64(1000 + i), StreamEpoch: 3, StartOffset: 1_000_000, EndOffset: 1_000_512,
			Position: uint64(i) << 16, Length: 1 << 16, MaxTimestamp: 1_700_000_000_000}
	}
	return meta.Proposal{Request: &meta.Request{Client: [16]byte{1}, Sequence: 5000, Oldest: 4990},
		Command: meta.CommitObjects{Identity: meta.Identity{NodeID: 7, NodeEpoch: 4}, Objects: []meta.Object{
			{ObjectID: 123_456, Size: 10 << 16, Attributes: []byte("0123456789abcdef"), Slices: slices}}}}
}

func BenchmarkFromProposal(b *testing.B) {
	p := commit10()
	b.ReportAllocs()
	for b.Loop() {
		api.FromProposal(p)
	}
}

func BenchmarkToProposal(b *testing.B) {
	m := api.FromProposal(commit10())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := api.ToProposal(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCommandJSON(b *testing.B) {
	m := api.FromProposal(commit10())
	line, err := api.MarshalJSON(m)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := api.MarshalJSON(m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := api.UnmarshalCommand(line); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// scribble changes every byte and number that v leads to through slices, pointers and interfaces.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			scribble(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.Uint8, reflect.Uint64:
		if v.CanSet() {
			v.SetUint(^v.Uint() & (1<<(8*v.Type().Size()-1)*2 - 1))
		}
	case reflect.Int64:
		if v.CanSet() {
			v.SetInt(^v.Int())
		}
	}
}
