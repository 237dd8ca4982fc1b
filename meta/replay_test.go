package meta_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/internal/wire"
	"github.com/headwaterdb/headwater/meta"
)

// replayEnv makes the test binary a process that replays an archive: its file, and the row after which the state goes
// through a snapshot; 0: none.
const replayEnv = "HEADWATER_TEST_REPLAY"

// digestEvery is how many rows apart the digests are compared.
const digestEvery = 500

// TestReplayInProcesses is field case 09.4: one archive of mixed commands is replayed by processes that differ in all that a
// process inherits: time zone, language, number of processors, the order of Go's maps, and whether they begin from a
// snapshot. At full size, with HEADWATER_TEST_FULL=1, there are 50,000 commands and 20 processes, half of them built
// with the race detector and half without. All digests are equal. That apply reads no clock is the import map's to
// say: package meta may not import time.
func TestReplayInProcesses(t *testing.T) {
	if plan := os.Getenv(replayEnv); plan != "" {
		if err := replayArchive(plan); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	rows, processes := 1000, 4
	programs := []string{os.Args[0]}
	if os.Getenv("HEADWATER_TEST_FULL") != "" {
		rows, processes = 16_000, 20
		programs = append(programs, otherBuild(t))
	}
	log := mixed(t, 3, rows)
	file := filepath.Join(t.TempDir(), "archive")
	commands := writeArchive(t, file, log)
	var want string
	for i := range processes {
		snapshot := 0
		if i%2 == 1 {
			snapshot = rows * i / processes
		}
		cmd := exec.CommandContext(t.Context(), programs[i/2%len(programs)], "-test.run=^TestReplayInProcesses$", "-test.v=false")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", replayEnv, snapshot, file), "GOMAXPROCS="+[]string{"1", "2", "8"}[i%3],
			"TZ="+[]string{"UTC", "Pacific/Kiritimati", "America/Los_Angeles", "Asia/Kathmandu"}[i%4],
			"LANG="+[]string{"C", "tr_TR.UTF-8", "pl_PL.ISO-8859-2"}[i%3], "LC_ALL="+[]string{"", "tr_TR.UTF-8"}[i%2])
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("process %d: %v\n%s", i, err, out)
		}
		digests, _, _ := strings.Cut(string(out), "PASS") // which the test binary adds
		if want == "" {
			want = digests
		}
		if digests != want || strings.Count(digests, "\n") != rows/digestEvery {
			t.Fatalf("process %d, %v (-first +this):\n%s", i, cmd.Env[len(cmd.Env)-5:], cmp.Diff(want, digests))
		}
	}
	t.Logf("%d commands in %d rows, replayed by %d processes, digests after every %d rows", commands, rows, processes, digestEvery)
}

// otherBuild builds these tests with the race detector, or without where they have it.
func otherBuild(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "meta.test")
	args := []string{"test", "-c", "-o", path}
	if !raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

func writeArchive(t *testing.T, file string, log [][][]byte) (commands int) {
	t.Helper()
	var b []byte
	for _, row := range log {
		b = wire.AppendUvarint(b, uint64(len(row)))
		for _, c := range row {
			b = wire.AppendBytes(b, c)
			commands++
		}
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return commands
}

// replayArchive replays an archive and prints digests.
func replayArchive(plan string) error {
	at, file, _ := strings.Cut(plan, " ")
	snapshot, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	s := meta.NewState()
	for r := wire.NewReader(b); r.Len() > 0; {
		row := make([][]byte, r.Uvarint())
		for i := range row {
			row[i] = bytes.Clone(r.Bytes())
		}
		if s, _, err = s.Apply(s.Index()+1, row); err != nil {
			return err
		}
		if s.Index() == snapshot {
			if s, err = throughSnapshot(s); err != nil {
				return err
			}
		}
		if s.Index()%digestEvery == 0 {
			fmt.Fprintf(out, "%d %x\n", s.Index(), s.Digest())
		}
	}
	return out.Flush()
}
