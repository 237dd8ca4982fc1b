package dbtest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// NoMountEnv names the environment variable that says that this machine lets nobody mount a file system. Then tests of full
// disks are skipped, also where CI is set; without it they fail there, because nobody would notice that they never run.
const NoMountEnv = "HEADWATER_TEST_NO_MOUNT"

// Disk is a small file system in memory.
type Disk struct {
	dir string
	uid int
}

// NewDisk mounts a file system of size (as "8m") at dir, a folder that is there, for the user uid. It is unmounted when the
// test ends. Where this is not allowed the test is skipped with a sentence, or fails if CI is set and NoMountEnv is not.
func NewDisk(t testing.TB, dir string, uid int, size string) *Disk {
	t.Helper()
	if os.Getenv(NoMountEnv) != "" {
		t.Skipf("%s is set: no small file system for a full disk", NoMountEnv)
	}
	d := &Disk{dir: dir, uid: uid}
	if err := d.mount("", size); err != nil {
		missing(t, "this machine lets nobody mount a small file system, so a full disk is not tried (%s=1 says so): %v", NoMountEnv, err)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return d
}

// Resize makes the file system larger or smaller.
func (d *Disk) Resize(t testing.TB, size string) {
	t.Helper()
	if err := d.mount("remount,", size); err != nil {
		t.Fatalf("resize the disk: %v", err)
	}
}

func (d *Disk) mount(verb, size string) error {
	options := fmt.Sprintf("%ssize=%s,uid=%d,mode=0700", verb, size, d.uid)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", d.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
