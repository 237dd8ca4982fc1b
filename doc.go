// Package headwater is a cluster-metadata plane for stream storage on object storage, to be embedded in each process
// of a storage system: who the nodes are, which streams exist, who owns each stream at which epoch, which object holds
// which offsets, and a small key space. Its only dependency is one SQL database.
//
// Every change is a command (package meta) in one ordered log (package oplog, kept in a database by package sqllog).
// Every node reads the whole log and applies each command as a pure function to an immutable state.
//
//   - Open starts a node on a log.
//   - Store.Propose appends commands and returns once they are applied here and visible.
//   - Store.View returns the current state at the cost of a pointer load. No reader ever waits for SQL.
//   - Store.Wait and Store.Linearize return a view that is fresh enough.
//   - Store.Close ends it.
//
// The package is thin on purpose: it binds the commands of package meta to the engine of package replica. It takes the
// log as a value, so that a program links only the database driver it uses. What a reader may rely on is numbered in
// docs/guarantees.md.
package headwater
