// Command streamstore is a small stream store built on Headwater: streams of bytes in a bucket, several writer processes,
// compaction, take-over from dead nodes. See package store for how it works, and `streamstore demo` to see it work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "streamstore:", err)
		}
		os.Exit(1)
	}
}

const usage = `streamstore keeps streams of bytes in a bucket and their metadata in Headwater.

  streamstore demo    [flags]        store a source tree through writers that are killed, then prove that all is there
  streamstore load    [flags]        one writer process: store its share of a directory, a stream for each file
  streamstore ls      [flags] [PREFIX]  list streams
  streamstore cat     [flags] NAME   write a stream to standard output
  streamstore compact [flags]        merge small objects
  streamstore reclaim [flags]        delete what nothing reads any more

Every command takes --db (a Headwater database, sqlite:PATH), --bucket (a URL: file:///dir, s3://name, …) and -h.
`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"demo": demo, "load": load, "ls": list, "cat": cat, "compact": compact, "reclaim": reclaim,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprint(stderr, usage)
		if len(args) > 0 && args[0] != "help" && args[0] != "-h" && args[0] != "--help" {
			return fmt.Errorf("unknown command %q", args[0])
		}
		return flag.ErrHelp
	}
	return commands[args[0]](ctx, args[1:], stdout, stderr)
}
