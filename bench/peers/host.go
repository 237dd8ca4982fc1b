package main

import (
	"context"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headwaterdb/headwater/internal/dbtest"
)

// fileSystem tells on what kind of file system a folder is.
func fileSystem(dir string) string {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return "unknown"
	}
	return fileSystemOf(dir, string(mounts))
}

// fileSystemOf finds the longest mount point that holds dir.
func fileSystemOf(dir, mounts string) string {
	kind, longest := "unknown", -1
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		point := strings.TrimSuffix(f[1], "/")
		if (dir == point || strings.HasPrefix(dir, point+"/")) && len(point) > longest {
			kind, longest = f[2], len(point)
		}
	}
	return kind
}

// syncTime is how long a write of 4 KiB at the end of a file takes with fdatasync, in milliseconds, the median of many: what
// durable costs on this disk.
func syncTime(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4096)
	took := make([]float64, 501)
	for i := range took {
		begin := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		took[i] = float64(time.Since(begin)) / 1e6
	}
	return medianOf(took), nil
}

func serverVersion(ctx context.Context, p *dbtest.Postgres) (version string, err error) {
	c, err := pgx.Connect(ctx, p.DSN("postgres", "postgres"))
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	return version, c.QueryRow(ctx, "SHOW server_version").Scan(&version)
}
