// Package server serves a store to the network: gRPC, gRPC-Web, Connect and plain JSON over HTTP on one port, with gRPC
// health and reflection beside the service headwater.v1.
//
// It translates and never decides: a call is decoded, given to the store, and its answer encoded. A command that the
// rules refuse is an answer, not an error of the call. Handlers know nothing of the protocol they are called by; see
// method.go for how the two transports reach them and split.go for how they share the port.
//
// Start reading at server.go.
package server
