package meta

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// The limits of commands. All sizes are in bytes. What is above one of them is refused with TOO_LARGE.
const (
	MaxNameBytes         = 255     // of a stream's name
	MaxAddressBytes      = 255     // of a node's address
	MaxLabels            = 32      // of one node or stream
	MaxLabelBytes        = 256     // of a label's name, and of its value
	MaxKeyBytes          = 1 << 10 // of a key
	MaxValueBytes        = 256 << 10
	MaxReasonBytes       = 1 << 10
	MaxAttributesBytes   = 256        // of one object
	MaxSlices            = 10_000     // of one commit; of the sources of one compaction; in all, of one Atomic
	MaxPerCommand        = 1_000      // ids or objects in one command, objects prepared or reclaimed by one
	MaxAtomicCommands    = 100        // in one Atomic
	RequestWindow        = 256        // how far a request's sequence may be above its oldest
	firstControl, pastC1 = 0x7f, 0xa0 // DEL and the control characters above it
)

// Validate judges p by the limits, which are judged first, before a command is proposed and again when it is applied. It
// looks at p alone, never at a state; nil means that p is within them. What is above a numeric limit is TOO_LARGE; what
// is missing, malformed, out of range, contradictory or twice in one list is INVALID_ARGUMENT. Where a command inside
// an Atomic is refused, Inner of the error is its position.
func Validate(p Proposal) *Error {
	if err := validateRequest(p); err != nil {
		return err
	}
	a, ok := p.Command.(Atomic)
	if !ok {
		return validateCommand(p.Command)
	}
	if err := validateCount("commands", len(a.Commands), MaxAtomicCommands); err != nil {
		return err
	}
	var work uint64
	size := 16
	for i, c := range a.Commands {
		err := validateInner(c)
		if err != nil {
			err.Inner = i
			return err
		}
		work += workOf(c)
		size += sizeBound(c)
	}
	if work > MaxSlices {
		return tooLarge("slices, ids, counts and limits of the commands inside come to %d, at most %d are allowed",
			work, MaxSlices)
	}
	if size <= MaxCommandBytes { // the others cannot be above it by their own limits
		return nil
	}
	if n := len(AppendCommand(nil, a)); n > MaxCommandBytes {
		return tooLarge("command takes %d bytes, at most %d are allowed", n, MaxCommandBytes)
	}
	return nil
}

// sizeBound returns a number of bytes that the encoding of c does not exceed. It spares nearly every Atomic the
// encoding that tells the exact number.
func sizeBound(c Command) int {
	const numbers, slice, object = 96, 70, 64 // more than all numbers of a command, of a slice, of an object take
	size := numbers
	switch c := c.(type) {
	case RegisterNode:
		size += len(c.Address) + labelsBound(c.Labels)
	case CreateStream:
		size += len(c.Name) + labelsBound(c.Labels)
	case LabelStream:
		size += labelsBound(c.Labels)
	case ForceCloseStream:
		size += len(c.Reason)
	case CommitObjects:
		size += slice*countSlices(c.Objects) + (object+MaxAttributesBytes)*len(c.Objects)
	case CompactObjects:
		size += slice*countSlices(c.Objects) + (object+MaxAttributesBytes)*len(c.Objects) + 10*len(c.Sources)
	case ForgetObjects:
		size += 10 * len(c.ObjectIDs)
	case PutKey:
		size += len(c.Key) + len(c.Value)
	case DeleteKey:
		size += len(c.Key)
	case CheckKey:
		size += len(c.Key)
	}
	return size
}

func labelsBound(labels []Label) int {
	size := 0
	for _, l := range labels {
		size += 20 + len(l.Name) + len(l.Value)
	}
	return size
}

func validateRequest(p Proposal) *Error {
	q := p.Request
	if q == nil {
		switch p.Command.(type) {
		case PrepareObjects, Atomic:
			return invalid("%s needs a request", KindOf(p.Command))
		}
		return nil
	}
	if _, ok := p.Command.(RenewNode); ok {
		return invalid("%s takes no request", KindRenewNode)
	}
	oldest := max(q.Oldest, 1)
	switch {
	case q.Client == [16]byte{}:
		return invalid("request.client is missing")
	case q.Sequence == 0:
		return invalid("request.sequence is missing; it counts from 1")
	case q.Sequence < oldest:
		return invalid("request.sequence %d is below request.oldest %d", q.Sequence, oldest)
	case q.Sequence-oldest >= RequestWindow:
		return invalid("request.sequence %d is not below request.oldest %d + %d", q.Sequence, oldest, RequestWindow)
	}
	return nil
}

func validateInner(c Command) *Error {
	switch c.(type) {
	case Atomic, RenewNode, SetFormat:
		return invalid("%s may not stand inside atomic", c.kind())
	}
	return validateCommand(c)
}

// workOf returns what c counts towards the joint limit of an Atomic: its slices, ids, count or limit. The slices of a
// compaction's sources count too, but only the state knows them.
func workOf(c Command) uint64 {
	switch c := c.(type) {
	case PrepareObjects:
		return c.Count
	case CommitObjects:
		return uint64(countSlices(c.Objects))
	case CompactObjects:
		return uint64(countSlices(c.Objects) + len(c.Sources))
	case ReclaimObjects:
		return c.Limit
	case ForgetObjects:
		return uint64(len(c.ObjectIDs))
	}
	return 0
}

func countSlices(objects []Object) int {
	n := 0
	for i := range objects {
		n += len(objects[i].Slices)
	}
	return n
}

func validateCommand(c Command) *Error {
	switch c := c.(type) {
	case RegisterNode:
		return validateRegisterNode(c)
	case RenewNode:
		return validateIdentity(c.Identity)
	case UnregisterNode:
		return first(validateNodeID(c.NodeID), number("epoch", c.Epoch))
	case FenceNode:
		return first(validateNodeID(c.NodeID), number("epoch", c.Epoch), validateOptional("rescuer", c.Rescuer))
	case CreateStream:
		return first(validateIdentity(c.Identity), validateName(c.Name), validateLabels(c.Labels))
	case OpenStream:
		return first(validateIdentity(c.Identity), number("epoch", c.Epoch))
	case CloseStream:
		return first(validateIdentity(c.Identity), number("epoch", c.Epoch))
	case TrimStream:
		return first(validateIdentity(c.Identity), number("epoch", c.Epoch), number("startOffset", c.StartOffset))
	case LabelStream:
		return validateLabels(c.Labels)
	case DeleteStream:
		return first(validateOptional("identity", c.Identity), number("epoch", c.Epoch))
	case RecordTransfer:
		return first(validateIdentity(c.Identity), number("epoch", c.Epoch), number("boundary", c.Boundary))
	case ForceCloseStream:
		return first(number("epoch", c.Epoch), validateText("reason", c.Reason, MaxReasonBytes))
	case PrepareObjects:
		return first(validateIdentity(c.Identity), validateAmount("count", c.Count))
	case CommitObjects:
		return first(validateIdentity(c.Identity), validateCount("objects", len(c.Objects), MaxPerCommand),
			validateObjects(c.Objects))
	case CompactObjects:
		return validateCompactObjects(c)
	case ReclaimObjects:
		return validateAmount("limit", c.Limit)
	case ForgetObjects:
		return first(validateCount("objectIds", len(c.ObjectIDs), MaxPerCommand), validateIDs("objectIds", c.ObjectIDs))
	case PutKey, DeleteKey, CheckKey:
		return validateKeyCommand(c)
	case SetFormat:
		if c.Level == 0 {
			return invalid("level is missing; it counts from 1")
		}
		return nil
	}
	return invalid("%s", unknownCommand(c))
}

func validateRegisterNode(c RegisterNode) *Error {
	if err := first(validateNodeID(c.NodeID), number("epoch", c.Epoch)); err != nil {
		return err
	}
	if c.Instance == [16]byte{} {
		return invalid("instance is missing; each process start draws 16 random bytes")
	}
	return first(validateText("address", c.Address, MaxAddressBytes), validateLabels(c.Labels))
}

func validateCompactObjects(c CompactObjects) *Error {
	if err := first(validateIdentity(c.Identity), validateCount("sources", len(c.Sources), MaxPerCommand),
		validateIDs("sources", c.Sources)); err != nil {
		return err
	}
	if len(c.Objects) > MaxPerCommand { // none are needed where nothing is live
		return tooLarge("objects holds %d, at most %d are allowed", len(c.Objects), MaxPerCommand)
	}
	return validateObjects(c.Objects)
}

func validateKeyCommand(c Command) *Error {
	switch c := c.(type) {
	case PutKey:
		if err := first(validateOptional("identity", c.Identity), validateKey(c.Key)); err != nil {
			return err
		}
		if len(c.Value) > MaxValueBytes {
			return tooLarge("value has %d bytes, at most %d are allowed", len(c.Value), MaxValueBytes)
		}
		if c.IfAbsent && c.IfVersion != 0 {
			return invalid("ifAbsent and ifVersion %d exclude each other", c.IfVersion)
		}
	case DeleteKey:
		return first(validateOptional("identity", c.Identity), validateKey(c.Key))
	case CheckKey:
		if err := validateKey(c.Key); err != nil {
			return err
		}
		if c.IfAbsent && c.IfVersion != 0 {
			return invalid("ifAbsent and ifVersion %d exclude each other", c.IfVersion)
		}
		if !c.IfAbsent && c.IfVersion == 0 {
			return invalid("checkKey needs ifAbsent or ifVersion")
		}
	}
	return nil
}

func validateObjects(objects []Object) *Error {
	if n := countSlices(objects); n > MaxSlices {
		return tooLarge("objects hold %d slices, at most %d are allowed", n, MaxSlices)
	}
	for i := range objects {
		o := &objects[i]
		if o.Size >= maxNumber {
			return number("size", o.Size)
		}
		if len(o.Attributes) > MaxAttributesBytes {
			return tooLarge("attributes of object %d have %d bytes, at most %d are allowed", o.ObjectID,
				len(o.Attributes), MaxAttributesBytes)
		}
		for j := range o.Slices {
			if s := &o.Slices[j]; (s.StartOffset|s.EndOffset|s.StreamEpoch|s.Position|s.Length)>>63 != 0 ||
				s.StartOffset >= s.EndOffset {
				return badSlice(o.ObjectID, j, s)
			}
		}
	}
	return validateObjectIDs(objects)
}

// badSlice says what is wrong with slice j of an object, once it is known that something is.
func badSlice(object uint64, j int, s *Slice) *Error {
	err := first(number("streamEpoch", s.StreamEpoch), number("startOffset", s.StartOffset),
		number("endOffset", s.EndOffset), number("position", s.Position), number("length", s.Length))
	if err == nil {
		err = invalid("startOffset %d is not below endOffset %d", s.StartOffset, s.EndOffset)
	}
	err.Message = fmt.Sprintf("slice %d of object %d: %s", j, object, err.Message)
	return err
}

// validateObjectIDs refuses an object that stands twice. Lists are mostly of one object, or ascending.
func validateObjectIDs(objects []Object) *Error {
	ascending := true
	for i := 1; i < len(objects) && ascending; i++ {
		ascending = objects[i-1].ObjectID < objects[i].ObjectID
	}
	if ascending {
		return nil
	}
	ids := make([]uint64, len(objects))
	for i := range objects {
		ids[i] = objects[i].ObjectID
	}
	return validateIDs("objects", ids)
}

// validateIDs refuses an id that stands twice.
func validateIDs(field string, ids []uint64) *Error {
	sorted := ids
	if !slices.IsSorted(ids) {
		sorted = slices.Clone(ids)
		slices.Sort(sorted)
	}
	for i := 1; i < len(sorted); i++ {
		if sorted[i-1] == sorted[i] {
			return invalid("%s holds %d twice", field, sorted[i])
		}
	}
	return nil
}

func validateNodeID(id uint64) *Error {
	if id == 0 {
		return invalid("nodeId is missing; it counts from 1")
	}
	return nil
}

func validateIdentity(id Identity) *Error {
	if id == (Identity{}) {
		return invalid("identity is missing")
	}
	return validateOptional("identity", id)
}

// validateOptional judges an identity that may be absent, which is its zero value.
func validateOptional(field string, id Identity) *Error {
	if id.NodeID == 0 && id.NodeEpoch != 0 {
		return invalid("%s.nodeId is missing; it counts from 1", field)
	}
	if id.NodeEpoch >= maxNumber {
		return number(field+".nodeEpoch", id.NodeEpoch)
	}
	return nil
}

func validateName(name string) *Error {
	if name == "" {
		return invalid("name is missing")
	}
	if err := validateText("name", name, MaxNameBytes); err != nil {
		return err
	}
	for i, c := range name {
		if c < ' ' || c >= firstControl && c < pastC1 {
			return invalid("name has the control character %U at byte %d", c, i)
		}
	}
	return nil
}

func validateKey(key string) *Error {
	if key == "" {
		return invalid("key is missing")
	}
	return validateText("key", key, MaxKeyBytes)
}

// validateLabels judges labels in any order.
func validateLabels(labels []Label) *Error {
	if len(labels) > MaxLabels {
		return tooLarge("labels holds %d, at most %d are allowed", len(labels), MaxLabels)
	}
	for i, l := range labels {
		if l.Name == "" {
			return invalid("a label has no name")
		}
		if err := first(validateText("label name", l.Name, MaxLabelBytes),
			validateText("label value", l.Value, MaxLabelBytes)); err != nil {
			return err
		}
		for _, before := range labels[:i] {
			if before.Name == l.Name {
				return invalid("label %q stands twice", l.Name)
			}
		}
	}
	return nil
}

// validateText judges a text that people write: every text is UTF-8, since JSON and protobuf carry nothing else.
func validateText(field, s string, limit int) *Error {
	if len(s) > limit {
		return tooLarge("%s has %d bytes, at most %d are allowed", field, len(s), limit)
	}
	if !utf8.ValidString(s) {
		return invalid("%s is not UTF-8", field)
	}
	return nil
}

// validateAmount judges how many objects a command prepares or reclaims.
func validateAmount(field string, n uint64) *Error {
	if n == 0 {
		return invalid("%s is missing; it is 1 to %d", field, MaxPerCommand)
	}
	if n > MaxPerCommand {
		return tooLarge("%s is %d, at most %d are allowed", field, n, MaxPerCommand)
	}
	return nil
}

// validateCount judges the length of a list that may not be empty.
func validateCount(field string, n, limit int) *Error {
	if n == 0 {
		return invalid("%s is empty", field)
	}
	if n > limit {
		return tooLarge("%s holds %d, at most %d are allowed", field, n, limit)
	}
	return nil
}

// number judges an offset, an epoch or a size in bytes.
func number(field string, v uint64) *Error {
	if v >= maxNumber {
		return tooLarge("%s is %d, at most %d is allowed", field, v, uint64(maxNumber-1))
	}
	return nil
}

// first returns the first error that is one.
func first(errs ...*Error) *Error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func invalid(format string, args ...any) *Error {
	return &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf(format, args...), Inner: -1}
}

func tooLarge(format string, args ...any) *Error {
	return &Error{Code: CodeTooLarge, Message: fmt.Sprintf(format, args...), Inner: -1}
}
