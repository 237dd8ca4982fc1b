package client_test

import (
	"context"
	"fmt"
	"net"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/client"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/server"
)

func ExampleOpen() {
	ctx := context.Background()
	addr, stop := startServer(ctx) // elsewhere: headwater serve
	defer stop()

	c, err := client.Open(ctx, client.Options{Endpoints: []string{addr}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	node, err := meta.Propose(ctx, c, meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}})
	fmt.Println(node.Epoch, err)
	me := meta.Identity{NodeID: 1, NodeEpoch: node.Epoch}
	stream, err := meta.Propose(ctx, c, meta.CreateStream{Identity: me, Name: "orders-0"})
	fmt.Println(stream.StreamID, err)

	s, at, err := c.StreamByName(ctx, "orders-0") // at least as new as what was answered above
	fmt.Println(s.ID, at.Index, err)

	_, err = meta.Propose(ctx, c, meta.OpenStream{Identity: me, StreamID: 7})
	fmt.Println(meta.CodeOf(err))
	// Output:
	// 1 <nil>
	// 1 <nil>
	// 1 2 <nil>
	// STREAM_NOT_FOUND
}

func startServer(ctx context.Context) (addr string, stop func()) {
	log := oplog.NewMemory().Open()
	if _, err := headwater.Init(ctx, log); err != nil {
		panic(err)
	}
	store, err := headwater.Open(ctx, log, headwater.Options{})
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := server.New(store, server.Options{})
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	return l.Addr().String(), func() {
		_ = s.Close()
		<-done
		_ = store.Close()
		_ = log.Close()
	}
}
