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

// writable reports whether this process may write to the file: false only where it may read it and no more.
func writable(path string) bool {
	may := func(mode uint32) bool { return unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS) == nil }
	return !may(unix.R_OK) || may(unix.W_OK)
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
