package sim_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/internal/sim"
)

var rewrite = flag.Bool("rewrite", false, "write what the stories say now into their files; read the difference before you keep it")

// TestStories runs the scripts in testdata/stories: each tells a delicate moment, with all that comes out of it. A
// block is some commands, a line of four dashes, and what happened, up to an empty line; lines with # are for the reader.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(want))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the story goes another way now (-file +now); -rewrite writes it:\n%s", diff)
			}
			if strings.Contains(got, "VIOLATION") {
				t.Errorf("an invariant is broken:\n%s", got)
			}
		})
	}
}

// tell runs the commands of a story and returns it with what happens now.
func tell(t *testing.T, story string) string {
	t.Helper()
	var s sim.Script
	defer s.Close()
	var b, out strings.Builder
	skip := false // what the file says happened
	for line := range strings.Lines(story) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "":
			skip = false
		case skip:
			continue
		case line == "----":
			b.WriteString("----\n" + out.String())
			out.Reset()
			skip = true
			continue
		case !strings.HasPrefix(line, "#"):
			said, err := s.Do(line)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString(said)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
