package meta

// RuleDigest returns the digest of all of s but its index and its request memory: what a refused or redundant command
// must leave as it was.
func RuleDigest(s *State) [2]uint64 {
	d := s.ruleDigest()
	return [2]uint64{d.hi, d.lo}
}

// WithWindow returns s with a smaller request memory.
func WithWindow(s *State, clients int, results uint64) *State {
	c := *s
	c.window = window{clients: clients, results: results}
	return &c
}

// Work applies one command to s and returns how many entries and map nodes that looked at or changed.
func Work(s *State, p Proposal) (Answer, int) {
	t := newTx(s, s.index+1)
	a := t.plan(0, p)
	t.settleClients()
	return a, t.work + int(t.touched+t.edit.Nodes())
}

// ApplyProposals applies one row of commands that need no decoding.
func ApplyProposals(s *State, proposals ...Proposal) (*State, []Answer) {
	t := newTx(s, s.index+1)
	answers := make([]Answer, len(proposals))
	for i, p := range proposals {
		answers[i] = t.plan(i, p)
	}
	return t.finish(), answers
}
