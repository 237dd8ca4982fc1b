package meta

import "fmt"

// raiseBy is what Raised adds: far more than a history that was lost can have handed out.
const raiseBy = 1 << 40

// Raised returns the state with which a cluster goes on after its database was set back to an older one. What the rows that
// were lost may have handed out is passed over, so that it is not handed out again: the ids of streams and objects, the
// epochs of all nodes and all streams. So whoever acted by an epoch of before has to register and to open anew; who
// owns what, all offsets and objects stay. The state is at index, the row before the first one of the new history, which
// raises the versions of keys. An error means that index is not above that of s, or that there is no room left below 2^63.
//
// A node id or a stream that only the lost rows knew is not known here: its epochs begin at 1 again.
func (s *State) Raised(index uint64) (*State, error) {
	if index <= s.index || index >= maxIndex {
		return nil, fmt.Errorf("raise the index from %d to %d: it must rise, and stay below %d", s.index, index, uint64(maxIndex))
	}
	t := newTx(s, index)
	if t.nextStream >= maxNumber-raiseBy || t.nextObject >= maxNumber-raiseBy {
		return nil, fmt.Errorf("raise the ids: the next stream is %d, the next object %d: %w", t.nextStream, t.nextObject, errNoRoom)
	}
	t.nextStream += raiseBy
	t.nextObject += raiseBy
	for id, old := range s.nodes.All() {
		n := *old
		if n.epoch >= maxNumber-raiseBy {
			return nil, fmt.Errorf("raise the epoch %d of node %d: %w", n.epoch, id, errNoRoom)
		}
		n.epoch += raiseBy
		t.setNode(id, &n)
	}
	for id, old := range s.streams.All() {
		st := *old
		if st.epoch >= maxNumber-raiseBy {
			return nil, fmt.Errorf("raise the epoch %d of stream %d: %w", st.epoch, id, errNoRoom)
		}
		st.epoch += raiseBy
		t.setStream(id, &st)
	}
	return t.finish(), nil
}

var errNoRoom = fmt.Errorf("numbers end at 2^63")
