package meta

// Node is a node id as queries and changes show it.
type Node struct {
	ID              uint64
	Epoch           uint64 // the highest epoch ever registered under the id
	Registered      bool   // false: unregistered, only the epoch is remembered and all below is zero
	Instance        [16]byte
	Address         string
	Labels          []Label // not to be changed
	FormatLevel     uint64  // the highest that its build decodes
	Renewals        uint64
	Fenced          bool
	Rescuer         Identity // who claims the fenced node; zero: nobody
	RegisteredIndex uint64   // of the row that registered the present epoch
	OwnedStreams    uint64   // open streams
	OwedDebts       uint64
}

// Stream is a stream as queries and changes show it.
type Stream struct {
	ID          uint64
	Name        string
	Labels      []Label // not to be changed
	Epoch       uint64  // 0: never opened
	Open        bool
	Owner       Identity // the owner, of a closed stream the last one: the node and its epoch at the open; zero: never opened
	StartOffset uint64
	EndOffset   uint64    // the next offset
	ReservedFor uint64    // the node for which the next open is reserved; 0: for none
	Transfer    *Transfer // the transfer that closed the stream; nil where open, or closed otherwise. Not to be changed
	Ranges      uint64    // how many ranges, debts, losses and live slices it has
	Debts       uint64
	Losses      uint64
	Slices      uint64
}

// Transfer is the RecordTransfer that closed a stream: the sender owed [StartOffset, Boundary).
type Transfer struct {
	ToNode      uint64 // 0: any
	StartOffset uint64
	Boundary    uint64
}

// Range is what one owner wrote of a stream in one stream epoch.
type Range struct {
	StreamID    uint64
	Epoch       uint64
	NodeID      uint64
	StartOffset uint64
	EndOffset   uint64 // the stream's end where not sealed
	Sealed      bool
}

// Debt says that a node which gave a stream away still has to commit [StartOffset, Boundary).
type Debt struct {
	StreamID    uint64
	StreamEpoch uint64
	NodeID      uint64
	StartOffset uint64
	Boundary    uint64
}

// Loss is an interval of a stream that was owed and written off.
type Loss struct {
	StreamID    uint64
	StartOffset uint64
	EndOffset   uint64
}

// nodeRecord shows the node id; n is its record in s or an earlier one.
func (s *State) nodeRecord(id uint64, n *node) Node {
	owned, _ := s.owners.Get(id)
	owes, _ := s.debtors.Get(id)
	r := Node{
		ID: id, Epoch: n.epoch, Registered: n.registered, Address: n.address, Labels: n.labels, FormatLevel: n.format,
		Renewals: n.renewals, Fenced: n.fenced, Rescuer: n.rescuer, RegisteredIndex: n.registeredIndex,
		OwnedStreams: uint64(owned.Len()), OwedDebts: owes.debts,
	}
	if n.registered {
		r.Instance = n.instances[len(n.instances)-1]
	}
	return r
}

// streamRecord shows the stream id; st is its record in s or an earlier one.
func (s *State) streamRecord(id uint64, st *stream) Stream {
	r := Stream{
		ID: id, Name: st.name, Labels: st.labels, Epoch: st.epoch, Open: st.open, Owner: st.owner,
		StartOffset: st.start, EndOffset: st.end, Slices: st.liveSlices(),
	}
	if st.rangeEpoch != 0 {
		r.Ranges = 1
	}
	if st.rare != nil {
		r.ReservedFor = st.rare.reservedFor
		r.Ranges += uint64(st.rare.ranges.Len())
		r.Debts, r.Losses = uint64(len(st.rare.debts)), uint64(len(st.rare.losses))
		if t := st.rare.transfer; t != nil {
			r.Transfer = &Transfer{ToNode: t.to, StartOffset: t.start, Boundary: t.boundary}
		}
	}
	return r
}

// lastRange shows the last range of a stream that has one: its rangeEpoch is not 0.
func lastRange(id uint64, st *stream) Range {
	return Range{StreamID: id, Epoch: st.rangeEpoch, NodeID: st.owner.NodeID, StartOffset: st.rangeStart,
		EndOffset: st.end, Sealed: !st.open}
}

func rangeRecord(id, start uint64, p pastRange) Range {
	return Range{StreamID: id, Epoch: p.epoch, NodeID: p.node, StartOffset: start, EndOffset: p.end, Sealed: true}
}

func debtRecord(id uint64, d debt) Debt {
	return Debt{StreamID: id, StreamEpoch: d.epoch, NodeID: d.node, StartOffset: d.start, Boundary: d.boundary}
}

func lossRecord(id uint64, l loss) Loss {
	return Loss{StreamID: id, StartOffset: l.start, EndOffset: l.end}
}

func keyOf(key string, k keyRecord) Key {
	return Key{Key: key, Value: []byte(k.value), Version: k.version}
}
