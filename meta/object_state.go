package meta

// ObjectState is how far an object has come.
type ObjectState uint8

// The states of an object. An object that was forgotten has none: it is not there.
const (
	ObjectPrepared  ObjectState = 1 // its id was handed out, its owner may upload and commit it
	ObjectCommitted ObjectState = 2 // readers may be sent to it
	ObjectDeletable ObjectState = 3 // given up, compacted away or released: its bytes may be deleted
)

// String returns the state in lower case, for example "committed".
func (s ObjectState) String() string {
	switch s {
	case ObjectPrepared:
		return "prepared"
	case ObjectCommitted:
		return "committed"
	case ObjectDeletable:
		return "deletable"
	}
	return "unknown"
}
