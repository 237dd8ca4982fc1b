// Package heap keeps the garbage collector from running for every few megabytes in a process whose state is small. It is for
// programs that serve or put load on something; it sets nothing, and knows nothing of what the memory is used for.
package heap

import (
	"os"
	"runtime"
)

// floor is how many bytes of garbage gather before they are collected, however small the state.
const floor = 64 << 20

// Hold holds the floor until the function that it returns is called. Without it the collector would look at the stacks of a
// thousand callers many times a second, for a quarter of all the work done. It reserves memory that is never touched, so that
// the system never gives it; the collector counts it as live. Where GOGC or GOMEMLIMIT is set, somebody has decided otherwise,
// and nothing is held.
func Hold() (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	held := make([]byte, floor)
	return func() { runtime.KeepAlive(held) }
}
