//go:build !linux

package postgres

import (
	"syscall"
	"time"
)

// userTimeout does nothing: only Linux has the option. The statement timeout does its work, if later.
func userTimeout(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
