package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/headwaterdb/headwater/oplog"
)

// oldestVersion is the first SQLite without the race of writers and checkpoints that damages files in WAL mode
// (3.7.0 to 3.51.2 have it).
var oldestVersion = [3]int{3, 51, 3}

// libraryVersion asks the running library, not the module file, which SQLite it is, and refuses a damaging one.
var libraryVersion = sync.OnceValues(func() (string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return "", fmt.Errorf("ask SQLite for its version: %w: %w", oplog.ErrSettings, err)
	}
	defer db.Close()
	var version string
	if err := db.QueryRowContext(context.Background(), "SELECT sqlite_version()").Scan(&version); err != nil {
		return "", fmt.Errorf("ask SQLite for its version: %w: %w", oplog.ErrSettings, err)
	}
	return version, checkVersion(version)
})

func checkVersion(version string) error {
	var v [3]int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); err != nil {
		return fmt.Errorf("SQLite calls its version %q: %w: %w", version, oplog.ErrSettings, err)
	}
	for i := range v {
		if v[i] != oldestVersion[i] {
			if v[i] > oldestVersion[i] {
				return nil
			}
			return fmt.Errorf("SQLite %s is affected by the write-ahead log reset bug, at least %d.%d.%d is needed: %w",
				version, oldestVersion[0], oldestVersion[1], oldestVersion[2], oplog.ErrSettings)
		}
	}
	return nil
}

// statfs is replaced by tests. It returns the type of the file system of dir, as the magic number of statfs.
var statfs = hostStatfs

// networkFS returns the name of the network file system that dir is on, or nothing. A directory that is not there yet
// is on none.
func networkFS(dir string) (string, error) {
	magic, err := statfs(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return networkTypes[magic], err
}

// networkTypes are the file systems on which several machines, or a process on another side, can see one file while
// they do not share memory for the coordination of WAL mode; by the magic number that statfs returns.
var networkTypes = map[uint32]string{
	0x6969:     "nfs",
	0x517b:     "smb",
	0xff534d42: "cifs",
	0xfe534d42: "smb2",
	0x01021997: "9p",
	0x65735546: "fuse",
	0x00c36400: "ceph",
	0x5346414f: "afs",
	0x6b414653: "afs",
	0x73757245: "coda",
	0x0bd00bd0: "lustre",
	0x01161970: "gfs2",
	0x7461636f: "ocfs2",
	0x47504653: "gpfs",
	0xaad7aaea: "panfs",
	0x19830326: "beegfs",
	0x20030528: "orangefs",
	0x786f4256: "vboxsf",
	0xbacbacbc: "vmhgfs",
	0x564c:     "ncp",
}
