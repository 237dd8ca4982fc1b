package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// openSQLite opens the log in a file. A file that is missing, or has neither rows nor a snapshot, becomes a cluster
// where the purpose allows it: a kill between the creation of the file and row 0 leaves that, and of an embedded file
// no server of another machine can say that there was more.
func openSQLite(ctx context.Context, path string, why purpose) (oplog.Log, error) {
	log, err := sqlite.Open(ctx, sqlite.Options{Path: path, MustExist: why == toRead || why == toWrite, ReadOnly: why == toRead})
	if err != nil || why != toCreate && why != toInit {
		return log, err
	}
	if _, err = log.Bounds(ctx); errors.Is(err, oplog.ErrNoCluster) {
		_, err = headwater.Init(ctx, log)
		if errors.Is(err, oplog.ErrExists) { // another process was quicker
			err = nil
		}
	}
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	return log, nil
}

// sqliteVersion is the version of the SQLite library in this program.
func sqliteVersion() string {
	// A log on a file that is not there can be opened, and creates nothing; it knows the version.
	log, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(os.TempDir(), "headwater-version-of-no-file")})
	if err != nil {
		return "unknown"
	}
	defer log.Close()
	return strings.TrimPrefix(log.Info().Backend, "sqlite ")
}
