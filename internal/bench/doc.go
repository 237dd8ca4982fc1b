// Package bench puts load on a cluster and measures it: which operations a stream store does, in which mixture, by how
// many callers, and how long each one took. It knows a cluster as a Target, which its caller binds to a node in the same
// process or to a client of servers; Run itself measures any Caller, so that other systems are measured by the same clock.
//
// It is not a test: nothing here judges an answer beyond counting what went wrong.
//
// Start at Run and at Prepare.
package bench
