package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

func readAll(t *testing.T, text string, identity [32]byte) (out []inputLine) {
	t.Helper()
	in := newLineReader(strings.NewReader(text), identity)
	for {
		line, err := in.next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line)
	}
}

const put = `{"putKey":{"key":"a","value":"YQ=="}}`

// Each line's request depends on the identity and on its place alone: 256 lines share a client, the sequence is the
// place among them, and the oldest is 1.
func TestRequestsOfLines(t *testing.T) {
	identity := [32]byte{1}
	lines := readAll(t, strings.Repeat(put+"\n", 600), identity)
	if len(lines) != 600 {
		t.Fatalf("%d lines, want 600", len(lines))
	}
	clients := map[[16]byte]int{}
	for i, l := range lines {
		r := l.proposal.Request
		if r == nil || r.Sequence != uint64(i%256)+1 || r.Oldest != 1 {
			t.Fatalf("line %d has request %+v", i+1, r)
		}
		clients[r.Client]++
	}
	if len(clients) != 3 || clients[lines[0].proposal.Request.Client] != 256 || clients[lines[599].proposal.Request.Client] != 88 {
		t.Errorf("clients have %v lines, want 256, 256 and 88", clients)
	}
	again := readAll(t, strings.Repeat(put+"\n", 600), identity)
	for i := range lines {
		if *lines[i].proposal.Request != *again[i].proposal.Request {
			t.Fatalf("line %d has another request when it is read again", i+1)
		}
	}
	other := readAll(t, put, [32]byte{2})
	if other[0].proposal.Request.Client == lines[0].proposal.Request.Client {
		t.Error("another input has the same client")
	}
}

func TestLinesOfInput(t *testing.T) {
	own := `{"request":{"client":"AQEBAQEBAQEBAQEBAQEBAQ==","sequence":7,"oldest":3},"checkKey":{"key":"a","ifAbsent":true}}`
	renew := `{"renewNode":{"identity":{"nodeId":1,"nodeEpoch":1}}}`
	lines := readAll(t, "\n \t\r\n"+put+"\r\n\n"+own+"\n"+renew+"\n{]\n"+put, [32]byte{}) // no end of line at the end
	type summary struct {
		Number   int
		Sequence uint64
		Refused  string
	}
	var got []summary
	for _, l := range lines {
		s := summary{Number: l.number}
		if l.refused != nil {
			s.Refused = l.refused.Error()
		}
		if l.proposal.Request != nil {
			s.Sequence = l.proposal.Request.Sequence
		}
		got = append(got, s)
	}
	want := []summary{
		{Number: 3, Sequence: 3},
		{Number: 5, Sequence: 7}, // its own
		{Number: 6},              // takes none
		{Number: 7, Refused: "INVALID_ARGUMENT: line 7: column 2: unexpected token ]"},
		{Number: 8, Sequence: 8},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A line above the limit is refused, and what follows is read.
func TestTooLongLine(t *testing.T) {
	long := `{"putKey":{"key":"a","value":"` + strings.Repeat("A", maxLine) + `"}}`
	lines := readAll(t, long+"\n"+put+"\n", [32]byte{})
	if len(lines) != 2 || lines[0].refused == nil || lines[0].refused.Code != meta.CodeTooLarge || lines[0].bytes != len(long)+1 {
		t.Fatalf("%d lines, the first of them refused as %v", len(lines), lines[0].refused)
	}
	if lines[1].refused != nil || lines[1].number != 2 {
		t.Errorf("line after it: %+v", lines[1])
	}
}

func TestInputIdentity(t *testing.T) {
	id := func(content, run string) [32]byte {
		t.Helper()
		id, err := inputIdentity(strings.NewReader(content), run)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if again := id("a", ""); again != id("a", "") {
		t.Error("the same input has two identities")
	}
	all := map[[32]byte]bool{id("a", ""): true, id("b", ""): true, id("a", "run"): true, id("na", "ru"): true, id("", "runa"): true}
	if len(all) != 5 {
		t.Errorf("5 inputs have %d identities", len(all))
	}
}
