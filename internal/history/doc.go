// Package history records what clients of a cluster asked and were answered, and judges it afterwards.
//
// A history is a list of operations, each with the times of its call and of its return, and the rows of the log that
// came of them. An operation whose outcome nobody knows has no return: it may take effect at any time after its call, or
// never. Check looks at a history in two ways that share no code.
//
// From outside, the log is not looked at: commands and linearizable reads are divided by what they touch (a group of keys,
// a stream, the nodes, the counters of ids), and each part must be linearizable by the small sequential rules of this
// package, which Porcupine decides.
//
// From inside, the rows are replayed with package meta. Every answer must be the replay's at the place that it names; every
// read must be what the state at its index answers; digests must agree; a command has one effect at most; and whatever
// began after something had returned stands behind it in the log, over all that the history touches.
//
// A Report says what was looked at and what is wrong. Save keeps a history as JSON lines, with Porcupine's picture of each
// part that is not linearizable, and Load reads it again; the command in recheck judges it once more.
//
// Start reading at Op, then check.go.
package history
