// Package meta is the domain of Headwater: the commands, their binary encoding, the state they change, the rules by
// which they change it, and the queries that read it.
//
// It is pure: no I/O, no clock, no randomness, no goroutine. The same commands in the same order give the same state
// and the same answers on every node and every build, for ever; that is why it stands alone. It knows nothing of the
// log, of SQL or of the network.
//
// Start reading at command.go, then apply.go.
package meta
