package meta

import "fmt"

// outcome is how the rules judge one command.
type outcome struct {
	status Status
	result Result // nil: nothing to tell
	err    *Error // where rejected
}

func applied(r Result) outcome   { return outcome{status: Applied, result: r} }
func redundant(r Result) outcome { return outcome{status: Redundant, result: r} }
func rejected(e *Error) outcome  { return outcome{status: Rejected, err: e} }

// refuse returns a refusal with a sentence.
func refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Inner: -1}
}

// reject is rejected(refuse(…)).
func reject(code Code, format string, args ...any) outcome {
	return rejected(refuse(code, format, args...))
}

// checkIdentity judges who acts, and for whom. It returns the node that the rules then read as the owner: the acting
// node, or the fenced one on whose behalf it acts; onBehalfOf is 0 where there is none.
func (t *tx) checkIdentity(id Identity, onBehalfOf uint64) (owner uint64, err *Error) {
	n := t.liveNode(id.NodeID)
	switch {
	case n == nil:
		return 0, refuse(CodeNodeNotFound, "node %d is not registered", id.NodeID)
	case id.NodeEpoch < n.epoch:
		return 0, refuse(CodeNodeEpochStale, "node %d acts at epoch %d, but is registered at epoch %d", id.NodeID, id.NodeEpoch, n.epoch)
	case id.NodeEpoch > n.epoch:
		return 0, refuse(CodeNodeEpochUnknown, "node %d acts at epoch %d, but is registered at epoch %d only", id.NodeID, id.NodeEpoch, n.epoch)
	case n.fenced:
		return 0, refuse(CodeNodeFenced, "node %d is fenced at epoch %d", id.NodeID, n.epoch)
	case onBehalfOf == 0:
		return id.NodeID, nil
	}
	// The acting node has just proved to be live, so the claim holds if it is recorded at all.
	f := t.liveNode(onBehalfOf)
	if f == nil || !f.fenced || f.rescuer != id {
		return 0, refuse(CodeNodeNotClaimed, "node %d at epoch %d has no claim on node %d", id.NodeID, id.NodeEpoch, onBehalfOf)
	}
	return onBehalfOf, nil
}

// checkOptionalIdentity is checkIdentity for commands that may come without one.
func (t *tx) checkOptionalIdentity(id Identity) *Error {
	if id == (Identity{}) {
		return nil
	}
	_, err := t.checkIdentity(id, 0)
	return err
}

// streamCheck judges a command on a stream of which it names the epoch and which owner must own. The stream may be closed.
func (t *tx) streamCheck(id, epoch, owner uint64) (*stream, *Error) {
	s := t.stream(id)
	if s == nil {
		return nil, t.streamNotFound(id)
	}
	return s, checkStreamOwner(id, s, epoch, owner)
}

// checkStreamOwner is the part of streamCheck that judges a stream which is there.
func checkStreamOwner(id uint64, s *stream, epoch, owner uint64) *Error {
	if err := checkStreamEpoch(id, s, epoch); err != nil {
		return err
	}
	switch s.owner.NodeID {
	case owner:
		return nil
	case 0:
		return refuse(CodeStreamNotOwned, "stream %d was never opened", id)
	}
	return refuse(CodeStreamNotOwned, "stream %d is owned by node %d, not by node %d", id, s.owner.NodeID, owner)
}

// streamAt is the part of streamCheck that does not ask who owns the stream.
func (t *tx) streamAt(id, epoch uint64) (*stream, *Error) {
	s := t.stream(id)
	if s == nil {
		return nil, t.streamNotFound(id)
	}
	return s, checkStreamEpoch(id, s, epoch)
}

func (s *State) streamNotFound(id uint64) *Error {
	if s.streamHandedOut(id) {
		return refuse(CodeStreamNotFound, "stream %d was deleted", id)
	}
	return refuse(CodeStreamNotFound, "stream %d does not exist", id)
}

func checkStreamEpoch(id uint64, s *stream, epoch uint64) *Error {
	switch {
	case epoch < s.epoch:
		return refuse(CodeStreamEpochStale, "stream %d is at epoch %d, the command at epoch %d", id, s.epoch, epoch)
	case epoch > s.epoch:
		return refuse(CodeStreamEpochUnknown, "stream %d is at epoch %d only, the command at epoch %d", id, s.epoch, epoch)
	}
	return nil
}

// chargeSlices counts n source slices of a compaction against what one Atomic may touch. It does nothing outside Atomic.
func (t *tx) chargeSlices(n uint64) *Error {
	if !t.inAtomic {
		return nil
	}
	if n > t.budget {
		return refuse(CodeTooLarge, "the commands of one Atomic touch more than %d slices, ids and objects together", MaxSlices)
	}
	t.budget -= n
	return nil
}
