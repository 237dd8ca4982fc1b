// Package nemesis holds only tests: real daemons on real databases, with clients that use the public API, while faults
// happen to all of them, and the histories of what the clients saw, which package history judges.
//
// A round has a database of its own, some daemons (headwater serve), and clients that write and read keys, streams, nodes
// and objects. The nemesis kills and stops daemons and servers, and breaks the networks between clients, daemons and
// database. Then all faults end, everybody must be ready soon, and the history is checked: see docs/verification.md.
//
// What is done is decided by a seed, which is printed; when it happens is up to the machine, so a seed makes a failure
// likely again, not certain. The history of a failed round is kept in a folder that is named.
//
// HEADWATER_SOAK=1h makes rounds until the time is over, HEADWATER_TEST_SEED=n the rounds of one seed,
// HEADWATER_HISTORIES=dir says where histories are kept. Start reading at soak_test.go, then round_test.go.
package nemesis
