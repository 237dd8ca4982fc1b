//go:build race

package meta_test

// raceEnabled: the race detector makes large states ten times as slow, and has nothing to find in building them.
const raceEnabled = true
