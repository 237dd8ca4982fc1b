package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "modernc.org/sqlite" // the driver that Headwater uses

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/internal/bench"
	"github.com/headwaterdb/headwater/internal/heap"
)

// job is a load that a process of its own puts on something: as Headwater's own loads are processes too, nothing is
// measured beside another system's garbage. It stands in the process's arguments as JSON.
type job struct {
	Kind        string // one of the keys of jobs
	Addr        string // host:port, a DSN, a file
	Connections int
	Callers     int
	Time        time.Duration
	Warmup      time.Duration
	Rate        float64 // operations due a second; 0: as many as go
	ValueBytes  int
	Keys        int
	Unique      bool // each write has a key of its own
	Streams     int  // of the state in which lookups look
}

// callers makes the callers of a job and something that ends what they use.
type callers func(ctx context.Context, j job) (calls []bench.Caller, end func(), err error)

var jobs = map[string]callers{
	"etcd-put": etcdPuts, "etcd-get": etcdGets, "echo": echoes, "insert-postgres": insertsPostgres, "insert-sqlite": insertsSQLite,
}

// runJob does a job and prints its result.
func runJob(ctx context.Context, text string, out io.Writer) error {
	defer heap.Hold()() // as headwater bench does
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	if j.Kind == "lookups" {
		extra, err := lookups(j.Streams, j.Time)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(extra)
	}
	make, ok := jobs[j.Kind]
	if !ok {
		return fmt.Errorf("no job %q", j.Kind)
	}
	calls, end, err := make(ctx, j)
	if err != nil {
		return fmt.Errorf("%s: %w", j.Kind, err)
	}
	defer end()
	r, err := bench.Run(ctx, bench.Load{Duration: j.Time, Warmup: j.Warmup, Rate: j.Rate, Grace: 10 * time.Second}, []string{j.Kind}, calls, bench.Options{})
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// value returns a source of values that differ from each other.
func values(n int, seed uint64) func() []byte {
	rnd := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, max(n, 8))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	var count uint64
	return func() []byte {
		count++
		binary.LittleEndian.PutUint64(b, count)
		return b
	}
}

// keyOf is a key as long as those of headwater bench.
func keyOf(i int) string { return fmt.Sprintf("bench/0123456789ab/%d", i) }

// etcdClient is a client as etcd recommends it, and without its log.
func etcdClient(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

func etcdClients(j job) (clients []*clientv3.Client, end func(), err error) {
	end = func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}
	for range max(j.Connections, 1) {
		c, err := etcdClient(j.Addr)
		if err != nil {
			end()
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	return clients, end, nil
}

func etcdPuts(_ context.Context, j job) ([]bench.Caller, func(), error) {
	clients, end, err := etcdClients(j)
	if err != nil {
		return nil, nil, err
	}
	calls := make([]bench.Caller, j.Callers)
	for i := range calls {
		c, rnd, value := clients[i%len(clients)], rand.New(rand.NewPCG(1, uint64(i))), values(j.ValueBytes, uint64(i))
		n := 0
		calls[i] = func(ctx context.Context) bench.Sample {
			key := keyOf(rnd.IntN(j.Keys))
			if j.Unique {
				n++
				key = fmt.Sprintf("bench/%d/%d", i, n)
			}
			_, err := c.Put(ctx, key, string(value()))
			return bench.Sample{Err: err}
		}
	}
	return calls, end, nil
}

func etcdGets(ctx context.Context, j job) ([]bench.Caller, func(), error) {
	clients, end, err := etcdClients(j)
	if err != nil {
		return nil, nil, err
	}
	if err := writeKeys(ctx, clients[0], j); err != nil {
		end()
		return nil, nil, err
	}
	calls := make([]bench.Caller, j.Callers)
	for i := range calls {
		c, rnd := clients[i%len(clients)], rand.New(rand.NewPCG(1, uint64(i)))
		calls[i] = func(ctx context.Context) bench.Sample {
			r, err := c.Get(ctx, keyOf(rnd.IntN(j.Keys))) // linearizable, unless asked otherwise
			if err == nil && len(r.Kvs) != 1 {
				err = errors.New("no such key")
			}
			return bench.Sample{Err: err}
		}
	}
	return calls, end, nil
}

// writeKeys writes every key once.
func writeKeys(ctx context.Context, c *clientv3.Client, j job) error {
	const writers = 32
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			value := values(j.ValueBytes, uint64(w))
			for i := w; i < j.Keys && errs[w] == nil; i += writers {
				_, errs[w] = c.Put(ctx, keyOf(i), string(value()))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// echoes propose one put as Headwater's client does, to a server that answers at once.
func echoes(_ context.Context, j job) ([]bench.Caller, func(), error) {
	conns := make([]*grpc.ClientConn, max(j.Connections, 1))
	end := func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}
	for i := range conns {
		c, err := grpc.NewClient("passthrough:///"+j.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			end()
			return nil, nil, err
		}
		conns[i] = c
	}
	id := make([]byte, 16)
	calls := make([]bench.Caller, j.Callers)
	for i := range calls {
		conn, value, n := conns[i%len(conns)], values(j.ValueBytes, uint64(i)), uint64(0)
		calls[i] = func(ctx context.Context) bench.Sample {
			n++
			m := &pb.ProposeRequest{Commands: []*pb.Command{{Request: &pb.Request{Client: id, Sequence: n, Oldest: n},
				Command: &pb.Command_PutKey{PutKey: &pb.PutKey{Key: keyOf(int(n) % j.Keys), Value: value()}}}}}
			return bench.Sample{Err: conn.Invoke(ctx, "/headwater.v1.Headwater/Propose", m, new(pb.ProposeResponse))}
		}
	}
	return calls, end, nil
}

// insertsPostgres is the least that an append can cost: one prepared INSERT in a transaction of its own.
func insertsPostgres(ctx context.Context, j job) ([]bench.Caller, func(), error) {
	c, err := pgx.Connect(ctx, j.Addr)
	if err != nil {
		return nil, nil, err
	}
	end := func() { _ = c.Close(context.WithoutCancel(ctx)) }
	_, err = c.Exec(ctx, "CREATE TABLE probe (idx bigint PRIMARY KEY, payload bytea NOT NULL);"+
		"ALTER TABLE probe ALTER COLUMN payload SET STORAGE EXTERNAL") // as that of the log: not compressed
	if err == nil {
		_, err = c.Prepare(ctx, "insert", "INSERT INTO probe (idx, payload) VALUES ($1, $2)")
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	n, value := int64(0), values(j.ValueBytes, 1)
	return []bench.Caller{func(ctx context.Context) bench.Sample {
		n++
		_, err := c.Exec(ctx, "insert", n, value())
		return bench.Sample{Err: err}
	}}, end, nil
}

// insertsSQLite is the same on SQLite, with the settings that Headwater has.
func insertsSQLite(ctx context.Context, j job) ([]bench.Caller, func(), error) {
	db, err := sql.Open("sqlite", "file:"+j.Addr+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	end := func() { _ = db.Close() }
	var insert *sql.Stmt
	_, err = db.ExecContext(ctx, "CREATE TABLE probe (idx INTEGER PRIMARY KEY, payload BLOB NOT NULL)")
	if err == nil {
		insert, err = db.PrepareContext(ctx, "INSERT INTO probe (idx, payload) VALUES (?, ?)")
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	n, value := int64(0), values(j.ValueBytes, 1)
	return []bench.Caller{func(ctx context.Context) bench.Sample {
		n++
		_, err := insert.ExecContext(ctx, n, value())
		return bench.Sample{Err: err}
	}}, end, nil
}

// headwaterStatus asks a server how it stands.
func headwaterStatus(ctx context.Context, addr string) (client.Status, error) {
	c, err := client.Open(ctx, client.Options{Endpoints: []string{addr}, Timeout: time.Second})
	if err != nil {
		return client.Status{}, err
	}
	defer c.Close()
	return c.Status(ctx)
}

// headwaterAnswers reports whether a server is up and its node ready.
func headwaterAnswers(ctx context.Context, addr string) error {
	st, err := headwaterStatus(ctx, addr)
	if err == nil && st.Condition != "ready" {
		err = fmt.Errorf("the node is %s", st.Condition)
	}
	return err
}
