package api_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/internal/gen"
	"github.com/headwaterdb/headwater/meta"
)

// FuzzUnmarshalCommand: a line of JSON is a command or a complaint that can be shown. A command that is within the limits
// comes back unchanged through the binary encoding of the log, through protobuf, and through JSON.
func FuzzUnmarshalCommand(f *testing.F) {
	tour, err := os.ReadFile("../testdata/tour/tour.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(tour) {
		f.Add(bytes.TrimSpace(line))
	}
	r := rand.New(rand.NewPCG(8, 0))
	for _, k := range meta.Kinds() {
		b, err := api.MarshalJSON(api.FromProposal(gen.Proposal(r, k)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := api.UnmarshalCommand(line)
		if err != nil {
			complaint(t, err)
			return
		}
		comesBack(t, p)
	})
}

// FuzzCommandMessage: no protobuf bytes make the translation panic, and what is a command comes back.
func FuzzCommandMessage(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 0))
	for _, k := range meta.Kinds() {
		b, err := proto.Marshal(api.FromProposal(gen.Proposal(r, k)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.Command
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		p, err := api.ToProposal(&m)
		if err != nil {
			complaint(t, err)
			return
		}
		comesBack(t, p)
	})
}

// complaint checks that an error is one that a caller can be told.
func complaint(t *testing.T, err error) {
	t.Helper()
	s := err.Error()
	bad := strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
	if meta.CodeOf(err) != meta.CodeInvalidArgument || len(s) > 600 || !utf8.ValidString(s) || bad {
		t.Fatalf("a complaint that cannot be shown: %q", s)
	}
}

// comesBack checks that JSON which is written of p reads as p, and that p has one encoding in the log.
func comesBack(t *testing.T, p meta.Proposal) {
	t.Helper()
	json, err := api.MarshalJSON(api.FromProposal(p))
	if err != nil {
		t.Fatalf("%+v was read, and cannot be written: %v", p, err)
	}
	q, err := api.UnmarshalCommand(json)
	if err != nil {
		t.Fatalf("%+v is written as %s, which is refused: %v", p, json, err)
	}
	twice, err := api.MarshalJSON(api.FromProposal(q))
	if err != nil || !bytes.Equal(json, twice) {
		t.Fatalf("%s\ncomes back as\n%s, %v", json, twice, err)
	}
	a, errA := meta.AppendProposal(nil, p)
	b, errB := meta.AppendProposal(nil, q)
	if (errA == nil) != (errB == nil) || !bytes.Equal(a, b) {
		t.Fatalf("encodes to %x (%v), and from JSON to %x (%v)", a, errA, b, errB)
	}
	if meta.Validate(p) == nil && errA != nil {
		t.Fatalf("%+v is within the limits and has no encoding: %v", p, errA)
	}
}
