package meta

// objectTables holds objects and slices.
type objectTables struct{}

// sliceCount returns how many slices of a stream are indexed.
func (s *State) sliceCount(stream uint64) uint64 { return 0 }

// objectCommand judges the commands on objects.
func (t *tx) objectCommand(c Command) outcome {
	return reject(CodeObjectNotFound, "no objects")
}

