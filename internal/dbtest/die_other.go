//go:build !linux

package dbtest

import "syscall"

// dieWithParent does nothing: a test that is killed leaves its servers behind.
func dieWithParent(*syscall.SysProcAttr) {}
