package headwater_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/session"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// A whole program: make a cluster in a file, join it, create a stream and open it.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "headwater-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	db, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "headwater.db")})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := headwater.Init(ctx, db); err != nil && !errors.Is(err, oplog.ErrExists) {
		log.Fatal(err)
	}
	store, err := headwater.Open(ctx, db, headwater.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	node, err := meta.Propose(ctx, store, meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}, Address: "10.0.0.1:9092"})
	if err != nil {
		log.Fatal(err)
	}
	me := meta.Identity{NodeID: 1, NodeEpoch: node.Epoch}
	created, err := meta.Propose(ctx, store, meta.CreateStream{Identity: me, Name: "orders-0"})
	if err != nil {
		log.Fatal(err)
	}
	opened, err := meta.Propose(ctx, store, meta.OpenStream{Identity: me, StreamID: created.StreamID})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("stream %d is open at epoch %d\n", created.StreamID, opened.Epoch)

	// The next view shows it: a pointer load, then a look-up in memory.
	stream, _ := store.View().State.StreamByName("orders-0")
	fmt.Printf("%s is owned by node %d\n", stream.Name, stream.Owner.NodeID)
	// Output:
	// stream 1 is open at epoch 1
	// orders-0 is owned by node 1
}

// open starts a node on a log in memory.
func open(ctx context.Context, memory *oplog.Memory) *headwater.Store {
	db := memory.Open()
	if _, err := headwater.Init(ctx, db); err != nil && !errors.Is(err, oplog.ErrExists) {
		log.Fatal(err)
	}
	store, err := headwater.Open(ctx, db, headwater.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return store
}

// Rules refuse by a code, which a program branches on, and a sentence, which a person reads.
func ExampleStore_Propose() {
	ctx := context.Background()
	store := open(ctx, oplog.NewMemory())
	defer store.Close()

	answers := store.Propose(ctx,
		meta.Proposal{Command: meta.PutKey{Key: "leader", Value: []byte("node 1"), IfAbsent: true}},
		meta.Proposal{Command: meta.PutKey{Key: "leader", Value: []byte("node 2"), IfAbsent: true}},
	)
	fmt.Println(answers[0].Err)
	fmt.Println(meta.CodeOf(answers[1].Err))
	// Output:
	// <nil>
	// KEY_EXISTS
}

// A session numbers commands, so that one sent again has one effect.
func ExampleStore_Propose_session() {
	ctx := context.Background()
	store := open(ctx, oplog.NewMemory())
	defer store.Close()

	s := session.New()
	request := s.Next()
	put := meta.Proposal{Request: &request, Command: meta.PutKey{Key: "counter", Value: []byte("1")}}
	for range 2 { // as after a lost answer
		a := store.Propose(ctx, put)[0]
		fmt.Println(a.Status == meta.Redundant, a.FirstIndex)
	}
	// Output:
	// false 1
	// true 1
}

// DryRun judges commands against the current view and changes nothing.
func ExampleStore_DryRun() {
	ctx := context.Background()
	store := open(ctx, oplog.NewMemory())
	defer store.Close()

	answers, changes, view := store.DryRun(ctx, meta.Proposal{Command: meta.PutKey{Key: "a", Value: []byte("1")}})
	fmt.Println(answers[0].Status == meta.Applied, changes[0].Kind, changes[0].Key, view.Index)
	fmt.Println(store.View().State.Counts().Keys)
	// Output:
	// true key a 0
	// 0
}

// Wait carries a write of one node to the readers of another.
func ExampleStore_Wait() {
	ctx := context.Background()
	cluster := oplog.NewMemory()
	writer, reader := open(ctx, cluster), open(ctx, cluster)
	defer writer.Close()
	defer reader.Close()

	a := writer.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: "a", Value: []byte("1")}})[0]
	view, err := reader.Wait(ctx, a.Index)
	if err != nil {
		log.Fatal(err)
	}
	k, _ := view.State.Key("a")
	fmt.Printf("%s at version %d\n", k.Value, k.Version)
	// Output:
	// 1 at version 256
}

// Linearize asks the database for the newest row first.
func ExampleStore_Linearize() {
	ctx := context.Background()
	cluster := oplog.NewMemory()
	writer, reader := open(ctx, cluster), open(ctx, cluster)
	defer writer.Close()
	defer reader.Close()

	writer.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: "a", Value: []byte("1")}})
	view, err := reader.Linearize(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, there := view.State.Key("a")
	fmt.Println(there)
	// Output:
	// true
}

// Check replays a log offline and says what does not fit.
func ExampleCheck() {
	ctx := context.Background()
	cluster := oplog.NewMemory()
	store := open(ctx, cluster)
	store.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: "a", Value: []byte("1")}})
	store.Close()

	report, err := headwater.Check(ctx, cluster.Open(), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.OK(), report.Rows)

	cluster.Put(1, []byte("not a row"))
	report, _ = headwater.Check(ctx, cluster.Open(), nil)
	fmt.Println(report.OK(), len(report.Faults))
	// Output:
	// true 2
	// false 1
}

// ReadLog decodes rows for people.
func ExampleReadLog() {
	ctx := context.Background()
	cluster := oplog.NewMemory()
	store := open(ctx, cluster)
	defer store.Close()
	store.Propose(ctx, meta.Proposal{Command: meta.PutKey{Key: "a", Value: []byte("1")}})

	err := headwater.ReadLog(ctx, cluster.Open(), 1, 0, func(row headwater.LogRow) error {
		fmt.Println(row.Index, meta.KindOf(row.Proposals[0].Command))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 putKey
}
