// Command headwater serves a cluster's metadata and is its command line.
//
// It wires the rooms together and translates between them and people: flags, environment, tables, JSON lines, exit
// codes, signals. What a command means is decided elsewhere (packages meta and headwater).
//
// Start reading at root.go, then cluster.go (how a command reaches a server or a database) and apply.go. Each command
// has a file of its own and a script under testdata.
package main
