package meta

// Key is an entry of the key space.
type Key struct {
	Key     string
	Value   []byte // not to be changed
	Version uint64 // row index × 256 + position of the command in its row that wrote it
}
