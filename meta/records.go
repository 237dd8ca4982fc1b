package meta

// Record is one entry of the state as queries, exports and changes show it: one of the record types of this package,
// by value. Whatever a record points to is shared with the state and must not be changed.
type Record interface{ isRecord() }

// ObjectRecord is one object that is not forgotten.
type ObjectRecord struct {
	ID       uint64
	State    ObjectState
	Owner    uint64 // the node that prepared it
	Deadline int64  // milliseconds since 1970; from when on it may be given up while prepared

	// As its committer sent them; zero where it was never committed.
	Size       uint64
	Attributes []byte
	Slices     []Slice // nil in lists that leave it out
	SliceCount uint64  // how many there are, also where Slices is left out

	LiveSlices     uint64 // those that stand in the indexes of their streams
	CommittedIndex uint64 // the row of the commit; 0: never committed
	DeletableIndex uint64 // the row since when its bytes may be deleted; 0: they may not
	DeletableStamp int64  // the stamp of that row's command, milliseconds since 1970, for people and for waiting out readers
}

// StoredSlice is one slice as the index of its stream holds it.
type StoredSlice struct {
	ObjectID    uint64
	StartOffset uint64 // the first offset that readers find here: above the slice's own start where the stream's start was
	Slice       Slice  // as sent
}

// ClientRecord is a client whose requests are remembered.
type ClientRecord struct {
	Client           [16]byte
	Oldest           uint64 // the lowest sequence that is remembered
	Results          uint64 // how many answers are kept
	LastSeenIndex    uint64 // the row, and the place in it, of the last command seen
	LastSeenPosition int
}

// AnswerRecord is the first answer to one request, as it is kept for repeats.
type AnswerRecord struct {
	Client        [16]byte
	Sequence      uint64
	FirstIndex    uint64
	FirstPosition int
	PayloadHash   [16]byte // of the command without stamp and request
	Status        Status
	Code          Code   // of a refusal; 0 otherwise
	Inner         int    // of a refusal: the position of the refusing command inside Atomic; -1 otherwise
	Result        Result // nil where there is nothing to tell
}

// ClusterRecord is what the state holds besides its entries.
type ClusterRecord struct {
	Index        uint64 // of the last row applied
	FormatLevel  uint64
	NextStreamID uint64
	NextObjectID uint64
	Digest       [16]byte
}

func (Node) isRecord()          {}
func (Stream) isRecord()        {}
func (Range) isRecord()         {}
func (Debt) isRecord()          {}
func (Loss) isRecord()          {}
func (ObjectRecord) isRecord()  {}
func (StoredSlice) isRecord()   {}
func (Key) isRecord()           {}
func (ClientRecord) isRecord()  {}
func (AnswerRecord) isRecord()  {}
func (ClusterRecord) isRecord() {}

// Counts says how much there is in a state.
type Counts struct {
	Nodes            uint64 // registered
	FencedNodes      uint64
	Streams          uint64
	OpenStreams      uint64
	PreparedObjects  uint64
	CommittedObjects uint64
	DeletableObjects uint64
	Slices           uint64 // in the indexes of all streams
	Debts            uint64
	Keys             uint64
	Clients          uint64 // remembered
	Results          uint64 // answers kept for them
}

// Stop says why the answer of FindObjects ends where it does.
type Stop uint8

// The reasons to stop.
const (
	StopEnd   Stop = 1 // the end that was asked for, or the end of the stream
	StopLimit Stop = 2 // the limit; there is more
	StopDebt  Stop = 3 // what follows is still owed: see Found.Debt
	StopLoss  Stop = 4 // what follows was written off: see Found.Loss
)

// String returns the reason in lower case, for example "debt".
func (s Stop) String() string {
	switch s {
	case StopEnd:
		return "end"
	case StopLimit:
		return "limit"
	case StopDebt:
		return "debt"
	case StopLoss:
		return "loss"
	}
	return "unknown"
}

// FoundSlice is one slice with what a reader needs of its object.
type FoundSlice struct {
	ObjectID   uint64
	ObjectSize uint64 // in bytes
	Attributes []byte // not to be changed
	Slice      Slice  // as sent; it may begin below, and end above, what was asked for
}

// Found is the answer of FindObjects: contiguous slices in offset order that cover [StartOffset, EndOffset).
type Found struct {
	Slices            []FoundSlice
	StartOffset       uint64 // where the answer begins: above the start asked for where the stream was trimmed
	EndOffset         uint64 // where it stops; go on from here
	Stop              Stop
	Debt              Debt // for StopDebt
	Loss              Loss // for StopLoss
	StreamStartOffset uint64
	StreamEndOffset   uint64
}

// CompactionCandidate is an object with small slices of one stream.
type CompactionCandidate struct {
	ObjectID    uint64
	ObjectSize  uint64 // in bytes
	SmallSlices uint64 // small slices of the stream in the object
	SmallBytes  uint64 // and their bytes
}
