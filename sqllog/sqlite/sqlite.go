// Package sqlite keeps an oplog.Log in a SQLite file, which several processes of one machine may share.
//
// The file is in WAL mode with synchronous=FULL: an append is on the disk when it is acknowledged. Open creates nothing;
// Init creates the file and the tables PREFIX_log, PREFIX_snapshot and PREFIX_snapshot_part. The package never opens the
// file itself, past SQLite, because closing it would drop the locks that SQLite holds for the whole process; a program
// that embeds it must not either.
//
// When the disk is full an append ends in oplog.ErrFull and the log works again as soon as there is room. SQLite needs
// room even to delete, so truncation cannot make any: keep some megabytes of the file system in reserve, or put a file
// of that size beside the database that can be removed in need. Deleted rows leave free pages that new rows use; the
// file does not shrink.
//
// Start reading at Open, then statements, which has the argument why a truncated index is never taken again.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// Options say where the log is and how it is used. Only Path is required.
type Options struct {
	// Path is the database file. Databases in memory are refused.
	Path string
	// Prefix begins the names of the tables, so that several clusters can share a file: a lower-case letter, then up to
	// 39 lower-case letters, digits and underscores. Default "headwater".
	Prefix string
	// PollInterval is how soon a row of another process is noticed; default 5 ms. While nothing comes the pause between
	// two looks grows to IdlePollInterval; default 50 ms, at least PollInterval. A look costs some microseconds.
	PollInterval, IdlePollInterval time.Duration
	// BusyTimeout is how long one operation waits while another process holds the file's write lock before it ends in
	// oplog.ErrUnavailable (or with its context, if that ends first); default 2 s.
	BusyTimeout time.Duration
	// ReadOnly opens the file without the right to change it: Init, Append, Truncate and snapshots end in
	// oplog.ErrReadOnly. SQLite still needs to write the file beside it that coordinates readers (-shm), if it is not
	// there already.
	ReadOnly bool
	// MustExist makes Open fail with oplog.ErrNoCluster where the file is missing or has no cluster yet. Without it the
	// log can be opened first and created by Init, here or in another process.
	MustExist bool
	// AllowNetworkFS opens a file on a network file system, which is refused otherwise: there, WAL mode damages the
	// file as soon as two machines use it. The file is then kept with a rollback journal, which is slower, and must be
	// used from a single machine only. A file that was created in one of the two modes is converted when it is opened
	// in the other, for which nobody else may have it open.
	AllowNetworkFS bool
}

// The defaults of Options, and the slice of BusyTimeout that SQLite itself waits on each connection.
const (
	defaultPrefix   = "headwater"
	defaultPoll     = 5 * time.Millisecond
	defaultIdlePoll = 50 * time.Millisecond
	defaultBusy     = 2 * time.Second
	busySlice       = 100 * time.Millisecond
)

// maxConns bounds the connections of one log: one to append, one to look for changes, the rest for other calls.
const maxConns = 6

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.PollInterval == 0 {
		o.PollInterval = defaultPoll
	}
	if o.IdlePollInterval == 0 {
		o.IdlePollInterval = max(defaultIdlePoll, o.PollInterval)
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = defaultBusy
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Path == "" || o.Path == ":memory:":
		return fmt.Errorf("path %q: a file is needed: %w", o.Path, oplog.ErrSettings)
	case o.PollInterval < 0, o.IdlePollInterval < o.PollInterval:
		return fmt.Errorf("poll intervals %v and %v: must be above 0, the second not below the first: %w", o.PollInterval, o.IdlePollInterval, oplog.ErrSettings)
	case o.BusyTimeout < 0:
		return fmt.Errorf("busy timeout %v: must be above 0: %w", o.BusyTimeout, oplog.ErrSettings)
	}
	return sqllog.CheckName("prefix", o.Prefix)
}

// Open opens the log in a file. It neither creates nor changes anything, but refuses what it finds unfit:
// oplog.ErrSettings (options, SQLite version, network file system), oplog.ErrSchema (a file of another program, a schema
// of another version), oplog.ErrDenied, oplog.ErrCorrupt. Where another process has the file locked it waits as an
// operation does. Logs on the same file in one process wake each other without polling.
func Open(ctx context.Context, o Options) (oplog.Log, error) {
	o = o.withDefaults()
	l, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open sqlite database %s: %w", o.Path, err)
	}
	return l, nil
}

func open(ctx context.Context, o Options) (oplog.Log, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	version, err := libraryVersion()
	if err != nil {
		return nil, err
	}
	f, err := locate(o)
	if err != nil {
		return nil, err
	}
	s := &session{file: f, prefix: o.Prefix, slice: min(busySlice, o.BusyTimeout), readOnly: o.ReadOnly}
	db := sql.OpenDB(s.connector(false))
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	info := oplog.Info{Backend: "sqlite " + version, Location: f.path}
	if f.network != "" {
		info.Warnings = append(info.Warnings, fmt.Sprintf("the file is on a network file system (%s): only one machine may use it", f.network))
	}
	log, err := sqllog.New(sqllog.Config{
		DB: db, Dialect: s.dialect(), Info: info, Signal: signalOf(f.path + "\x00" + o.Prefix),
		Poll: o.PollInterval, IdlePoll: o.IdlePollInterval, LockTimeout: o.BusyTimeout, Grace: 2 * busySlice,
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	// Bounds opens a connection, with all that is asserted there.
	if _, err := log.Bounds(ctx); err != nil && (o.MustExist || !errors.Is(err, oplog.ErrNoCluster)) {
		log.Close()
		return nil, err
	}
	return log, nil
}

// file is a database file as it was found when it was opened.
type file struct {
	path    string // absolute, without symbolic links as far as it exists
	network string // the type of the network file system that it is on, else empty
}

// locate finds the file without opening it.
func locate(o Options) (file, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return file{}, fmt.Errorf("%w: %w", oplog.ErrSettings, err)
	}
	// The same file must have the same name, or its logs do not find each other.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return file{}, fmt.Errorf("not a regular file (%v): %w", st.Mode().Type(), oplog.ErrSettings)
	} else if errors.Is(err, fs.ErrPermission) {
		return file{}, fmt.Errorf("%w: %w", oplog.ErrDenied, err)
	} else if errors.Is(err, fs.ErrNotExist) && !exists(filepath.Dir(path)) {
		// Perhaps a file system that is not mounted yet. SQLite says only that it cannot open the file.
		return file{}, fmt.Errorf("there is no directory %s: %w", filepath.Dir(path), oplog.ErrUnavailable)
	}
	if !o.ReadOnly && !writable(path) {
		// SQLite would open it for reading without a word, and a node on it would call itself ready.
		return file{}, fmt.Errorf("the file may be read, but not written: %w", oplog.ErrReadOnly)
	}
	name, err := networkFS(filepath.Dir(path))
	if err != nil {
		return file{}, fmt.Errorf("look at the file system: %w: %w", oplog.ErrUnavailable, err)
	}
	if name != "" && !o.AllowNetworkFS {
		return file{}, fmt.Errorf("SQLite database is on a network file system (%s): use a server database, or the option for a single machine: %w", name, oplog.ErrSettings)
	}
	return file{path: path, network: name}, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// signals are the wake-up signals of the files open in this process. An entry stays for the life of the process: it is
// small, and a log may be opened again.
var signals sync.Map // path and prefix → *sqllog.Signal

func signalOf(key string) *sqllog.Signal {
	s, _ := signals.LoadOrStore(key, sqllog.NewSignal())
	return s.(*sqllog.Signal)
}
