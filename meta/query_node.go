package meta

// Node returns what is known of a node id, also of one that was unregistered: see Node.Registered. It reports false
// where the id was never registered.
func (s *State) Node(id uint64) (Node, bool) {
	n, ok := s.nodes.Get(id)
	if !ok {
		return Node{}, false
	}
	return s.nodeRecord(id, n), true
}

// Nodes lists the registered nodes by id. The cursor is empty for the first page, then Page.Next; the limit is 1 to
// MaxPage, or 0 for 100. The error is an *Error.
func (s *State) Nodes(cursor string, limit int) (Page[Node], error) {
	from, limit, err := idPage(listNodes, cursor, limit)
	if err != nil {
		return Page[Node]{}, err
	}
	return listing[uint64, *node, Node]{
		entries: s.nodes.From(from),
		keep:    func(_ uint64, n *node) bool { return n.registered },
		show:    func(id uint64, n *node) (Node, int) { return s.nodeRecord(id, n), 0 },
		cursor:  func(id uint64) string { return numberCursor(listNodes, id) },
	}.page(limit), nil
}
