package meta

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// The digest is kept, never recomputed: each entry of the state has a canonical encoding, the state carries the sum of
// the 128-bit hashes of all of them, and whoever changes an entry takes the old hash out and puts the new one in. A
// sum does not depend on the order in which it came about, so a decoded snapshot arrives at the same one. The
// encodings of this file also are what snapshots hold.

// sum is a sum of 128-bit hashes, each half modulo 2^64.
type sum struct{ hi, lo uint64 }

func (a sum) plus(b sum) sum  { return sum{a.hi + b.hi, a.lo + b.lo} }
func (a sum) minus(b sum) sum { return sum{a.hi - b.hi, a.lo - b.lo} }

// hashOf hashes one canonical encoding.
func hashOf(b []byte) sum {
	h := xxh3.Hash128(b)
	return sum{h.Hi, h.Lo}
}

// The first byte of each entry's encoding, so that no entry of one kind can be taken for one of another. The numbers
// stand in snapshots and are never used again for something else. Those of objects and slices are 16 and above.
const (
	entryNode   = 1
	entryStream = 2
	entryRange  = 3
	entryDebt   = 4
	entryLoss   = 5
	entryKey    = 6
	entryClient = 7
	entryResult = 8
)

// Digest returns the digest of the state, in constant time: two states with the same index are the same exactly if
// their digests are, up to a chance of 2^-128 or so.
func (s *State) Digest() [16]byte {
	var b [8 * 8]byte
	for i, v := range [...]uint64{s.sum.hi, s.sum.lo, s.requestSum.hi, s.requestSum.lo, s.index, s.format, s.nextStream, s.nextObject} {
		binary.BigEndian.PutUint64(b[8*i:], v)
	}
	return xxh3.Hash128(b[:]).Bytes()
}

// ruleDigest is the digest of what the rules judge by: all but the index and the request memory.
func (s *State) ruleDigest() sum {
	var b [8 * 5]byte
	for i, v := range [...]uint64{s.sum.hi, s.sum.lo, s.format, s.nextStream, s.nextObject} {
		binary.BigEndian.PutUint64(b[8*i:], v)
	}
	return hashOf(b[:])
}

func appendUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

func appendString(b []byte, s string) []byte { return append(appendUint(b, uint64(len(s))), s...) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendIdentity(b []byte, id Identity) []byte {
	return appendUint(appendUint(b, id.NodeID), id.NodeEpoch)
}

func appendSum(b []byte, s sum) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, s.hi), s.lo)
}

func appendLabels(b []byte, labels []Label) []byte {
	b = appendUint(b, uint64(len(labels)))
	for _, l := range labels {
		b = appendString(appendString(b, l.Name), l.Value)
	}
	return b
}

// appendNode: id, epoch, instances, registered, address, labels, format, renewals, fenced, rescuer, registeredIndex.
func appendNode(b []byte, id uint64, n *node) []byte {
	b = appendUint(append(b, entryNode), id)
	b = appendUint(b, n.epoch)
	b = appendUint(b, uint64(len(n.instances)))
	for i := range n.instances {
		b = append(b, n.instances[i][:]...)
	}
	b = appendBool(b, n.registered)
	b = appendString(b, n.address)
	b = appendLabels(b, n.labels)
	b = appendUint(b, n.format)
	b = appendUint(b, n.renewals)
	b = appendBool(b, n.fenced)
	b = appendIdentity(b, n.rescuer)
	return appendUint(b, n.registeredIndex)
}

// appendStreamNames: name, labels. It is hashed once for each change of them; see appendStream.
func appendStreamNames(b []byte, s *stream) []byte {
	return appendLabels(appendString(b, s.name), s.labels)
}

// appendStream: id, hash of the names, owner, epoch, start, end, last range, open, reservation, transfer. Ranges,
// debts and losses are entries of their own, so that the cost of a change does not grow with their number.
func appendStream(b []byte, id uint64, s *stream) []byte {
	b = appendUint(append(b, entryStream), id)
	return appendStreamRest(appendSum(b, s.named), s)
}

// appendStreamRest: what appendStream appends behind the hash of the names.
func appendStreamRest(b []byte, s *stream) []byte {
	b = appendIdentity(b, s.owner)
	b = appendUint(b, s.epoch)
	b = appendUint(b, s.start)
	b = appendUint(b, s.end)
	b = appendUint(b, s.rangeEpoch)
	b = appendUint(b, s.rangeStart)
	b = appendBool(b, s.open)
	if s.rare == nil {
		return append(b, 0, 0)
	}
	b = appendUint(b, s.rare.reservedFor)
	if s.rare.transfer == nil {
		return append(b, 0)
	}
	t := s.rare.transfer
	return appendUint(appendUint(appendUint(append(b, 1), t.to), t.start), t.boundary)
}

// appendRange: stream id, start, epoch, node, end.
func appendRange(b []byte, stream, start uint64, r pastRange) []byte {
	b = appendUint(appendUint(append(b, entryRange), stream), start)
	return appendUint(appendUint(appendUint(b, r.epoch), r.node), r.end)
}

// appendDebt: stream id, epoch, node, start, boundary.
func appendDebt(b []byte, stream uint64, d debt) []byte {
	b = appendUint(append(b, entryDebt), stream)
	return appendUint(appendUint(appendUint(appendUint(b, d.epoch), d.node), d.start), d.boundary)
}

// appendLoss: stream id, start, end.
func appendLoss(b []byte, stream uint64, l loss) []byte {
	return appendUint(appendUint(appendUint(append(b, entryLoss), stream), l.start), l.end)
}

// appendKey: key, value, version.
func appendKey(b []byte, key string, k keyRecord) []byte {
	return appendUint(appendString(appendString(append(b, entryKey), key), k.value), k.version)
}

// appendClient: client id, oldest, seen. The results are entries of their own.
func appendClient(b []byte, id string, c *client) []byte {
	return appendUint(appendUint(append(append(b, entryClient), id...), c.oldest), c.seen)
}

// appendKept: client id, sequence, index, position, payload, status, code, inner + 1, result.
func appendKept(b []byte, id string, sequence uint64, k *keptAnswer) []byte {
	b = appendUint(append(append(b, entryResult), id...), sequence)
	b = appendSum(appendUint(appendUint(b, k.index), k.position), k.payload)
	b = append(b, byte(k.status), byte(k.code))
	return appendString(appendUint(b, uint64(k.inner+1)), k.result)
}
