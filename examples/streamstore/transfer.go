package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headwaterdb/headwater/examples/streamstore/store"
	"github.com/headwaterdb/headwater/meta"
)

// How many streams are handed over between two live nodes.
const handovers = 20

// transferAll hands streams from one live node to another while the giver still holds bytes that are not uploaded.
// The taker writes on at once; a reader sees where the owed bytes begin, and everything once they are paid.
func transferAll(ctx context.Context, at *opened, ttl time.Duration) (int, error) {
	giver, err := store.Join(ctx, at.hw, 1001, "giver", ttl)
	if err != nil {
		return 0, err
	}
	taker, err := store.Join(ctx, at.hw, 1002, "taker", ttl)
	if err != nil {
		return 0, err
	}
	gw, tw := store.NewWriter(giver, at.bucket, 1<<20), store.NewWriter(taker, at.bucket, 1<<20)
	names := make([]string, handovers)
	for i := range names {
		names[i] = fmt.Sprintf("demo/handover-%02d", i)
	}
	given, err := gw.Open(ctx, names)
	if err != nil {
		return 0, err
	}
	for i, s := range given {
		if err := gw.Append(ctx, s, before(i)); err != nil {
			return 0, err
		}
		if err := gw.Transfer(ctx, s, taker.Identity().NodeID); err != nil {
			return 0, err
		}
	}
	taken, err := tw.Open(ctx, names)
	if err != nil {
		return 0, err
	}
	for i, s := range taken {
		if err := tw.Append(ctx, s, after(i)); err != nil {
			return 0, err
		}
	}
	if err := tw.Flush(ctx); err != nil {
		return 0, err
	}
	reader := store.NewReader(func() *meta.State { return at.hw.View().State }, at.bucket)
	for _, s := range taken {
		if _, err := reader.Copy(ctx, new(bytes.Buffer), s.ID, 0); !errors.Is(err, store.ErrOwed) {
			return 0, fmt.Errorf("a reader should have been told that bytes are owed, and got %v", err)
		}
	}
	if err := gw.Flush(ctx); err != nil { // pays
		return 0, err
	}
	for i, s := range taken {
		var got bytes.Buffer
		if _, err := reader.Copy(ctx, &got, s.ID, 0); err != nil {
			return 0, err
		}
		if want := append(before(i), after(i)...); !bytes.Equal(got.Bytes(), want) {
			return 0, fmt.Errorf("stream %q holds %q after the hand-over, want %q", names[i], got.Bytes(), want)
		}
	}
	return len(names), tw.Close(ctx, taken)
}

func before(i int) []byte { return fmt.Appendf(nil, "written by the giver of stream %d; ", i) }
func after(i int) []byte  { return fmt.Appendf(nil, "written by the taker of stream %d", i) }
