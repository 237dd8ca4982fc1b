// Package client talks to Headwater servers with the types and errors of the embedded library: a program moves from one
// to the other by changing its constructor.
//
// A Client knows several servers of one cluster and goes on with the next where one does not answer. It numbers every
// command (package session), so that sending it again, to whichever server, cannot make it take effect twice; and it
// remembers the highest index that it has seen, so that what it reads is never older than what it was told, whichever
// server answers.
//
// Start reading at client.go, then propose.go.
package client
