package meta

// Status is how a command ended.
type Status uint8

// The three ways in which a command that was applied ends. The zero Status is none of them.
const (
	Applied   Status = 1 // it changed the state
	Redundant Status = 2 // what it asks for was so already, or its request was answered before
	Rejected  Status = 3 // the rules refuse it
)

// Answer is what became of one proposed command.
type Answer struct {
	Status Status // zero where Err is an operational error: then nothing is known beyond Err
	// Index and Position are those of the row, and in it, that gave the answer: a view at Index or later shows
	// what the answer is about. For a request answered before, FirstIndex and FirstPosition are those of the
	// first answer; otherwise they equal Index and Position.
	Index         uint64
	Position      int
	FirstIndex    uint64
	FirstPosition int
	Result        Result // of the type that belongs to the command; nil where rejected, or where there is nothing to tell
	// Err is nil for Applied and Redundant, an *Error for Rejected, and otherwise one that wraps an operational
	// sentinel of this package (ErrOutcomeUnknown, ErrOverloaded, …).
	Err error
}

// Result is what an applied or redundant command returns: one of the result types of this package, by value.
type Result interface{ isResult() }

// RegisterNodeResult answers RegisterNode.
type RegisterNodeResult struct {
	Epoch        uint64
	OwnedStreams uint64 // how many open streams the node owns
	OwedDebts    uint64 // how many debts it has
}

// RenewNodeResult answers RenewNode.
type RenewNodeResult struct{ Renewals uint64 }

// CreateStreamResult answers CreateStream.
type CreateStreamResult struct{ StreamID uint64 }

// OpenStreamResult answers OpenStream.
type OpenStreamResult struct {
	Epoch       uint64
	StartOffset uint64
	EndOffset   uint64 // the next offset
}

// CloseStreamResult answers CloseStream and ForceCloseStream.
type CloseStreamResult struct{ EndOffset uint64 }

// TrimStreamResult answers TrimStream.
type TrimStreamResult struct{ StartOffset, EndOffset uint64 }

// RecordTransferResult answers RecordTransfer: the sender owes [StartOffset, Boundary).
type RecordTransferResult struct{ StartOffset, Boundary uint64 }

// PrepareObjectsResult answers PrepareObjects: Count consecutive ids.
type PrepareObjectsResult struct{ FirstObjectID, Count uint64 }

// CommitObjectsResult answers CommitObjects.
type CommitObjectsResult struct {
	DroppedSlices uint64 // slices of deleted streams, which were left out
}

// ReclaimObjectsResult answers ReclaimObjects.
type ReclaimObjectsResult struct {
	ReleasedSlices   uint64
	DeletableObjects uint64 // objects that became deletable
}

// ForgetObjectsResult answers ForgetObjects.
type ForgetObjectsResult struct{ Forgotten uint64 }

// PutKeyResult answers PutKey.
type PutKeyResult struct{ Version uint64 }

// AtomicResult answers Atomic: one status and result for each command inside.
type AtomicResult struct{ Answers []InnerAnswer }

// InnerAnswer is the answer of one command inside Atomic.
type InnerAnswer struct {
	Status Status
	Result Result
}

// SetFormatResult answers SetFormat.
type SetFormatResult struct{ Level uint64 }

func (RegisterNodeResult) isResult()   {}
func (RenewNodeResult) isResult()      {}
func (CreateStreamResult) isResult()   {}
func (OpenStreamResult) isResult()     {}
func (CloseStreamResult) isResult()    {}
func (TrimStreamResult) isResult()     {}
func (RecordTransferResult) isResult() {}
func (PrepareObjectsResult) isResult() {}
func (CommitObjectsResult) isResult()  {}
func (ReclaimObjectsResult) isResult() {}
func (ForgetObjectsResult) isResult()  {}
func (PutKeyResult) isResult()         {}
func (AtomicResult) isResult()         {}
func (SetFormatResult) isResult()      {}
