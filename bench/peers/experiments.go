package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headwaterdb/headwater/internal/bench"
)

// What every writer writes.
const (
	valueBytes = 100
	keys       = 10_000
)

// The series, as tables and plots name them.
const (
	sEtcd         = "etcd"
	sEtcdMany     = "etcd, 16 connections"
	sEtcdGarbage  = "etcd, GOGC=400"
	sKinePostgres = "kine on PostgreSQL"
	sKineSQLite   = "kine on SQLite"
	sLibPostgres  = "Headwater library on PostgreSQL"
	sLibSQLite    = "Headwater library on SQLite"
	sAPI          = "Headwater API on PostgreSQL"
	sGathered     = "Headwater API on PostgreSQL, shared requests"
	sEcho         = "bare gRPC echo"
	sEchoBeside   = "bare gRPC echo beside the same inserts"
	sInsertPG     = "bare INSERT on PostgreSQL"
	sInsertSQLite = "bare INSERT on SQLite"
	sRacing       = "racing"
	sTurnstile    = "with the turnstile"
	sWith         = "with snapshots"
	sWithout      = "without snapshots"
	sState        = "state"
	sServe        = "headwater serve on SQLite"
)

// experiments are all there are, at the sizes given. peers says whether etcd and kine were built.
func experiments(callers, nodes, streams []int, peers bool) []experiment {
	all := []experiment{
		{"puts", "Writes of 100 bytes", "callers", callers, []series{
			{sEtcd, etcdLoad("etcd-put", 1)}, {sEtcdMany, etcdLoad("etcd-put", 16)}, {sEtcdGarbage, etcdLoad("etcd-put", 1, "GOGC=400")},
			{sKinePostgres, kineLoad("etcd-put", true)}, {sKineSQLite, kineLoad("etcd-put", false)},
			{sLibPostgres, libPostgres("puts", "", 1)}, {sLibSQLite, libSQLite("puts")}, {sAPI, apiPostgres("puts")}, {sGathered, apiPostgres("puts", "--gather", "8")},
			{sEcho, echo(false)}, {sEchoBeside, echo(true)},
			{sInsertPG, insertPostgres}, {sInsertSQLite, insertSQLite},
		}},
		{"gets", "Linearizable reads of a key", "callers", callers, []series{
			{sEtcd, etcdLoad("etcd-get", 1)}, {sEtcdMany, etcdLoad("etcd-get", 16)},
			{sKinePostgres, kineLoad("etcd-get", true)}, {sKineSQLite, kineLoad("etcd-get", false)},
			{sAPI, apiPostgres("gets", "--reads", "linearizable")}, {sEcho, echo(false)},
		}},
		{"commits", "Commits of an object with ten slices of random streams", "streams", streams, []series{
			{sLibPostgres, commits},
		}},
		{"nodes", "Nodes on one PostgreSQL in one machine, 1024 callers in all", "nodes", nodes, []series{
			{sRacing, onNodes("")}, {sTurnstile, onNodes("&headwater_turnstile=true")},
		}},
		{"visible", "From the answer on one node to the view of another", "callers", []int{1, 16}, []series{
			{sLibPostgres, visible},
		}},
		{"snapshots", "Commits beside snapshots of the whole state, and starting on it", "streams", streams, []series{
			{sWithout, withoutSnapshots}, {sWith, withSnapshots},
		}},
		{"lookups", "Local reads", "streams", streams, []series{{sState, lookUp}}},
		{"serve", "An idle server", "run", []int{1}, []series{{sServe, idleServe}}},
	}
	if peers {
		return all
	}
	for i := range all {
		all[i].series = withoutPeers(all[i].series)
	}
	return all
}

func withoutPeers(all []series) (ours []series) {
	for _, s := range all {
		if !strings.HasPrefix(s.name, sEtcd) && s.name != sKinePostgres && s.name != sKineSQLite {
			ours = append(ours, s)
		}
	}
	return ours
}

type measurement = func(ctx context.Context, e *env, x int) (Figure, error)

func etcdLoad(kind string, connections int, variables ...string) measurement {
	return func(ctx context.Context, e *env, x int) (Figure, error) {
		dir, done, err := e.folder()
		if err != nil {
			return Figure{}, err
		}
		defer done()
		p, err := startEtcd(ctx, e.bin.etcd, dir, variables...)
		if err != nil {
			return Figure{}, err
		}
		defer p.end()
		return e.load(ctx, job{Kind: kind, Addr: p.addr, Callers: x, Connections: min(connections, x)})
	}
}

// kineLoad writes a key of its own with each write: to kine that is one statement, where a key that exists takes three.
func kineLoad(kind string, postgres bool) measurement {
	return func(ctx context.Context, e *env, x int) (Figure, error) {
		dir, done, err := e.folder()
		if err != nil {
			return Figure{}, err
		}
		defer done()
		endpoint := "sqlite://" + filepath.Join(dir, "state.db") + kineSQLite
		if postgres {
			dsn, drop, err := e.database(ctx)
			if err != nil {
				return Figure{}, err
			}
			defer drop()
			endpoint = dsn
		}
		p, err := startKine(ctx, e.bin.kine, dir, endpoint)
		if err != nil {
			return Figure{}, err
		}
		defer p.end()
		return e.load(ctx, job{Kind: kind, Addr: p.addr, Callers: x, Connections: 1, Unique: true})
	}
}

// onPostgres runs headwater bench on a database of its own.
func onPostgres(ctx context.Context, e *env, parameters string, args ...string) (Figure, error) {
	dsn, drop, err := e.database(ctx)
	if err != nil {
		return Figure{}, err
	}
	defer drop()
	return e.bench(ctx, append([]string{"--db", dsn + parameters, "--init"}, args...)...)
}

func libPostgres(work, parameters string, nodes int) measurement {
	return func(ctx context.Context, e *env, x int) (Figure, error) {
		return onPostgres(ctx, e, parameters, "--work", work, "--callers", strconv.Itoa(x), "--nodes", strconv.Itoa(nodes))
	}
}

func libSQLite(work string) measurement {
	return func(ctx context.Context, e *env, x int) (Figure, error) {
		dir, done, err := e.folder()
		if err != nil {
			return Figure{}, err
		}
		defer done()
		return e.bench(ctx, "--db", "sqlite:"+filepath.Join(dir, "h.db"), "--work", work, "--callers", strconv.Itoa(x))
	}
}

// apiPostgres measures a server through the Go client, over one connection.
func apiPostgres(work string, args ...string) measurement {
	return func(ctx context.Context, e *env, x int) (Figure, error) {
		dsn, drop, err := e.database(ctx)
		if err != nil {
			return Figure{}, err
		}
		defer drop()
		dir, done, err := e.folder()
		if err != nil {
			return Figure{}, err
		}
		defer done()
		p, err := startServe(ctx, e.bin.headwater, dir, dsn)
		if err != nil {
			return Figure{}, err
		}
		defer p.end()
		f, err := e.bench(ctx, append([]string{"--server", p.addr, "--work", work, "--callers", strconv.Itoa(x)}, args...)...)
		if rows := f.Extra["rows a second"]; err == nil && work == "puts" && rows > 0 {
			f.Extra["commands in a row"] = f.Rate / rows
		}
		return f, err
	}
}

// commandBytes is about what a put of 100 bytes takes in a row.
const commandBytes = valueBytes + 60

// echo measures the library that serves calls, and nothing else; beside, with the inserts that Headwater's server makes
// at the same number of callers.
func echo(beside bool) measurement {
	return func(ctx context.Context, e *env, x int) (f Figure, err error) {
		dir, done, err := e.folder()
		if err != nil {
			return Figure{}, err
		}
		defer done()
		p, err := startEcho(dir, e.bin.echo)
		if err != nil {
			return Figure{}, err
		}
		defer p.end()
		if beside {
			dsn, drop, err := e.database(ctx)
			if err != nil {
				return Figure{}, err
			}
			defer drop()
			rows := e.last("puts", sAPI, x, extra("rows a second"))
			if rows == 0 {
				return Figure{}, fmt.Errorf("there is no figure of %q to take the inserts from", sAPI)
			}
			size := int(commandBytes * max(1, e.last("puts", sAPI, x, extra("commands in a row"))))
			stop := e.background(ctx, job{Kind: "insert-postgres", Addr: dsn, ValueBytes: size, Rate: rows, Time: e.time + e.warmup + time.Minute})
			defer func() { err = errors.Join(err, stop()) }()
		}
		return e.load(ctx, job{Kind: "echo", Addr: p.addr, Callers: x, Connections: 1})
	}
}

// background runs a job until stop is called, which returns why it ended if it did so before.
func (e *env) background(ctx context.Context, j job) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	text, _ := json.Marshal(j) // plain fields: it cannot fail
	ended := make(chan error, 1)
	go func() {
		var r bench.Result
		err := child(ctx, &r, e.bin.self, "-job", string(text))
		switch {
		case ctx.Err() != nil: // it was cut off
			err = nil
		case err == nil:
			err = fmt.Errorf("the load in the background ended before the measurement: %d operations, %d errors", r.All.Count, r.All.Errors)
		}
		ended <- err
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// rowBytes is how large a row of the library was at x callers.
func rowBytes(e *env, series string, x int) int {
	return max(int(e.last("puts", series, x, extra("bytes of a row"))), valueBytes)
}

func insertPostgres(ctx context.Context, e *env, x int) (Figure, error) {
	dsn, drop, err := e.database(ctx)
	if err != nil {
		return Figure{}, err
	}
	defer drop()
	return e.load(ctx, job{Kind: "insert-postgres", Addr: dsn, Callers: 1, ValueBytes: rowBytes(e, sLibPostgres, x)})
}

func insertSQLite(ctx context.Context, e *env, x int) (Figure, error) {
	dir, done, err := e.folder()
	if err != nil {
		return Figure{}, err
	}
	defer done()
	return e.load(ctx, job{Kind: "insert-sqlite", Addr: filepath.Join(dir, "p.db"), Callers: 1, ValueBytes: rowBytes(e, sLibSQLite, x)})
}

// longer is how many times as long as others commits over large states are measured: over several collections of the
// garbage and, beside snapshots of small ones, over whole ones.
const longer = 6

// commitArgs are ten-slice commits over x streams, each of which has ten slices from the beginning.
func commitArgs(e *env, x int) []string {
	return []string{"--work", "commits", "--slices", "10", "--callers", strconv.Itoa(min(512, x)), "--streams", strconv.Itoa(x),
		"--objects", strconv.Itoa(x), "--duration", (longer * e.time).String()}
}

func commits(ctx context.Context, e *env, x int) (Figure, error) {
	return onPostgres(ctx, e, "", commitArgs(e, x)...)
}

func withoutSnapshots(ctx context.Context, e *env, x int) (Figure, error) {
	return onPostgres(ctx, e, "", append(commitArgs(e, x), "--snapshot-interval", "-1")...)
}

// withSnapshots commits while one snapshot after another is made. Then one more is made, for the last one was broken off with
// the measurement, and a server is started on it.
func withSnapshots(ctx context.Context, e *env, x int) (Figure, error) {
	dsn, drop, err := e.database(ctx)
	if err != nil {
		return Figure{}, err
	}
	defer drop()
	f, err := e.bench(ctx, append([]string{"--db", dsn, "--init", "--snapshots"}, commitArgs(e, x)...)...)
	if err != nil {
		return f, err
	}
	dir, done, err := e.folder()
	if err != nil {
		return f, err
	}
	defer done()
	if out, err := exec.CommandContext(ctx, e.bin.headwater, "snapshot", "--db", dsn, "--timeout", "10m").CombinedOutput(); err != nil {
		return f, fmt.Errorf("headwater snapshot: %w: %s", err, out)
	}
	begin := time.Now()
	p, err := startServe(ctx, e.bin.headwater, dir, dsn)
	if err != nil {
		return f, err
	}
	defer p.end()
	f.Extra["seconds to ready"] = time.Since(begin).Seconds()
	st, err := headwaterStatus(ctx, p.addr)
	if err != nil {
		return f, err
	}
	f.Extra["snapshot MiB"] = float64(st.SnapshotSize) / (1 << 20)
	f.Extra["slices"] = float64(st.Counts.Slices)
	f.Extra["resident MiB"], err = p.memory()
	return f, err
}

func onNodes(parameters string) measurement {
	return func(ctx context.Context, e *env, x int) (Figure, error) {
		return libPostgres("puts", parameters, x)(ctx, e, 1024)
	}
}

func visible(ctx context.Context, e *env, x int) (Figure, error) {
	return libPostgres("visible", "", 2)(ctx, e, x)
}

// lookUp measures reads of a state with x streams and ten times as many slices.
func lookUp(ctx context.Context, e *env, x int) (f Figure, err error) {
	text, err := json.Marshal(job{Kind: "lookups", Streams: x, Time: e.time})
	if err != nil {
		return f, err
	}
	return f, child(ctx, &f.Extra, e.bin.self, "-job", string(text))
}

// idleServe measures how long a new server takes to its first answer, and its memory when nobody has asked it anything.
func idleServe(ctx context.Context, e *env, _ int) (f Figure, err error) {
	dir, done, err := e.folder()
	if err != nil {
		return f, err
	}
	defer done()
	begin := time.Now()
	p, err := startServe(ctx, e.bin.headwater, dir, "sqlite:"+filepath.Join(dir, "s.db"))
	if err != nil {
		return f, err
	}
	defer p.end()
	f.Extra = map[string]float64{"seconds to first answer": time.Since(begin).Seconds()}
	select {
	case <-time.After(e.time):
	case <-ctx.Done():
		return f, ctx.Err()
	}
	f.Extra["resident MiB"], err = p.memory()
	return f, err
}
