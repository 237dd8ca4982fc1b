package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/headwaterdb/headwater/api"
	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/session"
)

// writes gives a command that proposes its flags.
func (a *app) writes(c *cobra.Command) *cobra.Command {
	c.Flags().Bool("dry-run", false, "tell what the command would do, and do nothing")
	return a.reach(c)
}

// proposeOne proposes what build makes, and prints the answer. build may look things up on the cluster first.
func (a *app) proposeOne(cmd *cobra.Command, build func(ctx context.Context, c *cluster) (*headwaterv1.Command, error)) error {
	dry, err := cmd.Flags().GetBool("dry-run")
	if err != nil {
		return err
	}
	why := toWrite
	if dry {
		why = toRead
	}
	return a.with(cmd, why, func(ctx context.Context, c *cluster) error {
		command, err := build(ctx, c)
		if err != nil {
			return err
		}
		if dry {
			return a.plan(ctx, c, command)
		}
		answer, err := proposeAlone(ctx, c, command)
		if err != nil {
			return err
		}
		return a.printAnswer("", answer)
	})
}

// proposeAlone proposes one command, with a request where it takes one.
func proposeAlone(ctx context.Context, c *cluster, command *headwaterv1.Command) (*headwaterv1.Answer, error) {
	p, err := api.ToProposal(command)
	if err != nil {
		return nil, refused(fmt.Errorf("refused: %w", err), "")
	}
	ensureRequest(&p, newRequest())
	return api.FromAnswer(c.Propose(ctx, p)[0]), nil
}

// newRequest is the request of a command that stands alone: a client of its own, so that retries on the way are
// exact and nothing is left in flight.
func newRequest() *meta.Request {
	r := &meta.Request{Sequence: 1, Oldest: 1}
	_, _ = rand.Read(r.Client[:]) // never fails
	return r
}

// ensureRequest gives a command a request unless it has one, or takes none.
func ensureRequest(p *meta.Proposal, r *meta.Request) {
	if p.Request == nil && session.Numbered(*p) {
		p.Request = r
	}
}

// plan prints what a command would do.
func (a *app) plan(ctx context.Context, c *cluster, command *headwaterv1.Command) error {
	if p, err := api.ToProposal(command); err == nil && p.Request == nil && session.Numbered(p) { // some commands need one
		r := newRequest()
		command.Request = &headwaterv1.Request{Client: r.Client[:], Sequence: r.Sequence, Oldest: r.Oldest}
	}
	r, err := call(ctx, c.rpc.DryRun, &headwaterv1.DryRunRequest{Commands: []*headwaterv1.Command{command}, Read: c.read})
	if err != nil {
		return err
	}
	if n := len(r.GetAnswers()); n != 1 {
		return unavailable(fmt.Errorf("asked for one answer, got %d", n), "")
	}
	if a.output == "json" {
		return firstError(a.printJSON(r), outcome(r.GetAnswers()[0]))
	}
	err = a.printAnswer("would be ", r.GetAnswers()[0])
	for _, change := range r.GetChanges() {
		fmt.Fprintln(a.out, "  "+changeLine(change))
	}
	if err == nil {
		fmt.Fprintln(a.err, "dry run: nothing was done")
	}
	return err
}

// changeLine tells of one changed record.
func changeLine(c *headwaterv1.Change) string {
	verb := "changes"
	switch {
	case c.GetOld() == nil:
		verb = "adds"
	case c.GetNew() == nil:
		verb = "removes"
	}
	return fmt.Sprintf("%s %s %s", verb, c.GetKind(), text(c.GetKey()))
}

// printAnswer prints the answer to a command that stands alone, behind a word on how real it is, and says how the
// program ends.
func (a *app) printAnswer(would string, answer *headwaterv1.Answer) error {
	if a.output == "json" {
		return firstError(a.printJSON(answer), outcome(answer))
	}
	if err := outcome(answer); err != nil {
		return err
	}
	words := []string{would + strings.ToLower(answer.GetStatus().String())}
	if answer.GetIndex() > 0 {
		words = append(words, fmt.Sprintf("at index %d", answer.GetIndex()))
	}
	if first := answer.GetFirstIndex(); first != 0 && first != answer.GetIndex() {
		words = append(words, fmt.Sprintf("(first at %d)", first))
	}
	if told := resultText(answer.GetResult()); told != "" {
		words = append(words, told)
	}
	fmt.Fprintln(a.out, strings.Join(words, " "))
	return nil
}

// resultText shows the fields of a result as name=value.
func resultText(r *headwaterv1.Result) string {
	if r == nil || r.Result == nil {
		return ""
	}
	var words []string
	m := r.ProtoReflect()
	inner := m.Get(m.WhichOneof(m.Descriptor().Oneofs().Get(0))).Message()
	fields := inner.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.IsList() {
			words = append(words, fmt.Sprintf("%s=%d", f.JSONName(), inner.Get(f).List().Len()))
			continue
		}
		words = append(words, f.JSONName()+"="+inner.Get(f).String())
	}
	return strings.Join(words, " ")
}

// outcome is nil where the command was applied or redundant, and otherwise says why not and how the program ends.
func outcome(answer *headwaterv1.Answer) error {
	switch answer.GetStatus() {
	case headwaterv1.Answer_APPLIED, headwaterv1.Answer_REDUNDANT:
		return nil
	case headwaterv1.Answer_REJECTED:
		return refused(fmt.Errorf("refused: %s: %s", answer.GetCode(), answer.GetMessage()), "")
	}
	return unavailable(errors.New(failureText(answer)), failureHint(answer.GetFailure().GetKind()))
}

func failureText(answer *headwaterv1.Answer) string {
	kind := strings.ToLower(strings.ReplaceAll(answer.GetFailure().GetKind().String(), "_", " "))
	switch {
	case answer.GetMessage() == "":
		return kind
	case strings.Contains(answer.GetMessage(), kind):
		return answer.GetMessage()
	}
	return kind + ": " + answer.GetMessage()
}

func failureHint(kind headwaterv1.Failure_Kind) string {
	switch kind {
	case headwaterv1.Failure_OUTCOME_UNKNOWN:
		return "the command may have taken effect: look before sending it again"
	case headwaterv1.Failure_OVERLOADED:
		return "nothing was done; try again in a moment"
	case headwaterv1.Failure_HALTED:
		return "headwater status tells which row and why"
	}
	return ""
}

// identityFlag is the flag --as NODE[:EPOCH].
type identityFlag struct{ node, epoch uint64 }

func (i *identityFlag) String() string {
	if i.node == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", i.node, i.epoch)
}

func (i *identityFlag) Type() string { return "NODE or NODE:EPOCH" }

func (i *identityFlag) Set(s string) error {
	node, epoch, both := strings.Cut(s, ":")
	n, err := strconv.ParseUint(node, 10, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not NODE or NODE:EPOCH", s)
	}
	var e uint64
	if both {
		if e, err = strconv.ParseUint(epoch, 10, 64); err != nil || e == 0 {
			return fmt.Errorf("%q is not NODE or NODE:EPOCH", s)
		}
	}
	*i = identityFlag{node: n, epoch: e}
	return nil
}

// acting gives a command the flag --as.
func acting(c *cobra.Command, i *identityFlag, what string) {
	c.Flags().Var(i, "as", what+" as `NODE[:EPOCH]`; without the epoch, at the one at which the node is registered now")
}

// resolve returns the identity in the form of the API, nil where none was given.
func (i *identityFlag) resolve(ctx context.Context, c *cluster) (*headwaterv1.Identity, error) {
	if i.node == 0 {
		return nil, nil
	}
	if i.epoch != 0 {
		return &headwaterv1.Identity{NodeId: i.node, NodeEpoch: i.epoch}, nil
	}
	r, err := call(ctx, c.rpc.GetNode, &headwaterv1.GetNodeRequest{Read: c.read, NodeId: i.node})
	if err != nil {
		return nil, err
	}
	return &headwaterv1.Identity{NodeId: i.node, NodeEpoch: r.GetNode().GetEpoch()}, nil
}

// required is resolve for commands that need an identity.
func (i *identityFlag) required(ctx context.Context, c *cluster) (*headwaterv1.Identity, error) {
	if i.node == 0 {
		return nil, usagef("--as NODE[:EPOCH] is needed: which node acts?")
	}
	return i.resolve(ctx, c)
}

// parseID reads an id or another whole number that stands as an argument.
func parseID(what, s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, usagef("%s %q is not a whole number from 0 to %d", what, printable(s), uint64(1<<64-1))
	}
	return n, nil
}

func parseIDs(what string, args []string) ([]uint64, error) {
	out := make([]uint64, len(args))
	for i, s := range args {
		n, err := parseID(what, s)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

// clone keeps a message from being changed by what it is sent through.
func clone[T proto.Message](m T) T { return proto.Clone(m).(T) }
