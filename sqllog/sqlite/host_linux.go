package sqlite

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/headwaterdb/headwater/sqllog"
)

func hostStatfs(dir string) (magic uint32, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint32(st.Type), nil
}

// access says what keeps this process from writing to path (and, in a directory, from entering it); nothing: no error.
func access(path string, dir bool) sqllog.Verdict {
	mode := uint32(unix.R_OK | unix.W_OK)
	if dir {
		mode = unix.W_OK | unix.X_OK
	}
	switch err := unix.Access(path, mode); {
	case errors.Is(err, unix.EROFS):
		return readOnly
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return denied
	case err != nil:
		return moved
	}
	return sqllog.Verdict{}
}
