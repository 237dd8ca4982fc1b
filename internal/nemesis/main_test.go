//go:build unix

package nemesis_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/headwaterdb/headwater/internal/dbtest"
)

func TestMain(m *testing.M) {
	code := dbtest.Main(m)
	if binaryDir != "" {
		_ = os.RemoveAll(binaryDir)
	}
	os.Exit(code)
}

var binaryDir string

// binary is the daemon's program, built once. Under the race detector the daemon has it too, and the packages that the
// test was built from need not be compiled again.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "headwater-nemesis-")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "headwater")
	args := []string{"build", "-o", path}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race")
			}
		}
	}
	out, err := exec.Command("go", append(args, "github.com/headwaterdb/headwater/cmd/headwater")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the daemon: %w: %s", err, out)
	}
	return path, nil
})
