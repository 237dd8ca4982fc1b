package main

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestReadAheadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newReadAhead(10)
		if !r.take(ctx, 4) || !r.take(ctx, 6) {
			t.Fatal("what fits was not given")
		}
		taken := make(chan bool, 1)
		take := func(n int) {
			go func() { taken <- r.take(ctx, n) }()
			synctest.Wait()
		}
		take(5)
		if len(taken) != 0 {
			t.Fatal("15 of 10 bytes were given")
		}
		r.give(4)
		synctest.Wait()
		if len(taken) != 0 {
			t.Fatal("11 of 10 bytes were given")
		}
		r.give(6)
		if !<-taken {
			t.Fatal("what fits was refused")
		}
		r.give(5)
		take(1000) // more than there is, alone
		if len(taken) != 1 || !<-taken {
			t.Fatal("a long line is not let through alone")
		}
		take(1)
		if len(taken) != 0 {
			t.Fatal("something went beside a long line")
		}
		cancel()
		if <-taken {
			t.Error("given after the end")
		}
	})
}
