package meta

import (
	"github.com/headwaterdb/headwater/internal/pmap"
)

// State is the whole metadata of a cluster after one row of the log. It is immutable: Apply returns another State
// and leaves the old one as it was, so a State may be read by any number of goroutines and kept for as long as
// somebody needs it. Copies share what did not change.
type State struct {
	index      uint64 // of the last row applied; 0: none
	format     uint64 // the cluster's format level, from 1
	nextStream uint64 // the id that the next stream gets, from 1
	nextObject uint64 // the id that the next object gets, from 1

	// The entries that snapshots hold and the digest covers.
	nodes   pmap.Map[uint64, *node]   // by node id; an unregistered one stays, with its epoch and instances
	streams pmap.Map[uint64, *stream] // by stream id; an id below nextStream that is not here was deleted
	keys    pmap.Map[string, keyRecord]
	clients pmap.Map[string, *client] // by the 16 bytes of the client id
	objectTables

	sum        sum // over all entries but those of the request memory
	requestSum sum // over the entries of the request memory

	// Derived from the entries above, rebuilt when a snapshot is decoded, and no part of the digest.
	names       pmap.Map[string, uint64]    // stream name → stream id
	owners      pmap.Map[uint64, idSet]     // node id → the open streams that it owns
	reserved    pmap.Map[uint64, idSet]     // node id → the streams whose next open is reserved for it
	debtors     pmap.Map[uint64, debtorSet] // node id → the streams of which it owes data
	labels      pmap.Map[string, idSet]     // labelKey → the streams that carry the label
	seen        pmap.Map[uint64, string]    // ordinal at which a client was last seen → client id
	levels      pmap.Map[uint64, uint64]    // format level → how many registered nodes decode no higher one
	registered  uint64                      // nodes registered
	fenced      uint64                      // of them, those that are fenced
	openStreams uint64                      // streams open
	debts       uint64                      // debts of all streams
	results     uint64                      // results kept for all clients

	window window // defaultWindow, except in tests
}

// idSet is a set of ids in ascending order.
type idSet = pmap.Map[uint64, struct{}]

// debtorSet says of which streams a node owes data.
type debtorSet struct {
	streams pmap.Map[uint64, uint64] // stream id → how many debts, from 1
	debts   uint64                   // the sum of these
}

// NewState returns the state before row 1: nothing in it, format level 1.
func NewState() *State {
	return &State{format: FirstFormat, nextStream: 1, nextObject: 1, window: defaultWindow}
}

// Index returns the index of the last row that was applied; 0 before row 1.
func (s *State) Index() uint64 { return s.index }

// FormatLevel returns the format level of the cluster, from 1.
func (s *State) FormatLevel() uint64 { return s.format }

// The limits that the rules, not the form of a command, put on the state.
const (
	maxNumber        = 1 << 63 // offsets, epochs, ids and versions are below it
	maxIndex         = 1 << 55 // row indexes are below it
	maxRowCommands   = 256
	maxInstances     = 16   // process starts remembered for each node id
	maxDebts         = 64   // debts of one stream
	maxLosses        = 1000 // losses of one stream
	maxDroppedRanges = 16   // ranges that one OpenStream drops
)

// node is what is kept of one node id. A node that is published is never changed: a change replaces it.
type node struct {
	epoch           uint64     // the highest epoch ever registered under this id
	instances       [][16]byte // the last process starts, oldest first; the last is the present one's
	registered      bool       // all below is zero where not
	address         string
	labels          []Label
	format          uint64 // the highest format level that the node's build decodes, from 1
	renewals        uint64 // the renewal counter, 1 after registration
	fenced          bool
	rescuer         Identity // who claims the fenced node; zero: nobody
	registeredIndex uint64   // the row that registered the present epoch
}

// stream is what is kept of one live stream. There may be millions: what rarely exists sits behind a pointer; all that
// a look-up by id shows, and the last range, which nearly every stream has, in the record itself: each pointer followed is
// a miss of the caches. A published one is never changed.
type stream struct {
	name   string
	labels []Label
	named  sum         // of the canonical encoding of name and labels
	rare   *streamRare // nil: none of it
	// owner opened the stream last: the node, and its epoch at that moment. Zero: never opened.
	owner      Identity
	epoch      uint64 // 0: never opened
	start, end uint64 // end is the next offset
	// The last range: [rangeStart, end) by owner.NodeID, sealed unless open; no range where rangeEpoch is 0.
	rangeEpoch uint64
	rangeStart uint64
	slices     sliceIndex // what is not released yet; entries of their own, see objectTables
	open       bool
}

// setNames sets name and labels, which are not copied.
func (s *stream) setNames(name string, labels []Label) {
	s.name, s.labels = name, labels
	s.named = hashOf(appendStreamNames(nil, s))
}

// streamRare holds what most streams do not have.
type streamRare struct {
	ranges      pmap.Map[uint64, pastRange] // the sealed, non-empty ranges before the last one, by start offset
	debts       []debt                      // at most maxDebts, ascending, disjoint
	losses      []loss                      // at most maxLosses, ascending, neither overlapping nor adjoining
	reservedFor uint64                      // the node that the next open is reserved for; 0: any node may
	transfer    *transfer                   // how the stream was closed; nil unless by a transfer
	sum         sum                         // over the entries of ranges, debts and losses
}

// pastRange is a sealed range of a stream that is not its last one.
type pastRange struct {
	epoch uint64
	node  uint64
	end   uint64
}

// debt says that node still has to commit [start, boundary) of a stream, as of the stream epoch at which it sent the
// stream away.
type debt struct {
	epoch           uint64
	node            uint64
	start, boundary uint64
}

// loss is an interval of a stream that was written off.
type loss struct{ start, end uint64 }

// transfer is the RecordTransfer that closed a stream.
type transfer struct {
	to       uint64 // 0: any node
	start    uint64 // the end of the stream before the transfer: the sender owed [start, boundary)
	boundary uint64
}

// keyRecord is what is kept of one key.
type keyRecord struct {
	value   string
	version uint64
}

// client is the request memory of one client.
type client struct {
	oldest  uint64                        // the highest oldest that the client sent, from 1
	seen    uint64                        // the ordinal of the command by which it was last seen
	results pmap.Map[uint64, *keptAnswer] // by sequence, all from oldest on
	sum     sum                           // over the entries of results
	own     *pmap.Edit                    // the first one of the transaction that may change it in place; nil: it is shared
}

// keptAnswer is what the request memory keeps of the first answer to one request.
type keptAnswer struct {
	index    uint64
	position uint64
	payload  sum    // of the command without stamp and request
	status   Status // Applied, Redundant or Rejected
	code     Code   // of a refusal
	inner    int    // of a refusal: the position of the refusing command inside Atomic, else -1
	result   string // appendResult of the small result
}

// ordinal orders all commands of the log: key versions and the last-seen marks of clients.
func ordinal(index uint64, position int) uint64 { return index*maxRowCommands + uint64(position) }

// labelKey is the key of the label index: ordered by name, then value.
func labelKey(l Label) string { return string(append(appendString(nil, l.Name), l.Value...)) }
