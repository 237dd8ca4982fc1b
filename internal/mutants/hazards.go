package main

// hazards are what mutants stand for: the ten invariants, and the hazards that have broken real systems, in the words of
// docs/guarantees.md and of docs/decisions. Each has at least one mutant, but for those of unmutated.
var hazards = map[string]string{
	"invariant 1":  "one history: no index ever holds two rows",
	"invariant 2":  "dense: row n+1 is appended and applied after row n only",
	"invariant 3":  "acknowledged is permanent",
	"invariant 4":  "own writes: the view loaded after an answer contains the write",
	"invariant 5":  "same index, same state, same digest, by replay or by snapshot",
	"invariant 6":  "epochs fence",
	"invariant 7":  "retries are safe",
	"invariant 8":  "recovery is bounded: snapshot and present rows rebuild the latest state",
	"invariant 9":  "nothing is skipped",
	"invariant 10": "bounded work for each command",
	"hazard 1":     "the truncated slot",
	"hazard 2":     "the ambiguous append",
	"hazard 3":     "the late commit",
	"hazard 4":     "the gap across a snapshot",
	"hazard 5":     "the torn snapshot cycle",
	"hazard 6":     "reading two statements",
	"hazard 7":     "a lagging replica",
	"hazard 8":     "database limits and the classes of errors",
	"hazard 9":     "poison by panic",
	"hazard 10":    "mixed versions",
	"hazard 11":    "silent divergence",
	"hazard 12":    "the wrong database",
	"hazard 13":    "starvation of writers",
	"hazard 14":    "history changes underneath",
	"hazard 15":    "settings that lie",
	"hazard 16":    "errors told by their text",
	"hazard 17":    "raced start",
	"hazard 18":    "small things that lost data or hung",
	"hazard 19":    "a queue without end",
}

// unmutated are the hazards without a mutant, and why.
var unmutated = map[string]string{
	"hazard 13": "starvation is a matter of rates, which no quick check can assert without luck: the benchmarks show it",
	"hazard 15": "settings are looked at on a server; the tests on throwaway servers and on fake ones start each setting that is refused",
	"hazard 16": "the tables of error numbers are compared number by number, with messages in other languages, by tests of their own",
}
