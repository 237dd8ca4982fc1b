package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/headwaterdb/headwater/api"
	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// applyOptions are the flags of apply.
type applyOptions struct {
	stop     bool
	dryRun   bool
	run      string
	fromLine int
}

func (a *app) applyCommand() *cobra.Command {
	var o applyOptions
	c := a.reach(&cobra.Command{
		Use: "apply FILE|-", Short: "Apply commands: JSON lines in, one JSON answer a line out", Args: cobra.ExactArgs(1),
		Long: `Apply the commands in FILE (or - for standard input): one command a line in the JSON of the API. Blank lines are
skipped. For each command one line is written, in the order of the lines: its number and the answer.

Commands take effect strictly in their order. A refused one changes nothing and the rest goes on, unless --stop is
given. A line that is no command is refused as INVALID_ARGUMENT. Where an answer cannot be had at all (the database
is away, the node has halted), apply stops behind the answers it has.

A run that was killed can be repeated: each line's request is derived from what is in the file and from its place, so
what was done before is answered REDUNDANT, with the ids that it got then, and has no second effect. That holds while
the cluster remembers the requests: for the last 262,144 commands at least. To apply the same file once more on
purpose, name the run: --run again. Standard input has no such identity unless --run names it. Lines that carry a
request of their own keep it.

With --db a SQLite file that is missing, or has no tables yet, becomes a new cluster.

Exit codes: 0 all applied or redundant, 1 something was refused, 3 stopped for want of an answer.`,
		Example: `  headwater apply commands.jsonl
  headwater apply --db sqlite:headwater.db commands.jsonl > answers.jsonl
  echo '{"putKey": {"key": "greeting", "value": "aGVsbG8="}}' | headwater apply -
  headwater apply --dry-run commands.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.apply(cmd, args[0], o)
		},
	})
	f := c.Flags()
	f.BoolVar(&o.stop, "stop", false, "stop at the first refusal; then one command at a time is sent")
	f.BoolVar(&o.dryRun, "dry-run", false, "judge at most 1000 commands together, tell what they would change, and do nothing")
	f.StringVar(&o.run, "run", "", "`name` of this run: part of what the requests are derived from")
	f.IntVar(&o.fromLine, "from-line", 1, "leave out the lines before this `number`")
	f.Lookup("output").Hidden = true
	f.Lookup("timeout").Usage = "give up when one batch of commands has no answer after this long; 0 waits"
	return c
}

func (a *app) apply(cmd *cobra.Command, file string, o applyOptions) error {
	if o.fromLine < 1 {
		return usagef("--from-line is %d; lines are counted from 1", o.fromLine)
	}
	in, err := a.openInput(file, o.run)
	if err != nil {
		return err
	}
	defer in.Close()
	why := toCreate
	if o.dryRun {
		why = toRead
	}
	ctx, cancel := a.bounded(cmd.Context())
	defer cancel()
	c, err := a.open(ctx, why)
	if err != nil {
		return err
	}
	r := &applyRun{app: a, o: o, in: in, cluster: c, out: newLineWriter(a.out), started: time.Now()}
	if o.dryRun {
		err = r.plan(cmd.Context())
	} else {
		err = r.run(cmd.Context())
	}
	if e := c.close(); err == nil {
		err = e
	}
	return err
}

// bounded bounds ctx by --timeout.
func (a *app) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, a.timeout)
}

// The bounds of one batch: as much as fits into one row of the log.
const (
	batchLines = 256
	batchBytes = 1 << 20
)

// readAheadBytes bounds the lines that were read and have no answer yet: two batches, however long the lines are.
const readAheadBytes = 2 * batchBytes

// applyRun is one run of apply.
type applyRun struct {
	*app
	o       applyOptions
	in      *input
	cluster *cluster
	out     *lineWriter
	ahead   *readAhead
	bar     *bar
	started time.Time

	lines, applied, redundant, rejected, failed int
	lastLine                                    int    // the last one that was answered
	failure                                     string // the first failure, for people
}

// run reads ahead in a goroutine of its own and proposes batch after batch: the next one only when the one before is
// answered, so that the order of the lines is the order of the log even where a batch fails.
func (r *applyRun) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	lines := make(chan inputLine, 2*batchLines)
	r.ahead = newReadAhead(readAheadBytes)
	readErr := make(chan error, 1)
	go func() {
		defer close(lines)
		readErr <- r.readLines(ctx, lines)
	}()
	r.bar = r.newBar("apply", r.in.size)
	err := r.proposeAll(ctx, lines)
	interrupted := ctx.Err() != nil
	cancel()
	r.bar.done()
	if err == nil && !interrupted && r.failed == 0 && !(r.o.stop && r.rejected > 0) {
		err = <-readErr // the reader has come to its end: the channel was closed
	}
	return r.finish(err, interrupted)
}

func (r *applyRun) readLines(ctx context.Context, lines chan<- inputLine) error {
	in := newLineReader(r.in, r.in.identity)
	for {
		line, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unavailable(fmt.Errorf("read line %d: %w", in.number+1, err), "")
		}
		if line.number < r.o.fromLine {
			continue
		}
		if !r.ahead.take(ctx, line.bytes) {
			return nil
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *applyRun) proposeAll(ctx context.Context, lines <-chan inputLine) error {
	most := batchLines
	if r.o.stop {
		most = 1
	}
	for {
		batch := nextBatch(ctx, lines, most)
		if len(batch) == 0 {
			return nil
		}
		if err := r.batch(ctx, batch); err != nil {
			return err
		}
		if r.failed > 0 || r.o.stop && r.rejected > 0 {
			return nil
		}
	}
}

// nextBatch waits for a line and takes what has been read besides, without waiting for more.
func nextBatch(ctx context.Context, lines <-chan inputLine, most int) (batch []inputLine) {
	bytes := 0
	add := func(l inputLine, ok bool) bool {
		if ok {
			batch = append(batch, l)
			bytes += l.bytes
		}
		return ok && len(batch) < most && bytes < batchBytes
	}
	select {
	case <-ctx.Done():
		return nil
	case l, ok := <-lines:
		if !add(l, ok) {
			return batch
		}
	}
	for {
		select {
		case l, ok := <-lines:
			if !add(l, ok) {
				return batch
			}
		default:
			return batch
		}
	}
}

// batch proposes the commands of a batch and writes an answer for each line of it.
func (r *applyRun) batch(ctx context.Context, batch []inputLine) error {
	proposals := make([]meta.Proposal, 0, len(batch))
	for _, l := range batch {
		if l.refused == nil {
			proposals = append(proposals, l.proposal)
		}
	}
	var answers []meta.Answer
	if len(proposals) > 0 {
		bounded, cancel := r.bounded(ctx)
		answers = r.cluster.Propose(bounded, proposals...)
		cancel()
	}
	for _, l := range batch {
		var answer *headwaterv1.Answer
		if l.refused == nil {
			answer, answers = api.FromAnswer(answers[0]), answers[1:]
		} else {
			answer = l.answer()
		}
		r.count(l, answer)
		if err := r.write(l, answer, nil); err != nil {
			return err
		}
		r.bar.add(l.bytes)
		r.ahead.give(l.bytes)
	}
	return r.out.flush()
}

// answer is that to a line that is no command.
func (l inputLine) answer() *headwaterv1.Answer {
	return api.FromAnswer(meta.Answer{Status: meta.Rejected, Err: l.refused})
}

func (r *applyRun) count(l inputLine, answer *headwaterv1.Answer) {
	r.lines++
	r.lastLine = l.number
	switch answer.GetStatus() {
	case headwaterv1.Answer_APPLIED:
		r.applied++
	case headwaterv1.Answer_REDUNDANT:
		r.redundant++
	case headwaterv1.Answer_REJECTED:
		r.rejected++
	default:
		if r.failed++; r.failed == 1 {
			r.failure = fmt.Sprintf("line %d: %s", l.number, failureText(answer))
		}
	}
}

// write writes the answer to a line: the answer in the JSON of the API, with the number of the line in front and, in a
// dry run, what would change behind.
func (r *applyRun) write(l inputLine, answer *headwaterv1.Answer, changes []*headwaterv1.Change) error {
	body, err := api.MarshalJSON(answer)
	if err != nil {
		return err
	}
	line := append([]byte(`{"line":`+strconv.Itoa(l.number)+`,`), body[1:]...)
	if len(changes) > 0 {
		line = append(line[:len(line)-1], `,"changes":[`...)
		for i, c := range changes {
			body, err := api.MarshalJSON(c)
			if err != nil {
				return err
			}
			if i > 0 {
				line = append(line, ',')
			}
			line = append(line, body...)
		}
		line = append(line, "]}"...)
	}
	return r.out.line(line)
}

// finish tells what came of it and how the program ends.
func (r *applyRun) finish(err error, interrupted bool) error {
	if e := r.out.flush(); err == nil {
		err = e
	}
	fmt.Fprintf(r.err, "%s in %v: %d applied, %d redundant, %d rejected, %d failed\n", counted(r.lines, "command"),
		time.Since(r.started).Round(time.Millisecond), r.applied, r.redundant, r.rejected, r.failed)
	again := "what was done stays done: apply the same file again to go on"
	switch {
	case r.failed > 0:
		return unavailable(fmt.Errorf("stopped: %s", r.failure), again)
	case interrupted:
		return unavailable(fmt.Errorf("interrupted after line %d", r.lastLine), again)
	case err != nil:
		var known *exitError
		if errors.As(err, &known) {
			return err
		}
		return unavailable(fmt.Errorf("write answers: %w", err), "")
	case r.rejected > 0 && r.o.stop:
		return refused(fmt.Errorf("stopped at line %d, which was refused", r.lastLine), "")
	case r.rejected > 0:
		return refused(nil, "")
	}
	return nil
}
