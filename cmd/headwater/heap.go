package main

import (
	"os"
	"runtime"
)

// heapFloor is how many bytes a process that serves lets gather before the garbage is collected, however small its state.
const heapFloor = 64 << 20

// holdHeapFloor keeps the collector from running for every few megabytes while the state is small: with a thousand callers it
// would look at a thousand stacks many times a second, for a quarter of all the work done. It reserves memory that is never
// touched, so that the system never gives it; the collector counts it as live. The function returned ends that. Where
// GOGC or GOMEMLIMIT is set, somebody has decided otherwise.
func holdHeapFloor() (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	floor := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(floor) }
}
