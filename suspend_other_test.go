//go:build !unix

package headwater_test

// suspendSelf is for tests that are not run where a process cannot be suspended.
func suspendSelf() {}
