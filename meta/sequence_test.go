package meta_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headwaterdb/headwater/meta"
)

// TestFrozenSequence applies the rows of testdata/v1/sequence.rows, every kind of command among them, and compares what they
// say, how they are answered and the digest after each with sequence.txt. Another answer or digest means that nodes of
// this build and nodes of an earlier one would part: that needs a new format level.
func TestFrozenSequence(t *testing.T) {
	t.Parallel()
	var told strings.Builder
	state := meta.NewState()
	kinds := map[meta.Kind]int{} // commands that changed something
	for _, line := range strings.Split(string(read(t, filepath.Join(vectorDir, "sequence.rows"))), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		var row [][]byte
		for _, word := range strings.Fields(line) {
			b, err := hex.DecodeString(word)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, b)
		}
		next, answers, err := state.Apply(state.Index()+1, row)
		if err != nil {
			t.Fatal(err)
		}
		state = next
		fmt.Fprintf(&told, "row %d\n", state.Index())
		for i, b := range row {
			p, err := meta.DecodeProposal(b)
			if err != nil {
				t.Fatal(err)
			}
			if again := encode(t, p); !bytes.Equal(b, again) {
				t.Errorf("row %d encodes to other bytes:\n%x\n%x", state.Index(), b, again)
			}
			if answers[i].Status == meta.Applied {
				kinds[meta.KindOf(p.Command)]++
			}
			tellAnswer(&told, p, answers[i])
		}
		fmt.Fprintf(&told, "digest %x\n\n", state.Digest())
	}
	for _, k := range meta.Kinds() {
		// A condition changes nothing, and there is no level to raise this build's clusters to.
		if kinds[k] == 0 && k != meta.KindCheckKey && k != meta.KindSetFormat {
			t.Errorf("%s is never applied in the sequence", k)
		}
	}
	sequenceTwin(t, told.String())
	if err := state.Verify(); err != nil {
		t.Error(err)
	}
	var snapshot bytes.Buffer
	if err := state.Encode(&snapshot); err != nil {
		t.Fatal(err)
	}
	decoded, err := meta.Decode(&snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if decoded.Digest() != state.Digest() {
		t.Errorf("digest %x by snapshot, %x by rows", decoded.Digest(), state.Digest())
	}
}

// sequenceTwin compares the text with the frozen one and shows where they differ.
func sequenceTwin(t *testing.T, told string) {
	t.Helper()
	const name = "sequence.txt"
	frozen(t, name, []byte(told))
	if t.Failed() {
		t.Log(cmp.Diff(strings.Split(string(read(t, filepath.Join(vectorDir, name))), "\n"), strings.Split(told, "\n")))
	}
}

// tellAnswer writes a command and its answer, without the message of a refusal, which may change.
func tellAnswer(b *strings.Builder, p meta.Proposal, a meta.Answer) {
	for _, line := range strings.Split(strings.TrimSpace(describe(p)), "\n") {
		fmt.Fprintf(b, "  %s\n", line)
	}
	status := map[meta.Status]string{meta.Applied: "applied", meta.Redundant: "redundant", meta.Rejected: "rejected"}
	fmt.Fprintf(b, "  -> %s", status[a.Status])
	if code := meta.CodeOf(a.Err); code != 0 {
		fmt.Fprintf(b, " %s", code)
	}
	if a.FirstIndex != a.Index || a.FirstPosition != a.Position {
		fmt.Fprintf(b, " first answered at %d/%d", a.FirstIndex, a.FirstPosition)
	}
	if a.Result != nil {
		fmt.Fprintf(b, " %+v", a.Result)
	}
	b.WriteString("\n")
}
