package meta

// Identity is who acts: a node and the epoch at which it registered.
type Identity struct {
	NodeID    uint64 // from 1
	NodeEpoch uint64 // from 1
}

// Request makes a retry exact: the same client and sequence have one effect, however often the command is sent.
// See docs/guarantees.md.
type Request struct {
	Client   [16]byte // random, drawn once per client
	Sequence uint64   // from 1, one for each command
	Oldest   uint64   // the lowest sequence to which the client has no answer yet; 0 reads as 1
}

// Label is a name and a value that people put on nodes and streams. Lists of labels are sorted by name, without
// doubles.
type Label struct {
	Name, Value string // each at most 256 bytes
}

// Proposal is a command as it is proposed and as it stands in the log.
type Proposal struct {
	Request *Request // nil: none
	Stamp   int64    // the proposer's wall clock, milliseconds since 1970, for people only; 0: the node stamps it
	Command Command
}

// Command is one change of cluster state: one of the command types of this package, by value, and nothing else.
type Command interface{ kind() Kind }

// KindOf returns the kind of c.
func KindOf(c Command) Kind { return c.kind() }

// Kind numbers the commands. The numbers stand in the log and are never used again for something else.
type Kind uint8

// The kinds of commands.
const (
	KindRegisterNode Kind = 1 + iota
	KindRenewNode
	KindUnregisterNode
	KindFenceNode
	KindCreateStream
	KindOpenStream
	KindCloseStream
	KindTrimStream
	KindLabelStream
	KindDeleteStream
	KindRecordTransfer
	KindForceCloseStream
	KindPrepareObjects
	KindCommitObjects
	KindCompactObjects
	KindReclaimObjects
	KindForgetObjects
	KindPutKey
	KindDeleteKey
	KindCheckKey
	KindAtomic
	KindSetFormat

	kindEnd // one above the highest
)

// RegisterNode makes a process known as a node, at a new epoch. The rules of this and of all other commands are in
// docs/commands.md.
type RegisterNode struct {
	NodeID      uint64
	Epoch       uint64   // 0: the next one
	Instance    [16]byte // random, drawn once per process start
	Address     string   // at most 255 bytes
	Labels      []Label
	FormatLevel uint64 // the highest format level that the node's build decodes; 0 reads as 1
}

// RenewNode raises the node's renewal counter: a sign of life that needs no clock.
type RenewNode struct{ Identity Identity }

// UnregisterNode removes a node that owns no open stream and owes nothing.
type UnregisterNode struct{ NodeID, Epoch uint64 }

// FenceNode stops a node: it can change nothing until it registers again with a new instance.
type FenceNode struct {
	NodeID   uint64
	Epoch    uint64
	Renewals uint64   // fence only if the node's renewal counter is this; 0: no condition
	Rescuer  Identity // who may then act on the node's behalf; zero: an operator, no claim
}

// CreateStream makes a stream, closed and empty.
type CreateStream struct {
	Identity Identity
	Name     string // 1 to 255 bytes of UTF-8 without control characters
	Labels   []Label
}

// OpenStream makes the node the owner of a stream at a new stream epoch.
type OpenStream struct {
	Identity Identity
	StreamID uint64
	Epoch    uint64 // 0: the next one
}

// CloseStream ends the ownership of an open stream.
type CloseStream struct {
	Identity   Identity
	OnBehalfOf uint64 // a fenced node on which the acting node holds the claim; 0: none
	StreamID   uint64
	Epoch      uint64
}

// TrimStream moves the start of a stream: what lies below is no longer readable.
type TrimStream struct {
	Identity    Identity
	StreamID    uint64
	Epoch       uint64
	StartOffset uint64
}

// LabelStream replaces the labels of a stream.
type LabelStream struct {
	StreamID uint64
	Labels   []Label
}

// DeleteStream removes a closed stream.
type DeleteStream struct {
	Identity Identity // zero: none
	StreamID uint64
	Epoch    uint64
}

// RecordTransfer closes a stream and hands it to another node while its last records are still being uploaded.
type RecordTransfer struct {
	Identity Identity
	StreamID uint64
	Epoch    uint64
	ToNode   uint64 // 0: any
	Boundary uint64 // the offset from which the next owner goes on
}

// ForceCloseStream closes a stream for an operator, and writes off what is owed where told so.
type ForceCloseStream struct {
	StreamID uint64
	Epoch    uint64
	WriteOff bool
	Reason   string // at most 1 KiB
}

// PrepareObjects hands out ids for objects that the node is going to upload. It needs a request.
type PrepareObjects struct {
	Identity Identity
	Count    uint64 // 1 to 1000
	Deadline int64  // milliseconds since 1970: from when on a ReclaimObjects may give the objects up
}

// Slice is one stream's interval inside an object.
type Slice struct {
	StreamID     uint64
	StreamEpoch  uint64
	StartOffset  uint64
	EndOffset    uint64 // exclusive
	Position     uint64 // of the first byte in the object
	Length       uint64 // in bytes
	MaxTimestamp int64  // the greatest timestamp of the records; what it counts is the user's
}

// Object is an uploaded object and what is in it.
type Object struct {
	ObjectID   uint64
	Size       uint64 // in bytes
	Attributes []byte // at most 256 opaque bytes: checksum, codec, etag
	Slices     []Slice
}

// CommitObjects makes the records of uploaded objects part of their streams, all or nothing.
type CommitObjects struct {
	Identity   Identity
	OnBehalfOf uint64 // a fenced node on which the acting node holds the claim; 0: none
	Objects    []Object
}

// CompactObjects replaces committed objects by others that hold the same live slices.
type CompactObjects struct {
	Identity Identity
	Sources  []uint64
	Objects  []Object
}

// ReclaimObjects releases slices that nothing reads any more and marks objects whose bytes may be deleted.
type ReclaimObjects struct {
	Time  int64  // milliseconds since 1970: prepared objects with an earlier deadline are given up
	Limit uint64 // 1 to 1000
}

// ForgetObjects removes deletable objects from the state, after their bytes were deleted.
type ForgetObjects struct{ ObjectIDs []uint64 }

// PutKey writes a key.
type PutKey struct {
	Identity  Identity // zero: none
	Key       string   // 1 to 1024 bytes
	Value     []byte   // at most 256 KiB
	IfAbsent  bool
	IfVersion uint64 // 0: no condition
}

// DeleteKey removes a key.
type DeleteKey struct {
	Identity  Identity // zero: none
	Key       string
	IfVersion uint64 // 0: no condition
}

// CheckKey is a condition for use in Atomic: the key is absent, or has this version.
type CheckKey struct {
	Key       string
	IfAbsent  bool
	IfVersion uint64
}

// Atomic does 1 to 100 commands, all or nothing. It needs a request; the commands inside carry none.
type Atomic struct{ Commands []Command }

// SetFormat raises the format level of the cluster.
type SetFormat struct{ Level uint64 }

func (RegisterNode) kind() Kind     { return KindRegisterNode }
func (RenewNode) kind() Kind        { return KindRenewNode }
func (UnregisterNode) kind() Kind   { return KindUnregisterNode }
func (FenceNode) kind() Kind        { return KindFenceNode }
func (CreateStream) kind() Kind     { return KindCreateStream }
func (OpenStream) kind() Kind       { return KindOpenStream }
func (CloseStream) kind() Kind      { return KindCloseStream }
func (TrimStream) kind() Kind       { return KindTrimStream }
func (LabelStream) kind() Kind      { return KindLabelStream }
func (DeleteStream) kind() Kind     { return KindDeleteStream }
func (RecordTransfer) kind() Kind   { return KindRecordTransfer }
func (ForceCloseStream) kind() Kind { return KindForceCloseStream }
func (PrepareObjects) kind() Kind   { return KindPrepareObjects }
func (CommitObjects) kind() Kind    { return KindCommitObjects }
func (CompactObjects) kind() Kind   { return KindCompactObjects }
func (ReclaimObjects) kind() Kind   { return KindReclaimObjects }
func (ForgetObjects) kind() Kind    { return KindForgetObjects }
func (PutKey) kind() Kind           { return KindPutKey }
func (DeleteKey) kind() Kind        { return KindDeleteKey }
func (CheckKey) kind() Kind         { return KindCheckKey }
func (Atomic) kind() Kind           { return KindAtomic }
func (SetFormat) kind() Kind        { return KindSetFormat }
