package session_test

import (
	"context"
	"fmt"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/session"
)

func ExampleSession_Wrap() {
	var store meta.Proposer = proposer(func(ps ...meta.Proposal) []meta.Answer { // a *headwater.Store, for example
		fmt.Println("sequence", ps[0].Request.Sequence)
		return []meta.Answer{{Status: meta.Applied, Index: 1, FirstIndex: 1, Result: meta.PutKeyResult{Version: 256}}}
	})
	p := session.New().Wrap(store)
	res, err := meta.Propose(context.Background(), p, meta.PutKey{Key: "leader", Value: []byte("node 1")})
	fmt.Println(res.Version, err)
	// Output:
	// sequence 1
	// 256 <nil>
}
