package main

import (
	"context"
	"fmt"
	"io"

	"github.com/headwaterdb/headwater/api"
	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

// maxPlan is how many commands the API judges together in a dry run.
const maxPlan = 1000

// plan judges the commands one after another, each against what the earlier ones would leave.
func (r *applyRun) plan(ctx context.Context) error {
	in := newLineReader(r.in, r.in.identity)
	var lines []inputLine
	var commands []*headwaterv1.Command
	for {
		line, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return unavailable(fmt.Errorf("read line %d: %w", in.number+1, err), "")
		}
		if line.number < r.o.fromLine {
			continue
		}
		if line.refused == nil {
			commands = append(commands, api.FromProposal(line.proposal))
		}
		if lines = append(lines, line); len(lines) > maxPlan {
			return usagef("a dry run judges at most %d commands together; line %d is one more", maxPlan, line.number)
		}
	}
	answers, changes, err := r.judge(ctx, commands)
	if err != nil {
		return err
	}
	for _, l := range lines {
		var answer *headwaterv1.Answer
		var its []*headwaterv1.Change
		if l.refused == nil {
			answer, its = answers[0], changes[0]
			answers, changes = answers[1:], changes[1:]
		} else {
			answer = l.answer()
		}
		r.count(l, answer)
		if err := r.write(l, answer, its); err != nil {
			return err
		}
		if r.o.stop && answer.GetStatus() == headwaterv1.Answer_REJECTED {
			break
		}
	}
	err = r.finish(nil, false)
	fmt.Fprintln(r.err, "dry run: nothing was done")
	return err
}

// judge returns for each command its answer and what it would change.
func (r *applyRun) judge(ctx context.Context, commands []*headwaterv1.Command) ([]*headwaterv1.Answer, [][]*headwaterv1.Change, error) {
	if len(commands) == 0 {
		return nil, nil, nil
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	resp, err := call(ctx, r.cluster.rpc.DryRun, &headwaterv1.DryRunRequest{Commands: commands, Read: r.cluster.read})
	if err != nil {
		return nil, nil, err
	}
	if len(resp.GetAnswers()) != len(commands) {
		return nil, nil, unavailable(fmt.Errorf("asked for %d answers, got %d", len(commands), len(resp.GetAnswers())), "")
	}
	changes := make([][]*headwaterv1.Change, len(commands))
	for _, c := range resp.GetChanges() {
		if i := int(c.GetCommand()); i < len(changes) {
			changes[i] = append(changes[i], c)
		}
	}
	return resp.GetAnswers(), changes, nil
}
