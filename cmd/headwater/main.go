package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals) // before anything ends in order: a second signal kills
		cancel()
	}()
	os.Exit(exec(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
