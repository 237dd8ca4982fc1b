package meta

// ObjectOf shows an object without its slices.
func ObjectOf(s *State, id uint64) (ObjectRecord, bool) {
	o, ok := s.objects.Get(id)
	if !ok {
		return ObjectRecord{}, false
	}
	return objectRecord(id, o), true
}

// Applying applies one command on a copy of s and returns how many entries were looked up or changed and how many
// map nodes made or copied: the work done, whatever the machine.
func Applying(s *State, p Proposal) (status Status, work int, nodes uint64) {
	t := newTx(s, s.index+1)
	o := t.judge(p.Command)
	return o.status, t.work, t.touched + t.edit.Nodes()
}
