//go:build !race

package meta_test

const raceEnabled = false
