//go:build !linux

package fieldcase

import "runtime"

// peakMemory is the memory in bytes that the runtime has taken from the system, which it seldom gives back.
func peakMemory() (int64, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys), nil
}
