package meta

import (
	"context"
	"fmt"
)

// Proposer appends commands to the log and returns their answers, one for each proposal, in their order. The embedded
// library and the client both are Proposers.
type Proposer interface {
	Propose(ctx context.Context, proposals ...Proposal) []Answer
}

// NoResult is the result of commands that have nothing to tell. In an Answer they have a nil Result.
type NoResult struct{}

func (NoResult) isResult() {}

// CommandOf is a command whose result is an R. Each command of this package is a CommandOf of one type.
type CommandOf[R Result] interface {
	Command
	result() R
}

// Propose proposes one command without a request and returns its result: applied and redundant alike, since both mean
// that what was asked for is so. The error is an *Error where the rules refuse the command, and otherwise wraps one of
// the operational sentinels of this package. A Proposer that numbers commands itself, as the client does, gives the
// command a request.
//
//	res, err := meta.Propose(ctx, store, meta.CreateStream{Identity: me, Name: "orders-0"})
func Propose[R Result](ctx context.Context, p Proposer, c CommandOf[R]) (R, error) {
	return propose(ctx, p, Proposal{Command: c}, c)
}

// ProposeRequest is Propose with a request: the same request again has no second effect and is answered alike.
func ProposeRequest[R Result](ctx context.Context, p Proposer, req Request, c CommandOf[R]) (R, error) {
	return propose(ctx, p, Proposal{Request: &req, Command: c}, c)
}

func propose[R Result](ctx context.Context, p Proposer, proposal Proposal, c CommandOf[R]) (R, error) {
	var none R
	answers := p.Propose(ctx, proposal)
	if len(answers) != 1 {
		return none, fmt.Errorf("propose %s: %d answers to one command: %w", c.kind(), len(answers), ErrOutcomeUnknown)
	}
	return ResultOf(answers[0], c)
}

// ResultOf returns the result of the answer to c, or the answer's error. It is for those who propose many commands at
// once.
func ResultOf[R Result](a Answer, c CommandOf[R]) (R, error) {
	var none R
	if a.Err != nil {
		return none, a.Err
	}
	if a.Result == nil { // of a command without one
		return none, nil
	}
	res, ok := a.Result.(R)
	if !ok {
		return none, fmt.Errorf("%s was answered with %T, which is the result of another command", c.kind(), a.Result)
	}
	return res, nil
}

func (RegisterNode) result() (r RegisterNodeResult)     { return }
func (RenewNode) result() (r RenewNodeResult)           { return }
func (UnregisterNode) result() (r NoResult)             { return }
func (FenceNode) result() (r NoResult)                  { return }
func (CreateStream) result() (r CreateStreamResult)     { return }
func (OpenStream) result() (r OpenStreamResult)         { return }
func (CloseStream) result() (r CloseStreamResult)       { return }
func (TrimStream) result() (r TrimStreamResult)         { return }
func (LabelStream) result() (r NoResult)                { return }
func (DeleteStream) result() (r NoResult)               { return }
func (RecordTransfer) result() (r RecordTransferResult) { return }
func (ForceCloseStream) result() (r CloseStreamResult)  { return }
func (PrepareObjects) result() (r PrepareObjectsResult) { return }
func (CommitObjects) result() (r CommitObjectsResult)   { return }
func (CompactObjects) result() (r NoResult)             { return }
func (ReclaimObjects) result() (r ReclaimObjectsResult) { return }
func (ForgetObjects) result() (r ForgetObjectsResult)   { return }
func (PutKey) result() (r PutKeyResult)                 { return }
func (DeleteKey) result() (r NoResult)                  { return }
func (CheckKey) result() (r NoResult)                   { return }
func (Atomic) result() (r AtomicResult)                 { return }
func (SetFormat) result() (r SetFormatResult)           { return }
